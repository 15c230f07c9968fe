//! What the harness keeps on the bus: records, history, its beat.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::call::patience;
use super::shelf::Shelf;
use super::{Parts, ProviderWish, Provisioner};
use crate::bus::{Bucket, Bus, Entry, Expect, Fault, Key, Put, Rev, Write};
use crate::decide::conditions::Kept;
use crate::decide::{Core, PassEnd, Record, ServerRecord, Stored, Summary};
use crate::event::Event;
use crate::name::ConsumerName;
use crate::time::Time;

/// A call to the store is given up after this, and its outcome is unknown.
pub(super) const STORE_TIMEOUT: Duration = Duration::from_secs(30);
/// Reading everything that is stored, at the start, is given up after this.
const LOAD_TIMEOUT: Duration = Duration::from_secs(120);
/// So many events wait for a history that cannot be written; older ones are in the log only.
const UNWRITTEN: usize = 1_000;
/// So many writes go to the store at once: they lie in memory meanwhile.
const WRITTEN_AT_ONCE: usize = 8_192;
/// So many records are read at once.
const READ_AT_ONCE: usize = 4_096;
/// Up to this many unknown outcomes are read back one by one, more with one list.
const READ_SINGLY: usize = 16;

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
    /// How many logins it took away lately or is about to, for the brake of the whole mesh.
    #[serde(default)]
    pub removals: usize,
}

/// Where the loop's own entry stands.
#[derive(Debug, Default)]
pub(super) struct Beat {
    rev: Option<Rev>,
}

pub(super) struct Loaded {
    pub(super) core: Core,
    pub(super) revs: Vec<Option<Rev>>,
    pub(super) asleep: HashMap<ConsumerName, Rev>,
    pub(super) shelf: Shelf,
    pub(super) conditions: Vec<Kept>,
    pub(super) beat: Beat,
    pub(super) answered_request: u64,
}

pub(super) fn parse<'a, T: Deserialize<'a>>(
    what: &'static str,
    entry: &'a Entry,
) -> Result<T, StoreFault> {
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
    let mut all = Vec::new();
    let keep = |consumer, record, _| all.push((consumer, record));
    each_record(bus, label, keep).await?;
    Ok(all)
}

/// Hands the stored records of one provisioner over, by consumer; only a part of them lies in memory as
/// the store gave it.
async fn each_record(
    bus: &dyn Bus,
    label: &str,
    mut each: impl FnMut(ConsumerName, Record, Rev),
) -> Result<(), StoreFault> {
    let prefix = Key::of(&[label]);
    let mut after: Option<Key> = None;
    loop {
        let part = bus.list_part(Bucket::Record, &prefix, after.as_ref(), READ_AT_ONCE);
        let part = part.await?.entries;
        for entry in &part {
            let named: Named<Record> = parse("record", entry)?;
            each(named.consumer, named.record, entry.rev);
        }
        if part.len() < READ_AT_ONCE {
            return Ok(());
        }
        after = part.into_iter().next_back().map(|entry| entry.key);
    }
}

/// Everything that was stored, or an error; what cannot be read is not empty.
/// A record's names are those of the wish where it has the same: one text for both.
pub(super) async fn load(
    parts: &Parts,
    wish: &ProviderWish,
    name: &str,
    label: &str,
) -> Result<Loaded, StoreFault> {
    let given_up = || Err(Fault::Unreachable("no answer in time".to_owned()).into());
    tokio::select! {
        biased;
        () = parts.stop.cancelled() => given_up(),
        loaded = load_all(parts, wish, name, label) => loaded,
        () = tokio::time::sleep(LOAD_TIMEOUT) => given_up(),
    }
}

async fn load_all(
    parts: &Parts,
    wish: &ProviderWish,
    name: &str,
    label: &str,
) -> Result<Loaded, StoreFault> {
    let bus = parts.bus.as_ref();
    let entry = bus.get(Bucket::Loop, &Key::of(&[name])).await?;
    let own: LoopRecord = entry
        .as_ref()
        .map_or(Ok(LoopRecord::default()), |e| parse("loop", e))?;
    let stored = Stored {
        server: own.server,
        records: Vec::new(),
    };
    let (now, caps) = (parts.clock.now(), parts.adapter.capabilities());
    let mut core = Core::new(parts.settings.clone(), caps, stored, now);
    let mut revs = Vec::new();
    let mut asleep = HashMap::new();
    let keep = |consumer: ConsumerName, mut record: Record, rev| {
        // A retired consumer's record says nothing any more; only its revision is needed, for the day
        // it comes back.
        if record == Record::new(record.login.clone()) {
            asleep.insert(consumer, rev);
            return;
        }
        let known = wish.wishes.get_key_value(&consumer);
        if let Some((_, wish)) = known.filter(|(_, wish)| *wish.login() == record.login) {
            record.login = wish.login().clone();
        }
        core.load(
            known.map_or(consumer, |(name, _)| name.clone()),
            record,
            now,
        );
        revs.push(Some(rev));
    };
    each_record(bus, label, keep).await?;
    let (shelf, conditions) = Shelf::load(bus, name).await?;
    Ok(Loaded {
        core,
        revs,
        asleep,
        shelf,
        conditions,
        beat: Beat {
            rev: entry.map(|e| e.rev),
        },
        answered_request: own.answered_request,
    })
}

