//! One server's loop with what the program adds to it: words that count once, and removals that are
//! counted over the whole mesh.

use std::sync::Arc;

use async_trait::async_trait;
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put, Rev, Write};
use mesh_sdk::clock::Clock;
use mesh_sdk::handle::AdapterHandle;
use mesh_sdk::harness::skeleton::Loop;
use mesh_sdk::harness::{PassReport, ProviderWish, Provisioner, StoreFault};
use mesh_sdk::{ProviderName, Time};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::tally::Tally;
use super::words::{self, Said};

/// What a loop is told.
pub enum Told {
    /// A wish that was read whole, or confirmed.
    Wish(Box<ProviderWish>),
    /// What people said.
    Words(Arc<Said>),
}

/// Up to which revision of the store a loop has heard what people said (`meta`, key heard.LOOP). A word
/// counts once, and whatever clocks do meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Heard {
    until: u64,
}

/// One server's loop.
pub struct Seat {
    /// The provider.
    pub provider: ProviderName,
    /// The loop itself.
    pub inner: Provisioner,
    /// Its adapter, for hints and doctor.
    pub adapter: AdapterHandle,
    bus: Arc<dyn Bus>,
    clock: Clock,
    tally: Arc<Tally>,
    heard: u64,
    kept: (u64, Option<Rev>),
}

impl Seat {
    /// Around a loop that was opened. Reads the store; writes nothing.
    pub async fn of(
        provider: ProviderName,
        inner: Provisioner,
        adapter: AdapterHandle,
        (bus, clock, tally): (Arc<dyn Bus>, Clock, Arc<Tally>),
    ) -> Result<Self, Fault> {
        let key = heard_key(inner.name());
        let entry = bus.get(Bucket::Meta, &key).await?;
        let heard: Heard = match &entry {
            Some(entry) => serde_json::from_slice(&entry.value)
                .map_err(|error| Fault::Corrupt(format!("{key}: {error}")))?,
            None => Heard::default(),
        };
        let rev = entry.map(|entry| entry.rev);
        let seat = Self {
            provider,
            inner,
            adapter,
            bus,
            clock,
            tally,
            heard: heard.until,
            kept: (heard.until, rev),
        };
        seat.count();
        Ok(seat)
    }

    fn count(&self) {
        let count = self.inner.core().removals_counted(self.clock.now());
        self.tally.note(&self.provider, self.inner.label(), count);
    }

    /// Puts a wish in force. Answers whether it is another one.
    pub fn set_wish(&mut self, wish: ProviderWish) -> bool {
        let changed = wish.whole.generation != self.inner.core().generation();
        self.inner.set_wish(wish);
        self.count();
        changed
    }

    /// Hears what people said: what stands, and what is new. Answers whether a pass is wanted at once.
    pub fn hear_words(&mut self, said: &Said) -> bool {
        let now = self.clock.now();
        let wanted = words::apply(&mut self.inner, &self.provider, said, self.heard, now);
        self.heard = self.heard.max(said.newest());
        wanted
    }

    /// Tells the loop what leaves elsewhere in the mesh.
    pub async fn weigh(&mut self) {
        if let Err(fault) = self.tally.look(self.bus.as_ref(), self.clock.now()).await {
            warn!("what other hosts take away cannot be counted anew: {fault}");
        }
        let others = self.tally.others(&self.provider);
        self.inner.core_mut().set_others_removed(others);
    }

    /// A pass of everything, as a process without a runner makes it: as many as it takes, where the adapter
    /// rests between (H-16).
    pub async fn whole_pass(&mut self) -> Result<PassReport, StoreFault> {
        let mut report = self.one_pass().await?;
        while report.rests && !self.inner.is_stopping() {
            report = self.one_pass().await?.with_earlier(&report);
        }
        Ok(report)
    }

    /// One pass.
    pub async fn one_pass(&mut self) -> Result<PassReport, StoreFault> {
        self.weigh().await;
        let outcome = self.inner.pass().await;
        self.count();
        if outcome.is_ok() {
            self.keep_heard().await;
        }
        outcome
    }

    /// What was heard is done once a pass that knew of it was kept.
    async fn keep_heard(&mut self) {
        if self.heard == self.kept.0 {
            return;
        }
        let write = Write {
            key: heard_key(self.inner.name()),
            expect: self.kept.1.map_or(Expect::Absent, Expect::At),
            value: serde_json::to_vec(&Heard { until: self.heard }).unwrap_or_default(),
        };
        let key = write.key.clone();
        match self.bus.put_if(Bucket::Meta, write).await {
            Ok(Put::Done(rev)) => self.kept = (self.heard, Some(rev)),
            Ok(Put::Conflict | Put::Unknown) => {
                if let Ok(entry) = self.bus.get(Bucket::Meta, &key).await {
                    self.kept.1 = entry.map(|entry| entry.rev);
                }
            }
            Err(fault) => warn!(
                name = self.inner.name(),
                "it is not kept what was heard: {fault}"
            ),
        }
    }
}

fn heard_key(name: &str) -> Key {
    Key::of(&["heard", name])
}

#[async_trait]
impl Loop for Seat {
    type Word = Told;

    fn name(&self) -> &str {
        self.inner.name()
    }
    fn hear(&mut self, word: Told) -> bool {
        match word {
            Told::Wish(wish) => self.set_wish(*wish),
            Told::Words(said) => self.hear_words(&said),
        }
    }
    fn hint(&mut self) {
        self.inner.core_mut().hint();
    }
    async fn pass(&mut self) -> Result<PassReport, StoreFault> {
        self.one_pass().await
    }
    fn rests_until(&mut self, next: Time) {
        self.inner.rests_until(next);
    }
}
