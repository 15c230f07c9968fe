//! Places that credentials are brought to, as delivery knows them.

use std::collections::BTreeSet;

use mesh_loops::delivery::read_all;
use mesh_loops::delivery::record::{Record, Since, Why};
use mesh_sdk::bus::{Bucket, Bus, Fault, Key};
use mesh_sdk::harness::{LoopRecord, StoreFault};
use mesh_sdk::{ConsumerName, Time};
use serde::Serialize;

use super::{LoopView, record, rfc3339_option};
use crate::wiring::delivery;

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
    let all = read_all(bus).await?.into_iter().map(|record| DeliveryView {
        wanted: version(&record.wanted),
        written: version(&record.written),
        acknowledged: version(&record.acknowledged),
        in_use: None,
        since: record.outstanding_since(),
        why: record.why.as_ref().map(words),
        retired: record.retired,
        consumer: record.consumer,
        host: record.host,
        place: record.place,
    });
    let mut all: Vec<DeliveryView> = all.collect();
    all.sort_by(|a, b| (&a.consumer, &a.place, &a.host).cmp(&(&b.consumer, &b.place, &b.host)));
    Ok(all)
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
    daemon: bool,
) -> Result<Vec<(LoopView, Option<LoopRecord>)>, Fault> {
    // One that does not read is told where places are shown.
    let listed = bus
        .list(Bucket::Meta, &Key::of(&["delivery"]))
        .await?
        .entries;
    let records = listed
        .iter()
        .filter_map(|entry| serde_json::from_slice::<Record>(&entry.value).ok());
    let hosts: BTreeSet<String> = records.map(|record| record.host).collect();
    let mut loops = Vec::new();
    for host in hosts {
        let name = delivery::name_of(&host);
        let Some(record) = record(bus, &name).await? else {
            continue;
        };
        let next_pass = record.next_pass.filter(|_| daemon);
        let state = match next_pass {
            None => "stopped",
            Some(at) if now > at + delivery::PERIOD * 2 => "late",
            Some(_) => "running",
        };
        let view = LoopView {
            name,
            class: "delivery".to_owned(),
            state,
            last_pass: record.last_pass,
            next_pass,
            server: String::new(),
            summary: record.summary,
            asked: true,
            host: None,
        };
        loops.push((view, Some(record)));
    }
    Ok(loops)
}