pub(super) fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

pub(super) fn expect(rev: Option<Rev>) -> Expect {
    rev.map_or(Expect::Absent, Expect::At)
}

/// What a write came to once unknown outcomes were read back (B-5).
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    /// Our value is there.
    pub(super) done: bool,
    /// The revision that is there.
    pub(super) rev: Option<Rev>,
}

impl Provisioner {
    /// A call to the store, given up when it hangs; after a stop it may go on for a while. Once it hung,
    /// nothing more is tried on this pass.
    pub(super) async fn stored<T>(
        &self,
        call: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, StoreFault> {
        let hung = || Fault::Unreachable("no answer in time".to_owned());
        if self.store_hangs.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(hung().into());
        }
        tokio::select! {
            outcome = call => return Ok(outcome?),
            () = tokio::time::sleep(STORE_TIMEOUT) => {}
            () = patience(&self.parts.stop) => {}
        }
        self.store_hangs
            .store(true, std::sync::atomic::Ordering::Relaxed);
        Err(hung().into())
    }

    /// `n` independent writes under `prefix`. `make` gives the same write each time that it is asked.
    pub(super) async fn keep_each(
        &self,
        bucket: Bucket,
        prefix: &Key,
        n: usize,
        make: impl Fn(usize) -> Write,
    ) -> Result<Vec<Outcome>, StoreFault> {
        let mut puts = Vec::with_capacity(n);
        while puts.len() < n {
            let end = n.min(puts.len() + WRITTEN_AT_ONCE);
            let writes = (puts.len()..end).map(&make).collect();
            puts.extend(self.stored(self.parts.bus.put_each(bucket, writes)).await?);
            puts.resize(end, Put::Unknown);
            self.pulse.item();
        }
        let mut outcomes = Vec::with_capacity(n);
        let mut open = Vec::new();
        for (i, put) in puts.into_iter().enumerate() {
            if !matches!(put, Put::Done(_)) {
                open.push(i);
            }
            outcomes.push(match put {
                Put::Done(rev) => Outcome {
                    done: true,
                    rev: Some(rev),
                },
                Put::Conflict | Put::Unknown => Outcome {
                    done: false,
                    rev: None,
                },
            });
        }
        let mut listed = HashMap::new();
        if open.len() > READ_SINGLY {
            let snapshot = self.stored(self.parts.bus.list(bucket, prefix)).await?;
            listed.extend(snapshot.entries.into_iter().map(|e| (e.key.clone(), e)));
        }
        let singly = open.len() <= READ_SINGLY;
        for i in open {
            let write = make(i);
            let found = if singly {
                self.stored(self.parts.bus.get(bucket, &write.key)).await?
            } else {
                listed.remove(&write.key)
            };
            outcomes[i] = Outcome {
                done: found.as_ref().is_some_and(|e| e.value == write.value),
                rev: found.map(|e| e.rev),
            };
        }
        Ok(outcomes)
    }

    /// Whether an effect for this one may only follow a stored intent. A lost consumer's record claims
    /// its login already, so that healing needs none.
    pub(super) fn needs_intent(&self, i: usize) -> bool {
        let record = &self.core.slots()[i].record;
        record.applied.is_none() || record.applied != record.intent
    }

    /// Before an effect: the intents of what is new or changed, in one synced write (H-23). Answers whose
    /// effects may be sent.
    pub(super) async fn store_intents(
        &mut self,
        batch: &[usize],
    ) -> (Vec<usize>, Result<(), StoreFault>) {
        let new = batch.iter().copied().filter(|i| self.needs_intent(*i));
        let new: Vec<usize> = new.collect();
        let (failed, outcome) = self.write_records(&new).await;
        if failed.is_empty() {
            return (batch.to_vec(), outcome);
        }
        failed.iter().for_each(|i| self.core.not_sent(*i));
        let failed: std::collections::HashSet<usize> = failed.into_iter().collect();
        let ready = batch.iter().copied().filter(|i| !failed.contains(i));
        (ready.collect(), outcome)
    }

    /// Before a removal: how far it has come, in one synced write. Answers which may go on.
    pub(super) async fn store_departures(
        &mut self,
        which: &[usize],
    ) -> (Vec<usize>, Result<(), StoreFault>) {
        let (failed, outcome) = self.write_records(which).await;
        let ready = which.iter().copied().filter(|i| !failed.contains(i));
        (ready.collect(), outcome)
    }

