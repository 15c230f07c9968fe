//! The file of users: what it holds, and how it is changed without touching anything else in it.
//!
//! One of ours is a line of its own, `{user: "web", password: "$2a$…", permissions: {…}} # mk1.…`; one that
//! is switched off is that line as a comment. Everything else stays byte for byte as it was.

use std::collections::HashMap;
use std::ops::Range;

use mesh_sdk::{Class, Error, Marker};

use super::rights::Rights;
use super::syntax::{Reader, Stuck, Value, quote};

/// One user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) login: String,
    /// What stands as its password: as a rule a bcrypt hash.
    pub(super) stored: Option<String>,
    /// `None` where they cannot be told.
    pub(super) rights: Option<Rights>,
    pub(super) mark: Option<String>,
    pub(super) on: bool,
    /// What it has that no values can say.
    pub(super) beyond: Vec<String>,
    /// Where it stands, with the comma and the mark behind it.
    span: Range<usize>,
}

/// The file, read.
pub(super) struct UsersFile {
    text: String,
    entries: Vec<Entry>,
    by_login: HashMap<String, usize>,
    /// Where the list ends; `None` while there is no list.
    close: Option<usize>,
}

/// What a user is to be.
pub(super) struct Line<'a> {
    pub(super) login: &'a str,
    pub(super) stored: &'a str,
    pub(super) rights: &'a Rights,
    pub(super) mark: Option<&'a str>,
    pub(super) on: bool,
}

/// A change of one user.
pub(super) struct Edit {
    login: String,
    /// `None` takes it away.
    line: Option<String>,
}

impl Edit {
    pub(super) fn put(line: &Line<'_>) -> Self {
        let off = if line.on { "" } else { "# " };
        let mark = line.mark.map(|mark| format!(" # {mark}"));
        let text = format!(
            "{off}{{user: {}, password: {}, {}}}{}",
            quote(line.login),
            quote(line.stored),
            line.rights.written(),
            mark.unwrap_or_default()
        );
        Self {
            login: line.login.to_owned(),
            line: Some(text),
        }
    }
    pub(super) fn drop(login: &str) -> Self {
        Self {
            login: login.to_owned(),
            line: None,
        }
    }
}

