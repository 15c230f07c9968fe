//! How far the rotation of one consumer on one provider is. It names secrets and never holds one in plain.

use std::time::Duration;

use mesh_sdk::vault::SecretId;
use mesh_sdk::{ConsumerName, ProviderName, Time};
use serde::{Deserialize, Serialize};

/// How old and new are valid together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// One login with two passwords.
    TwoPasswords,
    /// Two logins that take turns.
    Turns,
}

/// Which of a consumer's two logins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seat {
    /// `LOGIN`.
    First,
    /// `LOGIN__b`.
    Second,
}

impl Seat {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Seat::First => Seat::Second,
            Seat::Second => Seat::First,
        }
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Nothing is under way.
    Resting,
    /// The candidate is asked for beside the password in force, and not proven on every server yet.
    Proving,
    /// The candidate is in force. The old one is valid until everybody has the new one.
    Waiting,
    /// The old one is asked for no more, and not seen gone from every server yet.
    Retiring,
}

impl Step {
    /// The word on the screen.
    pub const fn as_str(self) -> &'static str {
        match self {
            Step::Resting => "resting",
            Step::Proving => "proving",
            Step::Waiting => "waiting",
            Step::Retiring => "retiring",
        }
    }
}

/// Why a rotation began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", content = "text", rename_all = "snake_case")]
pub enum Cause {
    /// A person said so.
    Person(String),
    /// `rotate_every`.
    Clock,
    /// A person gave another password in the manifest's variable or file.
    Given,
    /// The password in force cannot be had any more.
    Lost,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cause::Person(reason) if reason.is_empty() => f.write_str("a person said so"),
            Cause::Person(reason) => write!(f, "a person said so: {reason}"),
            Cause::Clock => f.write_str("rotate_every"),
            Cause::Given => f.write_str("another password was given"),
            Cause::Lost => f.write_str("the one in force cannot be had any more"),
        }
    }
}

/// A sealed password, and the login that it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The login.
    pub seat: Seat,
    /// Under whose name it is sealed in the secret store. A password that was made for a rotation lies
    /// apart, so that it never counts for more than its journal says.
    pub place: ConsumerName,
    /// Which.
    pub id: SecretId,
    /// Sealed, for the stores of the other hosts on the bus (B-3, S-7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<String>,
}

/// Who is waited for, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// For people: a place of a delivery, a server's answer, a person's word.
    pub on: String,
    /// Since when.
    pub since: Time,
    /// What would unblock it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unblock: String,
}

/// The journal of one consumer on one provider (`meta`, rotation.PROVIDER.CONSUMER).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// From whom.
    pub provider: ProviderName,
    /// Whose.
    pub consumer: ConsumerName,
    /// Grows with each write: of two copies the greater one counts, wherever it lies (B-6).
    pub revision: u64,
    /// How old and new are valid together.
    pub way: Way,
    /// So many rotations began. Only grows.
    pub number: u64,
    /// So often another password came into force. Only grows; what is delivered carries it.
    pub turn: u64,
    /// How far it is.
    pub step: Step,
    /// Since when it is there.
    pub since: Time,
    /// When the newest rotation began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Time>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The password in force; `None` before the first rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Held>,
    /// While proving the candidate; afterwards the one that was in force before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<Held>,
    /// Since when `rotate_every` counts: the last promotion, or when it was asked for first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts_from: Option<Time>,
    /// When it was seen first that the time is over. It must be seen twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_seen: Option<Time>,
    /// The newest word of a person that was followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Time>,
    /// The word of a person by which the old one went before everybody had the new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced: Option<String>,
    /// The rotation goes back to the one before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub back: bool,
    /// Who is waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_on: Vec<Waits>,
}

impl Journal {
    /// Of a consumer that never had another password.
    pub fn new(provider: ProviderName, consumer: ConsumerName, way: Way, now: Time) -> Self {
        Self {
            provider,
            consumer,
            revision: 0,
            way,
            number: 0,
            turn: 0,
            step: Step::Resting,
            since: now,
            began: None,
            cause: None,
            current: None,
            other: None,
            counts_from: None,
            due_seen: None,
            asked: None,
            forced: None,
            back: false,
            waits_on: Vec::new(),
        }
    }
    /// Whether a rotation is under way.
    pub fn is_under_way(&self) -> bool {
        self.step != Step::Resting
    }
    /// The login in use.
    pub fn in_use(&self) -> Seat {
        self.current.as_ref().map_or(Seat::First, |held| held.seat)
    }
    /// The other password, while it is valid beside the one in force.
    pub fn beside(&self) -> Option<&Held> {
        let valid = matches!(self.step, Step::Proving | Step::Waiting);
        self.other.as_ref().filter(|_| valid)
    }
    /// When `rotate_every` is over; for each consumer a little later than for others.
    pub fn due(&self, every: Duration) -> Option<Time> {
        let part = u32::from(share(&self.provider, &self.consumer));
        Some(self.counts_from? + every + every / 10 * part / 256)
    }
}

/// A consumer's share of a span, out of 256: always the same, and spread evenly over many.
pub fn share(provider: &ProviderName, consumer: &ConsumerName) -> u8 {
    let bytes = provider.as_str().bytes().chain([0]);
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in bytes.chain(consumer.as_str().bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let [first, ..] = (hash ^ (hash >> 32))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_be_bytes();
    first
}
