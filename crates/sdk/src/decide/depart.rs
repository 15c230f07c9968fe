//! Taking away: a consumer that is asked for no more (R-2 … ).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::brake::check_interval;
use super::core::Core;
use super::slot::{Happening, Step};
use crate::adapter::Listed;
use crate::answer::MarkSeen;
use crate::error::Error;
use crate::name::{ConsumerName, Login};
use crate::time::Time;

/// Removals within this time are counted together.
const BRAKE_WINDOW: Duration = Duration::from_secs(3600);
/// More than this many in the whole mesh within the window wait for a person.
const MESH_MAX: usize = 10;

/// How far a removal has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// Since when it is asked for no more.
    pub since: Time,
    /// When a whole wish without it was read last.
    wish_last: Time,
    /// When a whole list that shows it with our mark was read first and last.
    #[serde(default)]
    listed: Option<(Time, Time)>,
    /// When it was switched off.
    #[serde(default)]
    pub off_at: Option<Time>,
    /// A person let it go by name.
    #[serde(default)]
    approved: bool,
    /// Why it is left alone although it should go.
    #[serde(default)]
    pub left_alone: Option<String>,
    /// Failed steps in a row.
    #[serde(default)]
    failures: u32,
    /// Not tried before.
    #[serde(default)]
    not_before: Option<Time>,
}

/// The steps of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Still usable; shown as leaving.
    Leaving,
    /// Switched off, its sessions ended.
    Off,
}

impl Departure {
    fn new(now: Time) -> Self {
        Self {
            since: now,
            wish_last: now,
            listed: None,
            off_at: None,
            approved: false,
            left_alone: None,
            failures: 0,
            not_before: None,
        }
    }
    /// Where it stands.
    pub fn phase(&self) -> Phase {
        if self.off_at.is_some() {
            Phase::Off
        } else {
            Phase::Leaving
        }
    }
    /// Until when it stays in this phase at least.
    pub fn until(&self, settings: &super::Settings) -> Time {
        match self.off_at {
            Some(at) => at + settings.grace,
            None => self.since + settings.remove_after,
        }
    }
    pub(super) fn clamp(&mut self, now: Time) {
        self.since = self.since.not_after(now);
        self.wish_last = self.wish_last.not_after(now);
        self.off_at = self.off_at.map(|at| at.not_after(now));
        self.listed = self
            .listed
            .map(|(a, b)| (a.not_after(now), b.not_after(now)));
        self.not_before = self.not_before.map(|at| at.not_after(now + BRAKE_WINDOW));
    }
    /// Both the wish and (where the adapter can list) the list were read whole twice, this far apart.
    fn is_sure(&self, remove_after: Duration, can_list: bool) -> bool {
        let apart = |a: Time, b: Time| b >= a + remove_after;
        let listed = self.listed.is_some_and(|(first, last)| apart(first, last));
        apart(self.since, self.wish_last) && (listed || !can_list)
    }
}

/// A person's word for exactly these logins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Approval {
    /// Consumer and login of each.
    pub removals: BTreeSet<(ConsumerName, Login)>,
}

impl Core {
    /// A consumer that a whole wish does not name begins to leave, if anything was ever made for it.
    pub(super) fn unwanted(&mut self, i: usize, now: Time) {
        let slot = &mut self.slots[i];
        let record = &mut slot.record;
        slot.wanted = None;
        slot.todo = None;
        slot.blind = None;
        if let Some(departure) = &mut record.departure {
            slot.dirty |= departure.wish_last != now;
            departure.wish_last = departure.wish_last.max(now);
            return;
        }
        if record.claims(&record.login.clone()) {
            record.departure = Some(Departure::new(now));
            record.unknown = None;
            slot.dirty = true;
            self.happenings.push((i, Happening::Leaving));
        }
    }

    /// Whether this pass reads the server's list: something is leaving, and the last list is old.
    pub(super) fn wants_list(&self, now: Time) -> bool {
        let every = self.settings.list_every.min(self.settings.remove_after);
        self.caps.list
            && self
                .slots
                .iter()
                .any(|s| s.wanted.is_none() && s.record.departure.is_some())
            && self.listed_at.is_none_or(|at| now.since(at) >= every)
    }

    /// The server's list, whole; an error says nothing about anyone.
    pub fn listed(&mut self, now: Time, listed: Result<&[Listed], &Error>) {
        let Ok(listed) = listed else { return };
        self.listed_at = Some(now);
        let by_login: HashMap<&Login, &Listed> = listed.iter().map(|l| (&l.login, l)).collect();
        for i in 0..self.slots.len() {
            let slot = &mut self.slots[i];
            let Some(departure) = &mut slot.record.departure else {
                continue;
            };
            slot.dirty = true;
            match by_login.get(&slot.record.login).map(|l| &l.mark) {
                None => {
                    slot.record.departure = None;
                    self.retire(i);
                }
                Some(MarkSeen::OursFor(consumer)) if *consumer == slot.consumer => {
                    departure.left_alone = None;
                    let first = departure.listed.map_or(now, |(first, _)| first);
                    departure.listed = Some((first, now));
                }
                Some(_) => {
                    departure.listed = None;
                    departure.left_alone = Some("it no longer carries our mark".to_owned());
                }
            }
        }
    }

