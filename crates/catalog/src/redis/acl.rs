//! A user as the server shows it, and the rules that values ask for, in one form that compares.
//!
//! Names and patterns are bytes. The order and the spelling of rules differ between versions, so a token
//! is told by its form and never by its place.

use std::collections::BTreeSet;

use mesh_sdk::Marker;

use super::values::{RedisValues, Selector};
use super::wire::Reply;

/// The SHA-256 of a password as Redis keeps it: 64 lower-case hex digits, no salt.
pub(super) type Hash = [u8; 64];

/// A set of glob patterns, compared as texts; `*` alone is everything.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Patterns {
    Some(BTreeSet<Vec<u8>>),
    All,
}

impl Default for Patterns {
    fn default() -> Self {
        Patterns::Some(BTreeSet::new())
    }
}

impl Patterns {
    fn add(&mut self, pattern: &[u8]) {
        match self {
            Patterns::Some(_) if pattern == b"*" => *self = Patterns::All,
            Patterns::Some(set) => {
                set.insert(pattern.to_vec());
            }
            Patterns::All => {}
        }
    }
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Patterns::Some(set) if set.is_empty())
    }
    /// Each pattern; `*` for all.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let (all, some) = match self {
            Patterns::All => (Some(&b"*"[..]), None),
            Patterns::Some(set) => (None, Some(set)),
        };
        all.into_iter()
            .chain(some.into_iter().flatten().map(Vec::as_slice))
    }
    pub(super) fn contains(&self, pattern: &[u8]) -> bool {
        match self {
            Patterns::All => true,
            Patterns::Some(set) => set.contains(pattern),
        }
    }
    /// The patterns that `other` does not have.
    pub(super) fn beyond(&self, other: &Patterns) -> Patterns {
        match (self, other) {
            (_, Patterns::All) => Patterns::default(),
            (Patterns::All, Patterns::Some(_)) => Patterns::All,
            (Patterns::Some(one), Patterns::Some(two)) => {
                Patterns::Some(one.difference(two).cloned().collect())
            }
        }
    }
}

/// Keys, channels and command rules: the main part of a user, or one selector.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    pub(super) read: Patterns,
    pub(super) write: Patterns,
    pub(super) channels: Patterns,
    /// In their order.
    pub(super) rules: Vec<Vec<u8>>,
}

impl Part {
    fn of(lists: &Lists<'_>) -> Self {
        let mut part = Self::default();
        let both = lists.keys.iter();
        for pattern in both.clone().chain(lists.read) {
            part.read.add(pattern.as_bytes());
        }
        for pattern in both.chain(lists.write) {
            part.write.add(pattern.as_bytes());
        }
        for pattern in lists.channels {
            part.channels.add(pattern.as_bytes());
        }
        part.rules = lists
            .commands
            .iter()
            .map(|c| c.clone().into_bytes())
            .collect();
        part
    }

    /// What the values ask for in the main part.
    pub(super) fn wanted(values: &RedisValues) -> Self {
        Self::of(&Lists {
            keys: &values.keys,
            read: &values.read_keys,
            write: &values.write_keys,
            channels: &values.channels,
            commands: &values.commands,
        })
    }

    /// What the values ask for in further selectors.
    pub(super) fn wanted_selectors(values: &RedisValues) -> Vec<Self> {
        let part = |selector: &Selector| {
            Self::of(&Lists {
                keys: &selector.keys,
                read: &selector.read_keys,
                write: &selector.write_keys,
                channels: &selector.channels,
                commands: &selector.commands,
            })
        };
        values.selectors.iter().map(part).collect()
    }

