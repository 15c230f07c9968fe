//! The two seats of a consumer whose logins take turns: for every question of removal they are one
//! consumer. Its marks name it and no seat, so a seat that the wish no longer names, or that was forgotten
//! altogether, is superseded by the other and never an orphan.

use super::core::Core;
use super::slot::{Happening, Slot};
use crate::name::{ConsumerName, Login};
use crate::time::Time;

impl Core {
    /// The slots of both seats of a consumer, as far as there are any.
    pub(super) fn seats(&self, consumer: &ConsumerName) -> impl Iterator<Item = usize> + use<> {
        let seats = [
            self.slot_of(&consumer.first()),
            self.slot_of(&consumer.second()),
        ];
        seats.into_iter().flatten()
    }
    /// The slot of a consumer's login: that of the seat whose it is; else of one that is asked for; else any.
    pub(super) fn seat_of(&self, consumer: &ConsumerName, login: &Login) -> Option<usize> {
        let named = |i: &usize| self.slots[*i].named();
        let known = |i: &usize| named(i) == Some(login) || self.slots[*i].record.had(login);
        let seats: Vec<usize> = self.seats(consumer).collect();
        let first = |is: &dyn Fn(&usize) -> bool| seats.iter().copied().find(is);
        first(&known)
            .or_else(|| first(&|i| named(i).is_some()))
            .or_else(|| first(&|_| true))
    }
    /// Whether a consumer is asked for, on either seat.
    pub(super) fn is_seated(&self, consumer: &ConsumerName) -> bool {
        self.seats(consumer).any(|i| self.slots[i].wanted.is_some())
    }
    /// Whether the entry of a consumer, which speaks for both its seats, cannot be used (O-28, O-29).
    pub(super) fn is_kept(&self, consumer: &ConsumerName) -> bool {
        self.kept.contains(consumer)
            || consumer.is_second() && self.kept.contains(&consumer.first())
    }
    /// Whether this login is off because it is the other one's turn: nobody switched its consumer off.
    pub(super) fn rests(&self, slot: &Slot) -> bool {
        let is_on = |i: usize| self.slots[i].wanted.as_ref().is_some_and(|w| w.enabled);
        let off = slot.wanted.as_ref().is_some_and(|wanted| !wanted.enabled);
        off && self.seats(&slot.consumer).any(is_on)
    }
    /// Whether one of this consumer's logins is well, or none is asked for.
    pub(super) fn is_well(&self, consumer: &ConsumerName) -> bool {
        let mut asked = self.seats(consumer).map(|i| &self.slots[i]);
        asked.all(|slot| slot.wanted.is_none() || slot.state().is_fine())
    }

    /// The wish names this seat no more, and the consumer's other one: removal never follows from a login
    /// changing, so whatever of it works is kept as superseded, but for what a person retired.
    pub(super) fn gives_way(&mut self, i: usize, now: Time) {
        self.forget_this_pass(i);
        self.unwanted_still(i, now);
        let slot = &mut self.slots[i];
        slot.wanted = None;
        slot.soon = false;
        slot.quiet = false;
        let record = &mut slot.record;
        let before = record.clone();
        let own = record.departure.is_some() || record.claims(&record.login);
        let (login, elder) = (record.login.clone(), record.is_elder(&record.login));
        *record = record.without_its_login();
        let others = record.others.iter();
        let mut stay: Vec<Login> = others
            .filter(|(_, departure)| !departure.retired)
            .map(|(login, _)| login.clone())
            .collect();
        stay.iter()
            .for_each(|login| drop(record.others.remove(login)));
        if own {
            if elder {
                record.elders.push(login.clone());
            }
            stay.push(login);
        }
        for login in &stay {
            if !record.superseded.contains(login) {
                record.superseded.push(login.clone());
            }
        }
        slot.dirty |= *record != before && (slot.stored || !stay.is_empty());
        if !slot.record.leaves() {
            self.departing.remove(&i);
        }
        let told = stay
            .into_iter()
            .map(|login| (i, Happening::Superseded(login)));
        self.happenings.extend(told);
    }

    /// The wish names a login for one seat: whatever the other one remembers of it is over. Answers whether
    /// it was the consumer's before; then it is ours still (H-18).
    pub(super) fn takes_over(&mut self, i: usize, login: &Login) -> bool {
        let mut had = false;
        for j in self.seats(&self.slots[i].consumer) {
            let slot = &mut self.slots[j];
            if j == i || slot.named() == Some(login) || !slot.record.had(login) {
                continue;
            }
            had = true;
            slot.forgets(login);
            if !slot.record.leaves() {
                self.departing.remove(&j);
            }
        }
        had
    }
}

impl Slot {
    /// A login of this record is another seat's.
    fn forgets(&mut self, login: &Login) {
        let record = &mut self.record;
        if record.login == *login {
            *record = record.without_its_login();
        }
        record.superseded.retain(|one| one != login);
        record.others.remove(login);
        record.elders.retain(|one| one != login);
        self.dirty = true;
    }
}