impl UsersFile {
    /// Reads it. What cannot be read for certain is an error, and such a file is never written.
    pub(super) fn read(text: String) -> Result<Self, Error> {
        let read = read_list(&text).map_err(|stuck| {
            let before = text.get(..stuck.at).unwrap_or(&text);
            let line = before.matches('\n').count() + 1;
            let message = format!("the users file, line {line}: {}", stuck.why);
            Error::new(Class::RefusedValue, message)
        });
        let (entries, close) = read?;
        let mut by_login = HashMap::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            if by_login.insert(entry.login.clone(), at).is_some() {
                let login: String = entry.login.chars().filter(|c| !c.is_control()).collect();
                let message = format!("the users file names `{login}` twice");
                return Err(Error::new(Class::RefusedValue, message));
            }
        }
        Ok(Self {
            text,
            entries,
            by_login,
            close,
        })
    }
    pub(super) fn text(&self) -> &str {
        &self.text
    }
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }
    pub(super) fn find(&self, login: &str) -> Option<&Entry> {
        self.entries.get(*self.by_login.get(login)?)
    }

    /// The text with these changes.
    pub(super) fn with(&self, edits: &[&Edit]) -> String {
        let mut changes: Vec<(Range<usize>, String)> = Vec::new();
        let mut added = String::new();
        for edit in edits {
            match (self.find(&edit.login), &edit.line) {
                (Some(entry), Some(line)) => changes.push(self.replaced(entry, line)),
                (Some(entry), None) => changes.push((self.whole_line(&entry.span), String::new())),
                (None, Some(line)) => added.push_str(&format!("  {line}\n")),
                (None, None) => {}
            }
        }
        let end = self.text.len();
        match self.close {
            _ if added.is_empty() => {}
            Some(close) => {
                let starts = self.text[..close].trim_end_matches([' ', '\t']);
                let first = if starts.ends_with('\n') { "" } else { "\n" };
                let at = starts.len();
                changes.push((at..close, format!("{first}{added}")));
            }
            None => {
                let first = if self.text.is_empty() || self.text.ends_with('\n') {
                    ""
                } else {
                    "\n"
                };
                changes.push((end..end, format!("{first}users: [\n{added}]\n")));
            }
        }
        changes.sort_by_key(|(range, _)| range.start);
        let mut text = String::with_capacity(end + added.len());
        let mut from = 0;
        for (range, put) in changes {
            text.push_str(&self.text[from.min(range.start)..range.start]);
            text.push_str(&put);
            from = range.end;
        }
        text.push_str(&self.text[from..]);
        text
    }

    /// A line of its own, whatever stands around.
    fn replaced(&self, entry: &Entry, line: &str) -> (Range<usize>, String) {
        let Range { start, end } = entry.span.clone();
        let before = self.text[..start].rsplit('\n').next().unwrap_or("");
        let after = self.text[end..].split('\n').next().unwrap_or("");
        let first = if before.trim().is_empty() { "" } else { "\n  " };
        let last = if after.trim().is_empty() { "" } else { "\n" };
        (start..end, format!("{first}{line}{last}"))
    }

    /// The whole line, if there is nothing else on it.
    fn whole_line(&self, span: &Range<usize>) -> Range<usize> {
        let start = self.text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let end = self.text[span.end..].find('\n');
        let end = end.map_or(self.text.len(), |at| span.end + at + 1);
        let alone = self.text[start..span.start].trim().is_empty()
            && self.text[span.end..end].trim().is_empty();
        if alone { start..end } else { span.clone() }
    }
}

/// What a user's name and password are called.
const NAMES: [&str; 4] = ["user", "username", "password", "pass"];

/// The users, and where their list ends. Other keys beside `users` are somebody else's.
fn read_list(text: &str) -> Result<(Vec<Entry>, Option<usize>), Stuck> {
    let mut reader = Reader::new(text, 0);
    let mut found = None;
    loop {
        reader.gap();
        if reader.peek().is_none() {
            break;
        }
        let at = reader.at;
        if !reader.key()?.eq_ignore_ascii_case("users") {
            reader.value(0)?;
            continue;
        }
        if found.is_some() {
            return Err(Stuck {
                at,
                why: "`users` stands there twice",
            });
        }
        if !reader.take('[') {
            return reader.stuck("`users` is no list");
        }
        let entries = read_entries(&mut reader)?;
        found = Some((entries, reader.at));
        reader.take(']');
    }
    Ok(match found {
        Some((entries, close)) => (entries, Some(close)),
        None => (Vec::new(), None),
    })
}

/// Up to the bracket that ends the list.
fn read_entries(reader: &mut Reader<'_>) -> Result<Vec<Entry>, Stuck> {
    let mut entries = Vec::new();
    loop {
        reader.skip(|c| c.is_whitespace() || c == ',' || c == ';');
        match reader.peek() {
            Some(']') => return Ok(entries),
            _ if reader.at_comment() => entries.extend(switched_off(reader)),
            Some('{') => {
                let start = reader.at;
                let value = reader.value(0)?;
                let (mark, end) = behind(reader);
                entries.extend(entry(&value, mark, true, start..end));
            }
            _ => return reader.stuck("a user was expected"),
        }
    }
}

/// The comma and the mark behind a user, and where they end.
fn behind(reader: &mut Reader<'_>) -> (Option<String>, usize) {
    let mut end = reader.at;
    reader.skip(|c| c == ' ' || c == '\t');
    if reader.take(',') || reader.take(';') {
        end = reader.at;
    }
    reader.skip(|c| c == ' ' || c == '\t');
    let mut comment = Reader::new(reader.text, reader.at);
    let mark = comment
        .at_comment()
        .then(|| mark_in(comment.line()))
        .flatten();
    if mark.is_some() {
        end = comment.at;
        reader.at = end;
    }
    (mark, end)
}

