//! The one read model: what the owners know, put together from the bus. It invents nothing.

mod conditions;
mod deliveries;
mod hosts;
mod read;
mod removals;
mod rotations;

use std::collections::BTreeMap;

use mesh_sdk::answer::Proof;
use mesh_sdk::bus::Fault;
use mesh_sdk::condition::{Condition, Severity, Status as Stands};
use mesh_sdk::decide::{State, Strangers, Summary};
use mesh_sdk::harness::{LoopRecord, StoreFault};
use mesh_sdk::{ConsumerName, Login, ProviderName, Time};
use serde::Serialize;

pub use conditions::conditions;
pub use deliveries::{DeliveryView, deliveries, why_of};
pub use hosts::{HostView, hosts};
pub use read::{
    Head, One, labels_of, loops, providers, read, read_conditions, read_head, read_one, read_rest,
    record, records,
};
pub use removals::{Removal, RemovalSet, removals_of, sets_by_provider};
pub use rotations::{RotationView, WaitView, rotations};

/// The whole picture: `status --json` is this object.
#[derive(Debug, Clone, Serialize)]
pub struct Picture {
    /// The mesh's id.
    pub mesh: String,
    /// When it was put together.
    #[serde(serialize_with = "rfc3339")]
    pub at: Time,
    /// Whether a daemon runs on the data folder; without one, ages are those of the last one-shot.
    pub daemon: bool,
    /// On which host it runs, where several share the bus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon_host: Option<String>,
    /// Every loop.
    pub loops: Vec<LoopView>,
    /// Every consumer of every provider.
    pub provisions: Vec<ProvisionView>,
    /// Conditions that stand, worst first.
    pub conditions: Vec<ConditionView>,
    /// Every place that credentials are brought to.
    pub deliveries: Vec<DeliveryView>,
    /// Every consumer that ever had another password, and how far the newest rotation is.
    pub rotations: Vec<RotationView>,
    /// Everything that runs for consumers.
    pub hosts: Vec<HostView>,
    /// Logins that nobody asks for any more and that are still there.
    pub leftovers: Vec<Leftover>,
    /// What is leaving each provider and may be let go, as the set that an approval names.
    pub removals: Vec<RemovalSet>,
    /// Logins of others, by provider, where they were counted.
    pub strangers: BTreeMap<String, Strangers>,
}

/// A loop.
#[derive(Debug, Clone, Serialize)]
pub struct LoopView {
    /// `provisioner/cache`.
    pub name: String,
    /// `provisioner`.
    pub class: String,
    /// `running`, `late`, `stopped` (no daemon), `waiting` (not started yet, or no host
    /// has it now), `closed` (it cannot be opened).
    pub state: &'static str,
    /// When its last pass ended.
    #[serde(serialize_with = "rfc3339_option")]
    pub last_pass: Option<Time>,
    /// When the next one is due.
    #[serde(serialize_with = "rfc3339_option")]
    pub next_pass: Option<Time>,
    /// The server's product and version.
    pub server: String,
    /// The last pass in numbers.
    pub summary: Summary,
    /// Whether the adapter can be asked at all (H-10).
    pub asked: bool,
    /// The host that has it, where several share the bus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl LoopView {
    /// A loop that asks no server: delivery, the host, rotation. `next_pass`: none without a daemon.
    fn of_owner(
        record: &LoopRecord,
        name: String,
        state: &'static str,
        next_pass: Option<Time>,
    ) -> Self {
        Self {
            name,
            class: record.class.clone(),
            state,
            last_pass: record.last_pass,
            next_pass,
            server: String::new(),
            summary: record.summary,
            asked: true,
            host: None,
        }
    }
}

/// A consumer of a provider.
#[derive(Debug, Clone, Serialize)]
pub struct ProvisionView {
    /// From whom.
    pub provider: ProviderName,
    /// Who.
    pub consumer: ConsumerName,
    /// Its login.
    pub login: Option<Login>,
    /// How it stands; on several nodes the worst of them.
    pub state: State,
    /// How *held* was proven.
    pub proof: Option<Proof>,
    /// When the backend answered for it last.
    #[serde(serialize_with = "rfc3339_option")]
    pub checked_at: Option<Time>,
    /// When it was applied last.
    #[serde(serialize_with = "rfc3339_option")]
    pub applied_at: Option<Time>,
    /// Why it stands so, where there is anything to say.
    pub why: Option<String>,
}

