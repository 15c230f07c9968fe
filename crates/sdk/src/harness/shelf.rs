//! Conditions on the bus: written when they change, and else only now and then.

use std::collections::HashMap;

use super::store::{expect, json, parse};
use super::{Provisioner, StoreFault};
use crate::bus::{Bucket, Bus, Key, Rev, Write};
use crate::condition::ConditionId;
use crate::decide::conditions::Kept;

/// A condition that stands and did not change is written on a process's first pass, so that counts go on
/// over processes that make one each, and then once in this many passes. Meanwhile it is as fresh as its
/// owner's beat, which every pass writes: count, `last_seen` and the ages in its message lag behind, its
/// state never does.
const REFRESH_EVERY: u64 = 10;

/// What of the conditions is on the bus.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    stored: HashMap<ConditionId, Shelved>,
    passes: u64,
    stale: bool,
}

#[derive(Debug)]
struct Shelved {
    /// As it is stored, but for what only counts.
    kept: Option<Kept>,
    rev: Option<Rev>,
    /// On which pass of this process; none yet.
    written: Option<u64>,
}

impl Shelf {
    pub(super) async fn load(bus: &dyn Bus, name: &str) -> Result<(Self, Vec<Kept>), StoreFault> {
        let mut shelf = Self::default();
        let mut conditions = Vec::new();
        let listed = bus.list(Bucket::Condition, &Key::of(&[name])).await?;
        for entry in listed.entries {
            let kept: Kept = parse("condition", &entry)?;
            conditions.push(kept.clone());
            let id = kept.condition.id.clone();
            let shelved = Shelved {
                kept: Some(kept),
                rev: Some(entry.rev),
                written: None,
            };
            shelf.stored.insert(id, shelved);
        }
        Ok((shelf, conditions))
    }

    /// What is stored is not what was written.
    pub(super) fn forget(&mut self) {
        self.stale = true;
        self.stored.values_mut().for_each(|s| s.kept = None);
    }

    /// Whether this one is to be written on this pass.
    fn is_due(&mut self, kept: &Kept) -> bool {
        let Some(shelved) = self.stored.get_mut(&kept.condition.id) else {
            return kept.raised || kept.condition.count > 0;
        };
        let Some(stored) = &mut shelved.kept else {
            return true;
        };
        let (old, new) = (&mut stored.condition, &kept.condition);
        let news = old.last_seen != new.last_seen;
        old.last_seen = new.last_seen;
        old.count = new.count;
        old.observed_generation = new.observed_generation;
        if old.message != new.message {
            old.message.clone_from(&new.message);
        }
        if old.action != new.action {
            old.action.clone_from(&new.action);
        }
        let lags = shelved
            .written
            .is_none_or(|pass| pass + REFRESH_EVERY <= self.passes);
        *stored != *kept || (kept.raised && news && lags)
    }
}

fn key_of(name: &str, id: &ConditionId) -> Key {
    Key::of(&[name, id.kind.as_str(), &id.subject])
}

impl Provisioner {
    /// Conditions that changed, and now and then those that stand.
    pub(super) async fn store_conditions(&mut self) -> Result<(), StoreFault> {
        self.shelf.passes += 1;
        let (ledger, shelf) = (&self.ledger, &mut self.shelf);
        let due: Vec<Kept> = ledger
            .kept()
            .filter(|kept| shelf.is_due(kept))
            .cloned()
            .collect();
        if due.is_empty() {
            return Ok(());
        }
        match self.put_conditions(&due).await {
            Ok(0) => Ok(()),
            // What met something else was read back, and ours is right: this loop is the owner.
            Ok(_) => {
                let (ledger, shelf) = (&self.ledger, &mut self.shelf);
                let due = ledger.kept().filter(|kept| shelf.is_due(kept));
                let due: Vec<Kept> = due.cloned().collect();
                match self.put_conditions(&due).await? {
                    0 => Ok(()),
                    _ => Err(StoreFault::Contended(format!(
                        "conditions of {}",
                        self.name
                    ))),
                }
            }
            Err(fault) => {
                self.shelf.forget();
                Err(fault)
            }
        }
    }

    /// Writes these, and answers how many are not on the disk.
    async fn put_conditions(&mut self, due: &[Kept]) -> Result<usize, StoreFault> {
        let prefix = Key::of(&[&self.name]);
        if self.shelf.stale {
            let found = self.parts.bus.list(Bucket::Condition, &prefix);
            let found = self.stored(found).await?.entries.into_iter();
            let found: HashMap<Key, Rev> = found.map(|e| (e.key, e.rev)).collect();
            for (id, shelved) in &mut self.shelf.stored {
                shelved.rev = found.get(&key_of(&self.name, id)).copied();
            }
            for kept in due {
                let id = &kept.condition.id;
                let rev = found.get(&key_of(&self.name, id)).copied();
                let shelved = self.shelf.stored.entry(id.clone());
                shelved.or_insert(Shelved {
                    kept: None,
                    rev,
                    written: None,
                });
            }
            self.shelf.stale = false;
        }
        let make = |n: usize| {
            let kept = &due[n];
            let id = &kept.condition.id;
            Write {
                key: key_of(&self.name, id),
                expect: expect(self.shelf.stored.get(id).and_then(|s| s.rev)),
                value: json(kept),
            }
        };
        let outcomes = self
            .keep_each(Bucket::Condition, &prefix, due.len(), make)
            .await?;
        let mut failed = 0;
        for (kept, outcome) in due.iter().zip(outcomes) {
            failed += usize::from(!outcome.done);
            let shelved = Shelved {
                kept: outcome.done.then(|| kept.clone()),
                rev: outcome.rev,
                written: Some(self.shelf.passes),
            };
            self.shelf.stored.insert(kept.condition.id.clone(), shelved);
        }
        Ok(failed)
    }
}
