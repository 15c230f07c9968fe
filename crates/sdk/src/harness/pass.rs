//! One pass: look → decide → act → look again → record, conditions, history.

use std::sync::Arc;
use std::time::Duration;

use super::beat::{Beating, bound_of};
use super::{Provisioner, StoreFault, declared};
use crate::bus::Fault;
use crate::condition::{Condition, Fact};
use crate::decide::conditions::{Change, Seen};
use crate::decide::{Happening, Mode, PassEnd, State, Step, Summary};
use crate::event::{Event, EventKind, Fold};
use crate::name::ConsumerName;
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
    /// It asked for a part only, and the next one, due at once, asks for the rest (H-16).
    pub rests: bool,
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
    /// What it found and cannot fix.
    pub facts: Vec<Fact>,
}

impl PassReport {
    /// Of several passes that asked for a part each, as of one.
    #[must_use]
    pub fn with_earlier(self, earlier: &Self) -> Self {
        let mut summary = self.summary;
        summary.asked += earlier.summary.asked;
        summary.held += earlier.summary.held;
        summary.lost += earlier.summary.lost;
        summary.unknown += earlier.summary.unknown;
        summary.applied += earlier.summary.applied;
        summary.failed += earlier.summary.failed;
        let took = self.took + earlier.took;
        Self {
            summary,
            took,
            ..self
        }
    }
}

impl Provisioner {
    /// One whole pass. Errors: the store could not be written; what was to follow from it was not done,
    /// and the next pass writes what this one owes.
    pub async fn pass(&mut self) -> Result<PassReport, StoreFault> {
        let beating = Beating {
            bus: Arc::clone(&self.parts.bus),
            name: self.name.clone(),
            pulse: self.pulse.clone(),
            clock: self.parts.clock,
        };
        self.pulse
            .begins(self.now(), bound_of(self.core.settings()));
        beating.during(self.whole_pass()).await
    }

    async fn whole_pass(&mut self) -> Result<PassReport, StoreFault> {
        let began = self.now();
        *self.store_hangs.get_mut() = false;
        self.note_how_each_stands();
        self.look().await;
        self.step("acts");
        let acted = self.act().await;
        let end = self.core.end(self.now());
        self.step("stores");
        let stored = self.finish(&end).await;
        if let Err(fault) = acted.and(stored) {
            // What was held back waits for no regular turn.
            self.core.hint();
            return Err(self.scrub_fault(fault));
        }
        let report = self.report(began, &end);
        let changed = self.changed(&end);
        for observer in &self.parts.observers {
            observer.passed(&report);
            if !changed.is_empty() {
                observer.changed(&self.name, &changed);
            }
        }
        Ok(report)
    }

    /// Looks and decides, and does nothing. Whoever calls it drops this provisioner afterwards.
    pub async fn look_only(&mut self) -> Looked {
        self.core.hint();
        self.look().await;
        while let Some(open) = self.core.rested() {
            self.ask_in_bulk(&open).await;
        }
        let steps = self.core.steps(self.now());
        let end = self.core.end(self.now());
        Looked {
            steps,
            summary: end.summary,
            facts: end.facts,
        }
    }

    /// Says that the pass goes on to its next step.
    pub(super) fn step(&self, doing: &'static str) {
        self.pulse.step(self.now(), doing);
    }

    async fn look(&mut self) {
        self.step("looks at the server");
        self.look_at_server().await;
        // An adapter may learn what it can do only when it first reaches something.
        let caps = self.parts.adapter.capabilities();
        self.core.set_capabilities(caps);
        let plan = self.core.begin(self.now());
        if plan.list {
            self.step("lists");
            self.list().await;
        }
        self.step("asks");
        match plan.mode {
            _ if plan.ask.is_empty() || self.is_stopping() => {}
            Mode::Bulk => self.ask_in_bulk(&plan.ask).await,
            Mode::Single => self.ask_singly(&plan.ask).await,
        }
        let (summary, oldest) = (self.core.so_far(), self.core.waits_longest());
        self.pulse.counted(summary.asked, summary.unknown, oldest);
        self.ask_for_uses().await;
    }