    /// Takes one token of a description. What it does not know is of no kind that values can express.
    fn take(&mut self, token: &[u8]) {
        match token {
            b"allkeys" => self.add_key(b"*", true, true),
            b"allchannels" => self.channels.add(b"*"),
            b"allcommands" | b"nocommands" => self.rules.push(token.to_vec()),
            [b'~', pattern @ ..] => self.add_key(pattern, true, true),
            [b'%', rest @ ..] => {
                let (kinds, pattern) = split_at_tilde(rest);
                let has = |kind: u8| kinds.iter().any(|k| k.eq_ignore_ascii_case(&kind));
                self.add_key(pattern, has(b'R'), has(b'W'));
            }
            [b'&', pattern @ ..] => self.channels.add(pattern),
            [b'+' | b'-', ..] => self.rules.push(token.to_vec()),
            _ => {}
        }
    }

    fn add_key(&mut self, pattern: &[u8], read: bool, write: bool) {
        if read {
            self.read.add(pattern);
        }
        if write {
            self.write.add(pattern);
        }
    }

    /// Removes and returns the key patterns that have the form of a mark.
    fn take_marks(&mut self) -> Vec<String> {
        let (Patterns::Some(read), Patterns::Some(write)) = (&mut self.read, &mut self.write)
        else {
            return Vec::new();
        };
        let prefix = Marker::PREFIX.as_bytes();
        let marks: Vec<Vec<u8>> = read
            .iter()
            .filter(|p| p.starts_with(prefix) && write.contains(*p))
            .cloned()
            .collect();
        for mark in &marks {
            read.remove(mark);
            write.remove(mark);
        }
        marks
            .into_iter()
            .filter_map(|mark| String::from_utf8(mark).ok())
            .collect()
    }

    fn allows_nothing(&self) -> bool {
        self.rules
            .iter()
            .all(|rule| rule == b"-@all" || rule == b"nocommands")
    }
}

struct Lists<'a> {
    keys: &'a [String],
    read: &'a [String],
    write: &'a [String],
    channels: &'a [String],
    commands: &'a [String],
}

/// A user as the server shows it. It has no `Debug`: it is full of hashes.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) on: bool,
    /// Any password gets in.
    pub(super) nopass: bool,
    pub(super) hashes: Vec<Hash>,
    pub(super) root: Part,
    /// Without those that are marks.
    pub(super) selectors: Vec<Part>,
    /// Texts that have the form of a mark.
    pub(super) marks: Vec<String>,
    /// What values have no word for: the databases that it is limited to (Valkey 9.1).
    pub(super) beyond: Vec<String>,
}

/// The name and the description of a line of `ACL LIST`: `user NAME DESCRIPTION`. No name holds a space.
pub(super) fn split_line(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_prefix(b"user ")?;
    let space = rest.iter().position(|b| *b == b' ')?;
    Some((&rest[..space], &rest[space + 1..]))
}

impl Shown {
    /// From a description in a line of `ACL LIST`.
    pub(super) fn from_description(description: &[u8]) -> Self {
        let mut shown = Self::default();
        let mut open: Option<Part> = None;
        for token in description.split(|b| *b == b' ') {
            let (token, opens) = match (open.is_none(), token.strip_prefix(b"(")) {
                (true, Some(rest)) => (rest, true),
                _ => (token, false),
            };
            if opens {
                open = Some(Part::default());
            }
            let Some(part) = &mut open else {
                shown.take(token);
                continue;
            };
            // A description ends with its command rules, so a bracket after anything else is data.
            let closed = token
                .strip_suffix(b")")
                .filter(|t| t.is_empty() || t.starts_with(b"+") || t.starts_with(b"-"));
            part.take(closed.unwrap_or(token));
            if closed.is_some() {
                shown.selectors.extend(open.take());
            }
        }
        shown.selectors.extend(open);
        shown.find_marks();
        shown
    }

    fn take(&mut self, token: &[u8]) {
        match token {
            b"on" => self.on = true,
            b"nopass" => self.nopass = true,
            b"skip-sanitize-payload" | [b'd', b'b', b'=', ..] => {
                self.beyond
                    .push(String::from_utf8_lossy(token).into_owned());
            }
            [b'#', hex @ ..] => self.hashes.extend(Hash::try_from(hex)),
            _ => self.root.take(token),
        }
    }

