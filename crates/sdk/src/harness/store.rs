//! What the harness keeps on the bus: records, conditions, history, its beat.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::Provisioner;
use crate::bus::{Bucket, Bus, Entry, Expect, Fault, Key, Put, Rev, Write};
use crate::decide::conditions::{Change, Kept};
use crate::decide::{PassEnd, Record, ServerRecord, Step, Stored, Summary};
use crate::event::Event;
use crate::name::ConsumerName;
use crate::time::Time;

/// Why the store could not be used. Nothing that needed it was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreFault {
    /// The bus.
    #[error(transparent)]
    Bus(#[from] Fault),
    /// What is stored does not read.
    #[error("the stored {what} of {key} cannot be read: {why}")]
    Unreadable {
        /// Record, condition or loop.
        what: &'static str,
        /// Its key.
        key: String,
        /// The parser's word.
        why: String,
    },
    /// A write that nothing else should have met was not done.
    #[error("another process wrote {0} at the same time")]
    Contended(String),
}

/// A loop's own entry on the bus: its beat, and what `status` shows of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LoopRecord {
    /// `provisioner`, …
    pub class: String,
    /// The provider, with its node.
    pub label: String,
    /// What it remembers of its server.
    pub server: ServerRecord,
    /// The server's product and version, as it said last.
    #[serde(default)]
    pub version: String,
    /// When the last pass ended, whole or not.
    pub last_pass: Option<Time>,
    /// When the next one is due, if a daemon runs.
    pub next_pass: Option<Time>,
    /// The last pass in numbers.
    pub summary: Summary,
    /// The generation of the wish in force.
    pub generation: u64,
    /// The newest request for a pass that a finished pass answered.
    #[serde(default)]
    pub answered_request: u64,
}

/// Where the loop's own entry stands.
#[derive(Debug, Default)]
pub(super) struct Beat {
    rev: Option<Rev>,
}

pub(super) struct Loaded {
    pub(super) stored: Stored,
    pub(super) revs: Vec<Option<Rev>>,
    pub(super) conditions: Vec<Kept>,
    pub(super) condition_revs: HashMap<String, Rev>,
    pub(super) beat: Beat,
    pub(super) answered_request: u64,
}

fn parse<'a, T: Deserialize<'a>>(what: &'static str, entry: &'a Entry) -> Result<T, StoreFault> {
    serde_json::from_slice(&entry.value).map_err(|error| StoreFault::Unreadable {
        what,
        key: entry.key.to_string(),
        why: error.to_string(),
    })
}

#[derive(Serialize, Deserialize)]
struct Named<R> {
    consumer: ConsumerName,
    #[serde(flatten)]
    record: R,
}

/// The stored records of one provisioner, by its label (see [`Provisioner::label_of`]); for readers such
/// as `status`.
pub async fn read_records(
    bus: &dyn Bus,
    label: &str,
) -> Result<Vec<(ConsumerName, Record)>, StoreFault> {
    let all = records(bus, label).await?;
    Ok(all
        .into_iter()
        .map(|(consumer, record, _)| (consumer, record))
        .collect())
}

async fn records(
    bus: &dyn Bus,
    label: &str,
) -> Result<Vec<(ConsumerName, Record, Rev)>, StoreFault> {
    let snapshot = bus.list(Bucket::Record, &Key::of(&[label])).await?;
    let parsed = snapshot.entries.iter().map(|entry| {
        let named: Named<Record> = parse("record", entry)?;
        Ok((named.consumer, named.record, entry.rev))
    });
    parsed.collect()
}

