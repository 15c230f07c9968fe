//! What delivery keeps on the bus: records, history, its beat.

use std::collections::BTreeMap;

use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put, Rev, Write};
use mesh_sdk::event::Event;
use mesh_sdk::harness::{LoopRecord, StoreFault};
use mesh_sdk::mark::keyed;
use mesh_sdk::{ConsumerName, Secret};

use super::record::Record;

/// A record, and what of it is on the bus.
pub(super) struct Stored {
    pub(super) record: Record,
    on_the_bus: Option<(Rev, Record)>,
}

impl Stored {
    pub(super) fn new(consumer: &ConsumerName, host: &str, place: &str) -> Self {
        Self {
            record: Record::new(consumer.clone(), host.to_owned(), place.to_owned()),
            on_the_bus: None,
        }
    }
}

/// Where a record is kept (`meta`, delivery.HOST.CONSUMER.PLACE).
pub(super) fn key(host: &str, consumer: &ConsumerName, place: &str) -> Key {
    Key::of(&["delivery", host, consumer.as_str(), &sign(place)])
}

fn parsed(entry: &mesh_sdk::bus::Entry) -> Result<Record, StoreFault> {
    serde_json::from_slice(&entry.value).map_err(|error| StoreFault::Unreadable {
        what: "delivery",
        key: entry.key.to_string(),
        why: error.to_string(),
    })
}

/// Every record of one host.
pub(super) async fn load(bus: &dyn Bus, host: &str) -> Result<BTreeMap<Key, Stored>, StoreFault> {
    let listed = bus
        .list(Bucket::Meta, &Key::of(&["delivery", host]))
        .await?;
    let mut all = BTreeMap::new();
    for entry in listed.entries {
        let record = parsed(&entry)?;
        let on_the_bus = Some((entry.rev, record.clone()));
        all.insert(entry.key, Stored { record, on_the_bus });
    }
    Ok(all)
}

/// Every record of every host, for who shows them.
pub async fn read_all(bus: &dyn Bus) -> Result<Vec<Record>, StoreFault> {
    let listed = bus.list(Bucket::Meta, &Key::of(&["delivery"])).await?;
    listed.entries.iter().map(parsed).collect()
}

/// Writes the records that changed; none in the steady state.
pub(super) async fn save(bus: &dyn Bus, all: &mut BTreeMap<Key, Stored>) -> Result<(), StoreFault> {
    let mut writes = Vec::new();
    for (key, stored) in all.iter() {
        let before = stored.on_the_bus.as_ref();
        if before.is_some_and(|(_, record)| *record == stored.record) {
            continue;
        }
        writes.push(Write {
            key: key.clone(),
            expect: before.map_or(Expect::Absent, |(rev, _)| Expect::At(*rev)),
            value: serde_json::to_vec(&stored.record).map_err(|e| Fault::Corrupt(e.to_string()))?,
        });
    }
    if writes.is_empty() {
        return Ok(());
    }
    let outcomes = bus.put_each(Bucket::Meta, writes.clone()).await?;
    for (write, outcome) in writes.into_iter().zip(outcomes) {
        let Some(stored) = all.get_mut(&write.key) else {
            continue;
        };
        let rev = match outcome {
            Put::Done(rev) => rev,
            Put::Conflict | Put::Unknown => {
                // Whatever is there: the next pass writes over it if it is another.
                let Some(found) = bus.get(Bucket::Meta, &write.key).await? else {
                    stored.on_the_bus = None;
                    continue;
                };
                stored.on_the_bus = Some((found.rev, parsed(&found)?));
                continue;
            }
        };
        stored.on_the_bus = Some((rev, stored.record.clone()));
    }
    Ok(())
}

/// Puts lines into the history. They wait if it cannot be written.
pub(crate) async fn append(bus: &dyn Bus, events: &mut Vec<Event>) -> Result<(), StoreFault> {
    if events.is_empty() {
        return Ok(());
    }
    let lines = events.iter().map(Event::line).collect::<Result<_, _>>()?;
    bus.append(lines).await?;
    events.clear();
    Ok(())
}

/// Says that a pass was made, and when the next one is due.
pub(crate) async fn beat(
    bus: &dyn Bus,
    name: &str,
    record: &LoopRecord,
    before: Option<Rev>,
) -> Result<Option<Rev>, StoreFault> {
    let key = Key::of(&[name]);
    let write = Write {
        key: key.clone(),
        expect: before.map_or(Expect::Absent, Expect::At),
        value: serde_json::to_vec(record).map_err(|e| Fault::Corrupt(e.to_string()))?,
    };
    match bus.put_if(Bucket::Loop, write).await? {
        Put::Done(rev) => Ok(Some(rev)),
        Put::Conflict | Put::Unknown => {
            let found = bus.get(Bucket::Loop, &key).await?;
            Ok(found.map(|entry| entry.rev))
        }
    }
}

/// The sign under which a place is kept: keys hold no paths.
fn sign(place: &str) -> String {
    let key = Secret::from("place");
    let digest = keyed(&key, b"delivery", &[place.as_bytes()]);
    digest
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
