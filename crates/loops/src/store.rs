//! What a loop of a host remembers on the bus: a record of each of its things.

use std::collections::{BTreeMap, BTreeSet};

use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put, Rev, Write};
use mesh_sdk::harness::StoreFault;
use mesh_sdk::mark::keyed;
use mesh_sdk::{ConsumerName, Secret};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What one loop remembers of one of its things.
pub(crate) trait Kept: Serialize + DeserializeOwned + Clone + PartialEq {
    /// The class of its loop, the first part of its keys: `delivery`.
    const CLASS: &'static str;
    /// It is asked for no more. Answers whose it was and what, the first time.
    fn leaves(&mut self) -> Option<(ConsumerName, String)>;
}

/// A record, and what of it is on the bus.
pub(crate) struct Stored<R> {
    pub(crate) record: R,
    on_the_bus: Option<(Rev, R)>,
}

impl<R> Stored<R> {
    pub(crate) fn new(record: R) -> Self {
        Self {
            record,
            on_the_bus: None,
        }
    }
}

/// Where a record is kept (`meta`, CLASS.HOST.CONSUMER.THING).
pub(crate) fn key<R: Kept>(host: &str, consumer: &ConsumerName, thing: &str) -> Key {
    Key::of(&[R::CLASS, host, consumer.as_str(), &sign(thing)])
}

fn parsed<R: Kept>(entry: &mesh_sdk::bus::Entry) -> Result<R, StoreFault> {
    serde_json::from_slice(&entry.value).map_err(|error| StoreFault::Unreadable {
        what: R::CLASS,
        key: entry.key.to_string(),
        why: error.to_string(),
    })
}

/// Every record of one host.
pub(crate) async fn load<R: Kept>(
    bus: &dyn Bus,
    host: &str,
) -> Result<BTreeMap<Key, Stored<R>>, StoreFault> {
    let listed = bus.list(Bucket::Meta, &Key::of(&[R::CLASS, host])).await?;
    let mut all = BTreeMap::new();
    for entry in listed.entries {
        let record: R = parsed(&entry)?;
        let on_the_bus = Some((entry.rev, record.clone()));
        all.insert(entry.key, Stored { record, on_the_bus });
    }
    Ok(all)
}

/// Every record of every host, for who shows them.
pub(crate) async fn read_all<R: Kept>(bus: &dyn Bus) -> Result<Vec<R>, StoreFault> {
    let listed = bus.list(Bucket::Meta, &Key::of(&[R::CLASS])).await?;
    listed.entries.iter().map(parsed).collect()
}

/// Notes which are asked for no more: they stay as they are (law 3). Answers those of which that is new.
pub(crate) fn left<R: Kept>(
    all: &mut BTreeMap<Key, Stored<R>>,
    asked: &BTreeSet<Key>,
) -> Vec<(ConsumerName, String)> {
    let others = all.iter_mut().filter(|(key, _)| !asked.contains(key));
    others
        .filter_map(|(_, stored)| stored.record.leaves())
        .collect()
}

/// Writes the records that changed; none in the steady state.
pub(crate) async fn save<R: Kept>(
    bus: &dyn Bus,
    all: &mut BTreeMap<Key, Stored<R>>,
) -> Result<(), StoreFault> {
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
