//! Reading the picture from the bus: first what is small, then everyone.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_sdk::bus::{Bucket, Bus, Fault, Key};
use mesh_sdk::decide::alive::SILENT_AFTER;
use mesh_sdk::decide::{
    Last, Phase, Record, ServerRecord, Settings, State, Strangers, Unknown, Wanted, state_of,
};
use mesh_sdk::harness::beat::{self, Beat};
use mesh_sdk::harness::{LoopRecord, read_records};
use mesh_sdk::{ConsumerName, ProviderName, Time};

use super::conditions::conditions;
use super::deliveries::deliveries;
use super::hosts::hosts;
use super::removals::{sets_by_provider, waiting};
use super::{ConditionView, Leftover, LoopView, Picture, PictureFault, ProvisionView, RemovalSet};
use crate::wiring::publish;
use crate::wiring::shapes::{ProviderEntry, Standing, WishEntry};
use crate::wiring::sharing;

/// What is small, however many consumers there are: the providers and their loops.
pub struct Head {
    /// The mesh's id.
    pub mesh: String,
    /// When it was read.
    pub at: Time,
    /// Whether a daemon runs on the data folder.
    pub daemon: bool,
    /// On which host it runs, where several share the bus.
    pub daemon_host: Option<String>,
    providers: Vec<ProviderEntry>,
    loops: Vec<(LoopView, Option<LoopRecord>)>,
}

impl Head {
    /// Every loop.
    pub fn loops(&self) -> impl Iterator<Item = &LoopView> {
        self.loops.iter().map(|(view, _)| view)
    }
}

/// Reads what is small. `daemon`: whether one runs on the data folder.
pub async fn read_head(
    bus: &dyn Bus,
    mesh: &str,
    now: Time,
    daemon: bool,
) -> Result<Head, PictureFault> {
    let providers = providers(bus).await?;
    let loops = loops(bus, &providers, now, daemon).await?;
    Ok(Head {
        mesh: mesh.to_owned(),
        at: now,
        daemon,
        daemon_host: None,
        providers,
        loops,
    })
}

/// Reads the conditions that stand.
pub async fn read_conditions(
    bus: &dyn Bus,
    head: &Head,
) -> Result<Vec<ConditionView>, PictureFault> {
    conditions(bus, &head.loops, head.at).await
}

/// Reads all the rest.
pub async fn read_rest(bus: &dyn Bus, head: Head) -> Result<Picture, PictureFault> {
    let conditions = read_conditions(bus, &head).await?;
    let (provisions, leftovers, removals) = provisions(bus, &head.providers, &head.loops).await?;
    let strangers = strangers(&head.loops);
    Ok(Picture {
        mesh: head.mesh,
        at: head.at,
        daemon: head.daemon,
        daemon_host: head.daemon_host,
        loops: head.loops.into_iter().map(|(view, _)| view).collect(),
        provisions,
        conditions,
        deliveries: deliveries(bus).await?,
        rotations: super::rotations::rotations(bus).await?,
        hosts: hosts(bus).await?,
        leftovers,
        removals,
        strangers,
    })
}

/// Who is not ours, by the last list of each loop.
fn strangers(loops: &[(LoopView, Option<LoopRecord>)]) -> BTreeMap<String, Strangers> {
    let counted = loops.iter().filter_map(|(_, record)| record.as_ref());
    let counted = counted.map(|record| (record.label.clone(), record.server.strangers));
    counted.filter(|(_, seen)| seen.count > 0).collect()
}

/// Puts the picture together. `daemon`: whether one runs on the data folder.
pub async fn read(
    bus: &dyn Bus,
    mesh: &str,
    now: Time,
    daemon: bool,
) -> Result<Picture, PictureFault> {
    let head = read_head(bus, mesh, now, daemon).await?;
    read_rest(bus, head).await
}

/// One consumer, with its record on each node.
pub struct One {
    /// How it stands.
    pub view: ProvisionView,
    /// By node.
    pub records: Vec<(String, Record)>,
}

/// Reads one consumer of every provider that it asks, or of one of them; not the others.
pub async fn read_one(
    bus: &dyn Bus,
    head: &Head,
    consumer: &ConsumerName,
    provider: Option<&ProviderName>,
) -> Result<Vec<One>, PictureFault> {
    let mut found = Vec::new();
    // Both logins of a consumer whose logins take turns.
    let seats = [consumer.first(), consumer.second()];
    let mut of: Vec<(&ProviderEntry, &ConsumerName)> = Vec::new();
    for known in &head.providers {
        if provider.is_none_or(|name| *name == known.provider) {
            of.extend(seats.iter().map(|seat| (known, seat)));
        }
    }
    for (known, consumer) in of {
        let key = Key::of(&[known.provider.as_str(), consumer.as_str()]);
        let Some(entry) = bus.get(Bucket::Wish, &key).await? else {
            continue;
        };
        let entry: WishEntry = parse("wish", &entry.key, &entry.value)?;
        if entry.standing == Standing::Retired {
            continue;
        }
        let mut nodes = Vec::new();
        for name in known.loops.iter().filter(|_| !known.gone) {
            let mut node = NodeRecords::of(name, &head.loops);
            let key = Key::of(&[&node.label, consumer.as_str()]);
            if let Some(stored) = bus.get(Bucket::Record, &key).await? {
                match parse("record", &stored.key, &stored.value) {
                    Ok(record) => drop(node.records.insert(consumer.clone(), record)),
                    Err(_) if known.closed.is_some() => {}
                    Err(fault) => return Err(fault.into()),
                }
            }
            nodes.push(node);
        }
        let view = provision(&entry, &nodes, closed(known));
        let records = nodes.into_iter();
        let records = records.filter_map(|mut n| Some((n.label, n.records.remove(consumer)?)));
        found.push(One {
            view,
            records: records.collect(),
        });
    }
    Ok(found)
}

