//! Asking the backend: in bulk or one by one, each with its deadline (H-9).

use tracing::warn;

use super::Provisioner;
use super::call::{cut_off, lanes, scrub_answer, scrub_error, scrub_server, while_alive, within};
use crate::adapter::{Cx, Sink};
use crate::answer::Answer;
use crate::error::{Class, Error};
use crate::handle::Asked;
use crate::name::ConsumerName;
use crate::provision::Departing;

type Answers = Vec<Option<Result<Answer, Error>>>;

fn no_wish() -> Error {
    Error::new(Class::Bug, "a consumer is asked for without its wish")
}

impl Provisioner {
    pub(super) fn cx(&self, after_effect: bool) -> Cx {
        Cx::new(self.parts.limits.block_budget, after_effect)
    }
    /// For calls that write: under the lease, and with our own login, where the fence may be kept (B-4).
    pub(super) fn cx_to_write(&self) -> Cx {
        let Some(fence) = &self.fence else {
            return self.cx(false);
        };
        let canary = self.core.slot_of(&ConsumerName::canary());
        let canary = canary.and_then(|i| self.core.slots()[i].wanted.as_ref());
        let canary = canary.map(|wanted| wanted.login.clone());
        self.cx(false).under(Some(fence.clone()), canary)
    }
    /// Whether it was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.parts.stop.is_cancelled()
    }

    /// What the server says of itself, if the adapter can tell.
    pub(super) async fn look_at_server(&mut self) {
        if !self.parts.adapter.capabilities().server {
            return;
        }
        let cx = self.cx(false);
        let deadline = self.core.settings().ask_timeout;
        let call = self.parts.adapter.server(&cx);
        let seen = tokio::select! {
            seen = self.traced("server", (None, 1), within(deadline, "the look at the server", call)) => seen,
            () = self.parts.stop.cancelled() => return,
        };
        let seen = scrub_server(&self.parts.scrub, seen);
        self.core.server_seen(self.now(), seen);
    }

    /// The server's list.
    pub(super) async fn list(&mut self) {
        let cx = self.cx(false);
        let deadline = self.core.settings().apply_timeout;
        let call = self.parts.adapter.list(&cx, &self.parts.marker);
        let listed = tokio::select! {
            listed = self.traced("list", (None, 1), within(deadline, "the list", call)) => listed,
            () = self.parts.stop.cancelled() => return,
        };
        let listed = listed.map_err(|error| scrub_error(&self.parts.scrub, error));
        self.core.listed(self.now(), listed.as_deref());
        self.make_room();
    }

    /// A list shows consumers that nobody knew: each gets its place, with the revision that its record
    /// may have.
    fn make_room(&mut self) {
        let slots = self.core.slots();
        for slot in &slots[self.revs.len()..] {
            self.revs.push(self.asleep.remove(&slot.consumer));
        }
        self.wishes.resize(slots.len(), None);
    }

    /// How logins that leave are used, before the steps that would take them away.
    pub(super) async fn ask_for_uses(&mut self) {
        let asked = self.core.uses_to_ask(self.now());
        if asked.is_empty() || self.is_stopping() {
            return;
        }
        let slots = self.core.slots();
        let departing = asked.iter().map(|(i, login)| {
            let consumer = slots[*i].consumer.clone();
            Departing::new(consumer, login.clone())
        });
        let departing: Vec<Departing> = departing.collect();
        let cx = self.cx(false);
        let deadline = self.core.settings().apply_timeout;
        let call = self.parts.adapter.uses(&cx, &departing);
        let uses = tokio::select! {
            uses = self.traced("uses", (None, asked.len()), within(deadline, "who is in use", call)) => uses,
            () = self.parts.stop.cancelled() => return,
        };
        let uses = uses.and_then(|uses| {
            if uses.len() == asked.len() {
                return Ok(uses);
            }
            let what = format!("asked for {} logins, told of {}", asked.len(), uses.len());
            Err(Error::new(Class::Bug, what))
        });
        let scrub = &self.parts.scrub;
        let uses = uses.map_err(|error| scrub_error(scrub, error));
        let uses = uses.map(|mut uses| {
            for used in uses.iter_mut().flatten() {
                used.how = scrub(&used.how);
            }
            uses
        });
        self.core.used(self.now(), &asked, uses.as_deref());
    }

    /// Asks for all of them with one call (H-16). What was answered before a cut-off counts. If the
    /// adapter panics, whoever has no answer yet is asked alone: one consumer's data spoils only its own.
    pub(super) async fn ask_in_bulk(&mut self, ask: &[usize]) {
        let (answers, outcome, rests) = self.bulk_look(ask, false).await;
        let now = self.now();
        let class = outcome.as_ref().err().map(Error::class);
        let mut open = Vec::new();
        for (i, answer) in ask.iter().zip(answers) {
            match answer {
                Some(answer) => {
                    let answer = scrub_answer(&self.parts.scrub, answer);
                    self.core.answer(*i, now, answer);
                }
                None => open.push(*i),
            }
        }
        if self.is_stopping() {
            return;
        }
        if rests && outcome.is_ok() && open.len() < ask.len() {
            return self.core.rest();
        }
        let why = left_out(outcome, "look");
        let why = scrub_error(&self.parts.scrub, why);
        if class == Some(Class::Bug) {
            warn!(provider = self.label, "{why}; asking one by one");
            return self.ask_singly(&open).await;
        }
        for i in open {
            self.core.answer(i, now, Err(why.clone()));
        }
        if class == Some(Class::TimedOut) {
            self.core.bulk_timed_out();
        }
    }

    /// One bulk look: what was answered, unscrubbed, how the call ended, and whether the adapter rests.
    async fn bulk_look(
        &self,
        ask: &[usize],
        after_effect: bool,
    ) -> (Answers, Result<(), Error>, bool) {
        let sink = Sink::new(ask.len());
        let asked: Vec<Asked<'_>> = ask.iter().filter_map(|i| self.asked(*i)).collect();
        if asked.len() != ask.len() {
            return (sink.take(), Err(no_wish()), false);
        }
        let (parts, cx) = (&self.parts, self.cx(after_effect));
        let call = parts.adapter.holds_all(&cx, &parts.marker, &asked, &sink);
        let deadline = self.core.settings().ask_timeout;
        let call = while_alive(deadline, "the bulk look", (&cx, || self.pulse.item()), call);
        let outcome = tokio::select! {
            outcome = self.traced("holds_all", (None, ask.len()), call) => outcome,
            () = parts.stop.cancelled() => Err(cut_off("the bulk look")),
        };
        (sink.take(), outcome, cx.signs_of_life().rests())
    }

    /// Asks one by one, a few at once. A time-out ends the asking; what is in flight finishes (H-9).
    pub(super) async fn ask_singly(&mut self, ask: &[usize]) {
        let answers = self.look_at_each(ask, false, true).await;
        let now = self.now();
        for (i, answer) in answers {
            self.core.answer(i, now, answer);
        }
    }

    /// Looks at each, a few at once; a stop cuts off what is in flight.
    async fn look_at_each(
        &self,
        which: &[usize],
        after_effect: bool,
        end_at_timeout: bool,
    ) -> Vec<(usize, Result<Answer, Error>)> {
        let mut answers = Vec::with_capacity(which.len());
        let go_on = |answer: Option<&Result<Answer, Error>>| {
            let timed_out = matches!(answer, Some(Err(error)) if error.class() == Class::TimedOut);
            !(end_at_timeout && timed_out)
        };
        let width = self.parts.limits.concurrency;
        let start = |i| self.look_at(i, after_effect);
        tokio::select! {
            () = lanes(which, width, start, go_on, &mut answers) => {}
            () = self.parts.stop.cancelled() => {}
        }
        answers
    }

    /// Looks at one consumer.
    pub(super) async fn look_at(&self, i: usize, after_effect: bool) -> Result<Answer, Error> {
        let asked = self.asked(i).ok_or_else(no_wish)?;
        let cx = self.cx(after_effect);
        let call = self.parts.adapter.holds(&cx, &self.parts.marker, asked);
        let deadline = self.core.settings().ask_timeout;
        let consumer = Some(&self.core.slots()[i].consumer);
        let call = within(deadline, "the look", call);
        let answer = self.traced("holds", (consumer, 1), call).await;
        self.pulse.item();
        scrub_answer(&self.parts.scrub, answer)
    }

    /// The look after a bulk effect: as cheap as the effect was (H-23). Who has no answer keeps its
    /// intent, and is looked at on the next pass.
    pub(super) async fn look_again(&mut self, done: &[usize]) {
        let caps = self.parts.adapter.capabilities();
        if !caps.holds || done.is_empty() || self.is_stopping() {
            return;
        }
        let answers = if done.len() > 1 && caps.holds_all {
            let (answers, ..) = self.bulk_look(done, true).await;
            let answers = done.iter().copied().zip(answers);
            let answers = answers.filter_map(|(i, answer)| Some((i, answer?)));
            let scrub = &self.parts.scrub;
            let answers = answers.map(|(i, answer)| (i, scrub_answer(scrub, answer)));
            answers.collect()
        } else {
            self.look_at_each(done, true, false).await
        };
        let now = self.now();
        for (i, answer) in answers {
            self.core.looked_again(i, now, answer);
        }
    }
}

/// Why a bulk call has no result for somebody.
pub(super) fn left_out(outcome: Result<(), Error>, what: &str) -> Error {
    outcome.err().unwrap_or_else(|| {
        let message = format!("the adapter's bulk {what} left this consumer out");
        Error::new(Class::Bug, message)
    })
}
