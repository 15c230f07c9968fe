//! The format of the file, as Dovecot takes it.

use mesh_sdk::adapter::Refusal;
use mesh_sdk::{Login, Marker};

use super::check;
use super::line::{HASH, Line};
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
        check::wish(wish, self.any_login)
    }
    fn cost(values: &DovecotValues) -> Option<u32> {
        values.cost
    }
    /// A line without a colon is a login too, without a password.
    fn name(line: &[u8]) -> Option<&[u8]> {
        let name = Line::read(line).fields[0];
        (!name.is_empty() && !name.starts_with(b"#")).then_some(name)
    }
    fn entry(lines: &Lines, at: usize) -> Option<Entry<'_>> {
        let text = lines.0.get(at)?;
        let (login, line) = (Self::name(text)?, Line::read(text));
        let hash = line.fields[HASH];
        let bare = hash.strip_prefix(OFF);
        let hash = bare.unwrap_or(hash);
        // Dovecot reads bcrypt with either of two words before it, and as a rule without one.
        let words = [Self::SCHEME, "{CRYPT}"].map(str::as_bytes);
        let bcrypt = words.iter().find_map(|word| hash.strip_prefix(*word));
        Some(Entry {
            login,
            hash,
            bcrypt: bcrypt.unwrap_or(hash),
            off: bare.is_some() || line.extra("nologin").is_some(),
            open: line.extra("nopassword").is_some(),
            mark: line.mark(),
            line: text,
            again: false,
        })
    }
    fn set(lines: &mut Lines, login: &str, wanted: &Wanted<DovecotValues>, _: &Marker) {
        let first = lines.position::<Self>(login.as_bytes());
        let old = first
            .and_then(|at| Self::entry(lines, at))
            .unwrap_or_default();
        let hash = wanted.hash.as_deref().unwrap_or(old.hash);
        let off = if wanted.off { OFF } else { b"" };
        let line = Line::read(old.line).made(login, &[off, hash].concat(), wanted);
        match first {
            Some(at) => {
                lines.0[at] = line;
                lines.forget_below::<Self>(at, login.as_bytes());
            }
            None => lines.push(line),
        }
    }
    fn offer(&self, login: &Login, entry: &Entry<'_>) -> Option<(DovecotValues, Vec<String>)> {
        check::login(login, self.any_login).ok()?;
        Line::read(entry.line).offer()
    }
    fn rights(wish: &Wish<'_, Self>, entry: &Entry<'_>) -> Rights {
        Line::read(entry.line).rights(wish.values())
    }
}