fn parse<'a, T: serde::Deserialize<'a>>(
    what: &str,
    key: &Key,
    value: &'a [u8],
) -> Result<T, Fault> {
    serde_json::from_slice(value).map_err(|error| Fault::Corrupt(format!("{what} {key}: {error}")))
}

fn closed(provider: &ProviderEntry) -> Option<&str> {
    provider.closed.as_ref().map(|closed| closed.why.as_str())
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

/// The names under which the records of one provider's nodes are kept.
pub fn labels_of(known: &[ProviderEntry], name: &ProviderName) -> Vec<String> {
    let entries = known.iter().filter(|entry| entry.provider == *name);
    let loops = entries.flat_map(|entry| &entry.loops);
    let label = |name: &String| {
        name.split_once('/')
            .map_or(name.clone(), |(_, l)| l.to_owned())
    };
    loops.map(label).collect()
}

/// Every loop of the providers that are in the manifest, with what it keeps.
pub async fn loops(
    bus: &dyn Bus,
    providers: &[ProviderEntry],
    now: Time,
    daemon: bool,
) -> Result<Vec<(LoopView, Option<LoopRecord>)>, Fault> {
    let held = sharing::held(bus).await?;
    let mut loops = Vec::new();
    for provider in providers.iter().filter(|p| !p.gone) {
        let holder = held.as_ref().map(|held| {
            let holder = held.get(&provider.provider).cloned().flatten();
            holder.map(|holder| holder.host)
        });
        let all = provider.loops.iter().zip(records(bus, provider).await?);
        for (name, record) in all {
            let mut view = view_of(name, provider, record.as_ref(), now, (daemon, &holder));
            if view.state == "late" {
                view.state = state_in_a_pass(bus, name, view.last_pass, now).await?;
            }
            loops.push((view, record));
        }
    }
    let with = (daemon, held.is_some());
    loops.extend(super::deliveries::loops(bus, now, with).await?);
    loops.extend(super::hosts::loops(bus, now, with).await?);
    loops.extend(super::rotations::the_loop(bus, now, daemon).await?);
    Ok(loops)
}

/// What each loop of a provider keeps, in order; `None` for one that never made a pass.
pub async fn records(
    bus: &dyn Bus,
    provider: &ProviderEntry,
) -> Result<Vec<Option<LoopRecord>>, Fault> {
    let mut records = Vec::with_capacity(provider.loops.len());
    for name in &provider.loops {
        records.push(record(bus, name).await?);
    }
    Ok(records)
}

/// What one loop keeps.
pub async fn record(bus: &dyn Bus, name: &str) -> Result<Option<LoopRecord>, Fault> {
    let entry = bus.get(Bucket::Loop, &Key::of(&[name])).await?;
    let parse = |entry: mesh_sdk::bus::Entry| {
        serde_json::from_slice(&entry.value)
            .map_err(|error| Fault::Corrupt(format!("loop {name}: {error}")))
    };
    entry.map(parse).transpose()
}

/// How a loop stands whose next pass should have ended: in one that takes long it beats.
pub(super) async fn state_in_a_pass(
    bus: &dyn Bus,
    name: &str,
    last_pass: Option<Time>,
    now: Time,
) -> Result<&'static str, Fault> {
    let beat = bus.get(Bucket::Loop, &Beat::key(name)).await?;
    let beat = beat.and_then(|e| serde_json::from_slice::<Beat>(&e.value).ok());
    Ok(beat.map_or("late", |beat| in_a_pass(&beat, last_pass, now)))
}

/// How a loop stands whose next pass should have ended: by the beats of that pass, if it tells any. The times
/// are those of the host that has it.
fn in_a_pass(beat: &Beat, last_pass: Option<Time>, now: Time) -> &'static str {
    let millis = Duration::from_millis;
    if Some(beat.at) < last_pass || now > beat.at + millis(beat.due) + SILENT_AFTER {
        "late"
    } else if now > beat.done_at + millis(beat.bound) {
        "stuck"
    } else {
        "running"
    }
}

fn view_of(
    name: &str,
    provider: &ProviderEntry,
    record: Option<&LoopRecord>,
    now: Time,
    (daemon, holder): (bool, &Option<Option<String>>),
) -> LoopView {
    let next_pass = record.and_then(|r| r.next_pass).filter(|_| daemon);
    let state = match next_pass {
        _ if provider.closed.is_some() => "closed",
        _ if !daemon => "stopped",
        // Other hosts could have it, and none has.
        _ if *holder == Some(None) => "waiting",
        None => "waiting",
        Some(at) if now > at + beat::EVERY + SILENT_AFTER => "late",
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
        host: holder.clone().flatten(),
    }
}

