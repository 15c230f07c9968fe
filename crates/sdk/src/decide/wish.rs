//! The wish: what is asked for, what changed, and what people say about it.

use std::collections::{HashMap, HashSet};

use super::core::Core;
use super::record::Record;
use super::slot::{Happening, SecretState, Slot, Wanted, WholeWish, Why};
use crate::name::ConsumerName;
use crate::provision::Digest;
use crate::time::Time;

impl Core {
    /// Puts a wish in force that was read whole. The same one again confirms it, and changes
    /// nothing for anyone who is asked for.
    ///
    /// A changed provision ends its brake and delays (H-3, H-11). A consumer that is asked for no more
    /// begins to leave; nothing is taken away here.
    pub fn set_wish(&mut self, wish: WholeWish, now: Time) {
        self.generation = wish.generation;
        self.wish_whole = !wish.partial;
        self.kept = wish.kept.into_iter().collect();
        self.elsewhere = wish.elsewhere.into_iter().collect();
        let mut named = vec![false; self.slots.len()];
        let mut new = Vec::new();
        for wanted in wish.wanted {
            match self.index.get(&wanted.consumer) {
                Some(i) => {
                    let i = *i;
                    named[i] = true;
                    self.want(i, wanted);
                    if self.departing.contains(&i) && self.wish_whole {
                        self.unwanted_still(i, now);
                    }
                }
                None => new.push(wanted),
            }
        }
        let seconds: HashSet<&ConsumerName> = {
            let new = new.iter().map(|wanted| &wanted.consumer);
            new.filter(|consumer| {
                consumer.is_second() || self.index.contains_key(&consumer.second())
            })
            .collect()
        };
        for i in 0..named.len() {
            let kept = self.is_kept(&self.slots[i].consumer);
            let slot = &mut self.slots[i];
            // Who is named where nobody can read it neither begins to leave nor comes back.
            let known = slot.wanted.is_some() || slot.record.claims(&slot.record.login);
            let perhaps = wish.partial && known && slot.record.departure.is_none();
            slot.kept = !named[i] && (kept || perhaps);
            match (named[i], kept) {
                (true, _) => {}
                (false, true) => self.stays(i),
                (false, false) if wish.partial => {}
                (false, false) if self.other_seat_is(i, &named, &seconds) => self.gives_way(i, now),
                (false, false) => self.unwanted(i, now),
            }
        }
        let mut free = self.never_stored().into_iter();
        for wanted in new {
            let i = match self.index.get(&wanted.consumer) {
                Some(i) => *i,
                None => self.place(&wanted, free.next()),
            };
            self.want(i, wanted);
        }
    }

    /// Whether a wish that does not name this seat names the consumer's other one.
    fn other_seat_is(&self, i: usize, named: &[bool], new: &HashSet<&ConsumerName>) -> bool {
        let consumer = &self.slots[i].consumer;
        let other = match consumer.is_second() {
            true => consumer.first(),
            false => consumer.second(),
        };
        let known = self.slot_of(&other).and_then(|j| named.get(j).copied());
        known == Some(true) || new.contains(&other)
    }

    /// Slots that stand for nothing and were never stored: they can stand for somebody else, so that
    /// consumers which come and go do not fill the memory.
    fn never_stored(&self) -> Vec<usize> {
        let slots = self.slots.iter().enumerate();
        let free = slots.filter(|(_, s)| s.is_retired() && !s.stored && !s.dirty);
        free.map(|(i, _)| i).collect()
    }

    fn place(&mut self, wanted: &Wanted, free: Option<usize>) -> usize {
        let record = Record::new(wanted.login.clone());
        let Some(i) = free else {
            return self.add(wanted.consumer.clone(), record);
        };
        self.index.remove(&self.slots[i].consumer);
        self.index.insert(wanted.consumer.clone(), i);
        self.slots[i] = Slot::new(wanted.consumer.clone(), record);
        self.slots[i].paused_until = self.pauses.get(&wanted.consumer).copied();
        i
    }

    fn want(&mut self, i: usize, wanted: Wanted) {
        if self.slots[i].wanted.as_ref() == Some(&wanted) {
            return;
        }
        self.stays(i);
        self.forget_this_pass(i);
        let record = &self.slots[i].record;
        let others =
            record.superseded.contains(&wanted.login) || record.others.contains_key(&wanted.login);
        if record.login != wanted.login || others {
            self.supersede(i, &wanted);
        }
        if self.takes_over(i, &wanted.login) && !self.slots[i].record.claims(&wanted.login) {
            let slot = &mut self.slots[i];
            slot.record.intent = Some(wanted.digest);
            slot.dirty = true;
        }
        let slot = &mut self.slots[i];
        if is_changed(slot, &wanted) {
            slot.dirty |= slot.record.release();
        }
        slot.soon = true;
        let secret = match (slot.wanted.take().map(|w| w.secret), wanted.secret) {
            (Some(lost @ SecretState::Lost(_)), SecretState::New) if slot.no_version => lost,
            (_, SecretState::New) if slot.no_version => SecretState::Lost(no_version()),
            (_, secret) => secret,
        };
        slot.no_version &= secret != SecretState::Ready;
        slot.wanted = Some(Wanted { secret, ..wanted });
    }

    /// Answers and outcomes that are still on their way speak of another wish.
    pub(super) fn forget_this_pass(&mut self, i: usize) {
        let slot = &mut self.slots[i];
        slot.todo = None;
        slot.adopting = false;
        if std::mem::take(&mut slot.planned) {
            self.pass.open -= 1;
        }
    }

