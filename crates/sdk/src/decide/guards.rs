//! What stands before a removal: names that a wish uses, the brake, the missing canary
//! and a person's word that lets go.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::core::Core;
use super::depart::Leaver;
use super::departure::{Departure, Phase};
use super::slot::Slot;
use crate::name::{ConsumerName, Login};
use crate::time::Time;

/// Removals within this time are counted together.
pub(super) const BRAKE_WINDOW: Duration = Duration::from_secs(3600);
/// More than this many in the whole mesh within the window wait for a person.
const MESH_MAX: usize = 10;

/// A person's word for exactly these logins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Approval {
    /// Consumer and login of each.
    pub removals: BTreeSet<(ConsumerName, Login)>,
}

impl Core {
    /// The logins that a wish names; none of them is taken away. An entry that cannot be read
    /// keeps the login that it had, and so does what other providers want of this server.
    pub(super) fn named(&self) -> HashSet<&Login> {
        let slots = self.slots.iter();
        let named = slots.filter_map(Slot::named);
        named.chain(&self.elsewhere).collect()
    }
    /// Whether a wish names this login.
    pub(super) fn is_named(&self, login: &Login) -> bool {
        self.elsewhere.contains(login) || self.slots.iter().any(|s| s.named() == Some(login))
    }

    /// The slot of our own login, if the wish asks for it.
    pub(super) fn canary(&self) -> Option<&Slot> {
        let i = self.index.get(ConsumerName::CANARY)?;
        Some(&self.slots[*i]).filter(|slot| slot.named().is_some())
    }
    /// The adapter lists, and no login of ours proves its lists: nothing is removed without a person's
    /// word.
    pub fn is_unguarded(&self) -> bool {
        self.caps.list && self.canary().is_none()
    }

    /// How many consumers the wish has, one with two logins in turn once; our own login is none.
    pub(super) fn asked_for(&self) -> usize {
        let named = self.slots.iter().filter(|s| s.named().is_some());
        let counts = |slot: &&Slot| match slot.consumer.is_second() {
            true => !self.seats(&slot.consumer.first()).any(|i| {
                let other = &self.slots[i];
                other.consumer != slot.consumer && other.named().is_some()
            }),
            false => !slot.consumer.is_canary(),
        };
        named.filter(counts).count()
    }

    /// Why no removal happens without a person's word, with how many there would be.
    pub(super) fn removals_held(&self, now: Time) -> Option<(usize, &'static str)> {
        if self.departing.is_empty() {
            return None;
        }
        let named = self.named();
        let leaving = self.leavers().filter(|one| {
            one.departure.goes_by_itself() && !one.elder && !named.contains(one.login)
        });
        let leaving = leaving.count();
        if leaving == 0 {
            return None;
        }
        let recent = self.recently_removed(now);
        let there = self.asked_for();
        let (count, before) = (leaving + recent, there + leaving + recent);
        let why = if there == 0 {
            "the wish for this provider became empty"
        } else if count > self.settings.max_removals.max(before / 10) {
            "more than `max_removals` and more than 10 % of the provider within an hour"
        } else if count * 2 > before {
            "more than half of the provider"
        } else if count + self.others_removed > MESH_MAX {
            "more than 10 in the whole mesh within an hour"
        } else {
            return None;
        };
        Some((leaving, why))
    }

    /// How many logins wait for a person to let them go although no brake holds them: those that existed
    /// before us, and all where no canary proves the list. Without those that a wish names.
    pub(super) fn wait_for_a_word(&self) -> (usize, usize) {
        let unguarded = self.is_unguarded();
        let named = self.named();
        let waiting = self
            .leavers()
            .filter(|one| one.departure.may_wait() && !named.contains(one.login));
        waiting.fold((0, 0), |(elders, others), one| match one.elder {
            true if one.departure.goes_by_itself() || unguarded => (elders + 1, others),
            false if unguarded => (elders, others + 1),
            _ => (elders, others),
        })
    }

    /// A person lets exactly these go. Others stay held.
    pub fn approve_removals(&mut self, approval: Approval) {
        for i in &self.departing {
            let slot = &mut self.slots[*i];
            let consumer = slot.consumer.clone();
            for (login, departure) in slot.record.departures_mut() {
                let name = (consumer.clone(), login.clone());
                if !departure.approved && approval.removals.contains(&name) {
                    departure.approved = true;
                    slot.dirty = true;
                }
            }
        }
    }
    /// Who is leaving and still usable, or waits for a word, as an approval would name them.
    pub fn leaving(&self) -> Approval {
        let unguarded = self.is_unguarded();
        let leaving = self.leavers().filter(|one| {
            let departure = one.departure;
            departure.phase() == Phase::Leaving || unguarded && departure.may_wait()
        });
        let removals = leaving.map(|one| (one.consumer.clone(), one.login.clone()));
        Approval {
            removals: removals.collect(),
        }
    }
    /// Every login that is asked for no more and not gone yet.
    pub fn leavers(&self) -> impl Iterator<Item = Leaver<'_>> {
        let slots = self.departing.iter().map(|i| &self.slots[*i]);
        slots.flat_map(|slot| slot.record.leavers(&slot.consumer))
    }
    /// How many logins this provisioner took away within the last hour without a person's word, or is
    /// about to: for the brake of the whole mesh.
    pub fn removals_counted(&self, now: Time) -> usize {
        let leaving = self.leavers().filter(|one| {
            let departure = one.departure;
            let stands = departure.phase() == Phase::Leaving && departure.left_alone.is_none();
            stands && !one.elder && !departure.retired
        });
        leaving.count() + self.recently_removed(now)
    }
    /// How many logins were switched off here within the last hour without a person's word.
    pub fn recently_removed(&self, now: Time) -> usize {
        let recent = self.server.recent_removals.iter();
        recent.filter(|at| now.since(**at) < BRAKE_WINDOW).count()
    }
}

impl Slot {
    /// The login that is asked for: it has one, or keeps the one it had.
    pub(super) fn named(&self) -> Option<&Login> {
        match &self.wanted {
            Some(wanted) => Some(&wanted.login),
            None => self.kept.then_some(&self.record.login),
        }
    }
}

impl Leaver<'_> {
    /// Whether a person's word could let it go: nobody said it yet, nothing else is in its way, and it
    /// is usable still. Where no list proves anything, whoever is off waits for that word, too.
    pub fn may_be_let_go(&self, unguarded: bool) -> bool {
        self.departure.may_wait() && (unguarded || self.departure.phase() == Phase::Leaving)
    }
}

impl Departure {
    /// Nobody let it go yet, and nothing else is in its way.
    fn may_wait(&self) -> bool {
        !self.approved && self.left_alone.is_none()
    }
}
