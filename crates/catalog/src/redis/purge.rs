//! Deleting the keys that consumers of ours left: the one way, by a person's word.
//!
//! A key does not say whose it is. What tells is who could use it: while any login has a pattern that could
//! mean the same keys, nothing is deleted.

use mesh_sdk::{Class, Cx, Error};

use super::acl::{Part, Shown};
use super::adapter::{Redis, is_reserved};
use super::classify;
use super::connect::Session;
use super::wire::{Reply, Request};

/// How many places of the table one `SCAN` looks at, and how many keys one `UNLINK` takes: each well under a
/// millisecond (Redis 7.0.15; values are freed by a thread of the server's own).
const SLICE: &[u8] = b"500";
const UNLINK: usize = 500;

impl Redis {
    /// What would go, in one line.
    pub(super) async fn data_named(&self, cx: &Cx, name: &str) -> Result<Option<String>, Error> {
        let mut session = self.session(cx).await?;
        self.unused(cx, &mut session, name).await?;
        let keys = each_slice(cx, &mut session, name, false).await?;
        Ok((keys > 0).then(|| format!("{keys} keys that match `{}`", plain(name))))
    }

    /// Looks again, and deletes them slice by slice.
    pub(super) async fn purge_named(&self, cx: &Cx, name: &str) -> Result<(), Error> {
        let mut session = self.session(cx).await?;
        self.unused(cx, &mut session, name).await?;
        each_slice(cx, &mut session, name, true).await.map(|_| ())
    }

    /// Refuses a pattern that could mean keys of anybody who is no admin.
    async fn unused(&self, cx: &Cx, session: &mut Session, name: &str) -> Result<(), Error> {
        if beginning(name.as_bytes()).is_empty() {
            let why = "it begins with a wildcard, and could mean anybody's keys";
            return Err(stays(name, why));
        }
        let table = self.table(cx, session).await?;
        let power = table
            .evaluate(&[b"+acl|setuser".to_vec()])
            .map_err(|_| classify::garbled("compare rules"))?;
        let mut users = Vec::new();
        let take = |login: &[u8], shown: Shown| {
            let login = String::from_utf8_lossy(login);
            if is_reserved(&login, self.endpoint.settings()) {
                return;
            }
            let is_admin = |part: &Part| {
                let held = table.evaluate(&part.rules);
                held.is_ok_and(|held| table.beyond(&power, &held).is_empty())
            };
            let mut parts = shown.selectors.iter().chain([&shown.root]);
            let admin = shown.selectors.iter().chain([&shown.root]).any(is_admin);
            if !admin && parts.any(|part| could_use(part, name.as_bytes())) {
                users.push(format!("`{}`", plain(&login)));
            }
        };
        self.each_user(cx, session, take).await?;
        if users.is_empty() {
            return Ok(());
        }
        users.truncate(4);
        Err(stays(
            name,
            &format!("they may still be used by {}", users.join(", ")),
        ))
    }
}

/// Whether a part of a user may do anything with keys that a pattern could mean.
fn could_use(part: &Part, name: &[u8]) -> bool {
    let nothing = |rule: &Vec<u8>| rule == b"-@all" || rule == b"nocommands";
    let mut patterns = part.read.iter().chain(part.write.iter());
    !part.rules.iter().all(nothing) && patterns.any(|pattern| could_meet(pattern, name))
}

/// Whether two patterns could mean one key, as far as their beginnings tell.
fn could_meet(one: &[u8], two: &[u8]) -> bool {
    let (one, two) = (beginning(one), beginning(two));
    one.starts_with(two) || two.starts_with(one)
}

/// What a pattern begins with, up to its first wildcard.
fn beginning(pattern: &[u8]) -> &[u8] {
    let wild = pattern.iter().position(|b| b"*?[\\".contains(b));
    &pattern[..wild.unwrap_or(pattern.len())]
}

/// Goes through every database that holds keys, and deletes what matches, or only counts it.
async fn each_slice(
    cx: &Cx,
    session: &mut Session,
    pattern: &str,
    delete: bool,
) -> Result<u64, Error> {
    const WHAT: &str = "look for keys";
    let keyspace: [&[u8]; 2] = [b"INFO", b"keyspace"];
    let info = session.text(WHAT, &keyspace).await?;
    let databases = info.lines().filter_map(|line| {
        let number = line.strip_prefix("db")?.split_once(':')?.0;
        number.bytes().all(|b| b.is_ascii_digit()).then_some(number)
    });
    let mut count = 0;
    for database in databases {
        session
            .wire
            .ask(WHAT, &[b"SELECT", database.as_bytes()])
            .await?;
        let mut cursor = b"0".to_vec();
        loop {
            let scan: [&[u8]; 6] = [
                b"SCAN",
                &cursor,
                b"MATCH",
                pattern.as_bytes(),
                b"COUNT",
                SLICE,
            ];
            let reply = session.wire.ask(WHAT, &scan).await?;
            cx.progress();
            let (next, keys) = slice(&reply).ok_or_else(|| classify::garbled(WHAT))?;
            count += keys.len() as u64;
            if delete {
                unlink(cx, session, &keys).await?;
            }
            if next == b"0" {
                break;
            }
            cursor = next.to_vec();
        }
    }
    Ok(count)
}

/// The next cursor, and the keys.
fn slice(reply: &Reply) -> Option<(&[u8], Vec<&[u8]>)> {
    let [next, keys] = reply.list()? else {
        return None;
    };
    let keys = keys.list()?.iter().map(Reply::text);
    Some((next.text()?, keys.collect::<Option<_>>()?))
}

async fn unlink(cx: &Cx, session: &mut Session, keys: &[&[u8]]) -> Result<(), Error> {
    for some in keys.chunks(UNLINK) {
        let mut request = Request::with_room(some.len() * 32);
        let all = [&b"UNLINK"[..]].into_iter().chain(some.iter().copied());
        request.push_each(some.len() + 1, all);
        session.wire.send(&request).await?;
        session.wire.reply().await?.ok("delete keys")?;
        cx.progress();
    }
    Ok(())
}

fn stays(name: &str, why: &str) -> Error {
    let message = format!("the keys that match `{}` stay: {why}", plain(name));
    Error::new(Class::Exists, message)
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(80).collect()
}

#[cfg(test)]
mod tests {
    //! Patterns that could mean the same keys.
    use super::*;

    #[test]
    fn r5_patterns_are_told_apart_by_what_they_begin_with() {
        for (one, two) in [
            ("web:*", "web:*"),
            ("web:*", "*"),
            ("web:*", "we?:1"),
            ("web:*", "web:1"),
            ("web:a*", "web:*:b"),
            ("web:*", "[w]eb:*"),
            ("web:*", "web\\:*"),
        ] {
            let (one, two) = (one.as_bytes(), two.as_bytes());
            assert!(could_meet(one, two) && could_meet(two, one));
        }
        for (one, two) in [("web:*", "api:*"), ("web:*", "web2:*"), ("web", "wex")] {
            assert!(!could_meet(one.as_bytes(), two.as_bytes()), "{one} {two}");
        }
        assert!(beginning(b"*:x").is_empty() && beginning(b"?").is_empty());
    }
}
