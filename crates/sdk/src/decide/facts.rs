//! What a pass found and cannot fix: the raw facts behind conditions.

use std::time::Duration;

use super::brake::check_interval;
use super::conditions::Seen;
use super::core::Core;
use super::record::{Last, Unknown};
use super::settings::TUG_CHANGES;
use super::slot::{Happening, SecretState, Slot, Wanted};
use crate::answer::{Difference, Differences};
use crate::condition::{ConditionType, ConditionType as T, Fact, Reason};
use crate::error::Class;
use crate::name::ConsumerName;
use crate::time::Time;

fn reason_of(class: Class) -> Reason {
    match class {
        Class::TimedOut => Reason::TimedOut,
        Class::RefusedValue => Reason::RefusedValue,
        Class::Denied => Reason::Denied,
        _ => Reason::CallFailed,
    }
}

impl Core {
    /// Every fact of this moment. Subjects are consumer names, or empty for the provider itself; the
    /// loop puts the provider's name before them.
    pub(super) fn facts(&self, now: Time) -> Vec<Fact> {
        let mut facts = Vec::new();
        self.server_facts_into(now, &mut facts);
        let silent = self.all_silent(now);
        if let Some(silent) = silent {
            facts.push(silent_fact(T::BackendUnreachable, "", silent, now));
        }
        let mut waiting = self.pass.withheld;
        for slot in self.slots.iter().filter(|slot| !slot.is_in_order()) {
            // Where nothing can be written nothing is removed either: our own login can wait.
            let own = slot.consumer.is_canary();
            let waits = slot.waits_to_be_written();
            let for_server = waits.is_some_and(|unknown| unknown.class == Class::ReadOnly);
            waiting += usize::from(!own && for_server);
            self.slot_facts(slot, now, silent.is_some(), &mut facts);
        }
        if waiting > 0 {
            let message = format!("{waiting} writes wait for a server that takes them");
            facts.push(Fact::at_once(
                T::WaitsForWritable,
                "",
                Reason::ReadOnly,
                message,
            ));
        }
        facts
    }

    /// Nobody could be asked for longer than `unknown_after`: that is the backend's trouble, and told
    /// once (C-6).
    fn all_silent(&self, now: Time) -> Option<&Unknown> {
        let long = |unknown: &Unknown| now.since(unknown.since) >= self.settings.unknown_after;
        if self.down {
            return self.server.down.as_ref().filter(|down| long(down));
        }
        let mut newest: Option<&Unknown> = None;
        let mut count = 0;
        for slot in self.slots.iter().filter(|s| s.wanted.is_some()) {
            let unknown = slot.record.unknown.as_deref();
            let unknown = unknown.filter(|u| u.class != Class::ReadOnly && long(u))?;
            count += 1;
            newest = newest
                .filter(|n| n.since >= unknown.since)
                .or(Some(unknown));
        }
        newest.filter(|_| count > 1)
    }

    fn server_facts_into(&self, now: Time, facts: &mut Vec<Fact>) {
        if let (Some(new), Some(old)) = (&self.server.changed_to, &self.server.identity) {
            let message = format!("the server here was {old} and is now {new}; it is only read");
            facts.push(Fact::at_once(
                T::ServerChanged,
                "",
                Reason::IdentityChanged,
                message,
            ));
        }
        let seen = self.seen.as_ref();
        if let Some(why) = seen.and_then(|s| s.forgets.as_ref()) {
            facts.push(Fact::at_once(
                T::NotDurable,
                "",
                Reason::NoPersistence,
                why.clone(),
            ));
        }
        self.outstanding_facts(now, facts);
        if let Some(until) = self.paused_until.filter(|at| *at > now) {
            facts.push(paused("", until, now));
        }
        self.mass_loss(facts);
        let again = self.happenings.iter();
        for (i, _) in again.filter(|(_, what)| *what == Happening::SwitchedOn) {
            let slot = &self.slots[*i];
            let message = format!("`{}` had been switched off by somebody", slot.record.login);
            let name = slot.consumer.as_str();
            facts.push(Fact::at_once(
                T::SwitchedOnAgain,
                name,
                Reason::Unexplained,
                message,
            ));
        }
    }

