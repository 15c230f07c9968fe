//! Acting: intents, effects, and the look again (H-23).

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tracing::{error, warn};

use super::ask::left_out;
use super::call::{lanes, patience, scrub_error, while_alive, within_or_stop};
use super::{MintFault, Minted, Provisioner, StoreFault};
use crate::adapter::Sink;
use crate::answer::Answer;
use crate::decide::{Happening, Step};
use crate::error::{Class, Error};
use crate::event::{Event, EventKind};
use crate::handle::Asked;
use crate::name::ConsumerName;
use crate::provision::{Departing, Wish};

/// Bulk creates that run into their deadline in a row before the next pass creates one by one, and
/// within one pass before the server counts as hanging.
const BULK_TIMEOUTS: u32 = 2;
/// Passwords that are made with one write.
const MINT_BATCH: usize = 2_000;
/// Full rounds of single calls that all run into their deadline before the server counts as hanging.
const HUNG_ROUNDS: usize = 2;

/// What an effect came to; nothing if the stop cut it off.
type Effect = Option<Result<(), Error>>;

/// What one create came to: the effect, and the look after it if it was made at once.
struct Created {
    effect: Effect,
    look: Option<Result<Answer, Error>>,
}

/// Tells a server that hangs from a consumer that does. Each effect's deadline ends nothing but that
/// effect (H-9); but if nobody gets an answer for two full rounds, the rest of the pass would only be
/// more of the same, for hours, and nobody would be looked at meanwhile (H-4). They go first next time.
struct Hanging {
    silent: usize,
    most: usize,
}

impl Hanging {
    fn new(most: usize) -> Self {
        Self { silent: 0, most }
    }
    fn note(&mut self, timed_out: bool) {
        self.silent = if timed_out { self.silent + 1 } else { 0 };
    }
    fn hangs(&self) -> bool {
        self.silent >= self.most
    }
}

fn is_timeout(effect: &Effect) -> bool {
    matches!(effect, Some(Err(error)) if error.class() == Class::TimedOut)
}

impl Provisioner {
    /// Carries out what the core wants now. Nothing new is sent before its intent is on the disk; what
    /// is healed needs none, so a store that fails does not keep a lost consumer waiting.
    pub(super) async fn act(&mut self) -> Result<(), StoreFault> {
        if self.is_stopping() {
            return Ok(());
        }
        let steps = self.core.steps(self.now());
        let (minting, mut acting): (Vec<_>, Vec<_>) =
            steps.into_iter().partition(|(_, step)| *step == Step::Mint);
        if self
            .mint_each(minting.iter().map(|(i, _)| *i).collect())
            .await
        {
            let complete = self.core.steps(self.now()).into_iter();
            acting.extend(complete.filter(|(_, step)| matches!(step, Step::Create(_))));
        }
        let behind = std::mem::take(&mut self.behind);
        acting.sort_by_key(|(i, _)| !behind.contains(i));
        let (creates, removals): (Vec<_>, Vec<_>) = acting
            .into_iter()
            .partition(|(_, step)| matches!(step, Step::Create(_)));
        let creates: Vec<usize> = creates.into_iter().map(|(i, _)| i).collect();
        let created = self.create_each(&creates).await;
        let removed = self.take_away_each(removals).await;
        created.and(removed)
    }

    /// Makes the missing passwords, many with one write where the mint can. Answers whether there is one more.
    async fn mint_each(&mut self, which: Vec<usize>) -> bool {
        let mut any = false;
        for batch in which.chunks(MINT_BATCH) {
            if self.is_stopping() {
                break;
            }
            let outcomes = match self.mint_all(batch).await {
                Some(outcomes) => batch.iter().copied().zip(outcomes).collect(),
                None => self.mint_singly(batch).await,
            };
            self.step("makes passwords");
            for (i, outcome) in outcomes {
                any |= outcome.is_ok();
                self.note_mint(i, outcome);
            }
        }
        any
    }

