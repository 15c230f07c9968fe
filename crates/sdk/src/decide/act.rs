//! What the outcome of a step means: applied, failed, and what the look after it says (H-12, H-23).

use super::brake::retry_delay;
use super::core::Core;
use super::record::Last;
use super::slot::{Happening, Step, Why};
use crate::answer::{Answer, Difference, Held, Proof};
use crate::error::{Class, Error};
use crate::time::Time;

impl Core {
    /// The effect of a `Create` was not sent: its intent could not be stored. The record claims what it
    /// claimed before, so that a login which somebody else makes meanwhile is theirs (H-18, H-23).
    pub fn not_sent(&mut self, i: usize) {
        let slot = &mut self.slots[i];
        if let Some((intent, adopted)) = slot.before.take().map(|before| *before) {
            slot.record.intent = intent;
            slot.record.adopted = adopted;
            slot.todo = None;
            slot.dirty = true;
        }
    }

    /// The outcome of a step's effect.
    pub fn effect(&mut self, i: usize, now: Time, outcome: Result<(), Error>) {
        let step = self.slots[i].todo.take();
        match (step, outcome) {
            (Some(Step::Create(why)), Ok(())) => self.created(i, now, why),
            (Some(Step::Create(_)), Err(error)) => self.not_created(i, now, error),
            (Some(step @ (Step::Disable | Step::Remove)), outcome) => {
                self.taken_away(i, now, step, outcome);
            }
            (Some(Step::Mint) | None, _) => {}
        }
    }

    fn created(&mut self, i: usize, now: Time, why: Why) {
        self.pass.summary.applied += self.counts(i);
        let slot = &mut self.slots[i];
        let record = &mut slot.record;
        let detail = match &record.last {
            Last::Lost { detail, .. } => detail.clone(),
            _ => "".into(),
        };
        record.awaiting_check = self.caps.holds;
        record.run = self.server.run_no;
        record.failures = 0;
        record.failed = None;
        record.taken = None;
        record.taken_from = None;
        let wait = record.wait(&self.settings);
        record.not_before = (!wait.is_zero()).then(|| now + wait);
        slot.blind = None;
        slot.dirty = true;
        let waited = slot.waits_to_be_written().is_some();
        if waited {
            slot.record.unknown = None;
            self.happenings.push((i, Happening::AnsweredAgain));
        }
        if let Why::Lost(differences) = why {
            self.happenings
                .push((i, Happening::Healed(differences, detail)));
            if differences.contains(Difference::Disabled) {
                self.happenings.push((i, Happening::SwitchedOn));
            }
        }
        if !self.caps.holds {
            let trusted = Held {
                proof: Proof::Record,
                warning: None,
            };
            self.note_held(i, now, trusted);
            self.settle(i, now);
        }
    }

    /// A new or changed one waits, growing; a lost one is tried again at the next check, with its brake's
    /// count unchanged (H-3, H-12). A server that takes no writes makes it unknown (H-21), and so does one that
    /// a later holder of the lease wrote to: nothing was tried, and nothing is known of it here (B-4).
    fn not_created(&mut self, i: usize, now: Time, error: Error) {
        if error.class() == Class::Fenced {
            self.unknown(i, now, &error);
            return;
        }
        self.pass.summary.failed += 1;
        if error.class() == Class::ReadOnly {
            let waits = format!("waits for a writable server: {}", error.message());
            self.unknown(i, now, &error.with_message(waits));
            return;
        }
        let slot = &mut self.slots[i];
        let lost = slot.is_applied();
        let record = &mut slot.record;
        record.failures = record.failures.saturating_add(1);
        if error.class() == Class::Exists {
            // Nothing was written: the intent must not claim somebody else's login (H-18).
            record.intent = None;
            record.taken = slot.wanted.as_ref().map(|w| w.digest);
            record.taken_from = None;
        }
        let wait = record.wait(&self.settings);
        let wait = if lost || !wait.is_zero() {
            wait
        } else if error.class().is_transient() {
            retry_delay(&self.settings, record.failures, slot.consumer.as_str())
        } else {
            self.settings.verify_every
        };
        record.not_before = (!wait.is_zero()).then(|| now + wait);
        record.failed = Some(Box::new(error.clone()));
        slot.dirty = true;
        self.happenings.push((i, Happening::Failed(error)));
    }

    /// The look right after an effect (H-23). It never counts for the brake: neither for nor against.
    /// One that cannot be answered leaves the intent, and so does one that speaks of another wish.
    pub fn looked_again(&mut self, i: usize, now: Time, answer: Result<Answer, Error>) {
        let slot = &self.slots[i];
        let wanted = slot.wanted.as_ref().map(|w| w.digest);
        if slot.record.intent != wanted || wanted.is_none() {
            return;
        }
        match answer {
            Ok(Answer::Held(held)) => {
                let slot = &mut self.slots[i];
                slot.answered_at = Some(now);
                if !slot.is_applied() {
                    // It was new or changed: no repair, whose next check would be the brake's (H-11).
                    slot.record.awaiting_check = false;
                }
                self.note_held(i, now, held);
                self.settle(i, now);
            }
            Ok(Answer::Lost(lost)) => self.note_lost(i, now, &lost),
            Err(_) => {}
        }
    }
}
