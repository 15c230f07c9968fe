//! What an answer and an effect mean for one consumer.

use super::brake::{check_interval, note_change, retry_delay};
use super::core::{Core, no_version};
use super::settings::{BRAKE_MAX, TUG_WINDOW};
use super::slot::{Happening, Last, SecretState, Slot, Step, Unknown, Why};
use crate::answer::{Answer, Difference, Held, Lost, MarkSeen, Proof};
use crate::error::{Class, Error};
use crate::time::Time;

/// Whose a login that is there is (H-18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// There is no login of that name.
    Free,
    /// Ours, made by us.
    Ours,
    /// Ours to take over: a password of ours fits, and nothing else says that we made it.
    Adopting,
    /// Somebody else's.
    Taken,
}

fn claim(slot: &Slot, lost: &Lost) -> Claim {
    if lost.differences.contains(Difference::Absent) {
        return Claim::Free;
    }
    let recorded = slot.record.claims(&slot.record.login);
    match lost.mark {
        MarkSeen::Ours => Claim::Ours,
        MarkSeen::Foreign if !lost.password_fits => Claim::Taken,
        _ if recorded => Claim::Ours,
        _ if lost.password_fits => Claim::Adopting,
        _ => Claim::Taken,
    }
}

impl Core {
    /// The call failed: nothing is re-applied, and it is asked again next time (H-7).
    pub(super) fn unknown(&mut self, i: usize, now: Time, error: &Error) {
        self.summary.unknown += 1;
        let slot = &mut self.slots[i];
        slot.todo = None;
        slot.asked_at = Some(now);
        let why: Box<str> = error.message().into();
        match &mut slot.record.unknown {
            Some(unknown) => {
                slot.dirty |= unknown.class != error.class();
                unknown.class = error.class();
                unknown.why = why;
            }
            none => {
                *none = Some(Unknown {
                    since: now,
                    class: error.class(),
                    why: why.clone(),
                });
                slot.dirty = true;
                self.happenings.push((i, Happening::BecameUnknown(why)));
            }
        }
    }

    fn answered(&mut self, i: usize, now: Time) {
        let slot = &mut self.slots[i];
        slot.answered_at = Some(now);
        if slot.record.unknown.take().is_some() {
            slot.dirty = true;
            self.happenings.push((i, Happening::AnsweredAgain));
        }
    }

    /// Held: the brake is reset (H-11), what is not in the record yet is adopted without a write (H-2).
    pub(super) fn held(&mut self, i: usize, now: Time, held: Held) {
        self.answered(i, now);
        self.summary.held += 1;
        let run_no = self.server.run_no;
        let slot = &mut self.slots[i];
        let record = &mut slot.record;
        let braked = record.awaiting_check || record.strikes > 0 || record.failures > 0;
        if braked || record.failed.is_some() || record.taken.is_some() {
            record.awaiting_check = false;
            record.strikes = 0;
            record.failures = 0;
            record.failed = None;
            record.taken = None;
            slot.dirty = true;
        }
        if record.run != run_no {
            record.run = run_no;
            slot.dirty = true;
        }
        Self::ease_tug(slot, now, &self.settings);
        self.note_held(i, now, held);
        self.settle(i, now);
    }

    /// A tug of war ends only after an hour without a change (H-15).
    fn ease_tug(slot: &mut Slot, now: Time, settings: &super::Settings) {
        let record = &mut slot.record;
        if record.tug == 0 {
            slot.dirty |= record.not_before.take().is_some();
            return;
        }
        let quiet = record
            .changes
            .last()
            .is_none_or(|at| now.since(*at) >= TUG_WINDOW);
        if quiet {
            record.tug = 0;
            record.changes.clear();
            record.not_before = None;
        } else {
            record.not_before = Some(now + check_interval(settings, record.tug));
        }
        slot.dirty = true;
    }

    fn note_held(&mut self, i: usize, now: Time, held: Held) {
        let slot = &mut self.slots[i];
        let same = matches!(&slot.record.last, Last::Held { proof, warning, .. }
            if *proof == held.proof && *warning == held.warning);
        if !same {
            let since = Self::since(&slot.record.last, now);
            slot.record.last = Last::Held {
                proof: held.proof,
                since,
                warning: held.warning,
            };
            slot.dirty = true;
        }
    }

    /// What is held becomes what was applied.
    fn settle(&mut self, i: usize, now: Time) {
        let slot = &mut self.slots[i];
        let Some(wanted) = &slot.wanted else { return };
        let record = &mut slot.record;
        if record.applied == Some(wanted.digest) && record.intent.is_none() {
            return;
        }
        let by_us = record.intent == Some(wanted.digest);
        if record.applied != Some(wanted.digest) {
            record.applied_at = Some(now);
            let happening = if by_us {
                Happening::Applied
            } else {
                Happening::Adopted
            };
            self.happenings.push((i, happening));
        }
        record.applied = Some(wanted.digest);
        record.intent = None;
        slot.dirty = true;
    }

    /// Lost: counted for brake and tug, and applied again on this pass if it is ours or free.
    pub(super) fn lost(&mut self, i: usize, now: Time, lost: Lost) {
        self.answered(i, now);
        self.summary.lost += 1;
        self.count_loss(i, now);
        let slot = &mut self.slots[i];
        let claim = claim(slot, &lost);
        slot.record.last = Last::Lost {
            differences: lost.differences,
            detail: lost.detail.clone().into(),
            at: now,
        };
        slot.dirty = true;
        self.react(i, now, claim, &lost);
    }

