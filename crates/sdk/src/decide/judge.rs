//! What an answer means for one consumer: held, lost and whose it is, or unknown.

use super::brake::{check_interval, note_change};
use super::core::Core;
use super::facts::what_differs;
use super::record::{Last, Unknown};
use super::settings::{BRAKE_MAX, TUG_WINDOW};
use super::slot::{Happening, SecretState, Slot, Step, Why};
use super::wish::no_version;
use crate::answer::{Difference, Held, Lost, MarkSeen};
use crate::error::Error;
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

/// Another installation's mark makes a login a stranger's, whatever we remember: only a person's
/// `adopt`, with a password that fits, takes it over.
fn claim(slot: &Slot, lost: &Lost) -> Claim {
    let adopt = slot.wanted.as_ref().is_some_and(|w| w.adopt);
    if lost.differences.contains(Difference::Absent) {
        return Claim::Free;
    }
    match lost.mark {
        MarkSeen::Ours => Claim::Ours,
        MarkSeen::Foreign if adopt && lost.password_fits => Claim::Adopting,
        MarkSeen::Foreign => Claim::Taken,
        _ if slot.record.claims(&slot.record.login) => Claim::Ours,
        _ if lost.password_fits => Claim::Adopting,
        _ => Claim::Taken,
    }
}

impl Core {
    /// The call failed: nothing is re-applied, and it is asked again next time (H-7).
    pub(super) fn unknown(&mut self, i: usize, since: Time, error: &Error) {
        self.pass.summary.unknown += self.counts(i);
        let slot = &mut self.slots[i];
        slot.todo = None;
        let why: Box<str> = error.message().into();
        let told = !std::mem::take(&mut slot.quiet);
        match &mut slot.record.unknown {
            Some(unknown) if told => {
                slot.dirty |= unknown.class != error.class();
                unknown.class = error.class();
                unknown.why = why;
            }
            unknown => {
                let since = unknown.as_ref().map_or(since, |before| before.since);
                *unknown = Some(Box::new(Unknown {
                    since,
                    class: error.class(),
                    why: why.clone(),
                }));
                slot.dirty = true;
                self.happenings.push((i, Happening::BecameUnknown(why)));
            }
        }
    }

    /// It answered. A write that waits to be taken goes on waiting unless it is not needed.
    fn answered(&mut self, i: usize, now: Time, held: bool) {
        let slot = &mut self.slots[i];
        slot.answered_at = Some(now);
        slot.waits_since = None;
        if !held && slot.waits_to_be_written().is_some() {
            return;
        }
        let quiet = std::mem::take(&mut slot.quiet);
        if slot.record.unknown.take().is_some() && !quiet {
            slot.dirty = true;
            self.happenings.push((i, Happening::AnsweredAgain));
        }
    }

    /// Held: the brake is reset (H-11), what is not in the record yet is adopted without a write (H-2).
    pub(super) fn held(&mut self, i: usize, now: Time, held: Held) {
        self.answered(i, now, true);
        self.pass.summary.held += self.counts(i);
        self.note_held(i, now, held);
        if self.is_other_server() {
            return;
        }
        let run_no = self.server.run_no;
        let slot = &mut self.slots[i];
        if slot.is_new() {
            slot.lose_secret(no_version());
        }
        let record = &mut slot.record;
        let waited = (record.awaiting_check, record.strikes, record.failures);
        let stood = (
            record.failed.take().is_some(),
            record.taken.take().is_some() | record.taken_from.take().is_some(),
        );
        slot.dirty |= (waited, stood, record.run) != ((false, 0, 0), (false, false), run_no);
        record.awaiting_check = false;
        record.strikes = 0;
        record.failures = 0;
        record.run = run_no;
        ease_tug(slot, now, &self.settings);
        forget_change(slot);
        self.settle(i, now);
    }

    pub(super) fn note_held(&mut self, i: usize, now: Time, held: Held) {
        let slot = &mut self.slots[i];
        let since = match &slot.record.last {
            Last::Held {
                proof,
                since,
                warning,
            } => {
                if *proof == held.proof && *warning == held.warning {
                    return;
                }
                *since
            }
            _ => now,
        };
        slot.record.last = Last::Held {
            proof: held.proof,
            since,
            warning: held.warning,
        };
        slot.dirty = true;
    }

