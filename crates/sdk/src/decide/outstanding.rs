//! What the other way round tells and cannot fix: removals that wait, are stuck or in use, and lists that
//! prove nothing.

use std::time::Duration;

use super::core::Core;
use super::depart::Leaver;
use super::facts::{length, silent_fact};
use super::slot::Slot;
use crate::condition::{ConditionType as T, Fact, Reason};
use crate::time::Time;

impl Core {
    /// Facts of the provider's lists and removals.
    pub(super) fn outstanding_facts(&self, now: Time, facts: &mut Vec<Fact>) {
        self.held_facts(now, facts);
        self.list_facts(now, facts);
        for i in &self.departing {
            leaving_facts(&self.slots[*i], now, self.settings.grace, facts);
        }
    }

    fn held_facts(&self, now: Time, facts: &mut Vec<Fact>) {
        let (elders, others) = self.wait_for_a_word();
        if others > 0 {
            let all = elders + others;
            let message = format!(
                "{all} logins would go, and none does: without a canary no list proves anything, and \
                 only a person lets them"
            );
            facts.push(Fact::at_once(T::RemovalHeld, "", Reason::NoCanary, message));
            return;
        }
        let (reason, message) = match self.removals_held(now) {
            Some((count, why)) => {
                let reason = if self.asked_for() == 0 {
                    Reason::EmptyWish
                } else {
                    Reason::TooMany
                };
                let all = count + elders;
                let message = format!("{all} logins would go, and none does: {why}");
                (reason, message)
            }
            None if elders > 0 => {
                let what = "logins that existed before us would go; only a person lets them";
                (Reason::Exists, format!("{elders} {what}"))
            }
            None => return,
        };
        facts.push(Fact::at_once(T::RemovalHeld, "", reason, message));
    }

    fn list_facts(&self, now: Time, facts: &mut Vec<Fact>) {
        let fails = self.server.list_fails.as_ref();
        let fails = fails.or(self.server.uses_fail.as_ref());
        if let Some(fails) = fails
            && now.since(fails.since) >= self.settings.unknown_after
        {
            facts.push(silent_fact(T::LookUnknown, "", fails, now));
        }
        if let Some(doubt) = self.pass.doubt.as_ref().filter(|doubt| doubt.is_trouble) {
            let message = format!(
                "the server's list proves nothing: {}; nothing is removed by it",
                doubt.why
            );
            facts.push(Fact {
                final_at_once: false,
                ..Fact::at_once(T::ListDoubted, "", Reason::Unexplained, message)
            });
        }
        let damaged = self.server.strangers.damaged;
        if self.pass.list_proves && damaged > 0 {
            let message = format!(
                "{damaged} logins have a mark in our name that is damaged or forged; they are left alone"
            );
            facts.push(Fact {
                final_at_once: false,
                ..Fact::at_once(T::MarkDamaged, "", Reason::Unexplained, message)
            });
        }
    }
}

/// What stands in the way of one consumer's logins that leave, each kind once.
fn leaving_facts(slot: &Slot, now: Time, grace: Duration, facts: &mut Vec<Fact>) {
    let name = slot.consumer.as_str();
    let leavers = || slot.record.leavers(&slot.consumer);
    let told = |each: &dyn Fn(Leaver<'_>) -> Option<String>| {
        let all: Vec<String> = leavers().filter_map(each).collect();
        (!all.is_empty()).then(|| all.join("; "))
    };
    let stuck = |one: Leaver<'_>| {
        let failed = || one.departure.failed.as_ref().map(|error| error.to_string());
        let why = one.departure.left_alone.clone().or_else(failed)?;
        Some(format!("`{}` should go: {why}", one.login))
    };
    if let Some(message) = told(&stuck) {
        facts.push(Fact::at_once(
            T::RemovalStuck,
            name,
            Reason::CallFailed,
            message,
        ));
    }
    let in_use = |one: Leaver<'_>| {
        let used = one.departure.used_since()?;
        if now >= used.at + grace {
            return None;
        }
        Some(format!(
            "`{}` is asked for no more and is in use: {}, {} ago",
            one.login,
            used.how,
            length(now.since(used.at))
        ))
    };
    if let Some(message) = told(&in_use) {
        facts.push(Fact::at_once(T::OrphanInUse, name, Reason::InUse, message));
    }
}