/// The mark that a comment is.
fn mark_in(comment: &str) -> Option<String> {
    let text = comment.trim_start_matches(['#', '/']).trim();
    (text.starts_with(Marker::PREFIX) && !text.contains(char::is_whitespace))
        .then(|| text.to_owned())
}

/// A comment that is a marked user, switched off. Any other comment is only a comment.
fn switched_off(reader: &mut Reader<'_>) -> Option<Entry> {
    let start = reader.at;
    let line = reader.line();
    let inner = line.trim_start_matches(['#', '/', ' ', '\t']);
    if !inner.starts_with('{') {
        return None;
    }
    let mut inside = Reader::new(line, line.len() - inner.len());
    let value = inside.value(0).ok()?;
    let (mark, _) = behind(&mut inside);
    mark.as_ref()?;
    entry(&value, mark, false, start..reader.at)
}

/// A user with a name; those with a key instead of a name are none of our business.
fn entry(value: &Value, mark: Option<String>, on: bool, span: Range<usize>) -> Option<Entry> {
    let login = value.get(&NAMES[..2])?.text()?;
    let stored = value.get(&NAMES[2..]).and_then(Value::text);
    Some(Entry {
        login: login.to_owned(),
        stored: stored.map(str::to_owned),
        rights: Rights::read(value),
        mark,
        on,
        beyond: beyond(value),
        span,
    })
}

