//! What the host loop remembers of one container or unit. A help, never the truth: what runs is looked at.

use std::collections::BTreeMap;

use mesh_sdk::{ConsumerName, ProviderName, Time};
use serde::{Deserialize, Serialize};

use crate::brake::Brake;
use crate::delivery::record::Version;

/// What is remembered of one container or unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Whose.
    pub consumer: ConsumerName,
    /// The host that it is on.
    pub host: String,
    /// What: `container web`, `unit web.service`.
    pub thing: String,
    /// What it was made of when it was seen in order last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Made>,
    /// When it was made or started last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recreated_at: Option<Time>,
    /// Why it was, then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// A restart that was begun and not seen to its end, and why. It is ended, and not made twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begun: Vec<String>,
    /// What was asked at the last try; something else ends brake and delay.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tried: String,
    /// Since when there are reasons that wait for others to come (one restart for several).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Time>,
    /// How it stood at the last look.
    #[serde(default)]
    pub state: State,
    /// How repairs fared.
    #[serde(flatten)]
    pub brake: Brake,
    /// Why it is not as asked, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// The manifest asks for it no more; it was left as it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retired: bool,
}

/// What a container or unit was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The engine's id of it; of a unit its invocation.
    pub id: String,
    /// The digest of what was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The image's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The version of its credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Version>,
    /// Which providers they are of, each with a sign that changes with them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub of: BTreeMap<ProviderName, Version>,
}

/// How it stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nobody could look yet.
    #[default]
    Unknown,
    /// It is not there.
    Absent,
    /// Somebody else's has the name.
    Taken,
    /// It runs; its health check, if it has one, says that it is well.
    Running,
    /// It runs, and its health check has not answered yet.
    Starting,
    /// It runs, and its health check fails.
    Unhealthy,
    /// It does not run.
    Stopped,
}

impl State {
    /// The word that is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Unknown => "unknown",
            State::Absent => "absent",
            State::Taken => "taken",
            State::Running => "running",
            State::Starting => "starting",
            State::Unhealthy => "unhealthy",
            State::Stopped => "stopped",
        }
    }
}

/// Why it is not as asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "text", rename_all = "snake_case")]
pub enum Why {
    /// The credentials that it needs were not brought yet.
    Waits(String),
    /// Reasons wait for others to come.
    Soon(String),
    /// Somebody else's has the name.
    Taken(String),
    /// The image is not on the host; the command that brings it.
    NoImage(String),
    /// It could not be looked at, made or started.
    Failed(String),
    /// It does not stay as it was made.
    Braked(String),
    /// Its health check fails.
    Unhealthy(String),
}

impl Record {
    /// Of a thing of which nothing is known.
    pub fn new(consumer: ConsumerName, host: String, thing: String) -> Self {
        Self {
            consumer,
            host,
            thing,
            made: None,
            recreated_at: None,
            reasons: Vec::new(),
            begun: Vec::new(),
            tried: String::new(),
            pending: None,
            state: State::Unknown,
            brake: Brake::default(),
            why: None,
            retired: false,
        }
    }
}
