//! Taking away: a login that is asked for no more, step by step.

use std::time::Duration;

use super::brake::check_interval;
use super::core::Core;
use super::departure::{Departure, Phase};
use super::guards::BRAKE_WINDOW;
use super::record::Record;
use super::slot::{Happening, Slot, Step};
use crate::error::{Class, Error};
use crate::name::{ConsumerName, Login};
use crate::time::Time;

/// What became of a person's word to retire a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retired {
    /// It begins to leave, by the same steps as any other.
    Begun,
    /// It leaves already; what held it up is let go.
    UnderWay,
    /// A wish names it: nothing happens.
    Wanted,
    /// No such login of this consumer is known.
    Unknown,
}

impl Core {
    /// A consumer that a whole wish does not name begins to leave, if anything was ever made for it.
    pub(super) fn unwanted(&mut self, i: usize, now: Time) {
        self.forget_this_pass(i);
        self.unwanted_still(i, now);
        let slot = &mut self.slots[i];
        let record = &mut slot.record;
        slot.wanted = None;
        slot.soon = false;
        if record.departure.is_some() {
            return;
        }
        slot.quiet = false;
        let login = record.login.clone();
        if record.claims(&login) && slot.consumer.is_canary() {
            // It may do nothing and nobody uses it: it stays, to be seen, until a person retires it.
            slot.dirty = true;
            *record = record.without_its_login();
            record.superseded.push(login.clone());
            self.happenings.push((i, Happening::Superseded(login)));
            return;
        }
        if record.claims(&login) {
            record.release();
            record.unknown = None;
            record.departure = Some(Box::new(Departure::new(now)));
            slot.dirty = true;
            self.departing.insert(i);
            self.happenings.push((i, Happening::Leaving));
            return;
        }
        let before = record.clone();
        *record = record.without_its_login();
        slot.dirty |= slot.stored && *record != before;
    }

    /// A whole wish was read again that names none of the logins of this slot that leave. One that a
    /// person retired leaves although its consumer is asked for.
    pub(super) fn unwanted_still(&mut self, i: usize, now: Time) {
        let apart = self.settings.remove_after;
        let slot = &mut self.slots[i];
        let named = slot.wanted.as_ref().map(|w| w.login.clone());
        for (login, departure) in slot.record.departures_mut() {
            if named.as_ref() != Some(login) {
                slot.dirty |= departure.unwanted_still(now, apart);
            }
        }
    }

    /// Whoever leaves and is named again does not leave. Was it switched off already, then the
    /// ordinary create switches it on again, and that is no loss. Its other logins are kept as
    /// superseded ones, but for those that a person retired.
    pub(super) fn stays(&mut self, i: usize) {
        let slot = &mut self.slots[i];
        let others = slot.record.others.iter();
        let stay: Vec<Login> = others
            .filter(|(_, departure)| !departure.retired)
            .map(|(login, _)| login.clone())
            .collect();
        let own = slot.record.departure.take();
        if own.is_none() && stay.is_empty() {
            return;
        }
        for login in stay {
            slot.record.others.remove(&login);
            slot.record.superseded.push(login);
        }
        if let Some(departure) = own {
            slot.record.release();
            if departure.off_at.is_some() {
                slot.record.apply_again();
            }
        }
        slot.dirty = true;
        if !slot.record.leaves() {
            self.departing.remove(&i);
        }
        self.happenings.push((i, Happening::CameBack));
    }

    /// A person retires a login that its consumer had before. It goes by the same steps and behind
    /// the same guards as one that is asked for no more, but for the brake: the word is its approval. A
    /// login that any wish names is never touched.
    pub fn retire(&mut self, consumer: &ConsumerName, login: &Login, now: Time) -> Retired {
        let Some(i) = self.seat_of(consumer, login) else {
            return Retired::Unknown;
        };
        if self.is_named(login) {
            return Retired::Wanted;
        }
        let slot = &mut self.slots[i];
        if let Some(departure) = slot.record.departure_of_mut(login) {
            let news = !departure.approved;
            departure.approved = true;
            slot.dirty |= departure.release() || news;
            return Retired::UnderWay;
        }
        if !slot.record.superseded.contains(login) {
            return Retired::Unknown;
        }
        slot.record.superseded.retain(|one| one != login);
        let mut departure = Departure::new(now);
        departure.approved = true;
        departure.retired = true;
        slot.record.others.insert(login.clone(), departure);
        slot.dirty = true;
        self.departing.insert(i);
        self.happenings.push((i, Happening::Retired(login.clone())));
        Retired::Begun
    }

