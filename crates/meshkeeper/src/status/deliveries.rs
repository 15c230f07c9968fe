//! Places that credentials are brought to, as delivery knows them.

use std::collections::{BTreeMap, BTreeSet};

use mesh_loops::delivery::read_all;
use mesh_loops::delivery::record::{Record, Since, Why};
use mesh_sdk::bus::{Bus, Fault};
use mesh_sdk::decide::alive::SILENT_AFTER;
use mesh_sdk::harness::{LoopRecord, StoreFault, beat};
use mesh_sdk::{ConsumerName, Time};
use serde::Serialize;

use super::read::state_in_a_pass;
use super::{LoopView, record, rfc3339_option};
use crate::wiring::{delivery, publish};

/// One place.
#[derive(Debug, Clone, Serialize)]
pub struct DeliveryView {
    /// Whose.
    pub consumer: ConsumerName,
    /// Which: `env_file /etc/web.env`.
    pub place: String,
    /// The host that it is on.
    pub host: String,
    /// The version that should lie there.
    pub wanted: Option<String>,
    /// The version that was written, and seen there.
    pub written: Option<String>,
    /// The version that the consumer is known to have taken up.
    pub acknowledged: Option<String>,
    /// The version that it was seen to log in with; comes with rotation.
    pub in_use: Option<String>,
    /// When its place was looked at last.
    #[serde(serialize_with = "rfc3339_option")]
    pub checked_at: Option<Time>,
    /// Since when something is outstanding; `None` where nothing is.
    #[serde(serialize_with = "rfc3339_option")]
    pub since: Option<Time>,
    /// Why, where that is known.
    pub why: Option<String>,
    /// The manifest asks for it no more, and what lies there was left.
    pub retired: bool,
}

/// Every place on every host, by consumer.
pub async fn deliveries(bus: &dyn Bus) -> Result<Vec<DeliveryView>, StoreFault> {
    let version = |since: &Option<Since>| since.as_ref().map(|since| since.version.0.clone());
    let records = read_all(bus).await?;
    let delivers = publish::head(bus).await?.delivers;
    let hosts: BTreeSet<&String> = records.iter().map(|record| &record.host).collect();
    let mut looked = BTreeMap::new();
    for host in hosts {
        let kept = record(bus, &delivery::name_of(host)).await?;
        looked.insert(host.clone(), kept.and_then(|kept| kept.last_pass));
    }
    let all = records.into_iter().map(|record| DeliveryView {
        wanted: version(&record.wanted),
        written: version(&record.written),
        acknowledged: version(&record.acknowledged),
        in_use: None,
        since: record.outstanding_since(),
        checked_at: looked.get(&record.host).copied().flatten(),
        why: why_of(&record),
        retired: record.retired || !delivers.contains(&record.host),
        consumer: record.consumer,
        host: record.host,
        place: record.place,
    });
    let mut all: Vec<DeliveryView> = all.collect();
    all.sort_by(|a, b| (&a.consumer, &a.place, &a.host).cmp(&(&b.consumer, &b.place, &b.host)));
    Ok(all)
}

/// Why a place is not as asked, or who is waited for, where that is known.
pub fn why_of(record: &Record) -> Option<String> {
    if let Some(why) = &record.why {
        return Some(words(why));
    }
    let lies_there = record.written.as_ref().map(|written| &written.version)
        == record.wanted.as_ref().map(|wanted| &wanted.version);
    let waits = record.outstanding_since().is_some() && lies_there;
    waits.then(|| format!("it lies there; waits for {} to take it up", record.consumer))
}

fn words(why: &Why) -> String {
    match why {
        Why::Waits(text) => format!("waits for {text}"),
        Why::Refused(text) | Why::Unwritten(text) | Why::Contested(text) => text.clone(),
        Why::Untold(text) => format!("it lies there, and the consumer could not be told: {text}"),
    }
}

/// The loops that bring them, one for each host.
pub(super) async fn loops(
    bus: &dyn Bus,
    now: Time,
    (daemon, shared): (bool, bool),
) -> Result<Vec<(LoopView, Option<LoopRecord>)>, Fault> {
    let mut loops = Vec::new();
    for host in publish::head(bus).await?.delivers {
        let name = delivery::name_of(&host);
        let Some(record) = record(bus, &name).await? else {
            continue;
        };
        let next_pass = record.next_pass.filter(|_| daemon);
        let state = match next_pass {
            None => "stopped",
            Some(at) if now > at + beat::EVERY + SILENT_AFTER => {
                state_in_a_pass(bus, &name, record.last_pass, now).await?
            }
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