    /// A mass loss is told in one condition, not in ten thousand (H-20).
    fn mass_loss(&self, facts: &mut Vec<Fact>) {
        let (lost, asked) = (self.pass.gone, self.pass.summary.asked);
        if lost >= 10 && lost * 2 > asked {
            let message = format!("{lost} of {asked} consumers were lost at once");
            let reason = if self.pass.explained * 2 > lost {
                Reason::ServerRestarted
            } else {
                Reason::Unexplained
            };
            facts.push(Fact::at_once(ConditionType::MassLoss, "", reason, message));
        }
    }

    fn slot_facts(&self, slot: &Slot, now: Time, unreachable: bool, facts: &mut Vec<Fact>) {
        let name = slot.consumer.as_str();
        let record = &slot.record;
        if let Some(until) = slot.paused_until.filter(|at| *at > now) {
            facts.push(paused(name, until, now));
        }
        let Some(wanted) = &slot.wanted else { return };
        if let Some(unknown) = &record.unknown
            && !unreachable
            && unknown.class != Class::ReadOnly
            && now.since(unknown.since) >= self.settings.unknown_after
        {
            facts.push(silent_fact(T::LookUnknown, name, unknown, now));
        }
        if let SecretState::Lost(why) = &wanted.secret {
            facts.push(Fact::at_once(
                T::SecretLost,
                name,
                Reason::NoVersion,
                why.clone(),
            ));
        }
        if record.taken == Some(wanted.digest) {
            facts.push(taken_fact(slot, wanted));
        }
        let mut push =
            |kind, reason, message| facts.push(Fact::at_once(kind, name, reason, message));
        if !wanted.enabled && !slot.consumer.is_canary() && !self.rests(slot) {
            let message = format!("`{}` is kept switched off", record.login);
            push(T::DisabledOnPurpose, Reason::AsDeclared, message);
        }
        self.trouble(slot, facts);
    }

    fn trouble(&self, slot: &Slot, facts: &mut Vec<Fact>) {
        let name = slot.consumer.as_str();
        let record = &slot.record;
        let mut push =
            |kind, reason, message| facts.push(Fact::at_once(kind, name, reason, message));
        let every = |n: u32| length(check_interval(&self.settings, n));
        let changed = record.changed.as_deref().unwrap_or("not known how");
        if record.strikes > 0 {
            let message = format!(
                "lost again after {} successful repairs: {changed}; checked every {}",
                record.strikes,
                every(record.strikes)
            );
            push(T::Braked, Reason::LostAgain, message);
        }
        if record.tug > 0 {
            let at: Vec<String> = record.changes.iter().map(|at| at.clock()).collect();
            let message = format!(
                "changed {TUG_CHANGES} times within an hour after being held, at {} UTC: {changed}; \
                 checked every {}",
                at.join(", "),
                every(record.tug)
            );
            push(T::TugOfWar, Reason::ChangedAgain, message);
        }
        match &record.last {
            Last::Held {
                warning: Some(warning),
                ..
            } => push(T::GrantsSurplus, Reason::Unexplained, warning.to_string()),
            Last::Lost {
                differences,
                detail,
                ..
            } if differences.contains(Difference::PasswordNotEnforced) => {
                let what = what_differs(*differences, detail);
                push(T::PasswordNotEnforced, Reason::Unexplained, what);
            }
            _ => {}
        }
        let failed = record.failed.as_ref();
        if let Some(error) = failed.filter(|e| e.class() != Class::Exists) {
            let kind = match error.class() {
                Class::RefusedValue => T::Refused,
                _ if slot.is_applied() => T::HealFailed,
                _ => T::ApplyFailed,
            };
            let message = format!("{error} (tried {} times)", record.failures);
            facts.push(Fact {
                final_at_once: !error.class().is_transient(),
                ..Fact::at_once(kind, name, reason_of(error.class()), message)
            });
        }
    }

