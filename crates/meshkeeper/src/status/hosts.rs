//! What runs for consumers, as the host loops know it.

use std::collections::BTreeSet;

use mesh_loops::host::read_all;
use mesh_loops::host::record::{Record, State, Why};
use mesh_sdk::bus::{Bucket, Bus, Fault, Key};
use mesh_sdk::harness::{LoopRecord, StoreFault};
use mesh_sdk::{ConsumerName, Time};
use serde::Serialize;

use super::{LoopView, record, rfc3339_option};
use crate::wiring::host;

/// A container or unit.
#[derive(Debug, Clone, Serialize)]
pub struct HostView {
    /// Whose.
    pub consumer: ConsumerName,
    /// What: `container web`, `unit web.service`.
    pub container: String,
    /// The host that it is on.
    pub host: String,
    /// How it stood at the last look.
    pub state: State,
    /// When it was made or started last by the loop.
    #[serde(serialize_with = "rfc3339_option")]
    pub recreated_at: Option<Time>,
    /// Why it was, then.
    pub reasons: Vec<String>,
    /// The version of the credentials that it was started with.
    pub credentials: Option<String>,
    /// What it waits for, or what is amiss.
    pub why: Option<String>,
    /// The manifest asks for it no more, and it was left as it is.
    pub retired: bool,
}

/// Everything on every host, by consumer.
pub async fn hosts(bus: &dyn Bus) -> Result<Vec<HostView>, StoreFault> {
    let all = read_all(bus).await?.into_iter().map(|record| HostView {
        credentials: record
            .made
            .and_then(|made| made.credentials)
            .map(|version| version.0),
        consumer: record.consumer,
        container: record.thing,
        host: record.host,
        state: record.state,
        recreated_at: record.recreated_at,
        reasons: record.reasons,
        why: record.why.as_ref().map(words),
        retired: record.retired,
    });
    let mut all: Vec<HostView> = all.collect();
    all.sort_by(|a, b| {
        (&a.consumer, &a.container, &a.host).cmp(&(&b.consumer, &b.container, &b.host))
    });
    Ok(all)
}

fn words(why: &Why) -> String {
    match why {
        Why::Waits(text) => format!("waits for credentials: {text}"),
        Why::Soon(text) => format!("restarted soon: {text}"),
        Why::Taken(text)
        | Why::NoImage(text)
        | Why::Failed(text)
        | Why::Braked(text)
        | Why::Unhealthy(text) => text.clone(),
    }
}

/// The loops that keep them, one for each host.
pub(super) async fn loops(
    bus: &dyn Bus,
    now: Time,
    (daemon, shared): (bool, bool),
) -> Result<Vec<(LoopView, Option<LoopRecord>)>, Fault> {
    // One that does not read is told where they are shown.
    let listed = bus.list(Bucket::Meta, &Key::of(&["host"])).await?.entries;
    let records = listed
        .iter()
        .filter_map(|entry| serde_json::from_slice::<Record>(&entry.value).ok());
    let hosts: BTreeSet<String> = records.map(|record| record.host).collect();
    let mut loops = Vec::new();
    for host in hosts {
        let name = host::name_of(&host);
        let Some(record) = record(bus, &name).await? else {
            continue;
        };
        let next_pass = record.next_pass.filter(|_| daemon);
        let state = match next_pass {
            None => "stopped",
            Some(at) if now > at + host::PERIOD * 2 => "late",
            Some(_) => "running",
        };
        let view = LoopView {
            host: shared.then_some(host),
            ..LoopView::of_owner(&record, name, state, next_pass)
        };
        loops.push((view, Some(record)));
    }
    Ok(loops)
}
