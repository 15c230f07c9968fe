//! A wish against what was seen.

use std::collections::BTreeSet;

use mesh_sdk::answer::{Held, Lost};
use mesh_sdk::{Answer, Difference, Differences, MarkSeen, Proof, Provision};

use super::entry::Entry;
use super::values::LdapValues;

/// What is asked for one consumer.
pub(super) type Wish<'a> = Provision<'a, LdapValues>;

/// What is known of the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// It fits, and this is how that was proven.
    Fits(Proof),
    /// It does not.
    Differs,
    /// One of two that are asked for fits, and the other does not.
    OneFits,
    /// Nobody could tell.
    Untold,
}

impl Known {
    /// Of two that are asked for.
    pub(super) fn and(self, other: Known) -> Known {
        use Known::{Differs, Fits, OneFits, Untold};
        match (self, other) {
            (Fits(Proof::Verifier), Fits(Proof::Verifier)) => Fits(Proof::Verifier),
            (Fits(_), Fits(_)) => Fits(Proof::Login),
            (Fits(_), Differs) | (Differs, Fits(_)) | (OneFits, _) | (_, OneFits) => OneFits,
            (Differs, _) | (_, Differs) => Differs,
            (Untold, _) | (_, Untold) => Untold,
        }
    }
}

/// One login's differences from its wish.
pub(super) struct Diff {
    pub(super) password: Known,
    /// There are more values than are asked for.
    pub(super) more: bool,
    pub(super) enabled: bool,
    pub(super) locked: bool,
    pub(super) mark: MarkSeen,
    /// Marks beside the one of this wish.
    pub(super) other_marks: bool,
    pub(super) missing: Vec<String>,
    pub(super) surplus: Vec<String>,
}

/// Compares.
pub(super) fn diff(
    wish: &Wish<'_>,
    entry: &Entry,
    groups: &BTreeSet<String>,
    password: Known,
) -> Diff {
    let wanted: BTreeSet<String> = wish.values().groups.iter().cloned().collect();
    let ours = wish.mark();
    Diff {
        password,
        more: entry.passwords.len() > wish.passwords().count().max(1),
        enabled: entry.enabled(),
        locked: entry.locked,
        mark: entry.mark(wish.marker(), wish.consumer()),
        other_marks: entry.marks().any(|text| text != ours.as_str()),
        missing: wanted.difference(groups).cloned().collect(),
        surplus: groups.difference(&wanted).cloned().collect(),
    }
}

impl Diff {
    fn differences(&self, wish: &Wish<'_>) -> Differences {
        let known = wish.password().is_some();
        let other = matches!(self.password, Known::Differs | Known::OneFits) || self.more;
        let found = [
            // Without a password there is none that it could have as asked.
            (
                if known { other } else { wish.enabled() },
                Difference::Password,
            ),
            (wish.enabled() && !self.enabled, Difference::Disabled),
            (!wish.enabled() && self.enabled, Difference::Enabled),
            (!self.missing.is_empty(), Difference::GrantsMissing),
            (
                wish.exact() && !self.surplus.is_empty(),
                Difference::GrantsSurplus,
            ),
            (
                self.mark != MarkSeen::Ours || self.other_marks,
                Difference::MarkMissing,
            ),
        ];
        let found = found.into_iter().filter(|(is, _)| *is);
        found.map(|(_, difference)| difference).collect()
    }

    /// The answer to "do you hold it as asked?".
    pub(super) fn answer(self, wish: &Wish<'_>) -> Answer {
        let differences = self.differences(wish);
        if differences.is_empty() {
            let proof = match self.password {
                Known::Fits(proof) => proof,
                Known::Differs | Known::OneFits | Known::Untold => Proof::Presence,
            };
            let warning = told(&self.surplus);
            let warning = warning.map(|names| format!("member of more groups: {names}").into());
            return Answer::Held(Held { proof, warning });
        }
        Answer::Lost(Box::new(Lost {
            differences,
            detail: self.detail(wish),
            password_fits: matches!(self.password, Known::Fits(_) | Known::OneFits),
            mark: self.mark,
        }))
    }

    fn detail(&self, wish: &Wish<'_>) -> String {
        let missing = told(&self.missing).map(|names| format!("not a member of {names}"));
        let surplus = told(&self.surplus).filter(|_| wish.exact());
        let surplus = surplus.map(|names| format!("also a member of {names}"));
        let more = match wish.passwords().count() {
            0 | 1 => "a second password",
            _ => "a third password",
        };
        let more = self.more.then(|| more.to_owned());
        let one = self.password == Known::OneFits;
        let one = one.then(|| "one of two passwords is missing".to_owned());
        let locked = self
            .locked
            .then(|| "locked by a password policy".to_owned());
        let parts = [missing, surplus, more, one, locked];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// `a, b and 3 more`.
fn told(names: &[String]) -> Option<String> {
    const MOST: usize = 6;
    let shown: Vec<String> = names.iter().take(MOST).map(|name| plain(name)).collect();
    match (shown.is_empty(), names.len().saturating_sub(MOST)) {
        (true, _) => None,
        (false, 0) => Some(shown.join(", ")),
        (false, more) => Some(format!("{} and {more} more", shown.join(", "))),
    }
}

fn plain(name: &str) -> String {
    let plain = name.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(80).collect()
}