pub(super) async fn load(bus: &dyn Bus, name: &str, label: &str) -> Result<Loaded, StoreFault> {
    let entry = bus.get(Bucket::Loop, &Key::of(&[name])).await?;
    let own: LoopRecord = entry
        .as_ref()
        .map_or(Ok(LoopRecord::default()), |e| parse("loop", e))?;
    let mut stored = Stored {
        server: own.server,
        records: Vec::new(),
    };
    let mut revs = Vec::new();
    for (consumer, record, rev) in records(bus, label).await? {
        stored.records.push((consumer, record));
        revs.push(Some(rev));
    }
    let mut conditions = Vec::new();
    let mut condition_revs = HashMap::new();
    for entry in bus
        .list(Bucket::Condition, &Key::of(&[name]))
        .await?
        .entries
    {
        conditions.push(parse("condition", &entry)?);
        condition_revs.insert(entry.key.as_str().to_owned(), entry.rev);
    }
    let beat = Beat {
        rev: entry.map(|e| e.rev),
    };
    let answered_request = own.answered_request;
    Ok(Loaded {
        stored,
        revs,
        conditions,
        condition_revs,
        beat,
        answered_request,
    })
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn expect(rev: Option<Rev>) -> Expect {
    rev.map_or(Expect::Absent, Expect::At)
}

impl Provisioner {
    /// Before an effect: the intents of what is new or changed, in one synced write (H-23). A lost
    /// consumer's record claims its login already, so that it needs none.
    pub(super) async fn store_intents(
        &mut self,
        steps: &[(usize, Step)],
    ) -> Result<(), StoreFault> {
        let new = steps.iter().map(|(i, _)| *i).filter(|i| {
            let record = &self.core.slots()[*i].record;
            record.applied.is_none() || record.applied != record.intent
        });
        let new: Vec<usize> = new.collect();
        self.write_records(&new).await
    }

    /// Every record that differs from what is stored.
    pub(super) async fn store_records(&mut self) -> Result<(), StoreFault> {
        let dirty = self.core.take_dirty();
        self.write_records(&dirty).await
    }

    async fn write_records(&mut self, which: &[usize]) -> Result<(), StoreFault> {
        if which.is_empty() {
            return Ok(());
        }
        let writes = which.iter().map(|i| {
            let slot = &self.core.slots()[*i];
            let key = Key::of(&[&self.label, slot.consumer.as_str()]);
            let value = json(&Named {
                consumer: slot.consumer.clone(),
                record: &slot.record,
            });
            Write {
                key,
                expect: expect(self.revs[*i]),
                value,
            }
        });
        let outcomes = self
            .parts
            .bus
            .put_each(Bucket::Record, writes.collect())
            .await?;
        let mut contended = None;
        for (i, outcome) in which.iter().zip(outcomes) {
            match outcome {
                Put::Done(rev) => self.revs[*i] = Some(rev),
                Put::Conflict | Put::Unknown => contended = Some(*i),
            }
        }
        match contended {
            None => Ok(()),
            Some(i) => {
                self.read_back().await?;
                Err(StoreFault::Contended(
                    self.core.slots()[i].consumer.to_string(),
                ))
            }
        }
    }

    /// After an unknown outcome the revisions are read back before anything depends on them (B-5).
    async fn read_back(&mut self) -> Result<(), StoreFault> {
        let found = records(self.parts.bus.as_ref(), &self.label).await?;
        let found: HashMap<ConsumerName, Rev> =
            found.into_iter().map(|(c, _, rev)| (c, rev)).collect();
        for (i, slot) in self.core.slots().iter().enumerate() {
            self.revs[i] = found.get(&slot.consumer).copied();
        }
        self.core.all_dirty();
        Ok(())
    }

    /// Conditions that changed, and those that stand and were seen again this pass.
    pub(super) async fn store_conditions(&mut self, changes: &[Change]) -> Result<(), StoreFault> {
        let cleared = changes.iter().filter_map(|change| match change {
            Change::Cleared(condition) => Some(condition.id.clone()),
            _ => None,
        });
        let cleared: std::collections::BTreeSet<_> = cleared.collect();
        let mut keys = Vec::new();
        let mut writes = Vec::new();
        for kept in self.ledger.kept() {
            let id = &kept.condition.id;
            if !kept.raised && !cleared.contains(id) && kept.condition.count == 0 {
                continue;
            }
            let key = Key::of(&[&self.name, id.kind.as_str(), &id.subject]);
            let rev = self.condition_revs.get(key.as_str()).copied();
            keys.push(key.as_str().to_owned());
            writes.push(Write {
                key,
                expect: expect(rev),
                value: json(kept),
            });
        }
        if writes.is_empty() {
            return Ok(());
        }
        let outcomes = self.parts.bus.put_each(Bucket::Condition, writes).await?;
        for (key, outcome) in keys.into_iter().zip(outcomes) {
            match outcome {
                Put::Done(rev) => {
                    self.condition_revs.insert(key, rev);
                }
                Put::Conflict | Put::Unknown => {
                    let found = self
                        .parts
                        .bus
                        .get(Bucket::Condition, &Key::from_stored(key.clone()))
                        .await?;
                    if let Some(entry) = found {
                        self.condition_revs.insert(key, entry.rev);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) async fn store_events(&self, events: &[Event]) -> Result<(), StoreFault> {
        if events.is_empty() {
            return Ok(());
        }
        let lines = events.iter().map(|event| {
            let subject = Key::of(&[event.kind.as_str(), &event.provider, &event.consumer]);
            (subject, String::from_utf8(json(event)).unwrap_or_default())
        });
        Ok(self.parts.bus.append(lines.collect()).await?)
    }

    /// The beat: last and next pass, and what is remembered of the server.
    pub(super) async fn store_beat(&mut self, end: &PassEnd, now: Time) -> Result<(), StoreFault> {
        self.core.take_server_dirty();
        let record = LoopRecord {
            class: "provisioner".into(),
            label: self.label.clone(),
            server: self.core.server().clone(),
            version: self
                .core
                .server_facts()
                .map(|s| s.version.clone())
                .unwrap_or_default(),
            last_pass: Some(now),
            next_pass: Some(end.next_at),
            summary: end.summary,
            generation: self.core.generation(),
            answered_request: self.answered_request,
        };
        let key = Key::of(&[&self.name]);
        let write = Write {
            key: key.clone(),
            expect: expect(self.beat.rev),
            value: json(&record),
        };
        match self.parts.bus.put_if(Bucket::Loop, write).await? {
            Put::Done(rev) => self.beat.rev = Some(rev),
            Put::Conflict | Put::Unknown => {
                self.beat.rev = self.parts.bus.get(Bucket::Loop, &key).await?.map(|e| e.rev);
            }
        }
        Ok(())
    }
}
