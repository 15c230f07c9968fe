//! Taking away: a consumer that is asked for no more (R-2 … ).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::brake::check_interval;
use super::core::Core;
use super::departure::{Departure, Phase};
use super::record::{Record, Unknown};
use super::slot::{Happening, Step};
use super::wish::no_version;
use crate::adapter::Listed;
use crate::answer::MarkSeen;
use crate::error::{Class, Error};
use crate::name::{ConsumerName, Login};
use crate::time::Time;

/// Removals within this time are counted together.
const BRAKE_WINDOW: Duration = Duration::from_secs(3600);
/// More than this many in the whole mesh within the window wait for a person.
const MESH_MAX: usize = 10;

/// A person's word for exactly these logins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Approval {
    /// Consumer and login of each.
    pub removals: BTreeSet<(ConsumerName, Login)>,
}

impl Core {
    /// A consumer that a whole wish does not name begins to leave, if anything was ever made for it.
    pub(super) fn unwanted(&mut self, i: usize, now: Time) {
        self.forget_this_pass(i);
        let slot = &mut self.slots[i];
        let record = &mut slot.record;
        slot.wanted = None;
        slot.soon = false;
        if let Some(departure) = &mut record.departure {
            slot.dirty |= departure.unwanted_still(now, self.settings.remove_after);
            return;
        }
        slot.quiet = false;
        if record.claims(&record.login) {
            record.release();
            record.unknown = None;
            record.departure = Some(Box::new(Departure::new(now)));
            slot.dirty = true;
            self.departing.insert(i);
            self.happenings.push((i, Happening::Leaving));
            return;
        }
        let blank = Record {
            superseded: record.superseded.clone(),
            ..Record::new(record.login.clone())
        };
        slot.dirty |= slot.stored && *record != blank;
        *record = blank;
    }

    /// Whether this pass reads the server's list: something is leaving and the last list is old, or a
    /// consumer may be new, and then no login may carry its mark (H-22).
    pub(super) fn wants_list(&self, now: Time) -> bool {
        let every = super::departure::list_period(&self.settings);
        let old = self.listed_at.is_none_or(|at| now.since(at) >= every);
        let unseen = |i: &usize| {
            let departure = self.slots[*i].record.departure.as_deref();
            departure.is_some_and(Departure::was_never_listed)
        };
        let leaving = !self.departing.is_empty() && (old || self.departing.iter().any(unseen));
        self.caps.list && (leaving || self.pass.somebody_is_new)
    }

