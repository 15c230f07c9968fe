//! The format of the file, as Dovecot takes it.

use mesh_sdk::Marker;
use mesh_sdk::adapter::Refusal;

use super::fields::Fields;
use super::values::DovecotValues;
use crate::password_file::{Entry, Format, Lines, Rights, Wanted, Wish};

/// What stands before the hash of a login that is switched off. No password fits, whatever follows, since `!`
/// begins no hash; without it the hash is as it was.
const OFF: &[u8] = b"{CRYPT}!";

/// Lines of `login:hash:uid:gid:gecos:home:shell:extra`.
pub struct Dovecot {
    /// Any login is taken, as it is written.
    pub(super) any_login: bool,
}

impl Format for Dovecot {
    type Values = DovecotValues;
    const SCHEME: &'static str = "{BLF-CRYPT}";
    const READ_BY_SECOND: bool = true;

    fn check(&self, wish: &Wish<'_, Self>) -> Result<(), Refusal> {
        super::check::wish(wish, self.any_login)
    }
    fn cost(values: &DovecotValues) -> Option<u32> {
        values.cost
    }
    /// A line without a colon is a login too, without a password.
    fn name(line: &[u8]) -> Option<&[u8]> {
        let is_end = |b: &u8| matches!(b, b':' | b'\r' | b'\n');
        let end = line.iter().position(is_end).unwrap_or(line.len());
        let name = &line[..end];
        (!name.is_empty() && !name.starts_with(b"#")).then_some(name)
    }
    fn entry(lines: &Lines, at: usize) -> Option<Entry<'_>> {
        let line = lines.0.get(at)?;
        let login = Self::name(line)?;
        let (hash, rest) = hash_in(&line[login.len()..]);
        let (bare, fields) = (hash.strip_prefix(OFF), Fields::read(rest));
        let hash = bare.unwrap_or(hash);
        Some(Entry {
            login,
            hash,
            bcrypt: without_scheme(hash),
            off: bare.is_some() || fields.has("nologin"),
            open: fields.has("nopassword"),
            mark: Fields::mark(rest),
            rest,
            again: false,
        })
    }
    fn set(lines: &mut Lines, login: &str, wanted: &Wanted<DovecotValues>, _: &Marker) {
        let name = login.as_bytes();
        let first = lines.position::<Self>(name);
        let old = first
            .and_then(|at| Self::entry(lines, at))
            .unwrap_or_default();
        let hash = wanted.hash.as_deref().unwrap_or(old.hash);
        let off = if wanted.off { OFF } else { b"" };
        let mut fields = Fields::read(old.rest);
        fields.set(wanted);
        let line = [name, b":", off, hash, &fields.text()].concat();
        match first {
            Some(at) => {
                lines.0[at] = line;
                lines.forget_below::<Self>(at, name);
            }
            None => lines.push(line),
        }
    }
    fn remove(lines: &mut Lines, login: &str, _: &Marker) {
        lines.forget::<Self>(login.as_bytes());
    }
    fn rights(wish: &Wish<'_, Self>, entry: &Entry<'_>) -> Rights {
        Fields::read(entry.rest).rights(wish.values())
    }
}

/// The hash behind a colon, and what follows it.
fn hash_in(behind: &[u8]) -> (&[u8], &[u8]) {
    let Some(text) = behind.strip_prefix(b":") else {
        return (b"", behind);
    };
    let is_end = |b: &u8| matches!(b, b':' | b'\r' | b'\n');
    text.split_at(text.iter().position(is_end).unwrap_or(text.len()))
}

/// Dovecot reads a bcrypt hash with either of two words before it, in letters of any size, and by itself
/// without one.
fn without_scheme(hash: &[u8]) -> &[u8] {
    let words = ["{BLF-CRYPT}", "{CRYPT}"];
    let begins = |word: &&str| {
        hash.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
    };
    let word = words.iter().find(|word| begins(word));
    &hash[word.map_or(0, |word| word.len())..]
}
