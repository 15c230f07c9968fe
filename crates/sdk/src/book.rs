//! One owner's conditions, kept on the bus: the ledger with the revisions of what is stored.

use std::collections::{BTreeSet, HashMap};

use crate::bus::{Bucket, Bus, Expect, Fault, Key, Put, Rev, Write};
use crate::condition::{ConditionId, Fact};
use crate::decide::conditions::{Change, Kept, Ledger, Seen};
use crate::harness::declared;
use crate::time::Time;

/// A standing condition that only counts on is stored again after this many looks, not at each.
const STORE_EVERY: u64 = 10;

/// The conditions of one owner with their place on the bus.
#[derive(Debug)]
pub struct Book {
    owner: String,
    ledger: Ledger,
    revs: HashMap<String, Rev>,
}

/// The key under which a condition is stored, and by which people name it.
pub fn key_of(id: &ConditionId) -> String {
    storage_key(id).as_str().to_owned()
}

fn storage_key(id: &ConditionId) -> Key {
    Key::of(&[&id.owner, id.kind.as_str(), &id.subject])
}

impl Book {
    /// Opens an owner's book. Errors: the bus cannot be read, or what is there cannot.
    pub async fn open(bus: &dyn Bus, owner: &str) -> Result<Self, Fault> {
        let mut kept = Vec::new();
        let mut revs = HashMap::new();
        for entry in bus
            .list(Bucket::Condition, &Key::of(&[owner]))
            .await?
            .entries
        {
            let one: Kept = serde_json::from_slice(&entry.value)
                .map_err(|error| Fault::Corrupt(format!("condition {}: {error}", entry.key)))?;
            kept.push(one);
            revs.insert(entry.key.as_str().to_owned(), entry.rev);
        }
        Ok(Self {
            owner: owner.to_owned(),
            ledger: Ledger::new(owner, kept),
            revs,
        })
    }
    /// The conditions, to read.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }
    /// One look of the owner; see [`Ledger::look`]. With debug assertions it panics at a fact of a type that the
    /// owner's class does not declare.
    pub fn look(
        &mut self,
        now: Time,
        generation: u64,
        facts: Vec<Fact>,
        seen: impl Fn(&ConditionId) -> Seen,
    ) -> Vec<Change> {
        for fact in &facts {
            declared::finds(&self.owner, fact.kind);
        }
        self.ledger.look(now, generation, facts, seen)
    }
    /// Stores what changed, what is new, what is about to be cleared, and now and then what only counted on.
    pub async fn store(&mut self, bus: &dyn Bus, changes: &[Change]) -> Result<(), Fault> {
        let changed: BTreeSet<&ConditionId> = changes
            .iter()
            .map(|change| match change {
                Change::Raised(c) | Change::Changed(c) | Change::Cleared(c) => &c.id,
            })
            .collect();
        let mut keys = Vec::new();
        let mut writes = Vec::new();
        for kept in self.ledger.kept() {
            let id = &kept.condition.id;
            let key = storage_key(id);
            let rev = self.revs.get(key.as_str()).copied();
            let due = kept.condition.count.is_multiple_of(STORE_EVERY) && kept.condition.count > 0;
            let counts = due || kept.is_clearing();
            if !changed.contains(id) && rev.is_some() && !counts {
                continue;
            }
            let value =
                serde_json::to_vec(kept).map_err(|error| Fault::Corrupt(error.to_string()))?;
            keys.push(key.clone());
            writes.push(Write {
                key,
                expect: rev.map_or(Expect::Absent, Expect::At),
                value,
            });
        }
        if writes.is_empty() {
            return Ok(());
        }
        let outcomes = bus.put_each(Bucket::Condition, writes).await?;
        for (key, outcome) in keys.into_iter().zip(outcomes) {
            let rev = match outcome {
                Put::Done(rev) => Some(rev),
                Put::Conflict | Put::Unknown => bus
                    .get(Bucket::Condition, &key)
                    .await?
                    .map(|entry| entry.rev),
            };
            if let Some(rev) = rev {
                self.revs.insert(key.as_str().to_owned(), rev);
            }
        }
        Ok(())
    }
}
