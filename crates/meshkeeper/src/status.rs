//! The one read model: what the owners know, put together from the bus. It invents nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_sdk::answer::Proof;
use mesh_sdk::book;
use mesh_sdk::bus::{Bucket, Bus, Fault, Key};
use mesh_sdk::condition::{Condition, Severity, Status as Stands};
use mesh_sdk::decide::conditions::Kept;
use mesh_sdk::decide::{Last, Phase, Record, Settings, State, Summary, state_of};
use mesh_sdk::harness::{LoopRecord, StoreFault, read_records};
use mesh_sdk::{ConsumerName, Login, ProviderName, Time};
use serde::Serialize;

use crate::wiring::shapes::{ProviderEntry, Standing, WishEntry, Word};
use crate::wiring::{wish, words};

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
    /// Every loop.
    pub loops: Vec<LoopView>,
    /// Every consumer of every provider.
    pub provisions: Vec<ProvisionView>,
    /// Conditions that stand, worst first.
    pub conditions: Vec<ConditionView>,
    /// Comes with delivery.
    pub deliveries: [(); 0],
    /// Comes with rotation.
    pub rotations: [(); 0],
    /// Comes with the host loop.
    pub hosts: [(); 0],
    /// Logins that nobody asks for any more and that are still there.
    pub leftovers: Vec<Leftover>,
    /// Logins of others, by provider, where they were counted.
    pub strangers: BTreeMap<String, usize>,
}