type Provisions = (Vec<ProvisionView>, Vec<Leftover>, Vec<RemovalSet>);

async fn provisions(
    bus: &dyn Bus,
    providers: &[ProviderEntry],
    loops: &[(LoopView, Option<LoopRecord>)],
) -> Result<Provisions, PictureFault> {
    let mut by_provider: BTreeMap<ProviderName, Vec<WishEntry>> = BTreeMap::new();
    for (_, (_, entry)) in publish::entries(bus).await? {
        if entry.standing != Standing::Retired {
            by_provider
                .entry(entry.provider.clone())
                .or_default()
                .push(entry);
        }
    }
    let (mut provisions, mut leftovers) = (Vec::new(), Vec::new());
    let mut going = Vec::new();
    for provider in providers.iter().filter(|p| !p.gone) {
        let mut wanted = by_provider.remove(&provider.provider).unwrap_or_default();
        wanted.sort_by(|a, b| a.consumer.cmp(&b.consumer));
        let mut nodes = Vec::new();
        for name in &provider.loops {
            let mut node = NodeRecords::of(name, loops);
            node.records = match read_records(bus, &node.label).await {
                Ok(records) => records.into_iter().collect(),
                // That is why nobody looks after it; the others are shown all the same.
                Err(_) if provider.closed.is_some() => BTreeMap::new(),
                Err(fault) => return Err(fault.into()),
            };
            let times = provider.removal_times();
            let waiting = waiting(node.records.iter()).into_iter();
            going.extend(waiting.map(|pair| (provider.provider.as_str(), pair)));
            add_leftovers(&mut leftovers, &node.label, &node.records, &times);
            nodes.push(node);
        }
        let closed = closed(provider);
        provisions.extend(wanted.iter().map(|entry| provision(entry, &nodes, closed)));
    }
    for refused in by_provider.into_values().flatten() {
        provisions.push(provision(&refused, &[], None));
    }
    Ok((provisions, leftovers, sets_by_provider(going)))
}

/// What is kept of one node.
struct NodeRecords {
    label: String,
    last_pass: Option<Time>,
    /// The server does not answer: told once, and not in each record (C-6).
    down: Option<Unknown>,
    records: BTreeMap<ConsumerName, Record>,
}

impl NodeRecords {
    fn of(name: &str, loops: &[(LoopView, Option<LoopRecord>)]) -> Self {
        let label = name.split_once('/').map_or(name, |(_, label)| label);
        let found = loops.iter().find(|(view, _)| view.name == name);
        let server: Option<&ServerRecord> =
            found.and_then(|(_, record)| Some(&record.as_ref()?.server));
        Self {
            label: label.to_owned(),
            last_pass: server.and_then(|s| s.last_pass),
            down: server.and_then(|s| s.down.clone()),
            records: BTreeMap::new(),
        }
    }

    /// A consumer's record; while the server is silent it is one that cannot be asked.
    fn record(&self, wanted: &Wanted) -> Option<Record> {
        let record = self.records.get(&wanted.consumer);
        let record = record.filter(|r| r.login == wanted.login).cloned();
        let Some(down) = &self.down else {
            return record;
        };
        let mut record = record.unwrap_or_else(|| Record::new(wanted.login.clone()));
        record.unknown.get_or_insert_with(|| Box::new(down.clone()));
        Some(record)
    }
}

fn add_leftovers(
    leftovers: &mut Vec<Leftover>,
    label: &str,
    records: &BTreeMap<ConsumerName, Record>,
    settings: &Settings,
) {
    for (consumer, record) in records {
        for leaver in record.leavers(consumer) {
            let departure = leaver.departure;
            let kind = match departure.phase() {
                Phase::Leaving => "leaving",
                Phase::Off => "disabled",
            };
            leftovers.push(Leftover {
                provider: label.to_owned(),
                consumer: consumer.clone(),
                login: leaver.login.clone(),
                kind,
                until: Some(departure.until(settings)),
            });
        }
        if record.taken.is_some() {
            leftovers.push(Leftover {
                provider: label.to_owned(),
                consumer: consumer.clone(),
                login: record.login.clone(),
                kind: "taken",
                until: None,
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
        consumer: entry.consumer.first(),
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
        let record = node.record(&wanted);
        let record = record.as_ref();
        let state = record.map_or(State::Pending, |record| state_of(&wanted, record));
        if worst.is_none_or(|before| state > before) {
            worst = Some(state);
            view.state = state;
            let why = record.and_then(|record| why(state, &entry.consumer, record));
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

fn why(state: State, consumer: &ConsumerName, record: &Record) -> Option<String> {
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
        State::Refused if record.taken.is_some() => Some(record.taken_words(consumer)),
        State::Held | State::Disabled => lost,
        _ => record.failed.as_ref().map(ToString::to_string).or(lost),
    }
}
