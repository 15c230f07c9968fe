//! The file as lines. What is not ours stays byte for byte: comments, other logins, further fields, line ends.

use std::collections::HashMap;

use mesh_sdk::mark::Owner;
use mesh_sdk::{MarkSeen, Marker};

/// What stands before the hash of a login that is switched off. Apache and nginx refuse every password then
/// (tried on 2.4 and 1.22), and without it the hash is as it was.
const OFF: u8 = b'!';

/// A file's lines, each with its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Lines(Vec<Vec<u8>>);

/// One entry, as a reader takes it: the first line with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) login: &'a [u8],
    /// Without the sign that switches it off.
    pub(super) hash: &'a [u8],
    pub(super) off: bool,
    /// The text of the mark above it.
    pub(super) mark: Option<&'a str>,
    /// Further entries of this name stand below.
    pub(super) again: bool,
}

/// What a login is to look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// None keeps the hash that is there.
    pub(super) hash: Option<Vec<u8>>,
    pub(super) off: bool,
    pub(super) mark: String,
}

impl Lines {
    pub(super) fn read(bytes: &[u8]) -> Self {
        let lines = bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec);
        Self(lines.collect())
    }
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.concat()
    }

    /// All entries by name.
    pub(super) fn entries(&self) -> HashMap<&[u8], Entry<'_>> {
        let mut all: HashMap<&[u8], Entry<'_>> = HashMap::new();
        for (at, line) in self.0.iter().enumerate() {
            let Some((login, hash, _)) = split(line) else {
                continue;
            };
            if let Some(first) = all.get_mut(login) {
                first.again = true;
                continue;
            }
            let off = hash.first() == Some(&OFF);
            let entry = Entry {
                login,
                hash: if off { &hash[1..] } else { hash },
                off,
                mark: self.mark_above(at, login),
                again: false,
            };
            all.insert(login, entry);
        }
        all
    }

    /// One entry.
    pub(super) fn entry(&self, login: &str) -> Option<Entry<'_>> {
        self.entries().remove(login.as_bytes())
    }

    /// The mark in the line right above, if it names this login: one that another entry was taken away
    /// from below is nobody's.
    fn mark_above(&self, at: usize, login: &[u8]) -> Option<&str> {
        let (mark, of) = mark_in(self.0.get(at.checked_sub(1)?)?)?;
        (of == login).then_some(mark)
    }

    /// Makes a login as wanted, where it stands or at the end. Entries of its name further down go: no
    /// reader looks at them, until the first one is taken away.
    pub(super) fn set(&mut self, login: &str, wanted: &Wanted, marker: &Marker) {
        let name = login.as_bytes();
        let first = self.0.iter().position(|line| is_entry(line, name));
        let mark_line = format!("# {} {login}\n", wanted.mark).into_bytes();
        let Some(first) = first else {
            self.forget_marks(name, marker);
            if let Some(last) = self.0.last_mut()
                && last.last() != Some(&b'\n')
            {
                last.push(b'\n');
            }
            self.0.push(mark_line);
            let hash = wanted.hash.as_deref().unwrap_or(b"*");
            self.0.push(line(name, hash, wanted.off, b"\n"));
            return;
        };
        let (_, old, rest) = split(&self.0[first]).unwrap_or((name, b"", b"\n"));
        let old = old.strip_prefix(&[OFF]).unwrap_or(old);
        let hash = wanted.hash.as_deref().unwrap_or(old);
        let new = line(name, hash, wanted.off, rest);
        let has_mark = self.mark_above(first, name).is_some();
        self.0[first] = new;
        let (above, below) = self.0.split_at(first);
        let mut all: Vec<Vec<u8>> = above[..above.len() - usize::from(has_mark)].to_vec();
        all.push(mark_line);
        all.push(below[0].clone());
        let further = below[1..].iter().filter(|line| !is_entry(line, name));
        all.extend(further.cloned());
        self.0 = all;
        self.forget_stale(name, marker);
    }

    /// Takes all entries of a login away, with the marks of ours that name it.
    pub(super) fn remove(&mut self, login: &str, marker: &Marker) {
        let name = login.as_bytes();
        self.0.retain(|line| !is_entry(line, name));
        self.forget_marks(name, marker);
    }

    /// Drops marks of ours that stand above no entry of their login.
    fn forget_stale(&mut self, name: &[u8], marker: &Marker) {
        let keep: Vec<bool> = (0..self.0.len())
            .map(|at| {
                let below = self.0.get(at + 1);
                !is_our_mark(&self.0[at], name, marker)
                    || below.is_some_and(|line| is_entry(line, name))
            })
            .collect();
        let mut keep = keep.into_iter();
        self.0.retain(|_| keep.next().unwrap_or(true));
    }

    fn forget_marks(&mut self, name: &[u8], marker: &Marker) {
        self.0.retain(|line| !is_our_mark(line, name, marker));
    }
}

fn is_our_mark(line: &[u8], name: &[u8], marker: &Marker) -> bool {
    mark_in(line).is_some_and(|(mark, of)| {
        of == name && matches!(marker.owner(mark), Owner::Ours { .. } | Owner::Damaged)
    })
}

fn line(name: &[u8], hash: &[u8], off: bool, rest: &[u8]) -> Vec<u8> {
    let sign: &[u8] = if off { &[OFF] } else { &[] };
    [name, b":", sign, hash, rest].concat()
}

