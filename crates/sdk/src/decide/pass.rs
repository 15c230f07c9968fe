//! A pass from its beginning to its end: whom it asks, what follows from the answers, when the next one is.

use super::brake::chance;
use super::core::{Core, Mode, Pass, PassEnd, PassPlan, Summary};
use super::record::{Last, Unknown};
use super::slot::{SecretState, Step, Why};
use super::wish::no_version;
use crate::answer::Answer;
use crate::error::{Class, Error};
use crate::time::Time;

/// Who had no turn on so many passes in a row starves.
const STARVED: u8 = 3;

impl Core {
    /// Begins a pass: whom to ask, and how.
    pub fn begin(&mut self, now: Time) -> PassPlan {
        self.passes = self.passes.wrapping_add(1);
        let slack = self.settings.verify_every / 10;
        let regular = std::mem::take(&mut self.all_due) || now + slack >= self.regular_at;
        if regular {
            let early = chance(self.settings.seed, "pass", self.passes);
            self.regular_at = now + self.settings.verify_every.mul_f64(1.0 - early / 10.0);
        }
        self.pass = Pass {
            at: now,
            regular,
            in_order: true,
            ..Pass::default()
        };
        let mut ask = self.due(now, regular);
        if self.down {
            self.all_unknown(&ask);
            ask.clear();
        } else if !self.caps.holds {
            self.blindly(&ask);
            ask.clear();
        }
        self.order(&mut ask);
        let mode = if self.caps.holds_all && self.server.bulk_timeouts < 2 {
            Mode::Bulk
        } else {
            Mode::Single
        };
        self.pass.open = ask.len();
        self.pass.mode = Some(mode);
        self.pass.plan.clone_from(&ask);
        let list = !self.down && !self.is_other_server() && self.wants_list(now);
        // What is asked for no more is nobody's trouble.
        if !self.caps.list {
            self.server_dirty |= self.server.list_fails.take().is_some();
        }
        if !self.caps.uses || self.departing.is_empty() {
            self.server_dirty |= self.server.uses_fail.take().is_some();
        }
        PassPlan { mode, ask, list }
    }

    /// Who is to be asked: on a regular pass everyone who is not delayed; on one between, whoever is
    /// new, changed, released, or at the end of a delay.
    fn due(&mut self, now: Time, regular: bool) -> Vec<usize> {
        let asks = self.caps.holds && !self.down;
        let mut before = None;
        let mut due = Vec::with_capacity(if regular { self.slots.len() } else { 0 });
        for (i, slot) in self.slots.iter_mut().enumerate() {
            slot.todo = None;
            slot.target = None;
            slot.planned = false;
            slot.adopting = false;
            slot.before = None;
            let soon = std::mem::take(&mut slot.soon);
            if slot.wanted.is_none() || slot.delayed_until(now).is_some() {
                continue;
            }
            self.pass.somebody_is_new |= slot.is_new();
            let between = soon || slot.record.not_before.is_some();
            if regular || between {
                slot.planned = asks;
                self.pass.in_order &= before <= slot.asked_at;
                before = slot.asked_at;
                due.push(i);
            }
        }
        due
    }

    /// Those who waited longest come first; among those who never were asked in this process, the ones
    /// that the process before did not get to (H-9).
    fn order(&self, ask: &mut [usize]) {
        match &self.server.ask_from {
            None if self.pass.in_order => {}
            None => ask.sort_by_key(|i| self.slots[*i].asked_at),
            Some(from) => ask.sort_by(|a, b| {
                let (a, b) = (&self.slots[*a], &self.slots[*b]);
                let key = |s: &'_ super::Slot| (s.asked_at, s.consumer < *from);
                key(a)
                    .cmp(&key(b))
                    .then_with(|| a.consumer.cmp(&b.consumer))
            }),
        }
    }

    /// The server does not answer: nobody can be asked, and that is told once, not for each (C-6).
    fn all_unknown(&mut self, due: &[usize]) {
        self.pass.asking_ended = true;
        self.pass.summary.unknown = self.counted(due);
        let Some(down) = self.server.down.clone() else {
            return;
        };
        for i in due {
            let slot = &mut self.slots[*i];
            if slot.record.unknown.is_none() {
                slot.quiet = true;
                slot.record.unknown = Some(Box::new(down.clone()));
            }
        }
    }

    /// Adapters that cannot be asked are trusted from memory: only what is new, changed, or due once
    /// for a start, a restart or a word is created (H-10).
    fn blindly(&mut self, due: &[usize]) {
        for i in due {
            let slot = &mut self.slots[*i];
            if slot.waits_to_be_written().is_none() {
                let quiet = std::mem::take(&mut slot.quiet);
                slot.dirty |= slot.record.unknown.take().is_some() && !quiet;
            }
            let applied = slot.is_applied();
            let why = match (applied, slot.blind) {
                (true, None) => continue,
                (true, Some(why)) => why,
                (false, _) if slot.record.applied.is_none() => Why::New,
                (false, _) => Why::Changed,
            };
            let known = slot.is_known();
            let Some(wanted) = &slot.wanted else {
                continue;
            };
            if slot.record.taken == Some(wanted.digest) {
                continue;
            }
            match &wanted.secret {
                SecretState::Ready => slot.todo = Some(Step::Create(why)),
                SecretState::New if known => slot.lose_secret(no_version()),
                SecretState::New => slot.todo = Some(Step::Mint),
                SecretState::Lost(_) => {}
            }
            if slot.todo.is_some() {
                self.pass.todo.push(*i);
            }
        }
    }