    /// The store was wiped or put back from an older copy (B-6): nobody knows what happened since. What
    /// leaves begins to leave anew, and without the words that were said before.
    pub fn store_replaced(&mut self, now: Time) {
        for i in &self.departing {
            let slot = &mut self.slots[*i];
            for (_, departure) in slot.record.departures_mut() {
                departure.anew(now);
            }
            slot.dirty = true;
        }
    }

    /// A login is gone: the record says so by saying nothing of it; nothing is told by absence (B-5).
    pub(super) fn gone(&mut self, i: usize, login: &Login) {
        self.end_departure(i, login);
        self.happenings.push((i, Happening::Dropped));
    }
    /// A login is another's now, as a wish says and its mark shows: nothing of it leaves.
    pub(super) fn hand_over(&mut self, i: usize, login: &Login) {
        self.end_departure(i, login);
        self.happenings
            .push((i, Happening::HandedOver(login.clone())));
    }
    fn end_departure(&mut self, i: usize, login: &Login) {
        let slot = &mut self.slots[i];
        if slot.record.departure.is_some() && slot.record.login == *login {
            slot.record = slot.record.without_its_login();
        } else {
            slot.record.others.remove(login);
            slot.record.elders.retain(|one| one != login);
        }
        slot.dirty = true;
        if !slot.record.leaves() {
            self.departing.remove(&i);
        }
    }

    /// Which removals are due now, behind the guards. One step for each consumer and pass.
    pub(super) fn departures(&mut self, now: Time) {
        let decided = std::mem::replace(&mut self.pass.departures_decided, true);
        if decided {
            return;
        }
        let due = self.due_now(now, true);
        for (i, login, step) in due {
            let slot = &mut self.slots[i];
            if slot.todo.is_none() {
                slot.target = Some(login);
                slot.todo = Some(step);
                self.pass.todo.push(i);
            }
        }
    }

    /// The steps that are due: with what this pass has read, or (before that) as they would be if it
    /// reads what it must.
    pub(super) fn due_now(&self, now: Time, read: bool) -> Vec<(usize, Login, Step)> {
        if self.down || !self.wish_whole || self.departing.is_empty() {
            return Vec::new();
        }
        let held = self.removals_held(now).is_some() || self.is_unguarded();
        let named = self.named();
        let mut due = Vec::new();
        for i in &self.departing {
            let slot = &self.slots[*i];
            // What a person retired goes only while its consumer is well without it.
            if slot.kept || !self.is_well(&slot.consumer) {
                continue;
            }
            let departures = slot.record.departures();
            let free = departures.filter(|(login, _)| !named.contains(login));
            let mut steps = free.filter_map(|(login, departure)| {
                let elder = slot.record.is_elder(login);
                let step = self.step_due(departure, now, held, elder)?;
                let read = !read || self.has_read(*i, login, departure, step);
                read.then(|| (*i, login.clone(), step))
            });
            due.extend(steps.next());
        }
        due
    }

    /// Whether this pass has read what a step needs: a list that proves something and shows the login
    /// with our mark, and before a drop, how it was used.
    fn has_read(&self, i: usize, login: &Login, departure: &Departure, step: Step) -> bool {
        let shown = departure.shown_since(self.pass.at).is_some();
        let listed = !self.caps.list || self.pass.list_proves && shown;
        let asked = || self.pass.uses_asked.contains(&(i, login.clone()));
        listed && (step == Step::Disable || !self.caps.uses || asked())
    }