    /// What this pass saw of a condition's subject for which it has no fact: the provider itself
    /// (`None`), or one of its consumers.
    pub fn saw(&self, kind: ConditionType, consumer: Option<&ConsumerName>) -> Seen {
        let Some(consumer) = consumer else {
            return self.saw_server(kind);
        };
        let Some(slot) = self.slot_of(consumer).map(|i| &self.slots[i]) else {
            return Seen::Retired;
        };
        let leaves = slot.record.leaves();
        match kind {
            T::Paused | T::RemovalStuck | T::OrphanInUse if slot.wanted.is_some() || leaves => {
                Seen::Good
            }
            _ if slot.kept && slot.wanted.is_none() => Seen::Nothing,
            _ if slot.wanted.is_none() => Seen::Retired,
            _ if !slot.is_ready() => Seen::NotLooked,
            _ if slot.record.unknown.is_some() => Seen::Nothing,
            _ if !self.caps.holds || slot.answered_at >= Some(self.pass.at) => Seen::Good,
            _ => Seen::NotLooked,
        }
    }

    fn saw_server(&self, kind: ConditionType) -> Seen {
        let (own_asked, own_heard) = self.pass.own;
        let asked = self.pass.summary.asked > 0 || own_asked;
        let heard = self.pass.summary.unknown < self.pass.summary.asked || own_heard;
        match kind {
            T::Paused | T::RemovalHeld => Seen::Good,
            _ if self.down => Seen::Nothing,
            T::ServerChanged | T::NotDurable if self.seen.is_none() => Seen::Nothing,
            T::BackendUnreachable if asked && !heard => Seen::Nothing,
            T::BackendUnreachable if self.slots.iter().all(|s| s.wanted.is_none()) => Seen::Retired,
            T::BackendUnreachable if !asked && !self.caps.server => Seen::NotLooked,
            T::MassLoss if !heard => Seen::NotLooked,
            T::LookUnknown
                if self.server.list_fails.is_some() || self.server.uses_fail.is_some() =>
            {
                Seen::Nothing
            }
            T::ListDoubted | T::MarkDamaged if self.caps.list && !self.pass.list_proves => {
                Seen::NotLooked
            }
            _ => Seen::Good,
        }
    }
}

impl Slot {
    /// Nothing can be told of it; the quick way past the many.
    fn is_in_order(&self) -> bool {
        let record = &self.record;
        let fine = self.wanted.as_ref().is_some_and(|w| w.enabled) && self.is_ready();
        let held = matches!(&record.last, Last::Held { warning: None, .. });
        let quiet = record.unknown.is_none() && record.failed.is_none() && record.taken.is_none();
        fine && held && quiet && !record.is_braked() && self.paused_until.is_none()
    }
}

/// A login that was left alone; one of ours can be handed over.
fn taken_fact(slot: &Slot, wanted: &Wanted) -> Fact {
    let (name, record) = (slot.consumer.as_str(), &slot.record);
    let words = record.taken_words(&slot.consumer);
    let hint = match wanted.adopt {
        true => "; taking it over needs the password that it has",
        false => "",
    };
    let action = record.taken_from.is_some().then(|| {
        format!("`mesh adopt {name} PROVIDER` hands it over, with the password that it has.")
    });
    Fact {
        action,
        ..Fact::at_once(
            T::LoginTaken,
            name,
            Reason::Exists,
            format!("{words}{hint}"),
        )
    }
}

/// How it differs, in words.
pub(super) fn what_differs(differences: Differences, detail: &str) -> String {
    match detail {
        "" => differences.to_string(),
        detail => format!("{differences} ({detail})"),
    }
}

/// A length for people: seconds below a minute, else whole minutes.
pub(super) fn length(length: Duration) -> String {
    match length.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

/// No answer for so long, and why.
pub(super) fn silent_fact(
    kind: ConditionType,
    subject: &str,
    unknown: &Unknown,
    now: Time,
) -> Fact {
    let age = now.since(unknown.since).as_secs();
    let message = format!("no answer for {age} s: {}", unknown.why);
    Fact::at_once(kind, subject, reason_of(unknown.class), message)
}

fn paused(subject: &str, until: Time, now: Time) -> Fact {
    let minutes = until.since(now).as_secs().div_ceil(60);
    let message = format!("writes are paused for {minutes} min more");
    Fact::at_once(ConditionType::Paused, subject, Reason::ByPerson, message)
}