/// Fields of a user that are neither read nor kept when its line is written anew.
fn beyond(user: &Value) -> Vec<String> {
    let mut all = Vec::new();
    if let Value::Map(fields) = user {
        let more = fields.iter().map(|(name, _)| name);
        let more = more.filter(|name| {
            let known = Rights::FIELDS.iter().chain(&NAMES);
            !known.clone().any(|known| known.eq_ignore_ascii_case(name))
        });
        all.extend(more.map(|name| format!("`{name}`, which is not kept once it is adopted")));
    }
    if Rights::limits_responses(user) {
        all.push("limits of `allow_responses`, which are not kept once it is adopted".to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    //! What is ours is found and changed; what is not stays byte for byte.
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "# people's own words { ] \"\njetstream: enabled\nUsers = [\n  \
        {user: alice, password: \"pw\"}, {user: 'bob b', pass: x} # mk1.b\n  // {user: \"off\", password: \"x\"}\n\
        #{user: \"off2\", password: \"h\"} # mk1.o\n  {nkey: UDXU4} , # a robot\n  {\n    user: carol # hm }\n    \
        password: y\n  }\n  {user: \"dave\", password: \"z\"}, # mk1.d\n]\nother { a: [1, 2] }\n";

    fn read(text: &str) -> UsersFile {
        UsersFile::read(text.to_owned()).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn put(login: &str, on: bool) -> Edit {
        Edit::put(&Line {
            login,
            stored: "$2a$04$x",
            rights: &Rights::default(),
            mark: Some("mk1.new"),
            on,
        })
    }

    fn line(login: &str) -> String {
        format!(
            "{{user: {}, password: \"$2a$04$x\", permissions: {{publish: {{deny: [\">\"]}}, \
             subscribe: {{deny: [\">\"]}}}}}} # mk1.new",
            quote(login)
        )
    }

    #[test]
    fn r4_users_are_found_with_their_marks_however_they_are_written() {
        let file = read(FILE);
        let found: Vec<(&str, Option<&str>, bool)> = file
            .entries()
            .iter()
            .map(|entry| (entry.login.as_str(), entry.mark.as_deref(), entry.on))
            .collect();
        let wanted = [
            ("alice", None, true),
            ("bob b", Some("mk1.b"), true),
            ("off2", Some("mk1.o"), false),
            ("carol", None, true),
            ("dave", Some("mk1.d"), true),
        ];
        assert_eq!(found, wanted);
        assert_eq!(
            file.find("bob b").and_then(|e| e.stored.as_deref()),
            Some("x")
        );
    }

    #[test]
    fn r4_what_is_not_changed_stays_byte_for_byte() {
        let file = read(FILE);
        assert_eq!(file.with(&[]), FILE);
        let dave = "  {user: \"dave\", password: \"z\"}, # mk1.d\n";
        let changed = file.with(&[&put("dave", true)]);
        assert_eq!(
            changed,
            FILE.replace(dave, &format!("  {}\n", line("dave")))
        );
        assert_eq!(file.with(&[&Edit::drop("dave")]), FILE.replace(dave, ""));
        let off = file.with(&[&put("dave", false)]);
        assert_eq!(off, FILE.replace(dave, &format!("  # {}\n", line("dave"))));
        assert!(!read(&off).find("dave").expect("kept").on);
        let added = file.with(&[&put("erin", true), &Edit::drop("nobody")]);
        let end = "]\nother";
        assert_eq!(
            added,
            FILE.replace(end, &format!("  {}\n{end}", line("erin")))
        );
    }

    #[test]
    fn r4_two_on_one_line_are_told_apart() {
        let text =
            "users: [ {user: a, password: x}, {user: b, password: y}, {user: c, password: z} ]";
        let file = read(text);
        let changed = file.with(&[&put("a", true), &Edit::drop("b"), &put("d", true)]);
        let again = read(&changed);
        let names: Vec<&str> = again.entries().iter().map(|e| e.login.as_str()).collect();
        assert_eq!(names, ["a", "c", "d"], "{changed}");
        assert_eq!(again.find("c").and_then(|e| e.stored.as_deref()), Some("z"));
        assert_eq!(again.find("c").and_then(|e| e.mark.as_deref()), None);
        let off = read(&file.with(&[&put("b", false)]));
        let on: Vec<bool> = off.entries().iter().map(|e| e.on).collect();
        assert_eq!(on, [true, false, true]);
    }

    #[test]
    fn a_list_is_begun_where_there_is_none() {
        for text in ["", "# words", "jetstream: enabled\n"] {
            let made = read(text).with(&[&put("a", true)]);
            assert!(made.starts_with(text), "{made}");
            assert!(read(&made).find("a").is_some(), "{made}");
        }
    }

    #[test]
    fn h7_what_cannot_be_read_for_certain_is_an_error() {
        for bad in [
            "users: [",
            "users: {}",
            "users: [ {user: a, password: $secret} ]",
            "users: [ include more.conf ]",
            "users: []\nusers: []",
            "users: [ {user: a}, {user: a} ]",
            "users: [ alice ]",
            "}",
        ] {
            let class = UsersFile::read(bad.to_owned()).err().map(|e| e.class());
            assert_eq!(class, Some(Class::RefusedValue), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a5_any_login_comes_back_as_it_went_in(logins in prop::collection::btree_set("[^\0]{1,12}", 1..8)) {
            let edits: Vec<Edit> = logins.iter().map(|login| put(login, login.len() % 2 == 0)).collect();
            let edits: Vec<&Edit> = edits.iter().collect();
            let file = read(&read("users: [\n]\n").with(&edits));
            for login in &logins {
                let entry = file.find(login).expect("written");
                prop_assert_eq!(entry.on, login.len() % 2 == 0);
                prop_assert_eq!(entry.mark.as_deref(), Some("mk1.new"));
            }
            let away: Vec<Edit> = logins.iter().map(|login| Edit::drop(login)).collect();
            let away: Vec<&Edit> = away.iter().collect();
            prop_assert_eq!(file.with(&away), "users: [\n]\n");
        }
    }
}
