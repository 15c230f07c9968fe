//! One pass: look → decide → act → look again → record, conditions, history.

use std::time::Duration;

use super::{Provisioner, StoreFault};
use crate::condition::ConditionId;
use crate::decide::conditions::{Change, Seen, is_of_server};
use crate::decide::{Mode, PassEnd, State, Step, Summary};
use crate::event::{Event, EventKind, fold};
use crate::time::Time;

/// A finished pass, for metrics and for whoever asked for it.
#[derive(Debug, Clone)]
pub struct PassReport {
    /// The loop.
    pub name: String,
    /// The provider, with its node.
    pub label: String,
    /// In numbers.
    pub summary: Summary,
    /// How many consumers stand how.
    pub states: Vec<(State, usize)>,
    /// How long it took.
    pub took: Duration,
    /// When it ended.
    pub at: Time,
    /// When the next one is due.
    pub next_at: Time,
    /// Conditions that stand.
    pub conditions: usize,
}

/// What a look found, without a write anywhere: for `plan`.
#[derive(Debug, Clone)]
pub struct Looked {
    /// What would be done, by slot.
    pub steps: Vec<(usize, Step)>,
    /// In numbers.
    pub summary: Summary,
}

impl Provisioner {
    /// One whole pass. Errors: the store could not be written; what was to follow from it was not done.
    pub async fn pass(&mut self) -> Result<PassReport, StoreFault> {
        let began = self.now();
        self.look().await;
        let acted = self.act().await;
        let end = self.core.end(self.now());
        let report = self.report(began, &end);
        let stored = self.finish(end).await;
        acted.and(stored)?;
        for observer in &self.parts.observers {
            observer.passed(&report);
        }
        Ok(report)
    }

    /// Looks and decides, and does nothing. Whoever calls it drops this provisioner afterwards.
    pub async fn look_only(&mut self) -> Looked {
        self.core.hint();
        self.look().await;
        let steps = self.core.steps(self.now());
        let end = self.core.end(self.now());
        Looked {
            steps,
            summary: end.summary,
        }
    }

    async fn look(&mut self) {
        self.look_at_server().await;
        let plan = self.core.begin(self.now());
        if plan.list {
            self.list().await;
        }
        match plan.mode {
            _ if plan.ask.is_empty() => {}
            Mode::Bulk => self.ask_in_bulk(&plan.ask).await,
            Mode::Single => self.ask_singly(&plan.ask).await,
        }
    }

    fn report(&self, began: Time, end: &PassEnd) -> PassReport {
        let mut states = std::collections::BTreeMap::new();
        for slot in self.core.slots().iter().filter(|s| s.wanted.is_some()) {
            *states.entry(slot.state()).or_insert(0) += 1;
        }
        let at = self.now();
        PassReport {
            name: self.name.clone(),
            label: self.label.clone(),
            summary: end.summary,
            states: states.into_iter().collect(),
            took: at.since(began),
            at,
            next_at: end.next_at,
            conditions: self.ledger.kept().filter(|k| k.raised).count(),
        }
    }

    /// Conditions, history and records of a pass. Conditions that cannot be stored are told in the log
    /// all the same.
    async fn finish(&mut self, end: PassEnd) -> Result<(), StoreFault> {
        let now = self.now();
        let events = end
            .happenings
            .iter()
            .map(|(i, happening)| self.event_of(*i, happening))
            .collect();
        let mut events = fold(events);
        let changes = self.look_at_conditions(now, &end);
        events.extend(fold(
            changes
                .iter()
                .map(|change| self.condition_event(change))
                .collect(),
        ));
        events.iter().for_each(Event::log);
        let records = self.store_records().await;
        let conditions = self.store_conditions(&changes).await;
        let history = self.store_events(&events).await;
        let beat = self.store_beat(&end, now).await;
        records.and(conditions).and(history).and(beat)
    }

    fn look_at_conditions(&mut self, now: Time, end: &PassEnd) -> Vec<Change> {
        let facts = end.facts.iter().cloned().map(|mut fact| {
            fact.subject = self.subject(&fact.subject);
            fact.message = (self.parts.scrub)(&fact.message);
            fact
        });
        let facts = facts.collect();
        let (core, prefix) = (&self.core, format!("{}/", self.label));
        let pass_began = end.summary;
        self.ledger.look(now, core.generation(), facts, |id| {
            let Some(consumer) = id.subject.strip_prefix(&prefix) else {
                return seen_server(core, id);
            };
            let slot = crate::ConsumerName::new(consumer)
                .ok()
                .and_then(|c| core.slot_of(&c));
            match slot.map(|i| &core.slots()[i]) {
                None => Seen::Retired,
                Some(slot) if slot.wanted.is_none() && slot.record.departure.is_none() => {
                    Seen::Retired
                }
                Some(slot) if slot.record.unknown.is_some() => Seen::Nothing,
                Some(_) if pass_began.asked == 0 && core.is_down() => Seen::Nothing,
                Some(_) => Seen::Good,
            }
        })
    }

    /// A condition's subject: the provider, and the consumer behind a slash.
    fn subject(&self, consumer: &str) -> String {
        if consumer.is_empty() {
            self.label.clone()
        } else {
            format!("{}/{consumer}", self.label)
        }
    }

    fn condition_event(&self, change: &Change) -> Event {
        let (kind, condition) = match change {
            Change::Raised(condition) => (EventKind::Raised, condition),
            Change::Changed(condition) => (EventKind::Changed, condition),
            Change::Cleared(condition) => (EventKind::Cleared, condition),
        };
        let consumer = condition
            .id
            .subject
            .split_once('/')
            .map_or("", |(_, consumer)| consumer);
        self.event(
            kind,
            consumer,
            format!("{}: {}", condition.id.kind, condition.message),
        )
    }
}

fn seen_server(core: &crate::decide::Core, id: &ConditionId) -> Seen {
    if is_of_server(id.kind) && core.is_down() {
        Seen::Nothing
    } else {
        Seen::Good
    }
}