    /// From the reply to `ACL GETUSER`: names and values in turn. `None` if it is of another form.
    pub(super) fn from_reply(reply: &Reply) -> Option<Self> {
        let mut shown = Self::default();
        for pair in reply.list()?.chunks(2) {
            let [name, value] = pair else { return None };
            match name.text()? {
                b"flags" => value
                    .list()?
                    .iter()
                    .filter_map(Reply::text)
                    .for_each(|flag| {
                        // `allkeys` and the like are told again, by their own fields.
                        if matches!(flag, b"on" | b"nopass" | b"skip-sanitize-payload") {
                            shown.take(flag);
                        }
                    }),
                b"passwords" => {
                    let hashes = value.list()?.iter().filter_map(Reply::text);
                    shown.hashes = hashes.filter_map(|hex| Hash::try_from(hex).ok()).collect();
                }
                b"selectors" => {
                    let parts = value.list()?.iter().map(selector_of);
                    shown.selectors = parts.collect::<Option<_>>()?;
                }
                b"databases" => value.text().into_iter().for_each(|text| {
                    text.split(|b| *b == b' ')
                        .for_each(|token| shown.take(token));
                }),
                field => take_field(&mut shown.root, field, value)?,
            }
        }
        shown.find_marks();
        Some(shown)
    }

    fn find_marks(&mut self) {
        self.marks = self.root.take_marks();
        let marks = &mut self.marks;
        self.selectors.retain_mut(|part| {
            if !part.allows_nothing() {
                return true;
            }
            let found = part.take_marks();
            let is_mark = !found.is_empty();
            marks.extend(found);
            !is_mark
        });
    }
}

fn selector_of(reply: &Reply) -> Option<Part> {
    let mut part = Part::default();
    for pair in reply.list()?.chunks(2) {
        let [name, value] = pair else { return None };
        take_field(&mut part, name.text()?, value)?;
    }
    Some(part)
}

/// One field of `ACL GETUSER`: a text of tokens from 7.0 on, a list without their signs on 6.2.
fn take_field(part: &mut Part, field: &[u8], value: &Reply) -> Option<()> {
    if let (b"commands" | b"keys" | b"channels", Some(text)) = (field, value.text()) {
        text.split(|b| *b == b' ')
            .for_each(|token| part.take(token));
        return Some(());
    }
    match field {
        b"keys" => {
            let keys = value.list()?.iter().filter_map(Reply::text);
            keys.for_each(|pattern| part.add_key(pattern, true, true));
        }
        b"channels" => {
            let channels = value.list()?.iter().filter_map(Reply::text);
            channels.for_each(|pattern| part.channels.add(pattern));
        }
        // A kind that values cannot express, such as Valkey 9's databases.
        _ => {}
    }
    Some(())
}

fn split_at_tilde(rest: &[u8]) -> (&[u8], &[u8]) {
    match rest.iter().position(|b| *b == b'~') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, b""),
    }
}

#[cfg(test)]
mod tests {
    //! Descriptions as the real servers write them.
    use super::*;

    const HASH: &str = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";

    fn texts(patterns: &Patterns) -> Vec<String> {
        patterns
            .iter()
            .map(|p| String::from_utf8_lossy(p).into_owned())
            .collect()
    }

    fn rules(part: &Part) -> Vec<String> {
        part.rules
            .iter()
            .map(|r| String::from_utf8_lossy(r).into_owned())
            .collect()
    }

    #[test]
    fn a_line_of_redis_7_0_is_read() {
        let line = format!(
            "user web on sanitize-payload #{HASH} ~web:* %R~shared:* %W~log:* &news:* -@all +@string -getex \
             (~mk1.home.i1.cache.web.abc resetchannels -@all) (%R~a)b resetchannels -@all +get)"
        );
        let (name, description) = split_line(line.as_bytes()).expect("a line");
        assert_eq!(name, b"web");
        let shown = Shown::from_description(description);
        assert!(shown.on && !shown.nopass);
        assert_eq!(
            shown.hashes,
            [Hash::try_from(HASH.as_bytes()).expect("hex")]
        );
        assert_eq!(texts(&shown.root.read), ["shared:*", "web:*"]);
        assert_eq!(texts(&shown.root.write), ["log:*", "web:*"]);
        assert_eq!(texts(&shown.root.channels), ["news:*"]);
        assert_eq!(rules(&shown.root), ["-@all", "+@string", "-getex"]);
        assert_eq!(shown.marks, ["mk1.home.i1.cache.web.abc"]);
        assert_eq!(shown.selectors.len(), 1);
        assert_eq!(texts(&shown.selectors[0].read), ["a)b"]);
        assert!(shown.selectors[0].write.is_empty());
        assert_eq!(rules(&shown.selectors[0]), ["-@all", "+get"]);
    }