fn is_entry(line: &[u8], name: &[u8]) -> bool {
    split(line).is_some_and(|(login, ..)| login == name)
}

/// Name, hash, and the rest: further fields and the line's end. `None` for a comment or what is no entry.
fn split(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    if line.first() == Some(&b'#') {
        return None;
    }
    let colon = line.iter().position(|b| *b == b':')?;
    let (name, rest) = (&line[..colon], &line[colon + 1..]);
    let ends = |b: &u8| matches!(b, b':' | b'\r' | b'\n');
    let end = rest.iter().position(ends).unwrap_or(rest.len());
    Some((name, &rest[..end], &rest[end..]))
}

/// `# mk1.… LOGIN`.
fn mark_in(line: &[u8]) -> Option<(&str, &[u8])> {
    let text = line.strip_prefix(b"# ")?;
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let space = text.iter().position(|b| *b == b' ')?;
    let mark = std::str::from_utf8(&text[..space]).ok()?;
    let is_mark = mark.starts_with(Marker::PREFIX);
    is_mark.then_some((mark, &text[space + 1..]))
}

impl Entry<'_> {
    /// Judges the mark of an entry that is listed. Only one that this provider left names a consumer.
    pub(super) fn listed_mark(&self, marker: &Marker) -> MarkSeen {
        let Some(mark) = self.mark else {
            return MarkSeen::None;
        };
        marker.listed(mark)
    }
}

#[cfg(test)]
mod tests {
    //! What is not ours stays byte for byte.
    use mesh_sdk::{ConsumerName, MeshId, ProviderName, Secret};

    use super::*;

    fn marker(installation: &str) -> Marker {
        let mesh = MeshId::new("home").expect("a name");
        let provider = ProviderName::new("users").expect("a name");
        Marker::new(mesh, installation, provider, Secret::from("key"))
    }
    fn mark(name: &str) -> String {
        let consumer = ConsumerName::new(name).expect("a name");
        marker("i1").mark(&consumer).as_str().to_owned()
    }
    fn set(text: &str, login: &str, hash: Option<&str>, off: bool) -> String {
        let mut lines = Lines::read(text.as_bytes());
        let wanted = Wanted {
            hash: hash.map(|hash| hash.as_bytes().to_vec()),
            off,
            mark: mark("web"),
        };
        lines.set(login, &wanted, &marker("i1"));
        let bytes = lines.bytes();
        lines.set(login, &wanted, &marker("i1"));
        assert_eq!(lines.bytes(), bytes, "again changes something");
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn a_login_is_added_and_changed_where_it_stands() {
        let mark = mark("web");
        assert_eq!(
            set("", "web", Some("H"), false),
            format!("# {mark} web\nweb:H\n")
        );
        // A last line without an end gets one.
        let other = "# mine\r\nother:X:Some Body\r\n\nodd line";
        let made = set(other, "web", Some("H"), true);
        assert_eq!(made, format!("{other}\n# {mark} web\nweb:!H\n"));
        let changed = set(
            "a:1\nweb:O:note\r\nb:2\nweb:second\n",
            "web",
            Some("N"),
            false,
        );
        assert_eq!(changed, format!("a:1\n# {mark} web\nweb:N:note\r\nb:2\n"));
        let kept = set(&format!("# {mark} web\nweb:!O\n"), "web", None, false);
        assert_eq!(kept, format!("# {mark} web\nweb:O\n"));
    }

    #[test]
    fn r11_a_mark_counts_only_right_above_its_login() {
        let mark = mark("web");
        let seen = |text: &str, login: &str| {
            let lines = Lines::read(text.as_bytes());
            let entry = lines.entry(login).expect("an entry");
            entry.mark.map(str::to_owned)
        };
        assert_eq!(
            seen(&format!("# {mark} web\nweb:H\n"), "web"),
            Some(mark.clone())
        );
        // `htpasswd -D web` leaves the comment behind, above whoever comes next.
        assert_eq!(seen(&format!("# {mark} web\napi:H\n"), "api"), None);
        // Made anew, at the end of the file: another login.
        let anew = format!("# {mark} web\napi:H\nweb:N\n");
        assert_eq!(seen(&anew, "web"), None);
        let healed = set(&anew, "web", None, false);
        assert_eq!(healed, format!("api:H\n# {mark} web\nweb:N\n"));
        let named = "# mk1.x sp ace\nsp ace:H\n";
        assert_eq!(seen(named, "sp ace").as_deref(), Some("mk1.x"));
    }

    #[test]
    fn r4_marks_of_others_stay() {
        let text = "# a comment\n# mk1.away.i9.users.web.xxxx web\nother:H\n";
        let mut lines = Lines::read(text.as_bytes());
        lines.remove("web", &marker("i1"));
        assert_eq!(lines.bytes(), text.as_bytes());
        let ours = format!("a:1\n# {} web\nweb:!H\nweb:2\n# note\n", mark("web"));
        let mut lines = Lines::read(ours.as_bytes());
        lines.remove("web", &marker("i1"));
        assert_eq!(lines.bytes(), b"a:1\n# note\n");
    }

    #[test]
    fn the_first_entry_is_the_one_that_counts() {
        let lines = Lines::read(b"#web:no\nweb:1\nweb:2\n:x\nno entry\n\xff\xfe:3\n");
        let web = lines.entry("web").expect("web");
        assert_eq!((web.hash, web.again, web.off), (&b"1"[..], true, false));
        assert_eq!(lines.entries().len(), 3);
    }
}