    fn step_due(&self, departure: &Departure, now: Time, held: bool, elder: bool) -> Option<Step> {
        let waits = departure.not_before.is_some_and(|at| at > now);
        if waits || departure.left_alone.is_some() || departure.missing.is_some() {
            return None;
        }
        if !departure.is_sure(&self.settings, self.caps.list) {
            return None;
        }
        let off = departure.phase() == Phase::Off;
        // Whoever is off already went through the brake.
        let needs_word = elder || self.is_unguarded() || held && !off;
        if needs_word && !departure.approved {
            return None;
        }
        let can_disable = self.caps.disable;
        match departure.phase() {
            Phase::Leaving if can_disable => Some(Step::Disable),
            Phase::Off if departure.shown_since(self.pass.at) == Some(true) => Some(Step::Disable),
            Phase::Leaving | Phase::Off => {
                let at = departure.dropped_at(&self.settings, can_disable);
                (now >= at).then_some(Step::Remove)
            }
        }
    }

    /// The outcome of taking away. "Already gone" is success.
    pub(super) fn taken_away(
        &mut self,
        i: usize,
        now: Time,
        step: Step,
        outcome: Result<(), Error>,
    ) {
        let slot = &mut self.slots[i];
        let login = slot.going().clone();
        slot.target = None;
        let Some(departure) = slot.record.departure_of_mut(&login) else {
            return;
        };
        slot.dirty = true;
        let counts = departure.phase() == Phase::Leaving && !departure.approved;
        let gone = matches!(&outcome, Err(error) if error.class() == Class::Gone);
        match outcome {
            // Another holder has it now, and does what is to be done (B-4).
            Err(error) if error.class() == Class::Fenced => return,
            Err(error) if error.class() == Class::ReadOnly => {
                self.pass.withheld += 1;
                return;
            }
            Err(error) if !gone => {
                self.not_taken_away(i, &login, now, error);
                return;
            }
            _ => {}
        }
        if step == Step::Disable && !gone {
            departure.off_at = departure.off_at.or(Some(now));
            departure.failures = 0;
            departure.failed = None;
            departure.not_before = None;
            departure.shown = departure.shown.map(|(at, _)| (at, false));
            self.happenings.push((i, Happening::SwitchedOff));
        } else {
            self.gone(i, &login);
        }
        if counts {
            self.server
                .recent_removals
                .retain(|at| now.since(*at) < BRAKE_WINDOW);
            self.server.recent_removals.push(now);
            self.server_dirty = true;
        }
    }

    /// It is tried again, more and more rarely, and stands as a condition until it is done. A
    /// login that the adapter says is not ours is left alone.
    fn not_taken_away(&mut self, i: usize, login: &Login, now: Time, error: Error) {
        self.pass.summary.failed += 1;
        if let Some(departure) = self.slots[i].record.departure_of_mut(login) {
            departure.failures = departure.failures.saturating_add(1);
            let wait: Duration = check_interval(&self.settings, departure.failures);
            departure.not_before = Some(now + wait);
            if error.class() == Class::Exists {
                departure.left_alone = Some(error.message().to_owned());
            }
            departure.failed = Some(Box::new(error.clone()));
        }
        self.happenings.push((i, Happening::Failed(error)));
    }
}

impl Slot {
    /// The login that this pass's step takes away; without one, the login that its record speaks of.
    pub fn going(&self) -> &Login {
        self.target.as_ref().unwrap_or(&self.record.login)
    }
}

/// A login that leaves, as others read it.
#[derive(Debug, Clone, Copy)]
pub struct Leaver<'a> {
    /// Whose it was.
    pub consumer: &'a ConsumerName,
    /// The login.
    pub login: &'a Login,
    /// How far it has come.
    pub departure: &'a Departure,
    /// It existed before us: only a person lets it go.
    pub elder: bool,
}

impl Record {
    /// The same, with the consumer's name.
    pub fn leavers<'a>(&'a self, consumer: &'a ConsumerName) -> impl Iterator<Item = Leaver<'a>> {
        self.departures().map(move |(login, departure)| Leaver {
            consumer,
            login,
            departure,
            elder: self.is_elder(login),
        })
    }
}