    #[test]
    fn a_line_of_redis_6_2_keeps_its_mark_among_the_keys() {
        let shown = Shown::from_description(b"off nopass ~a:* ~mk1.h.i.p.c.m &* +@all");
        assert!(!shown.on && shown.nopass);
        assert_eq!(texts(&shown.root.read), ["a:*"]);
        assert_eq!(shown.root.channels, Patterns::All);
        assert_eq!(shown.marks, ["mk1.h.i.p.c.m"]);
    }

    #[test]
    fn replies_of_both_forms_are_read() {
        let text = |t: &str| Reply::Text(t.as_bytes().to_vec());
        let list = |l: &[&str]| Reply::List(l.iter().map(|t| text(t)).collect());
        let selector = Reply::List(vec![
            text("commands"),
            text("-@all"),
            text("keys"),
            text("~mk1.h.i.p.c.m"),
            text("channels"),
            text(""),
        ]);
        let seven = Reply::List(vec![
            text("flags"),
            list(&["on", "sanitize-payload"]),
            text("passwords"),
            list(&[HASH]),
            text("commands"),
            text("-@all +get"),
            text("keys"),
            text("~a %R~b"),
            text("channels"),
            text("&c &d"),
            text("databases"),
            text("alldbs"),
            text("selectors"),
            Reply::List(vec![selector]),
        ]);
        let shown = Shown::from_reply(&seven).expect("7.0");
        assert!(shown.on && shown.hashes.len() == 1 && shown.selectors.is_empty());
        assert_eq!(texts(&shown.root.read), ["a", "b"]);
        assert_eq!(texts(&shown.root.write), ["a"]);
        assert_eq!(texts(&shown.root.channels), ["c", "d"]);
        assert_eq!(shown.marks, ["mk1.h.i.p.c.m"]);
        let six = Reply::List(vec![
            text("flags"),
            list(&["off", "allkeys", "allchannels", "nopass"]),
            text("passwords"),
            list(&[]),
            text("commands"),
            text("+@all"),
            text("keys"),
            list(&["*"]),
            text("channels"),
            list(&["*"]),
        ]);
        let shown = Shown::from_reply(&six).expect("6.2");
        assert!(!shown.on && shown.nopass);
        assert_eq!(
            (&shown.root.read, &shown.root.channels),
            (&Patterns::All, &Patterns::All)
        );
        assert!(Shown::from_reply(&Reply::Nil).is_none());
        assert!(Shown::from_reply(&list(&["flags"])).is_none());
    }

    #[test]
    fn a_star_swallows_the_other_patterns() {
        let values = RedisValues {
            keys: vec!["a".into()],
            read_keys: vec!["*".into(), "b".into()],
            ..RedisValues::default()
        };
        let part = Part::wanted(&values);
        assert_eq!(part.read, Patterns::All);
        assert_eq!(texts(&part.write), ["a"]);
        assert_eq!(part.read.beyond(&part.write), Patterns::All);
        assert!(part.write.beyond(&part.read).is_empty());
    }

    #[test]
    fn a_selector_with_a_mark_and_commands_is_no_mark() {
        let shown = Shown::from_description(b"on (~mk1.h.i.p.c.m resetchannels -@all +get)");
        assert!(shown.marks.is_empty());
        assert_eq!(shown.selectors.len(), 1);
    }
}