    /// Many with few writes, if the mint can.
    async fn mint_all(&self, batch: &[usize]) -> Option<Minted> {
        let slots = self.core.slots();
        let consumers = batch.iter().map(|i| slots[*i].consumer.clone());
        let consumers: Vec<ConsumerName> = consumers.collect();
        let parts = &self.parts;
        let call = parts.mint.mint_all(&parts.provider, &consumers);
        match self.minted(call).await {
            Ok(None) => None,
            Ok(Some(mut outcomes)) => {
                let missing = || Err(MintFault::NotNow("the mint gave no outcome".into()));
                outcomes.resize_with(batch.len(), missing);
                Some(outcomes)
            }
            Err(fault) => Some(batch.iter().map(|_| Err(fault.clone())).collect()),
        }
    }

    async fn mint_singly(&self, batch: &[usize]) -> Vec<(usize, Result<Arc<Wish>, MintFault>)> {
        let mut outcomes = Vec::with_capacity(batch.len());
        let width = self.parts.limits.concurrency;
        let start = |i| self.mint(i);
        let go_on = |_: Option<&Result<Arc<Wish>, MintFault>>| !self.is_stopping();
        lanes(batch, width, start, go_on, &mut outcomes).await;
        outcomes
    }

    async fn mint(&self, i: usize) -> Result<Arc<Wish>, MintFault> {
        let parts = &self.parts;
        let consumer = &self.core.slots()[i].consumer;
        self.minted(parts.mint.mint(&parts.provider, consumer))
            .await?
    }