    /// H-11 and H-15. A loss that a restart since the last held answer (or successful apply) explains
    /// counts for neither.
    fn count_loss(&mut self, i: usize, now: Time) {
        let run_no = self.server.run_no;
        let slot = &mut self.slots[i];
        let applied = slot.is_applied();
        let record = &mut slot.record;
        let explained = record.run != run_no;
        let was_held = applied && matches!(record.last, Last::Held { .. });
        let after_success = std::mem::take(&mut record.awaiting_check);
        if explained {
            return;
        }
        if after_success {
            record.strikes += 1;
            self.happenings.push((i, Happening::Braked(record.strikes)));
        }
        if was_held && note_change(&mut record.changes, now) {
            record.tug += 1;
        }
    }

    fn react(&mut self, i: usize, now: Time, claim: Claim, lost: &Lost) {
        let slot = &mut self.slots[i];
        let applied = slot.is_applied();
        let Some(wanted) = &mut slot.wanted else {
            return;
        };
        if claim == Claim::Taken {
            let news = slot.record.taken != Some(wanted.digest);
            slot.record.taken = Some(wanted.digest);
            slot.record.not_before = Some(now + BRAKE_MAX);
            if news {
                self.happenings.push((i, Happening::Taken));
            }
            return;
        }
        slot.record.taken = None;
        let known = claim != Claim::Free || slot.record.applied.is_some();
        match &mut wanted.secret {
            SecretState::Lost(_) => return,
            secret @ SecretState::New if known => {
                *secret = SecretState::Lost(no_version());
                return;
            }
            SecretState::New => {
                slot.todo = Some(Step::Mint);
                self.todo.push(i);
                return;
            }
            SecretState::Ready => {}
        }
        slot.record.adopted |= claim == Claim::Adopting;
        let why = match (applied, slot.record.applied) {
            (true, _) => Why::Lost(lost.differences),
            (false, None) if slot.record.intent.is_none() => Why::New,
            (false, _) => Why::Changed,
        };
        slot.todo = Some(Step::Create(why));
        self.todo.push(i);
    }

    /// The outcome of a step's effect.
    pub fn effect(&mut self, i: usize, now: Time, outcome: Result<(), Error>) {
        let step = self.slots[i].todo.take();
        match (step, outcome) {
            (Some(Step::Create(why)), Ok(())) => self.created(i, now, why),
            (Some(Step::Create(_)), Err(error)) => self.not_created(i, now, error),
            (Some(Step::Disable | Step::Remove), outcome) => self.taken_away(i, now, step, outcome),
            (Some(Step::Mint) | None, _) => {}
        }
    }

    fn created(&mut self, i: usize, now: Time, why: Why) {
        self.summary.applied += 1;
        let (holds, run_no) = (self.caps.holds, self.server.run_no);
        let slot = &mut self.slots[i];
        let record = &mut slot.record;
        let (strikes, detail) = (record.strikes.max(record.tug), last_detail(&record.last));
        record.awaiting_check = holds;
        record.run = run_no;
        record.failures = 0;
        record.failed = None;
        record.not_before = (strikes > 0).then(|| now + check_interval(&self.settings, strikes));
        slot.blind = None;
        slot.dirty = true;
        if let Why::Lost(differences) = why {
            self.happenings
                .push((i, Happening::Healed(differences, detail)));
            if differences.contains(Difference::Disabled) {
                self.happenings.push((i, Happening::SwitchedOn));
            }
        }
        if !holds {
            self.note_held(
                i,
                now,
                Held {
                    proof: Proof::Record,
                    warning: None,
                },
            );
            self.settle(i, now);
        }
    }

    fn not_created(&mut self, i: usize, now: Time, error: Error) {
        self.summary.failed += 1;
        if error.class() == Class::ReadOnly {
            let waits = format!("waits for a writable server: {}", error.message());
            self.unknown(i, now, &error.with_message(waits));
            return;
        }
        let slot = &mut self.slots[i];
        let lost = slot.is_applied();
        let exists = error.class() == Class::Exists;
        let record = &mut slot.record;
        record.failures = record.failures.saturating_add(1);
        record.not_before = if exists {
            record.taken = slot.wanted.as_ref().map(|w| w.digest);
            Some(now + BRAKE_MAX)
        } else if lost && record.strikes.max(record.tug) > 0 {
            Some(now + check_interval(&self.settings, record.strikes.max(record.tug)))
        } else if lost {
            None
        } else if error.class().is_transient() {
            Some(now + retry_delay(&self.settings, record.failures, slot.consumer.as_str()))
        } else {
            Some(now + self.settings.verify_every)
        };
        record.failed = Some(error.clone());
        slot.dirty = true;
        self.happenings.push((i, Happening::Failed(error)));
    }

    /// The look right after an effect (H-23). It never counts for the brake: neither for nor against.
    pub fn looked_again(&mut self, i: usize, now: Time, answer: Result<Answer, Error>) {
        match answer {
            Ok(Answer::Held(held)) => {
                self.answered(i, now);
                self.note_held(i, now, held);
                self.settle(i, now);
            }
            Ok(Answer::Lost(lost)) => {
                let slot = &mut self.slots[i];
                let detail = lost.detail.into();
                slot.record.last = Last::Lost {
                    differences: lost.differences,
                    detail,
                    at: now,
                };
                slot.dirty = true;
            }
            Err(_) => {}
        }
    }
}

fn last_detail(last: &Last) -> Box<str> {
    match last {
        Last::Lost { detail, .. } => detail.clone(),
        _ => "".into(),
    }
}