    /// The login is gone: the record says so by being empty; nothing is told by its absence (B-5).
    fn retire(&mut self, i: usize) {
        let slot = &mut self.slots[i];
        slot.record = super::Record::new(slot.record.login.clone());
        slot.dirty = true;
        self.happenings.push((i, Happening::Dropped));
    }

    /// Which removals are due now, behind the guards.
    pub(super) fn departures(&mut self, now: Time) {
        if self.down.is_some() {
            return;
        }
        let held = self.removals_held(now);
        let named: HashSet<&Login> = self
            .slots
            .iter()
            .filter_map(|s| s.wanted.as_ref().map(|w| &w.login))
            .collect();
        let (settings, caps) = (&self.settings, self.caps);
        let mut due = Vec::new();
        for (i, slot) in self.slots.iter().enumerate() {
            let Some(departure) = &slot.record.departure else {
                continue;
            };
            let waits = departure.not_before.is_some_and(|at| at > now);
            if waits || departure.left_alone.is_some() || named.contains(&slot.record.login) {
                continue;
            }
            let approved = self.is_approved(i);
            match departure.phase() {
                Phase::Leaving if held.is_some() && !approved => {}
                Phase::Leaving if slot.record.adopted && !approved => {}
                Phase::Leaving if !departure.is_sure(settings.remove_after, caps.list) => {}
                Phase::Leaving if caps.disable => due.push((i, Step::Disable)),
                Phase::Leaving
                    if now >= departure.since + settings.remove_after + settings.grace =>
                {
                    due.push((i, Step::Remove));
                }
                Phase::Off if now >= departure.until(settings) => due.push((i, Step::Remove)),
                _ => {}
            }
        }
        for (i, step) in due {
            self.slots[i].todo = Some(step);
            self.todo.push(i);
        }
    }

    /// Why no removal happens without a person's word, with how many there would be.
    pub(super) fn removals_held(&self, now: Time) -> Option<(usize, &'static str)> {
        let leaving = (0..self.slots.len()).filter(|i| {
            let departure = self.slots[*i].record.departure.as_ref();
            departure.is_some_and(|d| d.phase() == Phase::Leaving) && !self.is_approved(*i)
        });
        let leaving = leaving.count();
        if leaving == 0 {
            return None;
        }
        let recent = self.server.recent_removals.iter();
        let recent = recent.filter(|at| now.since(**at) < BRAKE_WINDOW).count();
        let wanted = self.slots.iter().filter(|s| s.wanted.is_some()).count();
        let (count, before) = (leaving + recent, wanted + leaving + recent);
        let why = if wanted == 0 {
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

    fn is_approved(&self, i: usize) -> bool {
        let slot = &self.slots[i];
        let named = self.approval.as_ref().is_some_and(|approval| {
            approval
                .removals
                .contains(&(slot.consumer.clone(), slot.record.login.clone()))
        });
        named || slot.record.departure.as_ref().is_some_and(|d| d.approved)
    }

    /// A person lets exactly these go. Others stay held.
    pub fn approve_removals(&mut self, approval: Approval) {
        self.approval = Some(approval);
        for i in 0..self.slots.len() {
            let approved = self.is_approved(i);
            let slot = &mut self.slots[i];
            if let Some(departure) = slot
                .record
                .departure
                .as_mut()
                .filter(|d| approved && !d.approved)
            {
                departure.approved = true;
                slot.dirty = true;
            }
        }
        self.approval = None;
    }
    /// Who is leaving and still usable, as an approval would name them.
    pub fn leaving(&self) -> Approval {
        let leaving = self.slots.iter().filter(|s| {
            s.record
                .departure
                .as_ref()
                .is_some_and(|d| d.phase() == Phase::Leaving)
        });
        let removals = leaving
            .map(|s| (s.consumer.clone(), s.record.login.clone()))
            .collect();
        Approval { removals }
    }
    /// How many logins were switched off here within the last hour without a person's word.
    pub fn recently_removed(&self, now: Time) -> usize {
        self.server
            .recent_removals
            .iter()
            .filter(|at| now.since(**at) < BRAKE_WINDOW)
            .count()
    }

    pub(super) fn taken_away(
        &mut self,
        i: usize,
        now: Time,
        step: Option<Step>,
        outcome: Result<(), Error>,
    ) {
        let slot = &mut self.slots[i];
        slot.dirty = true;
        let Some(departure) = &mut slot.record.departure else {
            return;
        };
        if let Err(error) = outcome {
            self.summary.failed += 1;
            departure.failures = departure.failures.saturating_add(1);
            departure.not_before = Some(now + check_interval(&self.settings, departure.failures));
            slot.record.failed = Some(error.clone());
            self.happenings.push((i, Happening::Failed(error)));
            return;
        }
        let counts = departure.phase() == Phase::Leaving && !departure.approved;
        if step == Some(Step::Disable) {
            departure.off_at = Some(now);
            departure.failures = 0;
            slot.record.failed = None;
            self.happenings.push((i, Happening::SwitchedOff));
        } else {
            slot.record.departure = None;
            self.retire(i);
        }
        if counts {
            self.server
                .recent_removals
                .retain(|at| now.since(*at) < BRAKE_WINDOW);
            self.server.recent_removals.push(now);
            self.touch_server();
        }
    }
}
