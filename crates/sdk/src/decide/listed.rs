//! The server's list: what it proves, and whom it shows that nobody asks for (R-2 … R-4).

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::core::Core;
use super::departure::{Departure, list_period};
use super::record::{Record, Unknown};
use super::slot::Happening;
use super::wish::no_version;
use crate::adapter::{Listed, owner_of};
use crate::answer::MarkSeen;
use crate::error::Error;
use crate::name::{ConsumerName, Login};
use crate::time::Time;

/// Logins on the server that are not ours, as the last list showed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Strangers {
    /// All of them.
    pub count: usize,
    /// Those with a mark in our name that is damaged or forged.
    pub damaged: usize,
}

impl Strangers {
    pub(super) fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A list that was read whole and proves nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doubt {
    pub(super) why: String,
    /// Something is amiss for sure: our own login had been there.
    pub(super) is_trouble: bool,
}

/// Lists in a row that are read at once after one that proved nothing.
const RELISTED: u8 = 2;

impl Core {
    /// Whether this pass reads the server's list: it is its time, somebody's step is due, a
    /// departure was never listed, the last one proved nothing, or a consumer may be new, and then no
    /// login may carry its mark (H-22).
    pub(super) fn wants_list(&self, now: Time) -> bool {
        if !self.caps.list {
            return false;
        }
        let every = list_period(&self.settings, !self.departing.is_empty());
        let old = self.listed_at.is_none_or(|at| now.since(at) >= every);
        old || self.pass.somebody_is_new
            || self.pass.regular && self.relist > 0
            || self.leavers().any(|one| one.departure.was_never_listed())
            || !self.due_now(now, false).is_empty()
    }

    /// The server's list. An error says nothing about anyone, and neither does a list that is not
    /// whole or has not our own login in it. Before [`Core::steps`].
    pub fn listed(&mut self, now: Time, listed: Result<&[Listed], &Error>) {
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => {
                let fails = &mut self.server.list_fails;
                self.server_dirty |= Unknown::note(fails, now, error);
                return;
            }
        };
        self.server_dirty |= self.server.list_fails.take().is_some();
        if self.is_other_server() {
            return;
        }
        self.listed_at = Some(now);
        self.pass.listed = true;
        self.none_is_new_that_is_listed(listed);
        self.pass.doubt = self.doubt(listed);
        if self.pass.doubt.is_some() {
            self.relist = RELISTED;
            return;
        }
        self.relist = self.relist.saturating_sub(1);
        self.pass.list_proves = true;
        self.count_strangers(listed);
        self.list_departures(now, listed);
        if self.wish_whole {
            self.list_unasked(now, listed);
        }
    }

    /// Why a list proves nothing.
    fn doubt(&self, listed: &[Listed]) -> Option<Doubt> {
        let mut logins = HashSet::with_capacity(listed.len());
        if let Some(twice) = listed.iter().find(|one| !logins.insert(&one.login)) {
            let login = twice.login.as_str().escape_debug();
            return Some(Doubt {
                why: format!("it names `{login}` twice"),
                is_trouble: true,
            });
        }
        let canary = self.canary()?;
        let own = canary.named()?;
        let found = listed.iter().find(|one| one.login == *own);
        let what = match found.map(|one| &one.mark) {
            Some(MarkSeen::OursFor(consumer)) if consumer.is_canary() => return None,
            Some(_) => "has not our mark in it",
            None => "is not in it",
        };
        Some(Doubt {
            why: format!("our own login `{own}` {what}"),
            is_trouble: canary.is_applied(),
        })
    }

    /// A consumer whose mark is on the server had a password before: none is minted (H-22).
    fn none_is_new_that_is_listed(&mut self, listed: &[Listed]) {
        let seconds = self
            .slots
            .iter()
            .any(|s| s.consumer.is_second() && s.is_new());
        for one in listed {
            let Some(consumer) = owner_of(one) else {
                continue;
            };
            if let Some(i) = self.slot_of(consumer)
                && self.slots[i].is_new()
            {
                self.slots[i].lose_secret(no_version());
            }
            // A second login is new beside a first one that is there.
            if seconds
                && let Some(i) = self.slot_of(&consumer.second())
                && self.slots[i].is_new()
                && self.slots[i].named() == Some(&one.login)
            {
                self.slots[i].lose_secret(no_version());
            }
        }
    }

    fn count_strangers(&mut self, listed: &[Listed]) {
        let mut seen = Strangers::default();
        if listed.iter().any(|one| owner_of(one).is_none()) {
            let named = self.named();
            let strange = listed.iter().filter(|one| owner_of(one).is_none());
            for one in strange.filter(|one| !named.contains(&one.login)) {
                seen.count += 1;
                seen.damaged += usize::from(one.mark == MarkSeen::Damaged);
            }
        }
        self.server_dirty |= self.server.strangers != seen;
        self.server.strangers = seen;
    }

    /// What the list says of those that leave already.
    fn list_departures(&mut self, now: Time, listed: &[Listed]) {
        if self.departing.is_empty() {
            return;
        }
        let by_login: HashMap<&Login, &Listed> = listed.iter().map(|l| (&l.login, l)).collect();
        for i in self.departing.clone() {
            let departures = self.slots[i].record.departures();
            let logins: Vec<Login> = departures.map(|(login, _)| login.clone()).collect();
            for login in logins {
                let found = by_login.get(&login).copied();
                if found.is_some_and(|one| self.was_handed_over(i, one)) {
                    self.hand_over(i, &login);
                } else {
                    self.listed_one(i, &login, now, found);
                }
            }
        }
    }