    /// What is held becomes what was applied. Without its password nothing is proven, and it does not.
    pub(super) fn settle(&mut self, i: usize, now: Time) {
        let slot = &mut self.slots[i];
        let Some(wanted) = slot.wanted.as_ref().filter(|_| slot.is_ready()) else {
            return;
        };
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
        self.answered(i, now, false);
        self.pass.summary.lost += self.counts(i);
        if self.is_other_server() {
            self.note_lost(i, now, &lost);
            return;
        }
        self.pass.gone += usize::from(self.slots[i].is_applied());
        self.count_loss(i, now, &lost);
        self.note_lost(i, now, &lost);
        self.react(i, now, &lost);
        if self.slots[i].todo.is_none() {
            self.answered(i, now, true);
        }
    }

    pub(super) fn note_lost(&mut self, i: usize, now: Time, lost: &Lost) {
        let slot = &mut self.slots[i];
        let at = match &slot.record.last {
            Last::Lost {
                differences,
                detail,
                at,
            } => {
                if *differences == lost.differences && **detail == *lost.detail {
                    return;
                }
                *at
            }
            _ => now,
        };
        slot.record.last = Last::Lost {
            differences: lost.differences,
            detail: lost.detail.as_str().into(),
            at,
        };
        slot.dirty = true;
    }

    /// H-11 and H-15. A loss that a restart since the last held answer (or successful apply) explains
    /// counts for neither.
    fn count_loss(&mut self, i: usize, now: Time, lost: &Lost) {
        let run_no = self.server.run_no;
        let slot = &mut self.slots[i];
        let was_held = slot.is_applied() && matches!(slot.record.last, Last::Held { .. });
        let record = &mut slot.record;
        let after_success = std::mem::take(&mut record.awaiting_check);
        slot.dirty |= after_success;
        if record.run != run_no {
            self.pass.explained += 1;
            return;
        }
        if after_success {
            record.strikes = record.strikes.saturating_add(1);
            self.happenings.push((i, Happening::Braked(record.strikes)));
        }
        if was_held {
            slot.dirty = true;
            if note_change(&mut record.changes, now) {
                record.tug = record.tug.saturating_add(1);
            }
        }
        if record.is_braked() || !record.changes.is_empty() {
            let differs = what_differs(lost.differences, &lost.detail);
            slot.dirty |= record.changed.as_deref() != Some(&*differs);
            record.changed = Some(differs.into());
        }
    }

    /// Whether the login that a look found was made by us for another consumer: with its password it is
    /// handed over, and stays one of ours.
    fn is_handed_over(&self, i: usize, lost: &Lost) -> bool {
        let MarkSeen::OursFor(former) = &lost.mark else {
            return false;
        };
        let login = &self.slots[i].record.login;
        let former = self.slot_of(former).map(|j| &self.slots[j].record);
        former.is_some_and(|record| record.had(login) && !record.is_elder(login))
    }

    fn react(&mut self, i: usize, now: Time, lost: &Lost) {
        let handed_over = self.is_handed_over(i, lost);
        let slot = &mut self.slots[i];
        let claim = claim(slot, lost);
        let (applied, known) = (slot.is_applied(), slot.is_known());
        let Some(wanted) = &slot.wanted else {
            return;
        };
        if claim == Claim::Taken {
            let news = slot.record.taken != Some(wanted.digest);
            slot.record.taken = Some(wanted.digest);
            slot.record.taken_from = match &lost.mark {
                MarkSeen::OursFor(former) => Some(former.clone()),
                _ => None,
            };
            slot.record.not_before = Some(now + BRAKE_MAX);
            slot.dirty = true;
            if news {
                self.happenings.push((i, Happening::Taken));
            }
            return;
        }
        if slot.record.taken.take().is_some() {
            // What waited for that waits no more, whatever the clock does until it is applied (O-37).
            slot.record.taken_from = None;
            slot.record.not_before = None;
            slot.dirty = true;
        }
        let step = match &wanted.secret {
            SecretState::Lost(_) => return,
            SecretState::New if known || claim != Claim::Free => {
                slot.lose_secret(no_version());
                return;
            }
            SecretState::New => Step::Mint,
            SecretState::Ready => Step::Create(match (applied, slot.record.applied) {
                (true, _) => Why::Lost(lost.differences),
                (false, None) if slot.record.intent.is_none() => Why::New,
                (false, _) => Why::Changed,
            }),
        };
        slot.adopting = claim == Claim::Adopting && !handed_over;
        slot.todo = Some(step);
        self.pass.todo.push(i);
    }
}

/// What changed is told as long as a change may still count.
fn forget_change(slot: &mut Slot) {
    let record = &mut slot.record;
    if !record.is_braked() && record.changes.is_empty() {
        slot.dirty |= record.changed.take().is_some();
    }
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