/// A loop.
#[derive(Debug, Clone, Serialize)]
pub struct LoopView {
    /// `provisioner/cache`.
    pub name: String,
    /// `provisioner`.
    pub class: String,
    /// `running`, `late`, `stopped` (no daemon), `waiting` (not started yet), `closed` (it cannot be opened).
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

/// A login that nobody asks for and that is there.
#[derive(Debug, Clone, Serialize)]
pub struct Leftover {
    /// On which provider.
    pub provider: String,
    /// Whose it was.
    pub consumer: ConsumerName,
    /// The login.
    pub login: Login,
    /// `leaving`, `disabled` or `superseded`.
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
fn rfc3339_option<S: serde::Serializer>(time: &Option<Time>, to: S) -> Result<S::Ok, S::Error> {
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
        self.loops.iter().all(|l| l.state != "late")
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

/// Puts the picture together. `daemon`: whether one runs on the data folder.
pub async fn read(
    bus: &dyn Bus,
    mesh: &str,
    now: Time,
    daemon: bool,
) -> Result<Picture, PictureFault> {
    let providers = providers(bus).await?;
    let loops = loops(bus, &providers, now, daemon).await?;
    let conditions = conditions(bus, &loops, now).await?;
    let (provisions, leftovers) = provisions(bus, &providers, &loops).await?;
    Ok(Picture {
        mesh: mesh.to_owned(),
        at: now,
        daemon,
        loops: loops.into_iter().map(|(view, _)| view).collect(),
        provisions,
        conditions,
        deliveries: [],
        rotations: [],
        hosts: [],
        leftovers,
        strangers: BTreeMap::new(),
    })
}

/// Every provider that the running program knows or knew.
pub async fn providers(bus: &dyn Bus) -> Result<Vec<ProviderEntry>, Fault> {
    let snapshot = bus.list(Bucket::Meta, &Key::of(&["provider"])).await?;
    let parsed = snapshot.entries.iter().map(|entry| {
        serde_json::from_slice(&entry.value)
            .map_err(|error| Fault::Corrupt(format!("provider {}: {error}", entry.key)))
    });
    parsed.collect()
}

/// Every loop of the providers that are in the manifest, with what it keeps.
pub async fn loops(
    bus: &dyn Bus,
    providers: &[ProviderEntry],
    now: Time,
    daemon: bool,
) -> Result<Vec<(LoopView, Option<LoopRecord>)>, Fault> {
    let mut loops = Vec::new();
    for provider in providers.iter().filter(|p| !p.gone) {
        for name in &provider.loops {
            let entry = bus.get(Bucket::Loop, &Key::of(&[name])).await?;
            let record: Option<LoopRecord> = match entry {
                Some(entry) => Some(
                    serde_json::from_slice(&entry.value)
                        .map_err(|error| Fault::Corrupt(format!("loop {name}: {error}")))?,
                ),
                None => None,
            };
            loops.push((
                view_of(name, provider, record.as_ref(), now, daemon),
                record,
            ));
        }
    }
    Ok(loops)
}

fn view_of(
    name: &str,
    provider: &ProviderEntry,
    record: Option<&LoopRecord>,
    now: Time,
    daemon: bool,
) -> LoopView {
    let slack = Duration::from_millis((provider.verify_every * 2).clamp(10_000, 3_600_000));
    let next_pass = record.and_then(|r| r.next_pass).filter(|_| daemon);
    let state = match next_pass {
        _ if provider.closed.is_some() => "closed",
        _ if !daemon => "stopped",
        None => "waiting",
        Some(at) if now > at + slack => "late",
        Some(_) => "running",
    };
    LoopView {
        name: name.to_owned(),
        class: "provisioner".to_owned(),
        state,
        last_pass: record.and_then(|r| r.last_pass),
        next_pass,
        server: record.map(|r| r.version.clone()).unwrap_or_default(),
        summary: record.map(|r| r.summary).unwrap_or_default(),
        asked: provider.can_ask,
    }
}

/// Conditions that stand, worst first, with what people said.
pub async fn conditions(
    bus: &dyn Bus,
    loops: &[(LoopView, Option<LoopRecord>)],
    now: Time,
) -> Result<Vec<ConditionView>, PictureFault> {
    let said: Vec<Word> = words::read(bus).await?.words().cloned().collect();
    let mut all = Vec::new();
    for entry in bus
        .list(Bucket::Condition, &Key::everything())
        .await?
        .entries
    {
        let kept: Kept = serde_json::from_slice(&entry.value)
            .map_err(|error| Fault::Corrupt(format!("condition {}: {error}", entry.key)))?;
        if !kept.raised {
            continue;
        }
        let key = book::key_of(&kept.condition.id);
        let owner = loops
            .iter()
            .find(|(view, _)| view.name == kept.condition.id.owner);
        let stale = owner.is_some_and(|(view, _)| view.state == "late");
        let until = |silence: bool| until(&said, &key, silence, now);
        all.push(ConditionView {
            acknowledged_until: until(false),
            silenced_until: until(true),
            condition: kept.condition,
            stale,
            key,
        });
    }
    all.sort_by(|a, b| {
        let weight = |c: &ConditionView| std::cmp::Reverse(c.condition.severity);
        (weight(a), &a.condition.id).cmp(&(weight(b), &b.condition.id))
    });
    Ok(all)
}

fn until(said: &[Word], key: &str, silence: bool, now: Time) -> Option<Time> {
    let ends = said.iter().filter_map(|word| match word {
        Word::Silence {
            condition, until, ..
        } if silence && condition == key => Some(*until),
        Word::Ack {
            condition, until, ..
        } if !silence && condition == key => Some(*until),
        _ => None,
    });
    ends.filter(|until| *until > now).max()
}

type Provisions = (Vec<ProvisionView>, Vec<Leftover>);

async fn provisions(
    bus: &dyn Bus,
    providers: &[ProviderEntry],
    loops: &[(LoopView, Option<LoopRecord>)],
) -> Result<Provisions, PictureFault> {
    let mut by_provider: BTreeMap<ProviderName, Vec<WishEntry>> = BTreeMap::new();
    for (_, (_, entry)) in wish::entries(bus).await? {
        if entry.standing != Standing::Retired {
            by_provider
                .entry(entry.provider.clone())
                .or_default()
                .push(entry);
        }
    }
    let (mut provisions, mut leftovers) = (Vec::new(), Vec::new());
    for provider in providers.iter().filter(|p| !p.gone) {
        let mut wanted = by_provider.remove(&provider.provider).unwrap_or_default();
        wanted.sort_by(|a, b| a.consumer.cmp(&b.consumer));
        let mut nodes = Vec::new();
        for name in &provider.loops {
            let label = name
                .split_once('/')
                .map_or(name.as_str(), |(_, label)| label);
            let found = loops.iter().find(|(view, _)| view.name == *name);
            let last_pass = found
                .and_then(|(_, record)| record.as_ref())
                .and_then(|r| r.server.last_pass);
            let records: BTreeMap<ConsumerName, Record> =
                read_records(bus, label).await?.into_iter().collect();
            add_leftovers(&mut leftovers, label, &records, &provider.removal_times());
            nodes.push(NodeRecords {
                label: label.to_owned(),
                last_pass,
                records,
            });
        }
        let closed = provider.closed.as_ref().map(|closed| closed.why.as_str());
        provisions.extend(wanted.iter().map(|entry| provision(entry, &nodes, closed)));
    }
    for refused in by_provider.into_values().flatten() {
        provisions.push(provision(&refused, &[], None));
    }
    Ok((provisions, leftovers))
}

struct NodeRecords {
    label: String,
    last_pass: Option<Time>,
    records: BTreeMap<ConsumerName, Record>,
}

fn add_leftovers(
    leftovers: &mut Vec<Leftover>,
    label: &str,
    records: &BTreeMap<ConsumerName, Record>,
    settings: &Settings,
) {
    for (consumer, record) in records {
        if let Some(departure) = &record.departure {
            let kind = match departure.phase() {
                Phase::Leaving => "leaving",
                Phase::Off => "disabled",
            };
            leftovers.push(Leftover {
                provider: label.to_owned(),
                consumer: consumer.clone(),
                login: record.login.clone(),
                kind,
                until: Some(departure.until(settings)),
            });
        }
        for login in &record.superseded {
            leftovers.push(Leftover {
                provider: label.to_owned(),
                consumer: consumer.clone(),
                login: login.clone(),
                kind: "superseded",
                until: None,
            });
        }
    }
}

fn provision(entry: &WishEntry, nodes: &[NodeRecords], closed: Option<&str>) -> ProvisionView {
    let mut view = ProvisionView {
        provider: entry.provider.clone(),
        consumer: entry.consumer.clone(),
        login: entry.login.clone(),
        state: State::Pending,
        proof: None,
        checked_at: None,
        applied_at: None,
        why: entry.why.clone(),
    };
    let Some(wanted) = entry.wanted() else {
        view.state = State::Refused;
        return view;
    };
    let mut worst: Option<State> = None;
    for node in nodes {
        let record = node
            .records
            .get(&entry.consumer)
            .filter(|r| r.login == wanted.login);
        let state = record.map_or(State::Pending, |record| state_of(&wanted, record));
        if worst.is_none_or(|before| state > before) {
            worst = Some(state);
            view.state = state;
            let why = record.and_then(|record| why(state, record));
            let why = why.map(|why| {
                if nodes.len() > 1 {
                    format!("{}: {why}", node.label)
                } else {
                    why
                }
            });
            view.why = why.or_else(|| entry.why.clone());
        }
        if let Some(record) = record {
            let checked = checked_at(record, node.last_pass);
            view.checked_at = view
                .checked_at
                .map_or(checked, |before| checked.map(|at| at.min(before)));
            view.applied_at = view.applied_at.max(record.applied_at);
            if let Last::Held { proof, .. } = &record.last {
                view.proof = Some(*proof);
            }
        }
    }
    // Nobody asks for it: what was known last is no answer (H-7).
    if let (Some(why), State::Held | State::Disabled | State::Pending) = (closed, view.state) {
        view.state = State::Unknown;
        view.why = Some(why.to_owned());
    }
    view
}

/// When the backend answered last: held ones with every whole pass, others when they were seen so.
fn checked_at(record: &Record, last_pass: Option<Time>) -> Option<Time> {
    match (&record.unknown, &record.last) {
        (_, Last::Never) => None,
        (Some(unknown), _) => Some(unknown.since).min(last_pass),
        (None, Last::Lost { at, .. }) => Some(*at),
        (None, Last::Held { since, .. }) => {
            last_pass.map_or(Some(*since), |at| Some(at.max(*since)))
        }
    }
}

fn why(state: State, record: &Record) -> Option<String> {
    let lost = match &record.last {
        Last::Lost {
            differences,
            detail,
            ..
        } if detail.is_empty() => Some(differences.to_string()),
        Last::Lost {
            differences,
            detail,
            ..
        } => Some(format!("{differences}: {detail}")),
        Last::Held { warning, .. } => warning.as_ref().map(ToString::to_string),
        Last::Never => None,
    };
    match state {
        State::Unknown => record.unknown.as_ref().map(|u| u.why.to_string()),
        State::Refused if record.taken.is_some() => {
            Some("the login exists and is not ours".to_owned())
        }
        State::Held | State::Disabled => lost,
        _ => record.failed.as_ref().map(ToString::to_string).or(lost),
    }
}