    /// Whether a login that leaves is somebody else's by now: a wish names it, and its mark is that
    /// one's.
    fn was_handed_over(&self, i: usize, found: &Listed) -> bool {
        match &found.mark {
            MarkSeen::OursFor(owner) if *owner == self.slots[i].consumer => false,
            MarkSeen::OursFor(owner) => {
                let mut owners = self.seats(owner).map(|j| &self.slots[j]);
                owners.any(|slot| slot.named() == Some(&found.login))
            }
            MarkSeen::Foreign => self.elsewhere.contains(&found.login),
            _ => false,
        }
    }

    fn listed_one(&mut self, i: usize, login: &Login, now: Time, found: Option<&Listed>) {
        let (apart, unguarded) = (self.settings.remove_after, self.is_unguarded());
        let slot = &mut self.slots[i];
        let Some(departure) = slot.record.departure_of_mut(login) else {
            return;
        };
        match found.map(|l| (&l.mark, l.enabled)) {
            // Nothing proves that the list is whole; without a person's word it says nothing.
            None if unguarded && !departure.approved => departure.shown = None,
            // A list that turned empty may be a lie: it is believed the second time.
            None => match departure.missing {
                Some(first) if now.since(first) >= apart => self.gone(i, login),
                Some(_) => {}
                None => {
                    departure.missing = Some(now);
                    departure.shown = None;
                    slot.dirty = true;
                }
            },
            Some((MarkSeen::OursFor(consumer), enabled)) if consumer.is_seat_of(&slot.consumer) => {
                slot.dirty |= departure.shown(now, enabled, apart, !unguarded);
            }
            Some(_) => {
                departure.shown = None;
                slot.dirty |= departure.listed.take().is_some() || departure.left_alone.is_none();
                departure.left_alone = Some("it does not carry our mark".to_owned());
            }
        }
    }

    /// Our marked logins that no wish names: orphans, or superseded where their consumer is asked
    /// for under another login. What the list alone tells needs no record.
    fn list_unasked(&mut self, now: Time, listed: &[Listed]) {
        let unasked = listed.iter().filter(|one| {
            let slot = owner_of(one).and_then(|consumer| self.slot_of(consumer));
            let named = slot.and_then(|i| self.slots[i].named());
            named != Some(&one.login)
        });
        let unasked: Vec<&Listed> = unasked.filter(|one| owner_of(one).is_some()).collect();
        if unasked.is_empty() {
            return;
        }
        let named: HashSet<Login> = self.named().into_iter().cloned().collect();
        let known = self.known_otherwise();
        for one in unasked {
            let Some(consumer) = owner_of(one) else {
                continue;
            };
            if named.contains(&one.login) || self.is_kept(consumer) {
                continue;
            }
            let owner = known.get(&one.login);
            if owner.is_some_and(|owner| !owner.is_seat_of(consumer)) {
                continue;
            }
            if self.is_seated(consumer) || consumer.is_canary() {
                self.superseded_by_list(consumer, &one.login);
            } else {
                self.orphan(consumer, one, now);
            }
        }
    }

    /// Whose a login is that nobody asks for, as records say. A mark that says otherwise is no reason to
    /// remove: one of the two is wrong.
    fn known_otherwise(&self) -> HashMap<Login, ConsumerName> {
        let mut known = HashMap::new();
        for slot in &self.slots {
            let record = &slot.record;
            let leaving = record.departures().map(|(login, _)| login);
            for login in leaving.chain(&record.superseded) {
                known.insert(login.clone(), slot.consumer.clone());
            }
        }
        known
    }

    fn slot_for(&mut self, consumer: &ConsumerName, login: &Login) -> usize {
        match self.seat_of(consumer, login) {
            Some(i) => i,
            None => self.add(consumer.clone(), Record::new(login.clone())),
        }
    }

    fn superseded_by_list(&mut self, consumer: &ConsumerName, login: &Login) {
        let i = self.slot_for(consumer, login);
        let slot = &mut self.slots[i];
        let record = &mut slot.record;
        if record.superseded.contains(login) || record.departure_of(login).is_some() {
            return;
        }
        record.superseded.push(login.clone());
        slot.dirty = true;
        self.happenings
            .push((i, Happening::Superseded(login.clone())));
    }

    fn orphan(&mut self, consumer: &ConsumerName, one: &Listed, now: Time) {
        let (apart, proven) = (self.settings.remove_after, !self.is_unguarded());
        let i = self.slot_for(consumer, &one.login);
        let slot = &mut self.slots[i];
        let record = &mut slot.record;
        if record.departure_of(&one.login).is_some() {
            return;
        }
        let mut departure = Departure::new(now);
        departure.shown(now, one.enabled, apart, proven);
        record.superseded.retain(|login| *login != one.login);
        if record.login == one.login && record.departure.is_none() {
            record.departure = Some(Box::new(departure));
        } else {
            record.others.insert(one.login.clone(), departure);
        }
        slot.dirty = true;
        self.departing.insert(i);
        self.happenings.push((i, Happening::Leaving));
    }
}
