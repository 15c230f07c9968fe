//! `login:hash`, with the mark in a comment right above.

use mesh_sdk::Marker;
use mesh_sdk::mark::Owner;

use super::Htpasswd;
use super::values::HtpasswdValues;
use crate::password_file::{Entry, Format, Lines, Wanted};

/// What stands before the hash of a login that is switched off. Apache and nginx refuse every password then
/// (tried on 2.4 and 1.22), and without it the hash is as it was.
const OFF: u8 = b'!';

/// The entry that a line is.
pub(super) fn entry(lines: &Lines, at: usize) -> Option<Entry<'_>> {
    let line = lines.0.get(at)?;
    let (login, hash, _) = split(line)?;
    let bare = hash.strip_prefix(&[OFF]);
    let hash = bare.unwrap_or(hash);
    Some(Entry {
        login,
        hash,
        bcrypt: hash,
        off: bare.is_some(),
        mark: mark_above(lines, at, login),
        line,
        ..Entry::default()
    })
}

/// The mark in the line right above, if it names this login: one that another entry was taken away from below
/// is nobody's.
fn mark_above<'a>(lines: &'a Lines, at: usize, login: &[u8]) -> Option<&'a str> {
    let (mark, of) = mark_in(lines.0.get(at.checked_sub(1)?)?)?;
    (of == login).then_some(mark)
}

/// Makes a login as wanted, where it stands or at the end.
pub(super) fn set(
    lines: &mut Lines,
    login: &str,
    wanted: &Wanted<HtpasswdValues>,
    marker: &Marker,
) {
    let name = login.as_bytes();
    let mark_line = format!("# {} {login}\n", wanted.mark).into_bytes();
    let Some(first) = lines.position::<Htpasswd>(name) else {
        forget_marks(lines, name, marker);
        lines.push(mark_line);
        let hash = wanted.hash.as_deref().unwrap_or(b"*");
        lines.push(line(name, hash, wanted.off, b"\n"));
        return;
    };
    lines.forget_below::<Htpasswd>(first, name);
    let (_, old, rest) = split(&lines.0[first]).unwrap_or((name, b"", b"\n"));
    let old = old.strip_prefix(&[OFF]).unwrap_or(old);
    let hash = wanted.hash.as_deref().unwrap_or(old);
    let new = line(name, hash, wanted.off, rest);
    lines.0[first] = new;
    match mark_above(lines, first, name) {
        Some(_) => lines.0[first - 1] = mark_line,
        None => lines.0.insert(first, mark_line),
    }
    forget_stale(lines, name, marker);
}

/// Takes all entries of a login away, with the marks of ours that name it.
pub(super) fn remove(lines: &mut Lines, login: &str, marker: &Marker) {
    lines.forget::<Htpasswd>(login.as_bytes());
    forget_marks(lines, login.as_bytes(), marker);
}

/// Drops marks of ours that stand above no entry of their login.
fn forget_stale(lines: &mut Lines, name: &[u8], marker: &Marker) {
    let keep: Vec<bool> = (0..lines.0.len())
        .map(|at| {
            let below = lines.0.get(at + 1);
            !is_our_mark(&lines.0[at], name, marker)
                || below.is_some_and(|line| Htpasswd::name(line) == Some(name))
        })
        .collect();
    let mut keep = keep.into_iter();
    lines.0.retain(|_| keep.next().unwrap_or(true));
}

fn forget_marks(lines: &mut Lines, name: &[u8], marker: &Marker) {
    lines.0.retain(|line| !is_our_mark(line, name, marker));
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

/// Name, hash, and the rest: further fields and the line's end. `None` for a comment or what is no entry.
pub(super) fn split(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
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

#[cfg(test)]
mod tests {
    //! What is not ours stays byte for byte.
    use super::*;
    use crate::password_file::testing::{mark, removed, set as set_in, wanted};

    fn set(text: &str, login: &str, hash: Option<&str>, off: bool) -> String {
        set_in::<Htpasswd>(text, login, &wanted(hash, off, None))
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
            lines.entries::<Htpasswd>()[login.as_bytes()]
                .mark
                .map(str::to_owned)
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
        assert_eq!(removed::<Htpasswd>(text, "web"), text);
        let ours = format!("a:1\n# {} web\nweb:!H\nweb:2\n# note\n", mark("web"));
        assert_eq!(removed::<Htpasswd>(&ours, "web"), "a:1\n# note\n");
    }

    #[test]
    fn the_first_entry_is_the_one_that_counts() {
        let lines = Lines::read(b"#web:no\nweb:1\nweb:2\n:x\nno entry\n\xff\xfe:3\n");
        let all = lines.entries::<Htpasswd>();
        let web = all[&b"web"[..]];
        assert_eq!((web.hash, web.again, web.off), (&b"1"[..], true, false));
        assert_eq!(all.len(), 3);
    }
}