/// A condition that stands, with what people said about it.
#[derive(Debug, Clone, Serialize)]
pub struct ConditionView {
    /// Its key, for `ack` and `silence`.
    pub key: String,
    /// The condition.
    #[serde(flatten, serialize_with = "condition_json")]
    pub condition: Condition,
    /// Its owner has not refreshed it for a while: not cleared, and not known to stand either (C-4).
    pub stale: bool,
    /// Seen by a person, until then.
    #[serde(serialize_with = "rfc3339_option")]
    pub acknowledged_until: Option<Time>,
    /// Does not count for exit codes, until then.
    #[serde(serialize_with = "rfc3339_option")]
    pub silenced_until: Option<Time>,
}

impl LoopView {
    /// Whether it makes no progress.
    pub fn hangs(&self) -> bool {
        matches!(self.state, "late" | "stuck")
    }
}

/// A login that nobody asks for and that is there.
#[derive(Debug, Clone, Serialize)]
pub struct Leftover {
    /// On which provider.
    pub provider: String,
    /// Whose it was.
    pub consumer: ConsumerName,
    /// The login.
    pub login: Login,
    /// `leaving`, `disabled`, `superseded`, or `taken`: asked for, there, and not ours.
    pub kind: &'static str,
    /// Until when it stays so at least.
    #[serde(serialize_with = "rfc3339_option")]
    pub until: Option<Time>,
}

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PictureFault {
    /// The bus.
    #[error(transparent)]
    Bus(#[from] Fault),
    /// A stored value does not read.
    #[error(transparent)]
    Store(#[from] StoreFault),
}

/// A time as RFC 3339, in UTC.
pub fn time_text(time: Time) -> String {
    jiff::Timestamp::from_millisecond(time.as_millis())
        .map(|t| t.to_string())
        .unwrap_or_default()
}

fn rfc3339<S: serde::Serializer>(time: &Time, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&time_text(*time))
}
pub(crate) fn rfc3339_option<S: serde::Serializer>(
    time: &Option<Time>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => rfc3339(time, to),
        None => to.serialize_none(),
    }
}

#[derive(Serialize)]
struct ConditionJson<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    subject: &'a str,
    owner: &'a str,
    status: Stands,
    severity: Severity,
    reason: mesh_sdk::condition::Reason,
    message: &'a str,
    action: &'a str,
    since: String,
    last_seen: String,
    observed_generation: u64,
    count: u64,
    flapping: bool,
}

fn condition_json<S: serde::Serializer>(condition: &Condition, to: S) -> Result<S::Ok, S::Error> {
    ConditionJson {
        kind: condition.id.kind.as_str(),
        subject: &condition.id.subject,
        owner: &condition.id.owner,
        status: condition.status,
        severity: condition.severity,
        reason: condition.reason,
        message: &condition.message,
        action: &condition.action,
        since: time_text(condition.since),
        last_seen: time_text(condition.last_seen),
        observed_generation: condition.observed_generation,
        count: condition.count,
        flapping: condition.flapping,
    }
    .serialize(to)
}

impl Picture {
    /// Whether all is well: every provision is as asked, and no condition of weight stands that nobody
    /// silenced. The exit code of `status` and `apply` follows from it.
    pub fn is_well(&self) -> bool {
        self.loops.iter().all(|l| !l.hangs())
            && self.provisions.iter().all(|p| p.state.is_fine())
            && self.conditions.iter().all(|c| {
                c.condition.severity == Severity::Info
                    || c.silenced_until.is_some_and(|at| at > self.at)
            })
    }
    /// How many provisions stand how.
    pub fn counts(&self) -> BTreeMap<State, usize> {
        let mut counts = BTreeMap::new();
        for provision in &self.provisions {
            *counts.entry(provision.state).or_insert(0) += 1;
        }
        counts
    }
}