    fn scrub_fault(&self, fault: StoreFault) -> StoreFault {
        let scrub = &self.parts.scrub;
        match fault {
            StoreFault::Bus(Fault::Unreachable(why)) => Fault::Unreachable(scrub(&why)).into(),
            StoreFault::Bus(Fault::Full(why)) => Fault::Full(scrub(&why)).into(),
            StoreFault::Bus(Fault::Corrupt(why)) => Fault::Corrupt(scrub(&why)).into(),
            other => other,
        }
    }

    fn report(&self, began: Time, end: &PassEnd) -> PassReport {
        let mut states = std::collections::BTreeMap::new();
        let slots = self.core.slots().iter();
        for slot in slots.filter(|s| s.wanted.is_some() && !s.consumer.is_canary()) {
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
            rests: end.rests,
            conditions: self.ledger.kept().filter(|k| k.raised).count(),
        }
    }

    /// History, records and conditions of a pass. The history comes first: a crash here tells a thing
    /// twice, and never not at all (C-5). What cannot be stored is told in the log all the same.
    async fn finish(&mut self, end: &PassEnd) -> Result<(), StoreFault> {
        let now = self.now();
        let changes = self.look_at_conditions(now, end);
        let events = self.events(&end.happenings, &changes);
        events.iter().for_each(Event::log);
        let history = self.store_events(events).await;
        let records = self.store_records().await;
        let conditions = self.store_conditions().await;
        let beat = self.store_beat(end, now).await;
        history.and(records).and(conditions).and(beat)
    }

    /// What is told of a pass: a storm of one kind is one event that counts it (H-20).
    fn events(&mut self, happenings: &[(usize, Happening)], changes: &[Change]) -> Vec<Event> {
        let mut fold = Fold::default();
        for event in std::mem::take(&mut self.told) {
            let (kind, name) = (event.kind, event.consumer.clone());
            fold.add(kind, &name, || event);
        }
        let slots = self.core.slots();
        for (i, happening) in happenings {
            let name = slots[*i].consumer.as_str();
            fold.add(Event::kind_of(happening), name, || {
                self.event_of(*i, happening)
            });
        }
        for change in changes {
            let (kind, condition) = told(change);
            let name = condition.id.subject.as_str();
            fold.add(kind, name, || self.condition_event(kind, condition));
        }
        fold.finish()
    }

    fn look_at_conditions(&mut self, now: Time, end: &PassEnd) -> Vec<Change> {
        let facts = end.facts.iter().cloned().map(|mut fact| {
            fact.subject = self.subject(&fact.subject);
            fact.message = (self.parts.scrub)(&fact.message);
            declared::finds(&self.name, fact.kind);
            fact
        });
        let facts = facts.collect();
        let (core, prefix) = (&self.core, format!("{}/", self.label));
        self.ledger.look(now, core.generation(), facts, |id| {
            match id.subject.strip_prefix(&prefix).map(ConsumerName::new) {
                None => core.saw(id.kind, None),
                Some(Ok(consumer)) => core.saw(id.kind, Some(&consumer)),
                Some(Err(_)) => Seen::Retired,
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

    fn condition_event(&self, kind: EventKind, condition: &Condition) -> Event {
        let parts = condition.id.subject.split_once('/');
        let consumer = parts.map_or("", |(_, consumer)| consumer);
        let detail = format!("{}: {}", condition.id.kind, condition.message);
        self.event(kind, consumer, detail)
    }
}

fn told(change: &Change) -> (EventKind, &Condition) {
    match change {
        Change::Raised(condition) => (EventKind::Raised, condition),
        Change::Changed(condition) => (EventKind::Changed, condition),
        Change::Cleared(condition) => (EventKind::Cleared, condition),
    }
}
