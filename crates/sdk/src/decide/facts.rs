//! What a pass found and cannot fix: the raw facts behind conditions.

use super::brake::check_interval;
use super::core::Core;
use super::settings::TUG_CHANGES;
use super::slot::{Last, SecretState, Slot};
use crate::condition::{ConditionType, Fact, Reason};
use crate::error::Class;
use crate::time::Time;

fn fact(kind: ConditionType, subject: &str, reason: Reason, message: String) -> Fact {
    Fact {
        kind,
        subject: subject.to_owned(),
        reason,
        message,
        action: None,
        final_at_once: true,
    }
}

fn reason_of(class: Class) -> Reason {
    match class {
        Class::TimedOut => Reason::TimedOut,
        Class::RefusedValue => Reason::RefusedValue,
        Class::Denied => Reason::Denied,
        Class::Exists => Reason::Exists,
        Class::ReadOnly => Reason::ReadOnly,
        _ => Reason::CallFailed,
    }
}

impl Core {
    /// Every fact of this moment. Subjects are consumer names, or empty for the provider itself; the
    /// loop puts the provider's name before them.
    pub(super) fn facts(&self, now: Time) -> Vec<Fact> {
        let mut facts = Vec::new();
        self.server_facts_into(now, &mut facts);
        let unreachable = self.down.is_some();
        for slot in &self.slots {
            self.slot_facts(slot, now, unreachable, &mut facts);
        }
        facts
    }

    fn server_facts_into(&self, now: Time, facts: &mut Vec<Fact>) {
        use ConditionType as T;
        if let Some((since, error)) = &self.down
            && now.since(*since) >= self.settings.unknown_after
        {
            let age = now.since(*since).as_secs();
            let message = format!("no answer for {age} s: {error}");
            facts.push(fact(
                T::BackendUnreachable,
                "",
                reason_of(error.class()),
                message,
            ));
        }
        if let (Some(new), Some(old)) = (&self.server.changed_to, &self.server.identity) {
            let message = format!("the server here was {old} and is now {new}; it is only read");
            facts.push(fact(T::ServerChanged, "", Reason::IdentityChanged, message));
        }
        let seen = self.seen.as_ref();
        if let Some(why) = seen.and_then(|s| s.forgets.as_ref()) {
            facts.push(fact(T::NotDurable, "", Reason::NoPersistence, why.clone()));
        }
        let waiting = self.slots.iter().filter(|s| {
            s.record
                .unknown
                .as_ref()
                .is_some_and(|u| u.class == Class::ReadOnly)
        });
        let waiting = waiting.count();
        if waiting > 0 {
            let message = format!("{waiting} repairs wait for a writable server");
            facts.push(fact(T::WaitsForWritable, "", Reason::ReadOnly, message));
        }
        if let Some((count, why)) = self.removals_held(now) {
            let reason = if self.slots.iter().any(|s| s.wanted.is_some()) {
                Reason::TooMany
            } else {
                Reason::EmptyWish
            };
            let message = format!("{count} logins would go, and none does: {why}");
            facts.push(fact(T::RemovalHeld, "", reason, message));
        }
        if let Some(until) = self.paused_until.filter(|at| *at > now) {
            facts.push(paused("", until, now));
        }
        self.mass_loss(facts);
    }

    /// A mass loss is told in one condition, not in ten thousand (H-20).
    fn mass_loss(&self, facts: &mut Vec<Fact>) {
        let (lost, asked) = (self.summary.lost, self.summary.asked);
        if lost >= 10 && lost * 2 > asked {
            let message = format!("{lost} of {asked} consumers were lost at once");
            let explained = self
                .slots
                .iter()
                .all(|s| s.record.run == self.server.run_no);
            let reason = if explained {
                Reason::ServerRestarted
            } else {
                Reason::Unexplained
            };
            facts.push(fact(ConditionType::MassLoss, "", reason, message));
        }
    }

    fn slot_facts(&self, slot: &Slot, now: Time, unreachable: bool, facts: &mut Vec<Fact>) {
        use ConditionType as T;
        let name = slot.consumer.as_str();
        let record = &slot.record;
        if let Some(until) = slot.paused_until.filter(|at| *at > now) {
            facts.push(paused(name, until, now));
        }
        let mut push = |kind, reason, message| facts.push(fact(kind, name, reason, message));
        if let Some(departure) = &record.departure {
            if let Some(why) = departure
                .left_alone
                .clone()
                .or_else(|| record.failed.as_ref().map(|e| e.to_string()))
            {
                push(
                    T::RemovalStuck,
                    Reason::CallFailed,
                    format!("`{}` should go: {why}", record.login),
                );
            }
            return;
        }
        let Some(wanted) = &slot.wanted else { return };
        if let SecretState::Lost(why) = &wanted.secret {
            push(T::SecretLost, Reason::NoVersion, why.clone());
        }
        if record.taken == Some(wanted.digest) {
            let hint = if wanted.adopt {
                "; `adopt = true` needs the password that it has"
            } else {
                ""
            };
            let message = format!("the login `{}` exists and is not ours{hint}", record.login);
            push(T::LoginTaken, Reason::Exists, message);
        }
        if let Some(unknown) = &record.unknown
            && !unreachable
            && unknown.class != Class::ReadOnly
            && now.since(unknown.since) >= self.settings.unknown_after
        {
            let age = now.since(unknown.since).as_secs();
            push(
                T::LookUnknown,
                reason_of(unknown.class),
                format!("no answer for {age} s: {}", unknown.why),
            );
        }
        self.trouble(slot, &mut push);
    }

    fn trouble(&self, slot: &Slot, push: &mut dyn FnMut(ConditionType, Reason, String)) {
        use ConditionType as T;
        let record = &slot.record;
        let every = |n: u32| check_interval(&self.settings, n).as_secs() / 60;
        let what = match &record.last {
            Last::Lost {
                differences,
                detail,
                ..
            } if detail.is_empty() => differences.to_string(),
            Last::Lost {
                differences,
                detail,
                ..
            } => format!("{differences} ({detail})"),
            _ => "held at the last look".to_owned(),
        };
        if let Some(error) = record
            .failed
            .as_ref()
            .filter(|e| e.class() != Class::Exists)
        {
            let kind = match error.class() {
                Class::RefusedValue => T::Refused,
                _ if slot.is_applied() => T::HealFailed,
                _ => T::ApplyFailed,
            };
            push(
                kind,
                reason_of(error.class()),
                format!("{error} (tried {} times)", record.failures),
            );
        }
        if record.strikes > 0 {
            let message = format!(
                "lost again after {} successful repairs: {what}; checked every {} min",
                record.strikes,
                every(record.strikes)
            );
            push(T::Braked, Reason::LostAgain, message);
        }
        if record.tug > 0 {
            let message = format!(
                "changed {TUG_CHANGES} times within an hour after being held: {what}; checked every {} min",
                every(record.tug)
            );
            push(T::TugOfWar, Reason::ChangedAgain, message);
        }
        if let Last::Held {
            warning: Some(warning),
            ..
        } = &record.last
        {
            push(T::GrantsSurplus, Reason::Unexplained, warning.to_string());
        }
    }
}

fn paused(subject: &str, until: Time, now: Time) -> Fact {
    let minutes = until.since(now).as_secs().div_ceil(60);
    let message = format!("writes are paused for {minutes} min more");
    fact(ConditionType::Paused, subject, Reason::ByPerson, message)
}
