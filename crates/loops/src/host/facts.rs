//! What the host loop found and cannot mend. Several things of one consumer are one condition.

use std::collections::BTreeSet;

use mesh_sdk::condition::{ConditionType, Fact, Reason};

use super::record::{Record, State, Why};
use crate::owner::folded;

fn subject(record: &Record) -> String {
    format!("host/{}", record.consumer)
}

/// Subjects that could not be looked at: what was told of them stands.
pub(super) fn unseen<'r>(records: impl Iterator<Item = &'r Record>) -> BTreeSet<String> {
    let unseen = records.filter(|record| record.state == State::Unknown && !record.retired);
    unseen.map(subject).collect()
}

/// Every fact of this moment.
pub(super) fn of<'r>(records: impl Iterator<Item = &'r Record>) -> Vec<Fact> {
    let asked = records.filter(|record| !record.retired);
    folded(asked.filter_map(|record| {
        let (kind, reason, text) = one(record)?;
        let text = format!("{}: {text}", record.thing);
        Some((subject(record), kind, reason, text))
    }))
}

fn one(record: &Record) -> Option<(ConditionType, Reason, String)> {
    use ConditionType as T;
    match record.why.as_ref()? {
        Why::Waits(_) | Why::Soon(_) => None,
        Why::Taken(what) => Some((T::ContainerTaken, Reason::Exists, what.clone())),
        Why::NoImage(what) => Some((T::ImageMissing, Reason::SourceMissing, what.clone())),
        Why::Failed(why) => {
            let told = record.brake.tells_failures();
            told.then(|| (T::RestartFailed, Reason::CallFailed, why.clone()))
        }
        Why::Braked(why) => Some((T::Unwell, Reason::LostAgain, why.clone())),
        Why::Unhealthy(why) => Some((T::Unwell, Reason::Unexplained, why.clone())),
    }
}