    /// The answer for one that was asked (H-5 … H-9). An error is *unknown*; a timed-out one ends the
    /// asking: see [`Core::asking_ended`].
    pub fn answer(&mut self, i: usize, now: Time, answer: Result<Answer, Error>) {
        let Some(slot) = self.slots.get_mut(i) else {
            return;
        };
        if !std::mem::take(&mut slot.planned) {
            return;
        }
        // Where one call that hangs stands for all, nobody knows who was asked: they go first again.
        let hung = matches!(&answer, Err(error) if error.class() == Class::TimedOut);
        if !(hung && self.pass.mode == Some(Mode::Bulk)) {
            slot.asked_at = Some(self.pass.at);
            slot.skipped = 0;
        }
        self.pass.open -= 1;
        self.pass.summary.asked += self.counts(i);
        if self.counts(i) == 0 {
            self.pass.own = (true, answer.is_ok());
        }
        match answer {
            Ok(Answer::Held(held)) => self.held(i, now, held),
            Ok(Answer::Lost(lost)) => self.lost(i, now, *lost),
            Err(error) => {
                self.pass.asking_ended |= hung;
                self.unknown(i, now, &error);
            }
        }
    }

    /// Whether a slot counts in numbers: our own login does not.
    pub(super) fn counts(&self, i: usize) -> usize {
        usize::from(!self.slots[i].consumer.is_canary())
    }
    fn counted(&self, which: &[usize]) -> usize {
        which.iter().map(|i| self.counts(*i)).sum()
    }

    /// The bulk call hung: whoever has no answer yet is not asked on this pass (H-9).
    pub fn bulk_timed_out(&mut self) {
        self.pass.asking_ended = true;
        self.pass.bulk_hung = true;
    }
    /// The adapter rests with answers missing: what was told is acted on, and the rest is asked on the next
    /// pass, which follows at once (H-16).
    pub fn rest(&mut self) {
        self.pass.asking_ended = true;
        self.pass.rests = self.pass.open > 0;
    }
    /// Who has no answer because the adapter rests, to be asked on this same pass after all: where nothing
    /// is acted on, there is nothing to wait for.
    pub fn rested(&mut self) -> Option<Vec<usize>> {
        if !std::mem::take(&mut self.pass.rests) {
            return None;
        }
        self.pass.asking_ended = false;
        let open = self.pass.plan.iter().copied();
        Some(open.filter(|i| self.slots[*i].planned).collect())
    }
    /// Whether nobody else may be asked on this pass (H-9).
    pub fn asking_ended(&self) -> bool {
        self.pass.asking_ended
    }
    /// Who was planned and has no answer yet.
    pub fn unanswered(&self) -> usize {
        self.pass.open
    }

    /// What to do now, in this order. Each `Create` has its intent in the record: store
    /// [`Core::take_dirty`] before its effect (H-23). After a mint it is called once more.
    pub fn steps(&mut self, now: Time) -> Vec<(usize, Step)> {
        if self.is_other_server() {
            return Vec::new();
        }
        self.departures(now);
        let read_only = self.seen.as_ref().and_then(|s| s.read_only.clone());
        let mut steps = Vec::new();
        for i in std::mem::take(&mut self.pass.todo) {
            let slot = &mut self.slots[i];
            let paused = |until: Option<Time>| until.is_some_and(|at| at > now);
            let Some(step) = slot.todo else { continue };
            if paused(self.paused_until) || paused(slot.paused_until) {
                continue;
            }
            if step == Step::Mint && self.caps.list && !self.pass.listed {
                continue;
            }
            if let Some(why) = &read_only {
                self.wait_for_writable(i, now, step, why);
                continue;
            }
            self.intend(i, step);
            steps.push((i, step));
        }
        steps
    }

    fn wait_for_writable(&mut self, i: usize, now: Time, step: Step, why: &str) {
        if matches!(step, Step::Disable | Step::Remove) {
            self.slots[i].todo = None;
            self.pass.withheld += 1;
            return;
        }
        let waits = format!("waits for a writable server: {why}");
        self.unknown(i, now, &Error::new(Class::ReadOnly, waits));
    }

    /// The record says what is about to happen, before it does (H-23).
    fn intend(&mut self, i: usize, step: Step) {
        let slot = &mut self.slots[i];
        if let (Step::Create(_), Some(wanted)) = (step, &slot.wanted) {
            slot.before = Some(Box::new((slot.record.intent, slot.record.adopted)));
            slot.dirty |= slot.record.intent != Some(wanted.digest);
            slot.record.intent = Some(wanted.digest);
            slot.record.adopted |= std::mem::take(&mut slot.adopting);
            slot.stored = true;
        }
    }

