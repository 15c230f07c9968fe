//! What rotation found and cannot mend.

use std::time::Duration;

use mesh_sdk::Time;
use mesh_sdk::condition::{ConditionType, Fact, Reason};

use super::journal::{Journal, Step};

/// What is waited for longer is told.
pub const DUE: Duration = Duration::from_secs(600);

/// What a person must see of one journal.
pub(super) fn of(journal: &Journal, now: Time) -> Option<Fact> {
    let first = journal.waits_on.iter().min_by_key(|waits| waits.since)?;
    if !journal.is_under_way() || now.since(first.since) < DUE {
        return None;
    }
    let subject = format!("{}/{}", journal.provider, journal.consumer);
    let on: Vec<&str> = journal.waits_on.iter().map(|one| one.on.as_str()).collect();
    let minutes = now.since(first.since).as_secs() / 60;
    let message = format!(
        "rotation {} is {} for {minutes} min and waits for: {}",
        journal.number,
        journal.step.as_str(),
        on.join("; ")
    );
    let (kind, reason) = match journal.step {
        Step::Waiting => (ConditionType::RotationWaits, Reason::NoBeat),
        _ => (ConditionType::RotationStuck, Reason::NoProgress),
    };
    let mut fact = Fact::at_once(kind, &subject, reason, message);
    if !first.unblock.is_empty() {
        fact.action = Some(format!("{} would unblock it", first.unblock));
    }
    Some(fact)
}