    /// Every record that differs from what is stored.
    pub(super) async fn store_records(&mut self) -> Result<(), StoreFault> {
        let mut due = std::mem::take(&mut self.owed);
        due.extend(self.core.take_dirty());
        let due: Vec<usize> = due.into_iter().collect();
        let (failed, outcome) = self.write_records(&due).await;
        if failed.is_empty() || matches!(outcome, Err(StoreFault::Bus(_))) {
            return outcome;
        }
        // What met something else was read back; nothing depends on it but the next pass.
        self.write_records(&failed).await.1
    }

    /// Writes records. Answers which are not on the disk; those stay owed.
    async fn write_records(&mut self, which: &[usize]) -> (Vec<usize>, Result<(), StoreFault>) {
        if which.is_empty() {
            return (Vec::new(), Ok(()));
        }
        match self.put_records(which).await {
            Err(fault) => {
                self.revs_stale = true;
                self.owed.extend(which);
                (which.to_vec(), Err(fault))
            }
            Ok(outcomes) => {
                let mut failed = Vec::new();
                for (i, outcome) in which.iter().zip(outcomes) {
                    self.revs[*i] = outcome.rev;
                    if !outcome.done {
                        failed.push(*i);
                    }
                }
                self.owed.extend(&failed);
                let first = failed.first().map(|i| &self.core.slots()[*i].consumer);
                let outcome = first.map_or(Ok(()), |c| Err(StoreFault::Contended(c.to_string())));
                (failed, outcome)
            }
        }
    }

    async fn put_records(&mut self, which: &[usize]) -> Result<Vec<Outcome>, StoreFault> {
        let prefix = Key::of(&[&self.label]);
        if self.revs_stale {
            let found = self
                .stored(self.parts.bus.list(Bucket::Record, &prefix))
                .await?;
            let found = found.entries.into_iter().map(|e| (e.key, e.rev));
            let found: HashMap<Key, Rev> = found.collect();
            for (i, slot) in self.core.slots().iter().enumerate() {
                let key = Key::of(&[&self.label, slot.consumer.as_str()]);
                self.revs[i] = found.get(&key).copied();
            }
            self.revs_stale = false;
        }
        let make = |n: usize| {
            let slot = &self.core.slots()[which[n]];
            Write {
                key: Key::of(&[&self.label, slot.consumer.as_str()]),
                expect: expect(self.revs[which[n]]),
                value: json(&Named {
                    consumer: slot.consumer.clone(),
                    record: &slot.record,
                }),
            }
        };
        self.keep_each(Bucket::Record, &prefix, which.len(), make)
            .await
    }

    /// Somebody else wrote this loop's own entry, or it is gone: the store may have been wiped or put back
    /// from an older copy (B-6). Everything is written again on the next pass.
    fn store_was_replaced(&mut self) {
        self.core.all_dirty();
        self.revs_stale = true;
        self.shelf.forget();
    }

    /// The history, with what earlier passes could not add to it.
    pub(super) async fn store_events(&mut self, events: Vec<Event>) -> Result<(), StoreFault> {
        self.unwritten.extend(events);
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let lines = self.unwritten.iter().map(|event| {
            let subject = Key::of(&[event.kind.as_str(), &event.provider, &event.consumer]);
            (subject, String::from_utf8(json(event)).unwrap_or_default())
        });
        let added = self.stored(self.parts.bus.append(lines.collect())).await;
        let keep = if added.is_ok() { 0 } else { UNWRITTEN };
        let too_many = self.unwritten.len().saturating_sub(keep);
        self.unwritten.drain(..too_many);
        added
    }

    /// The beat: last and next pass, and what is remembered of the server. It is the one write of a
    /// healthy pass.
    pub(super) async fn store_beat(&mut self, end: &PassEnd, now: Time) -> Result<(), StoreFault> {
        self.core.take_server_dirty();
        if !self.is_stopping() {
            self.answered_request = self.requested;
        }
        let version = self.core.server_facts().map(|s| s.version.clone());
        let record = LoopRecord {
            class: "provisioner".into(),
            label: self.label.clone(),
            server: self.core.server().clone(),
            version: version.unwrap_or_default(),
            last_pass: Some(now),
            next_pass: Some(end.next_at),
            summary: end.summary,
            generation: self.core.generation(),
            answered_request: self.answered_request,
            removals: self.core.removals_counted(now),
        };
        let (key, value) = (Key::of(&[&self.name]), json(&record));
        for _ in 0..2 {
            let make = |_| Write {
                key: key.clone(),
                expect: expect(self.beat.rev),
                value: value.clone(),
            };
            let outcomes = self.keep_each(Bucket::Loop, &key, 1, make).await?;
            let Some(outcome) = outcomes.first() else {
                break;
            };
            let before = std::mem::replace(&mut self.beat.rev, outcome.rev);
            if outcome.done {
                return Ok(());
            }
            if before != outcome.rev {
                self.store_was_replaced();
            }
        }
        Err(StoreFault::Contended(self.name.clone()))
    }
}
