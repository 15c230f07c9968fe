//! What delivery remembers of one place, stored so that successive processes are one series (H-24). A help,
//! never the truth: what lies there is looked at.

use std::collections::BTreeMap;

use mesh_sdk::{ConsumerName, ProviderName, Time};
use serde::{Deserialize, Serialize};

use super::decide::Asked;
use crate::brake::Brake;

/// Tells what is delivered from what was delivered before: a few signs of a keyed digest over all values.
/// No secret, and nothing that a guess could be tried on without the installation's key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub String);

/// A version, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Since {
    /// Which.
    pub version: Version,
    /// Since when.
    pub at: Time,
}

/// What is remembered of one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Whose.
    pub consumer: ConsumerName,
    /// The host that it is on.
    pub host: String,
    /// The place, for people: `env_file /etc/web.env`.
    pub place: String,
    /// What should lie there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Since>,
    /// Which of the passwords that took turns what is wanted was made of, by provider.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub turns: BTreeMap<ProviderName, u64>,
    /// Since when there is nothing to write, for want of credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Time>,
    /// What was written, and seen there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Since>,
    /// The providers whose credentials the written version is made of, each with a sign that changes with them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub of: BTreeMap<ProviderName, Version>,
    /// What the consumer was told of, by its reload hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Since>,
    /// What the consumer is known to have taken up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Since>,
    /// How repairs fared.
    #[serde(flatten)]
    pub brake: Brake,
    /// Why it is not as asked, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// The manifest asks for it no more; what lies there was left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retired: bool,
}

/// Why a place is not as asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "text", rename_all = "snake_case")]
pub enum Why {
    /// A provider has not got the login yet, or its password is not known.
    Waits(String),
    /// It cannot be written so: a reader would read something else, or a value is missing.
    Refused(String),
    /// The place could not be looked at or written.
    Unwritten(String),
    /// The reload hook failed.
    Untold(String),
    /// Something else keeps writing there.
    Contested(String),
}

impl Record {
    /// Of a place of which nothing is known.
    pub fn new(consumer: ConsumerName, host: String, place: String) -> Self {
        Self {
            consumer,
            host,
            place,
            wanted: None,
            turns: BTreeMap::new(),
            waits: None,
            written: None,
            of: BTreeMap::new(),
            told: None,
            acknowledged: None,
            brake: Brake::default(),
            why: None,
            retired: false,
        }
    }
    /// Notes what the written version is made of, if it is the one that is asked for.
    pub(super) fn made_of(&mut self, asked: &Asked, of: BTreeMap<ProviderName, Version>) {
        if let Asked::Ready(wanted) = asked
            && version(&self.written) == Some(wanted)
        {
            self.of = of;
        }
    }
    /// Whether the consumer is known to have what is wanted.
    pub fn is_settled(&self) -> bool {
        let wanted = self.wanted.as_ref().map(|since| &since.version);
        self.retired || wanted.is_some() && wanted == version(&self.acknowledged)
    }
    /// Whether the consumer is known to have this provider's password of that turn, or a later one. What is not
    /// asked for any more, or not yet again, says nothing of that.
    pub fn has_turn(&self, provider: &ProviderName, turn: u64) -> bool {
        let carries = self.turns.get(provider).copied().unwrap_or(0);
        !self.retired && self.is_settled() && self.waits.is_none() && carries >= turn
    }
    /// Since when something is outstanding: a version that the consumer has not got, or the credentials.
    pub fn outstanding_since(&self) -> Option<Time> {
        let wanted = self.wanted.as_ref().filter(|_| !self.is_settled());
        let waits = self.waits.filter(|_| !self.retired);
        wanted
            .map(|wanted| wanted.at)
            .into_iter()
            .chain(waits)
            .min()
    }
}

/// The version in a field.
pub(super) fn version(since: &Option<Since>) -> Option<&Version> {
    since.as_ref().map(|since| &since.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A daemon that starts could make its first pass before it knew what was asked for: everything was taken for
    /// retired, and a rotation took that for taken up.
    #[test]
    fn r3_a_place_that_is_not_asked_for_has_no_turn() {
        let name = ConsumerName::new("web").expect("name");
        let provider = ProviderName::new("cache").expect("name");
        let mut record = Record::new(name, "here".to_owned(), "file /web.env".to_owned());
        let since = |text: &str| {
            Some(Since {
                version: Version(text.to_owned()),
                at: Time::default(),
            })
        };
        record.wanted = since("two");
        record.acknowledged = since("one");
        record.turns.insert(provider.clone(), 1);
        assert!(!record.has_turn(&provider, 1));
        record.retired = true;
        assert!(record.is_settled() && !record.has_turn(&provider, 1));
        record.retired = false;
        record.acknowledged = since("two");
        assert!(record.has_turn(&provider, 1) && !record.has_turn(&provider, 2));
    }
}
