//! A wish and a user as the server shows it, compared by meaning.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use mesh_sdk::{
    Answer, Class, Difference, Differences, Error, Held, Lost, MarkSeen, Marker, Proof,
};
use sha2::{Digest, Sha256};

use super::acl::{Hash, Part, Patterns, Shown};
use super::commands::{CommandSet, Table};
use super::values::RedisValues;

/// A wish of this kind.
pub(super) type Wish<'a> = mesh_sdk::Provision<'a, RedisValues>;

/// What is worked out once for each wish.
pub(super) struct Expected {
    /// A keyed hash of the description that was last found to be as asked; 0 for none. The same text
    /// means the same, so a healthy pass compares this and nothing else.
    pub(super) held_as: AtomicU64,
}

/// The expectations of a wish.
pub(super) fn expected(wish: &Wish<'_>) -> Arc<Expected> {
    wish.memo(|| Expected {
        held_as: AtomicU64::new(0),
    })
}

/// The verifiers of all the passwords that a wish asks for. They are quicker made anew than kept for each wish.
pub(super) fn verifiers(wish: &Wish<'_>) -> impl Iterator<Item = Hash> {
    wish.passwords().map(|password| hash_of(password.expose()))
}

/// The SHA-256 of a password in lower-case hex, as Redis keeps it.
pub(super) fn hash_of(password: &[u8]) -> Hash {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = [0; 64];
    for (pair, byte) in hex.chunks_mut(2).zip(Sha256::digest(password)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    hex
}

/// Rights of the main part, by kind.
#[derive(Default)]
pub(super) struct Rights {
    pub(super) read: Patterns,
    pub(super) write: Patterns,
    pub(super) channels: Patterns,
    pub(super) commands: Vec<String>,
    /// Of the wish where they are missing, of the server where they are too many.
    pub(super) selectors: Vec<Part>,
}

/// How a user differs from a wish.
pub(super) struct Diff {
    pub(super) password: bool,
    /// At least one of those that are asked for is there.
    pub(super) password_fits: bool,
    /// How many are asked for, and how many of those are there.
    passwords: (usize, usize),
    pub(super) nopass: bool,
    pub(super) switch: Option<Difference>,
    pub(super) missing: Rights,
    pub(super) surplus: Rights,
    pub(super) mark: MarkSeen,
    /// Marks beside the one of this wish.
    pub(super) other_marks: bool,
}

/// Compares. An error is a rule in the wish that this server does not know.
pub(super) fn diff(table: &Table, wish: &Wish<'_>, shown: &Shown) -> Result<Diff, Error> {
    let asked = wish.passwords().count();
    let fit = verifiers(wish)
        .filter(|hash| shown.hashes.contains(hash))
        .count();
    let switch = match (wish.enabled(), shown.on) {
        (true, false) => Some(Difference::Disabled),
        (false, true) => Some(Difference::Enabled),
        _ => None,
    };
    let marker = wish.marker();
    let seen = |text: &String| marker.read(text, wish.consumer());
    let (missing, surplus) = grants(table, wish, shown)?;
    Ok(Diff {
        password: asked > 0 && !shown.nopass && (fit < asked || shown.hashes.len() > asked),
        password_fits: fit > 0,
        passwords: (asked, fit),
        nopass: shown.nopass,
        switch,
        missing,
        surplus,
        mark: MarkSeen::strongest(shown.marks.iter().map(seen)),
        other_marks: shown.marks.iter().any(|text| seen(text) != MarkSeen::Ours),
    })
}

/// Judges the marks of a listed login. Only one that this provider left names a consumer: a login that
/// another provider of the same installation looks after is none of this one's business.
pub(super) fn listed_mark(marker: &Marker, shown: &Shown) -> MarkSeen {
    MarkSeen::strongest(shown.marks.iter().map(|text| marker.listed(text)))
}

fn grants(table: &Table, wish: &Wish<'_>, shown: &Shown) -> Result<(Rights, Rights), Error> {
    let want = Part::wanted(wish.values());
    let have = &shown.root;
    let wanted = wanted_commands(table, &want)?;
    let held = shown_commands(table, have)?;
    let (lacking, spare) = selectors(table, wish, shown)?;
    let rights = |one: &Part, two: &Part, commands, selectors| Rights {
        read: one.read.beyond(&two.read),
        write: one.write.beyond(&two.write),
        channels: one.channels.beyond(&two.channels),
        commands,
        selectors,
    };
    let (more, less) = if wanted == held {
        (Vec::new(), Vec::new())
    } else {
        (table.beyond(&wanted, &held), table.beyond(&held, &wanted))
    };
    Ok((
        rights(&want, have, more, lacking),
        rights(have, &want, less, spare),
    ))
}

/// Selectors as multisets by meaning: those that the wish lacks, and those beyond it.
fn selectors(
    table: &Table,
    wish: &Wish<'_>,
    shown: &Shown,
) -> Result<(Vec<Part>, Vec<Part>), Error> {
    if wish.values().selectors.is_empty() && shown.selectors.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut spare = Vec::new();
    for part in &shown.selectors {
        let commands = shown_commands(table, part)?;
        // One that allows no command grants nothing.
        if !commands.is_empty() {
            spare.push((commands, part));
        }
    }
    let mut lacking = Vec::new();
    for part in Part::wanted_selectors(wish.values()) {
        let commands = wanted_commands(table, &part)?;
        let found = spare.iter().position(|(held, have)| {
            *held == commands
                && (&have.read, &have.write, &have.channels)
                    == (&part.read, &part.write, &part.channels)
        });
        match found {
            Some(at) => drop(spare.swap_remove(at)),
            None => lacking.push(part),
        }
    }
    Ok((
        lacking,
        spare.into_iter().map(|(_, part)| part.clone()).collect(),
    ))
}

fn wanted_commands(table: &Table, part: &Part) -> Result<Arc<CommandSet>, Error> {
    table.evaluate(&part.rules).map_err(|rule| {
        let message = format!("`commands`: this server does not know `{rule}`");
        Error::new(Class::RefusedValue, message)
    })
}

fn shown_commands(table: &Table, part: &Part) -> Result<Arc<CommandSet>, Error> {
    table.evaluate(&part.rules).map_err(|rule| {
        let message = format!("the server shows a rule that is not in its own list: `{rule}`");
        Error::new(Class::Bug, message)
    })
}

impl Rights {
    fn is_empty(&self) -> bool {
        self.read.is_empty()
            && self.write.is_empty()
            && self.channels.is_empty()
            && self.commands.is_empty()
            && self.selectors.is_empty()
    }

    /// `~web:*, +get and 3 more`.
    fn told(&self) -> String {
        const MOST: usize = 6;
        let key = |pattern: &[u8]| {
            let sign = match (self.read.contains(pattern), self.write.contains(pattern)) {
                (true, false) => "%R~",
                (false, true) => "%W~",
                _ => "~",
            };
            format!("{sign}{}", plain(pattern))
        };
        let reads = self.read.iter().map(key);
        let writes = self
            .write
            .iter()
            .filter(|p| !self.read.contains(p))
            .map(key);
        let channels = self.channels.iter().map(|p| format!("&{}", plain(p)));
        let commands = self.commands.iter().map(|c| format!("+{c}"));
        let selectors = self.selectors.iter().map(|_| "a selector".to_owned());
        let all: Vec<String> = reads
            .chain(writes)
            .chain(channels)
            .chain(commands)
            .chain(selectors)
            .collect();
        let mut told = all[..all.len().min(MOST)].join(", ");
        if all.len() > MOST {
            told.push_str(&format!(" and {} more", all.len() - MOST));
        }
        told
    }
}

fn plain(pattern: &[u8]) -> String {
    let text = String::from_utf8_lossy(pattern);
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

impl Diff {
    /// Whether nothing at all differs, surplus on an adopted login included.
    pub(super) fn is_none(&self, exact: bool) -> bool {
        self.differences(exact).is_empty()
    }

    pub(super) fn differences(&self, exact: bool) -> Differences {
        let found = [
            (self.password, Difference::Password),
            (self.nopass, Difference::PasswordNotEnforced),
            (!self.missing.is_empty(), Difference::GrantsMissing),
            (exact && !self.surplus.is_empty(), Difference::GrantsSurplus),
            (self.mark != MarkSeen::Ours, Difference::MarkMissing),
        ];
        let found = found.into_iter().filter(|(is, _)| *is).map(|(_, d)| d);
        found.chain(self.switch).collect()
    }

    /// The answer to "do you hold it as asked?".
    pub(super) fn answer(self, wish: &Wish<'_>) -> Answer {
        let mut differences = self.differences(wish.exact());
        let known = wish.password().is_some();
        if differences.is_empty() && (known || !wish.enabled()) {
            let warning = (!self.surplus.is_empty())
                .then(|| format!("rights in surplus: {}", self.surplus.told()).into());
            let proof = if known {
                Proof::Verifier
            } else {
                Proof::Presence
            };
            return Answer::Held(Held { proof, warning });
        }
        if !known && wish.enabled() {
            // There is no password that it could have as asked.
            differences.insert(Difference::Password);
        }
        Answer::Lost(Box::new(Lost {
            differences,
            detail: self.detail(wish.exact()),
            mark: self.mark,
            password_fits: self.password_fits && !self.nopass,
        }))
    }

    fn detail(&self, exact: bool) -> String {
        let mut parts = Vec::new();
        if !self.missing.is_empty() {
            parts.push(format!("missing {}", self.missing.told()));
        }
        if exact && !self.surplus.is_empty() {
            parts.push(format!("surplus {}", self.surplus.told()));
        }
        let passwords = match self.passwords {
            _ if !self.password => None,
            (1, 1) => Some("a second password"),
            (2, 1) => Some("one of two passwords is missing"),
            (2, 2) => Some("a third password"),
            _ => None,
        };
        parts.extend(passwords.map(str::to_owned));
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    //! The verifier, and which of several marks counts.
    use super::*;
    use mesh_sdk::ConsumerName;

    #[test]
    fn h17_the_verifier_is_the_one_that_redis_shows() {
        let shown = b"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
        assert_eq!(&hash_of(b"x"), shown);
    }

    #[test]
    fn r4_a_strangers_mark_counts_before_ours() {
        let other = MarkSeen::OursFor(ConsumerName::new("api").expect("name"));
        let of = |marks: &[MarkSeen]| MarkSeen::strongest(marks.iter().cloned());
        assert_eq!(of(&[]), MarkSeen::None);
        assert_eq!(of(&[MarkSeen::Ours, MarkSeen::Foreign]), MarkSeen::Foreign);
        assert_eq!(of(&[MarkSeen::Damaged, MarkSeen::Ours]), MarkSeen::Ours);
        assert_eq!(of(&[other.clone(), MarkSeen::Ours]), MarkSeen::Ours);
        assert_eq!(of(&[MarkSeen::Damaged, other.clone()]), other);
    }
}
