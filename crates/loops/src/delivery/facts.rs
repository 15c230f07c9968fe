//! What delivery found and cannot mend. Several places of one consumer are one condition.

use std::collections::BTreeSet;
use std::time::Duration;

use mesh_sdk::Time;
use mesh_sdk::condition::{ConditionType, Fact, Reason};

use super::record::{Record, Why};
use crate::owner::folded;

/// What is outstanding for longer is told.
pub const DUE: Duration = Duration::from_secs(600);

fn subject(record: &Record) -> String {
    format!("delivery/{}", record.consumer)
}

/// Subjects of which nothing is known now: what was told of them stands.
pub(super) fn unseen<'r>(records: impl Iterator<Item = &'r Record>) -> BTreeSet<String> {
    let waits =
        records.filter(|record| matches!(record.why, Some(Why::Waits(_))) && !record.retired);
    waits.map(subject).collect()
}

/// Every fact of this moment.
pub(super) fn of<'r>(records: impl Iterator<Item = &'r Record>, now: Time) -> Vec<Fact> {
    let asked = records.filter(|record| !record.retired);
    folded(asked.filter_map(|record| {
        let (kind, reason, text) = one(record, now)?;
        let text = format!("{}: {text}", record.place);
        Some((subject(record), kind, reason, text))
    }))
}

fn one(record: &Record, now: Time) -> Option<(ConditionType, Reason, String)> {
    use ConditionType as T;
    match &record.why {
        Some(Why::Refused(why)) => return Some((T::Refused, Reason::RefusedValue, why.clone())),
        Some(Why::Contested(why)) => {
            return Some((T::DeliveryContested, Reason::CallFailed, why.clone()));
        }
        Some(Why::Unwritten(why) | Why::Untold(why)) if record.brake.tells_failures() => {
            return Some((T::DeliveryFailed, Reason::CallFailed, why.clone()));
        }
        _ => {}
    }
    let since = record.outstanding_since()?;
    if now.since(since) < DUE {
        return None;
    }
    let minutes = now.since(since).as_secs() / 60;
    let wanted = record
        .wanted
        .as_ref()
        .map_or("", |wanted| &wanted.version.0);
    let text = match &record.why {
        Some(Why::Waits(why)) => format!("for {minutes} min it waits for {why}"),
        _ => format!(
            "version {wanted} lies there for {minutes} min, and nobody said that it was taken up"
        ),
    };
    Some((T::DeliveryOutstanding, Reason::NoBeat, text))
}
