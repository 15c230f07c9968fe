//! Acting: intents, effects, and the look again (H-23).

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::ask::{scrub_error, while_alive, within_or_stop};
use super::{MintFault, Provisioner, StoreFault};
use crate::adapter::{Cx, Sink};
use crate::decide::{Happening, Step};
use crate::error::{Class, Error};
use crate::event::{Event, EventKind};
use crate::handle::Asked;
use crate::provision::Departing;

impl Provisioner {
    /// Carries out what the core wants now. Nothing is sent before its intent is on the disk.
    pub(super) async fn act(&mut self) -> Result<(), StoreFault> {
        let steps = self.core.steps(self.now());
        let (minting, mut acting): (Vec<_>, Vec<_>) =
            steps.into_iter().partition(|(_, step)| *step == Step::Mint);
        for (i, _) in minting {
            self.mint(i).await;
        }
        acting.extend(self.core.steps(self.now()));
        if acting.is_empty() || self.parts.stop.is_cancelled() {
            return Ok(());
        }
        self.store_intents(&acting).await?;
        let creates: Vec<usize> = picked(&acting, |step| matches!(step, Step::Create(_)));
        let batched = self.parts.adapter.capabilities().create_all && creates.len() > 1;
        for batch in creates.chunks(self.parts.limits.batch.max(1)) {
            if self.parts.stop.is_cancelled() {
                return Ok(());
            }
            let done = if batched {
                self.create_batch(batch).await
            } else {
                self.create_singly(batch).await
            };
            self.look_again(&done).await;
        }
        for (i, step) in acting {
            if matches!(step, Step::Disable | Step::Remove) && !self.parts.stop.is_cancelled() {
                self.take_away(i, step).await;
            }
        }
        Ok(())
    }

    async fn mint(&mut self, i: usize) {
        let consumer = self.core.slots()[i].consumer.clone();
        match self.parts.mint.mint(&self.parts.provider, &consumer).await {
            Ok(wish) => {
                self.core.secret_ready(i, wish.digest());
                self.wishes[i] = Some(wish);
                self.tell(
                    EventKind::Minted,
                    consumer.as_str(),
                    "a password was minted and sealed",
                );
            }
            Err(MintFault::Lost(why)) => self.core.secret_lost(i, why),
            Err(MintFault::NotNow(why)) => {
                self.tell(
                    EventKind::Failed,
                    consumer.as_str(),
                    &format!("no password minted: {why}"),
                );
            }
        }
    }

    fn tell(&self, kind: EventKind, consumer: &str, detail: &str) {
        self.event(kind, consumer, detail.to_owned()).log();
    }
    pub(super) fn event(&self, kind: EventKind, consumer: &str, detail: String) -> Event {
        Event {
            at: self.now(),
            kind,
            owner: self.name.clone(),
            provider: self.label.clone(),
            consumer: consumer.to_owned(),
            detail,
            count: 1,
        }
    }
    pub(super) fn event_of(&self, i: usize, happening: &Happening) -> Event {
        let (kind, detail) = Event::words(happening);
        self.event(kind, self.core.slots()[i].consumer.as_str(), detail)
    }

    /// One pipeline for many. Answers who was created with success.
    async fn create_batch(&mut self, batch: &[usize]) -> Vec<usize> {
        let cx = Cx::new(self.parts.limits.block_budget, false);
        let sink = Sink::new(batch.len());
        let asked: Vec<Asked<'_>> = batch.iter().filter_map(|i| self.asked(*i)).collect();
        if asked.len() != batch.len() {
            return self.create_singly(batch).await;
        }
        let deadline = self.core.settings().apply_timeout;
        let call = self
            .parts
            .adapter
            .create_all(&cx, &self.parts.marker, &asked, &sink);
        let outcome = while_alive(deadline, "the bulk create", &cx, call).await;
        let left_out = || {
            Error::new(
                Class::Bug,
                "the adapter's bulk create left this consumer out",
            )
        };
        let fallback = outcome.err().unwrap_or_else(left_out);
        let results = sink.take().into_iter();
        let results = results.map(|r| r.unwrap_or_else(|| Err(fallback.clone())));
        self.note_effects(batch.iter().copied().zip(results).collect())
    }

    /// A few at once; no failure stops or delays another (H-3).
    async fn create_singly(&mut self, batch: &[usize]) -> Vec<usize> {
        let mut results = Vec::with_capacity(batch.len());
        {
            let this = &*self;
            let mut waiting = batch.iter().copied();
            let mut flying = FuturesUnordered::new();
            loop {
                while flying.len() < this.parts.limits.concurrency
                    && !this.parts.stop.is_cancelled()
                {
                    let Some(i) = waiting.next() else { break };
                    flying.push(async move { (i, this.create_one(i).await) });
                }
                let Some(result) = flying.next().await else {
                    break;
                };
                results.push(result);
            }
        }
        self.note_effects(results)
    }

    async fn create_one(&self, i: usize) -> Result<(), Error> {
        let Some(asked) = self.asked(i) else {
            return Err(Error::new(
                Class::Bug,
                "a consumer is to be created without its wish",
            ));
        };
        let cx = Cx::new(self.parts.limits.block_budget, false);
        let call = self.parts.adapter.create(&cx, &self.parts.marker, asked);
        within_or_stop(
            self.core.settings().apply_timeout,
            "create",
            &self.parts.stop,
            call,
        )
        .await
    }

    fn note_effects(&mut self, results: Vec<(usize, Result<(), Error>)>) -> Vec<usize> {
        let now = self.now();
        let mut done = Vec::with_capacity(results.len());
        for (i, result) in results {
            if result.is_ok() {
                done.push(i);
            }
            let result = result.map_err(|error| scrub_error(&self.parts.scrub, error));
            self.core.effect(i, now, result);
        }
        done
    }

    async fn take_away(&mut self, i: usize, step: Step) {
        let slot = &self.core.slots()[i];
        let login = Departing::new(slot.consumer.clone(), slot.record.login.clone());
        let cx = Cx::new(self.parts.limits.block_budget, false);
        let deadline = self.core.settings().apply_timeout;
        let (adapter, stop) = (&self.parts.adapter, &self.parts.stop);
        let outcome = if step == Step::Disable {
            within_or_stop(deadline, "disable", stop, adapter.disable(&cx, &login)).await
        } else {
            within_or_stop(deadline, "remove", stop, adapter.remove(&cx, &login)).await
        };
        let outcome = outcome.map_err(|error| scrub_error(&self.parts.scrub, error));
        self.core.effect(i, self.now(), outcome);
    }
}

fn picked(steps: &[(usize, Step)], which: impl Fn(Step) -> bool) -> Vec<usize> {
    steps
        .iter()
        .filter(|(_, step)| which(*step))
        .map(|(i, _)| *i)
        .collect()
}