    /// Ends a pass.
    pub fn end(&mut self, now: Time) -> PassEnd {
        self.pass.summary.not_asked = match self.pass.open {
            0 => 0,
            _ => {
                let open = self.pass.plan.iter().filter(|i| self.slots[**i].planned);
                open.map(|i| self.counts(*i)).sum()
            }
        };
        self.note_not_asked(now);
        self.note_skipped();
        self.note_bulk();
        let mut next_at = self.regular_at;
        let mut whole = !self.down;
        for slot in &self.slots {
            let delayed = slot.delayed_until(now);
            if slot.wanted.is_some() {
                next_at = delayed.map_or(next_at, |at| at.min(next_at));
                next_at = if slot.soon { now } else { next_at };
                whole &= !slot.leans_on_last_pass() || slot.answered_at >= Some(self.pass.at);
            }
        }
        if whole {
            self.server.last_pass = Some(now);
        }
        let facts = self.facts(now);
        PassEnd {
            next_at: next_at.max(now),
            rests: self.pass.rests,
            facts,
            happenings: std::mem::take(&mut self.happenings),
            summary: self.pass.summary,
        }
    }

    /// Who was not asked goes first next time, in this process or the next (H-9). Whoever waits in vain
    /// for too long is unknown, like those whose look failed: silence must not read as well (H-7).
    fn note_not_asked(&mut self, now: Time) {
        if self.pass.bulk_hung && self.pass.open == 0 {
            return;
        }
        let first = self.pass.plan.iter().find(|i| self.slots[**i].planned);
        let from = first.map(|i| self.slots[*i].consumer.clone());
        if from != self.server.ask_from && (from.is_some() || self.pass.regular) {
            self.server_dirty = true;
            self.server.ask_from = from;
        }
        if self.pass.open == 0 {
            return;
        }
        let error = if self.pass.rests {
            Error::new(Class::Busy, "its turn to be proven has not come yet")
        } else {
            Error::new(
                Class::TimedOut,
                "not asked: looks at others got no answer in time",
            )
        };
        for i in std::mem::take(&mut self.pass.plan) {
            let slot = &mut self.slots[i];
            slot.soon |= self.pass.rests && slot.planned;
            if !slot.planned || slot.record.unknown.is_some() {
                continue;
            }
            let since = *slot.waits_since.get_or_insert(self.pass.at);
            if now.since(since) >= self.settings.unknown_after {
                self.unknown(i, since, &error);
            }
        }
    }

    /// Who was planned and had no turn, while others were answered. Where nobody is answered, it is the
    /// server that is told of (C-6).
    fn note_skipped(&mut self) {
        let answered = self.pass.summary.held + self.pass.summary.lost > 0;
        let mut starved = 0;
        for slot in &mut self.slots {
            if slot.wanted.is_none() {
                slot.skipped = 0;
            } else if slot.planned && answered && !self.pass.rests {
                slot.skipped = slot.skipped.saturating_add(1);
            }
            let counts = slot.skipped >= STARVED && !slot.consumer.is_canary();
            starved += usize::from(counts);
        }
        self.pass.summary.starved = starved;
    }

    /// Since when the one that waits longest waits for its turn.
    pub fn waits_longest(&self) -> Option<Time> {
        let waiting = self.slots.iter().filter(|slot| slot.wanted.is_some());
        waiting.filter_map(|slot| slot.waits_since).min()
    }
    /// This pass in numbers, so far.
    pub fn so_far(&self) -> Summary {
        self.pass.summary
    }

    /// After two bulk calls in a row that hung, the next pass asks one by one (H-9).
    fn note_bulk(&mut self) {
        let before = self.server.bulk_timeouts;
        self.server.bulk_timeouts = match self.pass.mode {
            Some(Mode::Bulk) if self.pass.bulk_hung => before + 1,
            _ if self.pass.summary.asked == 0 && !self.pass.own.0 => before,
            _ => 0,
        };
        self.server_dirty |= before != self.server.bulk_timeouts;
    }
}

impl super::Slot {
    /// Whether its own record does not say when it answered last, so that the time of the last whole
    /// pass stands for it.
    fn leans_on_last_pass(&self) -> bool {
        let record = &self.record;
        record.last != Last::Never && record.unknown.is_none() && record.not_before.is_none()
    }
    /// Its needed write waits for a server that takes writes (H-21), or takes ours (B-4).
    pub(super) fn waits_to_be_written(&self) -> Option<&Unknown> {
        let unknown = self.record.unknown.as_deref();
        unknown.filter(|unknown| matches!(unknown.class, Class::ReadOnly | Class::Fenced))
    }
    /// Whether anything says that this consumer had a password before (H-22).
    pub(super) fn is_known(&self) -> bool {
        self.record.claims(&self.record.login) || !self.record.superseded.is_empty()
    }
}
