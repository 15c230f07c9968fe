//! What a backend says about one consumer: held, lost and how, or (as an error) unknown.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::name::ConsumerName;

/// The answer to "do you still hold this consumer as asked?" (H-5). *Unknown* is the third value: it
/// is the `Err` of the call, so that it cannot be mistaken for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The login is there as asked.
    Held(Held),
    /// It is not, and this is how it differs.
    Lost(Box<Lost>),
}

impl Answer {
    /// Held, proven this way, with nothing to add.
    pub fn held(proof: Proof) -> Self {
        Answer::Held(Held {
            proof,
            warning: None,
        })
    }
    /// There is no such login.
    pub fn absent() -> Self {
        Answer::Lost(Box::new(Lost {
            differences: Difference::Absent.into(),
            detail: String::new(),
            mark: MarkSeen::None,
            password_fits: false,
        }))
    }
}

/// A consumer as asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// How the password was proven (H-17).
    pub proof: Proof,
    /// What is amiss although it is held: surplus rights on an adopted login (A-7), or a password that
    /// cannot be enforced. One line, without secrets.
    pub warning: Option<Box<str>>,
}

/// How *held* was proven (H-17).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Proof {
    /// Logged in as the consumer.
    Login,
    /// The stored verifier was recomputed from the password, or is the one proven before.
    Verifier,
    /// The backend tells no more than that the login is there.
    Presence,
    /// Not asked: the adapter cannot; trusted from what was applied (H-10).
    Record,
}

impl Proof {
    /// The word that `status` shows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Proof::Login => "login",
            Proof::Verifier => "verifier",
            Proof::Presence => "presence",
            Proof::Record => "record",
        }
    }
}
impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a login differs from what is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Every difference that was seen.
    pub differences: Differences,
    /// Names of what differs ("missing ~web:*"), one line, without secrets; may be empty.
    pub detail: String,
    /// The mark on the login, if there is a login.
    pub mark: MarkSeen,
    /// Whether a password of ours fits the login that is there. It makes the login ours (H-18).
    pub password_fits: bool,
}

/// One way in which a login can differ from what is asked.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Difference {
    /// No such login.
    Absent,
    /// There, with another password, or with one more than asked.
    Password,
    /// There, and switched off.
    Disabled,
    /// There, and switched on although `enabled = false` asks for the contrary (H-25).
    Enabled,
    /// Rights that are asked for are missing.
    GrantsMissing,
    /// Rights beyond what is asked for, of the kinds that `values` can express (A-7).
    GrantsSurplus,
    /// Our mark is missing or damaged.
    MarkMissing,
    /// The server lets it in with any password (O-43).
    PasswordNotEnforced,
}

impl Difference {
    const ALL: [Difference; 8] = [
        Difference::Absent,
        Difference::Password,
        Difference::Disabled,
        Difference::Enabled,
        Difference::GrantsMissing,
        Difference::GrantsSurplus,
        Difference::MarkMissing,
        Difference::PasswordNotEnforced,
    ];
    /// The difference in plain words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Difference::Absent => "absent",
            Difference::Password => "other password",
            Difference::Disabled => "disabled",
            Difference::Enabled => "enabled",
            Difference::GrantsMissing => "grants missing",
            Difference::GrantsSurplus => "grants in surplus",
            Difference::MarkMissing => "mark missing",
            Difference::PasswordNotEnforced => "password not enforced",
        }
    }
}

/// A set of [`Difference`]s.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Difference>", into = "Vec<Difference>")]
pub struct Differences(u8);

impl Differences {
    /// No difference.
    pub const NONE: Differences = Differences(0);
    /// Adds one.
    pub fn insert(&mut self, difference: Difference) {
        self.0 |= 1 << difference as u8;
    }
    /// Whether this one is among them.
    pub fn contains(self, difference: Difference) -> bool {
        self.0 & (1 << difference as u8) != 0
    }
    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Each of them, in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Difference> {
        Difference::ALL
            .into_iter()
            .filter(move |d| self.contains(*d))
    }
}
impl From<Difference> for Differences {
    fn from(difference: Difference) -> Self {
        let mut set = Differences::NONE;
        set.insert(difference);
        set
    }
}
impl FromIterator<Difference> for Differences {
    fn from_iter<I: IntoIterator<Item = Difference>>(items: I) -> Self {
        items.into_iter().fold(Differences::NONE, |mut set, d| {
            set.insert(d);
            set
        })
    }
}
impl From<Vec<Difference>> for Differences {
    fn from(items: Vec<Difference>) -> Self {
        items.into_iter().collect()
    }
}
impl From<Differences> for Vec<Difference> {
    fn from(set: Differences) -> Self {
        set.iter().collect()
    }
}
impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}", d.as_str())?;
        }
        Ok(())
    }
}
impl fmt::Debug for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

/// The mark that a look found on a login.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum MarkSeen {
    /// None.
    #[default]
    None,
    /// Ours, for the consumer that was asked for.
    Ours,
    /// Ours, for another consumer (or the same under another provider name).
    OursFor(ConsumerName),
    /// Another mesh's or another installation's: a stranger's.
    Foreign,
    /// It looks like ours and its MAC does not fit: damaged or forged; never a reason to remove.
    Damaged,
}

impl MarkSeen {
    /// Which of the marks on one login counts, where a backend has room for several: a stranger's before
    /// ours, so that nothing of theirs is ever touched (R-4), and ours before what is damaged.
    pub fn strongest(marks: impl IntoIterator<Item = MarkSeen>) -> MarkSeen {
        let rank = |mark: &MarkSeen| match mark {
            MarkSeen::None => 0,
            MarkSeen::Damaged => 1,
            MarkSeen::OursFor(_) => 2,
            MarkSeen::Ours => 3,
            MarkSeen::Foreign => 4,
        };
        marks.into_iter().max_by_key(rank).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    //! Differences are a set with a stable order.
    use super::*;

    #[test]
    fn differences_are_a_set_in_a_fixed_order() {
        let set: Differences = [
            Difference::MarkMissing,
            Difference::Password,
            Difference::Password,
        ]
        .into_iter()
        .collect();
        assert_eq!(set.to_string(), "other password, mark missing");
        assert!(set.contains(Difference::Password) && !set.contains(Difference::Absent));
        let json = serde_json::to_string(&set).expect("json");
        assert_eq!(json, r#"["password","mark_missing"]"#);
        assert_eq!(
            serde_json::from_str::<Differences>(&json).expect("back"),
            set
        );
    }
}