    /// A changed login never removes the old one.
    fn supersede(&mut self, i: usize, wanted: &Wanted) {
        let slot = &mut self.slots[i];
        let old = slot.record.login.clone();
        let claimed = slot.record.claims(&old) && old != wanted.login;
        let elder = slot.record.is_elder(&old);
        let mut rest = slot.record.without_its_login();
        let before = rest.superseded.len() + rest.others.len();
        rest.superseded.retain(|login| *login != wanted.login);
        rest.others.remove(&wanted.login);
        let was_ours = rest.superseded.len() + rest.others.len() < before;
        let adopted = rest.elders.contains(&wanted.login);
        rest.elders.retain(|login| *login != wanted.login);
        if claimed {
            rest.superseded.push(old.clone());
            if elder {
                rest.elders.push(old.clone());
            }
        }
        slot.record = Record {
            login: wanted.login.clone(),
            // A login that it had before is ours still (H-18).
            intent: was_ours.then_some(wanted.digest),
            adopted,
            ..rest
        };
        slot.dirty = true;
        if !slot.record.leaves() {
            self.departing.remove(&i);
        }
        if claimed {
            self.happenings.push((i, Happening::Superseded(old)));
        }
    }

    /// A password was minted and kept (H-22): the wish is now complete, and `create` follows.
    pub fn secret_ready(&mut self, i: usize, digest: Digest) {
        let slot = &mut self.slots[i];
        if let Some(wanted) = &mut slot.wanted {
            wanted.secret = SecretState::Ready;
            wanted.digest = digest;
            slot.todo = Some(super::Step::Create(Why::New));
            self.pass.todo.push(i);
        }
    }
    /// The password cannot be had: nothing is written (H-22, S-4).
    pub fn secret_lost(&mut self, i: usize, why: String) {
        self.slots[i].lose_secret(why);
    }

    /// A person's word for one consumer, or for all: brake, delays and "taken" end, and it is asked now.
    pub fn release(&mut self, consumer: Option<&ConsumerName>, _now: Time) {
        let blind = !self.caps.holds;
        for slot in &mut self.slots {
            if consumer.is_some_and(|c| *c != slot.consumer) {
                continue;
            }
            slot.dirty |= slot.record.release();
            for (_, departure) in slot.record.departures_mut() {
                slot.dirty |= departure.release();
            }
            if slot.wanted.is_some() {
                slot.soon = true;
                slot.blind = blind.then_some(Why::Word).or(slot.blind);
            }
        }
    }
    /// Somebody says that it is well now (C-7): one consumer, or all, are asked on the next pass, also
    /// those whose next look is an hour away. No brake ends and no count: the look decides.
    pub fn look_now(&mut self, consumer: Option<&ConsumerName>) {
        self.all_due = true;
        for slot in &mut self.slots {
            if consumer.is_none_or(|c| *c == slot.consumer) && slot.wanted.is_some() {
                slot.dirty |= slot.record.not_before.take().is_some();
                slot.soon = true;
            }
        }
    }
    /// Pauses as people said them: for the provider, and for consumers (H-25). Replaces all earlier ones.
    pub fn set_pauses(&mut self, provider: Option<Time>, consumers: &HashMap<ConsumerName, Time>) {
        self.paused_until = provider;
        self.pauses.clone_from(consumers);
        for slot in &mut self.slots {
            slot.paused_until = consumers.get(&slot.consumer).copied();
        }
    }
    /// How many logins other provisioners of this mesh switched off within the last hour.
    pub fn set_others_removed(&mut self, removed: usize) {
        self.others_removed = removed;
    }
    /// Something hints that logins were lost, or a whole pass is wanted: everyone who is not braked or
    /// delayed is due (H-14). It changes nothing else.
    pub fn hint(&mut self) {
        self.all_due = true;
    }
}

pub(super) fn no_version() -> String {
    "the backend or the record knows this consumer, and no secret is stored for it".to_owned()
}

impl Slot {
    /// There must be a password and there is none: until one is handed back, no wish makes it new.
    pub(super) fn lose_secret(&mut self, why: String) {
        if let Some(wanted) = &mut self.wanted {
            wanted.secret = SecretState::Lost(why);
            self.no_version = true;
            self.todo = None;
        }
    }
    /// A new consumer has no password yet.
    pub(super) fn is_new(&self) -> bool {
        self.wanted.as_ref().map(|w| &w.secret) == Some(&SecretState::New)
    }
}

/// Whether a wish is another one than what was asked for or applied (H-1). A password that cannot be
/// read for a while is no change.
fn is_changed(slot: &Slot, wanted: &Wanted) -> bool {
    if matches!(wanted.secret, SecretState::Lost(_)) {
        return false;
    }
    if slot.record.taken.is_some_and(|met| met != wanted.digest) {
        return true;
    }
    if slot
        .wanted
        .as_ref()
        .is_some_and(|w| w.adopt != wanted.adopt)
    {
        return true;
    }
    if wanted.secret != SecretState::Ready {
        return false;
    }
    match &slot.wanted {
        Some(before) if before.secret == SecretState::Ready => before.digest != wanted.digest,
        _ => slot
            .record
            .intent
            .or(slot.record.applied)
            .is_some_and(|known| known != wanted.digest),
    }
}
