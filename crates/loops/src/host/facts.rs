//! What the host loop found and cannot mend. Several things of one consumer are one condition.

use std::collections::{BTreeMap, BTreeSet};

use mesh_sdk::condition::{ConditionType, Fact, Reason};

use super::record::{Record, State, Why};

/// So many failures in a row are told: the first may be an engine that is just starting.
const FAILURES: u32 = 2;

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
    let mut folded: BTreeMap<(String, ConditionType), (Reason, Vec<String>)> = BTreeMap::new();
    for record in records.filter(|record| !record.retired) {
        if let Some((kind, reason, text)) = one(record) {
            let entry = folded.entry((subject(record), kind));
            let (_, texts) = entry.or_insert((reason, Vec::new()));
            texts.push(format!("{}: {text}", record.thing));
        }
    }
    let facts = folded
        .into_iter()
        .map(|((subject, kind), (reason, texts))| {
            Fact::at_once(kind, &subject, reason, texts.join("; "))
        });
    facts.collect()
}

fn one(record: &Record) -> Option<(ConditionType, Reason, String)> {
    use ConditionType as T;
    match record.why.as_ref()? {
        Why::Waits(_) | Why::Soon(_) => None,
        Why::Taken(what) => Some((T::ContainerTaken, Reason::Exists, what.clone())),
        Why::NoImage(what) => Some((T::ImageMissing, Reason::SourceMissing, what.clone())),
        Why::Failed(why) => {
            let told = record.failures == 0 || record.failures >= FAILURES;
            told.then(|| (T::RestartFailed, Reason::CallFailed, why.clone()))
        }
        Why::Braked(why) => Some((T::Unwell, Reason::LostAgain, why.clone())),
        Why::Unhealthy(why) => Some((T::Unwell, Reason::Unexplained, why.clone())),
    }
}
