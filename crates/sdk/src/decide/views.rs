//! What others may read of the core, and how a provision stands by wish and record alone.

use super::core::Core;
use super::slot::{Last, Record, SecretState, State, Wanted};

impl Core {
    /// Whether the server did not answer at the last look.
    pub fn is_down(&self) -> bool {
        self.down.is_some()
    }
    /// Every record is to be stored again: what is stored is not what this core last wrote.
    pub fn all_dirty(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.dirty = true);
    }
}

/// How a provision stands, in the words of `status`, from what is asked and what is remembered.
pub fn state_of(wanted: &Wanted, record: &Record) -> State {
    if record.taken == Some(wanted.digest) || matches!(wanted.secret, SecretState::Lost(_)) {
        return State::Refused;
    }
    if record.unknown.is_some() {
        return State::Unknown;
    }
    let applied = record.applied == Some(wanted.digest);
    match &record.last {
        Last::Held { .. } if applied && wanted.enabled => State::Held,
        Last::Held { .. } if applied => State::Disabled,
        Last::Lost { .. } if record.is_braked() => State::Braked,
        Last::Lost { .. } if applied => State::Lost,
        _ if record.is_braked() => State::Braked,
        _ => State::Pending,
    }
}