    /// The server's list, whole; an error says nothing about anyone. Before [`Core::steps`].
    pub fn listed(&mut self, now: Time, listed: Result<&[Listed], &Error>) {
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => {
                let since = self.list_fails.as_ref().map_or(now, |fails| fails.since);
                self.list_fails = Some(Unknown {
                    since,
                    class: error.class(),
                    why: error.message().into(),
                });
                return;
            }
        };
        self.list_fails = None;
        if self.is_other_server() {
            return;
        }
        self.listed_at = Some(now);
        self.pass.listed = true;
        self.none_is_new_that_is_listed(listed);
        if self.departing.is_empty() {
            return;
        }
        let by_login: HashMap<&Login, &Listed> = listed.iter().map(|l| (&l.login, l)).collect();
        for i in self.departing.clone() {
            let found = by_login.get(&self.slots[i].record.login).copied();
            self.listed_one(i, now, found);
        }
    }

    /// A consumer whose mark is on the server had a password before: none is minted (H-22).
    fn none_is_new_that_is_listed(&mut self, listed: &[Listed]) {
        for consumer in listed.iter().filter_map(crate::adapter::owner_of) {
            let Some(i) = self.index.get(consumer) else {
                continue;
            };
            if self.slots[*i].is_new() {
                self.slots[*i].lose_secret(no_version());
            }
        }
    }

    fn listed_one(&mut self, i: usize, now: Time, found: Option<&Listed>) {
        let apart = self.settings.remove_after;
        let slot = &mut self.slots[i];
        let Some(departure) = &mut slot.record.departure else {
            return;
        };
        match found.map(|l| (&l.mark, l.enabled)) {
            // An empty list may be a lie: it is believed the second time.
            None => match departure.missing {
                Some(first) if now.since(first) >= apart => self.retire(i),
                Some(_) => {}
                None => {
                    departure.missing = Some(now);
                    departure.shown = None;
                    slot.dirty = true;
                }
            },
            Some((MarkSeen::OursFor(consumer), enabled)) if *consumer == slot.consumer => {
                slot.dirty |= departure.shown(now, enabled, apart);
            }
            Some(_) => {
                departure.shown = None;
                slot.dirty |= departure.listed.take().is_some() || departure.left_alone.is_none();
                departure.left_alone = Some("it does not carry our mark".to_owned());
            }
        }
    }

    /// The login is gone: the record says so by being empty; nothing is told by its absence (B-5).
    fn retire(&mut self, i: usize) {
        let slot = &mut self.slots[i];
        let superseded = std::mem::take(&mut slot.record.superseded);
        slot.record = Record {
            superseded,
            ..Record::new(slot.record.login.clone())
        };
        slot.dirty = true;
        self.departing.remove(&i);
        self.happenings.push((i, Happening::Dropped));
    }

    /// The logins that a wish names; none of them is taken away. An entry that cannot be read
    /// keeps the login that it had.
    fn named(&self) -> HashSet<&Login> {
        let slots = self.slots.iter();
        let named = slots.filter_map(|s| match &s.wanted {
            Some(wanted) => Some(&wanted.login),
            None => s.kept.then_some(&s.record.login),
        });
        named.collect()
    }

    /// Which removals are due now, behind the guards.
    pub(super) fn departures(&mut self, now: Time) {
        let decided = std::mem::replace(&mut self.pass.departures_decided, true);
        if decided || self.down || !self.wish_read || self.departing.is_empty() {
            return;
        }
        let held = self.removals_held(now).is_some();
        let named = self.named();
        let due = self.departing.iter().filter_map(|i| {
            let free = !named.contains(&self.slots[*i].record.login);
            let step = free.then(|| self.departure_due(*i, now, held)).flatten();
            step.map(|step| (*i, step))
        });
        let due: Vec<(usize, Step)> = due.collect();
        for (i, step) in due {
            self.slots[i].todo = Some(step);
            self.pass.todo.push(i);
        }
    }

    fn departure_due(&self, i: usize, now: Time, held: bool) -> Option<Step> {
        let slot = &self.slots[i];
        let departure = slot.record.departure.as_deref()?;
        let waits = departure.not_before.is_some_and(|at| at > now);
        if waits || departure.left_alone.is_some() || departure.missing.is_some() {
            return None;
        }
        if !departure.is_sure(now, &self.settings, self.caps.list) {
            return None;
        }
        let alone = (held || slot.record.adopted) && !departure.approved;
        let dropped_at = departure.until(&self.settings)
            + if self.caps.disable {
                Duration::ZERO
            } else {
                self.settings.grace
            };
        match departure.phase() {
            Phase::Leaving if alone => None,
            Phase::Leaving if self.caps.disable => Some(Step::Disable),
            Phase::Off if departure.shown.is_some_and(|(_, enabled)| enabled) => {
                Some(Step::Disable)
            }
            Phase::Leaving | Phase::Off => (now >= dropped_at).then_some(Step::Remove),
        }
    }

    /// Why no removal happens without a person's word, with how many there would be.
    pub(super) fn removals_held(&self, now: Time) -> Option<(usize, &'static str)> {
        if self.departing.is_empty() {
            return None;
        }
        let named = self.named();
        let leaving = self.departing.iter().filter(|i| {
            let slot = &self.slots[**i];
            let departure = slot.record.departure.as_deref();
            departure.is_some_and(Departure::goes_by_itself)
                && !slot.record.adopted
                && !named.contains(&slot.record.login)
        });
        let leaving = leaving.count();
        if leaving == 0 {
            return None;
        }
        let recent = self.recently_removed(now);
        let there = self.slots.iter();
        let there = there.filter(|s| s.wanted.is_some() || s.kept).count();
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

    /// How many logins that existed before us wait for a person to let them go.
    pub(super) fn adopted_leaving(&self) -> usize {
        let slots = self.departing.iter().map(|i| &self.slots[*i].record);
        let waiting = slots.filter(|r| {
            let departure = r.departure.as_deref();
            r.adopted && departure.is_some_and(Departure::goes_by_itself)
        });
        waiting.count()
    }

    /// A person lets exactly these go. Others stay held.
    pub fn approve_removals(&mut self, approval: Approval) {
        for i in &self.departing {
            let slot = &mut self.slots[*i];
            let name = (slot.consumer.clone(), slot.record.login.clone());
            if let Some(departure) = &mut slot.record.departure
                && !departure.approved
                && approval.removals.contains(&name)
            {
                departure.approved = true;
                slot.dirty = true;
            }
        }
    }
    /// Who is leaving and still usable, as an approval would name them.
    pub fn leaving(&self) -> Approval {
        let slots = self.departing.iter().map(|i| &self.slots[*i]);
        let leaving = slots.filter(|s| {
            let departure = s.record.departure.as_ref();
            departure.is_some_and(|d| d.phase() == Phase::Leaving)
        });
        let removals = leaving
            .map(|s| (s.consumer.clone(), s.record.login.clone()))
            .collect();
        Approval { removals }
    }
    /// How many logins were switched off here within the last hour without a person's word.
    pub fn recently_removed(&self, now: Time) -> usize {
        let recent = self.server.recent_removals.iter();
        recent.filter(|at| now.since(**at) < BRAKE_WINDOW).count()
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
        let Some(departure) = &mut slot.record.departure else {
            return;
        };
        slot.dirty = true;
        let counts = departure.phase() == Phase::Leaving && !departure.approved;
        let gone = matches!(&outcome, Err(error) if error.class() == Class::Gone);
        match outcome {
            Err(error) if error.class() == Class::ReadOnly => {
                self.pass.withheld += 1;
                return;
            }
            Err(error) if !gone => {
                self.not_taken_away(i, now, error);
                return;
            }
            _ => {}
        }
        if step == Step::Disable && !gone {
            departure.off_at = departure.off_at.or(Some(now));
            departure.failures = 0;
            departure.not_before = None;
            departure.shown = departure.shown.map(|(at, _)| (at, false));
            slot.record.failed = None;
            self.happenings.push((i, Happening::SwitchedOff));
        } else {
            self.retire(i);
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
    fn not_taken_away(&mut self, i: usize, now: Time, error: Error) {
        self.pass.summary.failed += 1;
        let slot = &mut self.slots[i];
        if let Some(departure) = &mut slot.record.departure {
            departure.failures = departure.failures.saturating_add(1);
            let wait = check_interval(&self.settings, departure.failures);
            departure.not_before = Some(now + wait);
            if error.class() == Class::Exists {
                departure.left_alone = Some(error.message().to_owned());
            }
        }
        slot.record.failed = Some(Box::new(error.clone()));
        self.happenings.push((i, Happening::Failed(error)));
    }
}
