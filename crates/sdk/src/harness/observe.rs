//! What a pass saw otherwise than the one before: told to who listens, and kept nowhere (B-10).

use std::collections::BTreeMap;

use super::Provisioner;
use crate::decide::{PassEnd, State};
use crate::event::Event;
use crate::name::ConsumerName;
use crate::time::Time;

/// So many are told of one pass; a storm is in the pass's numbers, and in the history.
const MOST: usize = 1_000;

/// One consumer, seen otherwise than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The provider, with its node.
    pub label: String,
    /// Who.
    pub consumer: ConsumerName,
    /// How it stood before.
    pub before: State,
    /// How it stands now.
    pub state: State,
    /// What happened to it on this pass, in the words of the history.
    pub happened: Vec<&'static str>,
    /// When.
    pub at: Time,
}

impl Provisioner {
    /// Before the first look at somebody it stands as its record says.
    pub(super) fn note_how_each_stands(&mut self) {
        let slots = self.core.slots();
        let new = slots.get(self.stood.len()..).unwrap_or_default();
        self.stood
            .extend(new.iter().map(super::super::decide::Slot::state));
    }

    /// Who stands otherwise than after the pass before, or had something happen to it.
    pub(super) fn changed(&mut self, end: &PassEnd) -> Vec<Observation> {
        self.note_how_each_stands();
        let at = self.now();
        let mut happened: BTreeMap<usize, Vec<&'static str>> = BTreeMap::new();
        for (i, happening) in &end.happenings {
            let kind = Event::kind_of(happening).as_str();
            happened.entry(*i).or_default().push(kind);
        }
        let mut changed = Vec::new();
        for (i, slot) in self.core.slots().iter().enumerate() {
            let state = slot.state();
            let Some(stood) = self.stood.get_mut(i) else {
                break;
            };
            let before = std::mem::replace(stood, state);
            let happened = happened.remove(&i).unwrap_or_default();
            let is_told = before != state || !happened.is_empty();
            if is_told && changed.len() < MOST && !slot.consumer.is_canary() {
                changed.push(Observation {
                    label: self.label.clone(),
                    consumer: slot.consumer.clone(),
                    before,
                    state,
                    happened,
                    at,
                });
            }
        }
        changed
    }
}