    /// A call on the mint. Cut off, it has crashed between two of its steps, which it must bear anyway
    /// (H-22).
    async fn minted<T>(&self, call: impl Future<Output = T>) -> Result<T, MintFault> {
        let call = AssertUnwindSafe(call).catch_unwind();
        let deadline = self.core.settings().apply_timeout;
        let outcome = tokio::select! {
            outcome = tokio::time::timeout(deadline, call) => outcome,
            () = patience(&self.parts.stop) => {
                return Err(MintFault::NotNow("stopping".into()));
            }
        };
        match outcome {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(_)) => Err(MintFault::NotNow("the mint panicked".into())),
            Err(_) => Err(MintFault::NotNow("no answer from the stores".into())),
        }
    }

    fn note_mint(&mut self, i: usize, outcome: Result<Arc<Wish>, MintFault>) {
        let told = match outcome {
            Ok(wish) => {
                self.core.secret_ready(i, wish.digest());
                self.wishes[i] = Some(wish);
                (EventKind::Minted, "a password was minted and sealed".into())
            }
            Err(MintFault::Lost(why)) => {
                let why = (self.parts.scrub)(&why);
                return self.core.secret_lost(i, why);
            }
            Err(MintFault::NotNow(why)) => {
                let why = (self.parts.scrub)(&why);
                (EventKind::Failed, format!("no password minted: {why}"))
            }
        };
        let consumer = self.core.slots()[i].consumer.to_string();
        let event = self.event(told.0, &consumer, told.1);
        self.told.push(event);
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

    /// Creates in batches: intents in one synced write, effects, look again, and then the next batch,
    /// with a look for the stop between them. Who is left over goes first on the next pass.
    async fn create_each(&mut self, creates: &[usize]) -> Result<(), StoreFault> {
        let bulk = self.parts.adapter.capabilities().create_all && creates.len() > 1;
        let bulk = bulk && self.bulk_create_timeouts < BULK_TIMEOUTS;
        if !bulk {
            self.bulk_create_timeouts = 0;
        }
        let mut stored = Ok(());
        let mut hangs = false;
        for batch in creates.chunks(self.parts.limits.batch.max(1)) {
            if hangs || self.is_stopping() {
                self.leave(batch);
                continue;
            }
            self.step("creates");
            let (ready, outcome) = self.store_intents(batch).await;
            stored = stored.and(outcome);
            hangs = if bulk && ready.len() > 1 {
                self.create_batch(&ready).await
            } else {
                self.create_singly(&ready).await
            };
        }
        stored
    }

    /// These are not sent on this pass.
    fn leave(&mut self, which: &[usize]) {
        let unsent = which.iter().copied().filter(|i| self.needs_intent(*i));
        let unsent: Vec<usize> = unsent.collect();
        unsent.into_iter().for_each(|i| self.core.not_sent(i));
        self.behind.extend(which);
    }

    /// One pipeline for many, and one look after it. If the adapter panics, whoever has no outcome yet
    /// is created alone. Answers whether the server hangs, or is another holder's now.
    async fn create_batch(&mut self, batch: &[usize]) -> bool {
        let (results, outcome) = self.bulk_create(batch).await;
        let cut_off = outcome.is_none();
        let outcome = outcome.unwrap_or(Ok(()));
        let class = outcome.as_ref().err().map(Error::class);
        let why = scrub_error(&self.parts.scrub, left_out(outcome, "create"));
        let mut noted = Vec::with_capacity(batch.len());
        let mut open = Vec::new();
        for (i, result) in batch.iter().zip(results) {
            match result {
                Some(result) => noted.push((*i, Some(result))),
                None if class == Some(Class::Bug) => open.push(*i),
                None if cut_off => {}
                None => noted.push((*i, Some(Err(why.clone())))),
            }
        }
        let any = noted.iter().any(|(_, result)| !is_timeout(result));
        if class == Some(Class::TimedOut) {
            self.bulk_create_timeouts += 1;
        } else {
            self.bulk_create_timeouts = 0;
        }
        let done = self.note_effects(noted);
        self.look_again(&done).await;
        if !open.is_empty() {
            warn!(provider = self.label, "{why}; creating one by one");
            return self.create_singly(&open).await;
        }
        class == Some(Class::Fenced) || (!any && self.bulk_create_timeouts >= BULK_TIMEOUTS)
    }

    async fn bulk_create(&self, batch: &[usize]) -> (Vec<Effect>, Effect) {
        let sink = Sink::new(batch.len());
        let asked: Vec<Asked<'_>> = batch.iter().filter_map(|i| self.asked(*i)).collect();
        if asked.len() != batch.len() {
            return (sink.take(), Some(Err(no_wish())));
        }
        let (parts, cx) = (&self.parts, self.cx_to_write());
        let call = parts.adapter.create_all(&cx, &parts.marker, &asked, &sink);
        let deadline = self.core.settings().apply_timeout;
        let call = while_alive(
            deadline,
            "the bulk create",
            (&cx, || self.pulse.item()),
            call,
        );
        let outcome = tokio::select! {
            outcome = self.traced("create_all", (None, batch.len()), call) => Some(outcome),
            () = patience(&parts.stop) => None,
        };
        (sink.take(), outcome)
    }

    /// A few at once, each looked at again at once; no failure stops or delays another (H-3). Answers
    /// whether the server hangs.
    async fn create_singly(&mut self, batch: &[usize]) -> bool {
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut pulse = Hanging::new(self.parts.limits.concurrency.max(1) * HUNG_ROUNDS);
        {
            let this = &*self;
            let width = this.parts.limits.concurrency;
            let start = |i| this.create_one(i);
            let go_on = |created: Option<&Created>| {
                if let Some(created) = created {
                    pulse.note(is_timeout(&created.effect));
                }
                !pulse.hangs() && !this.is_stopping()
            };
            lanes(batch, width, start, go_on, &mut outcomes).await;
        }
        if outcomes.len() < batch.len() {
            let sent: std::collections::HashSet<usize> = outcomes.iter().map(|(i, _)| *i).collect();
            let rest = batch.iter().copied().filter(|i| !sent.contains(i));
            let rest: Vec<usize> = rest.collect();
            self.leave(&rest);
        }
        let now = self.now();
        for (i, created) in outcomes {
            self.note_effects(vec![(i, created.effect)]);
            if let Some(look) = created.look {
                self.core.looked_again(i, now, look);
            }
        }
        pulse.hangs()
    }

    async fn create_one(&self, i: usize) -> Created {
        let parts = &self.parts;
        let Some(asked) = self.asked(i) else {
            let effect = Some(Err(no_wish()));
            return Created { effect, look: None };
        };
        let cx = self.cx_to_write();
        let call = parts.adapter.create(&cx, &parts.marker, asked);
        let deadline = self.core.settings().apply_timeout;
        let call = within_or_stop(deadline, "create", &parts.stop, call);
        let consumer = Some(&self.core.slots()[i].consumer);
        let effect = self.traced("create", (consumer, 1), call).await;
        self.pulse.item();
        if !matches!(effect, Some(Ok(()))) || !parts.adapter.capabilities().holds {
            return Created { effect, look: None };
        }
        let look = tokio::select! {
            look = self.look_at(i, true) => Some(look),
            () = parts.stop.cancelled() => None,
        };
        Created { effect, look }
    }

    /// Tells the core. Answers who was created with success.
    fn note_effects(&mut self, effects: Vec<(usize, Effect)>) -> Vec<usize> {
        let now = self.now();
        self.pulse.item();
        let mut done = Vec::with_capacity(effects.len());
        for (i, effect) in effects {
            let Some(result) = effect else { continue };
            if result.is_ok() {
                done.push(i);
            }
            let result = result.map_err(|error| scrub_error(&self.parts.scrub, error));
            if let Err(error) = &result
                && error.class() == Class::Fenced
                && !std::mem::replace(&mut self.outdone, true)
            {
                error!(
                    provider = self.label,
                    "another holder of its lease wrote to the server: {}",
                    error.message()
                );
            }
            self.core.effect(i, now, result);
        }
        done
    }

    /// Switches off and drops, a few at once, behind their stored records.
    async fn take_away_each(&mut self, removals: Vec<(usize, Step)>) -> Result<(), StoreFault> {
        if removals.is_empty() || self.is_stopping() {
            return Ok(());
        }
        let which: Vec<usize> = removals.iter().map(|(i, _)| *i).collect();
        let steps: std::collections::HashMap<usize, Step> = removals.into_iter().collect();
        let (ready, stored) = self.store_departures(&which).await;
        let mut outcomes = Vec::with_capacity(ready.len());
        let mut pulse = Hanging::new(self.parts.limits.concurrency.max(1) * HUNG_ROUNDS);
        {
            let (this, steps) = (&*self, &steps);
            let width = this.parts.limits.concurrency;
            let start = |i| async move {
                let effect = this.take_away(i, steps[&i]).await;
                this.pulse.item();
                effect
            };
            let go_on = |outcome: Option<&Effect>| {
                if let Some(outcome) = outcome {
                    pulse.note(is_timeout(outcome));
                }
                !pulse.hangs() && !this.is_stopping()
            };
            lanes(&ready, width, start, go_on, &mut outcomes).await;
        }
        self.note_effects(outcomes);
        stored
    }

    async fn take_away(&self, i: usize, step: Step) -> Effect {
        let slot = &self.core.slots()[i];
        let login = Departing::new(slot.consumer.clone(), slot.going().clone());
        let cx = self.cx_to_write();
        let deadline = self.core.settings().apply_timeout;
        let (adapter, stop) = (&self.parts.adapter, &self.parts.stop);
        let marker = &self.parts.marker;
        let consumer = (Some(&slot.consumer), 1);
        if step == Step::Disable {
            let call = adapter.disable(&cx, marker, &login);
            let call = within_or_stop(deadline, "disable", stop, call);
            self.traced("disable", consumer, call).await
        } else {
            let call = adapter.remove(&cx, marker, &login);
            let call = within_or_stop(deadline, "remove", stop, call);
            self.traced("remove", consumer, call).await
        }
    }
}

fn no_wish() -> Error {
    Error::new(Class::Bug, "a consumer is to be created without its wish")
}
