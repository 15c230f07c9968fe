//! How a provision stands, by wish and record alone.

use super::record::{Last, Record};
use super::slot::{SecretState, State, Wanted};
use crate::error::{Class, Error};

/// How a provision stands, in the words of `status`, from what is asked and what is remembered.
pub fn state_of(wanted: &Wanted, record: &Record) -> State {
    if record.taken == Some(wanted.digest) || matches!(wanted.secret, SecretState::Lost(_)) {
        return State::Refused;
    }
    if record.unknown.is_some() {
        return State::Unknown;
    }
    let applied = record.applied == Some(wanted.digest);
    let refused = record.failed.as_deref().map(Error::class) == Some(Class::RefusedValue);
    match &record.last {
        _ if refused && !applied => State::Refused,
        // What it answered last was the look after our own repair, and that never held before (H-11).
        Last::Held { .. } if record.is_braked() && record.awaiting_check => State::Braked,
        Last::Held { .. } if applied && wanted.enabled => State::Held,
        Last::Held { .. } if applied => State::Disabled,
        Last::Lost { .. } if record.is_braked() => State::Braked,
        Last::Lost { .. } if applied => State::Lost,
        _ if record.is_braked() => State::Braked,
        _ => State::Pending,
    }
}
