//! Whether a consumer's rotations are over, for who waits for it. Writes nothing.

use std::collections::BTreeMap;

use mesh_loops::rotation::decide::Begin;
use mesh_loops::rotation::journal::{Journal, Step};
use mesh_loops::rotation::keeper::NAME;
use mesh_sdk::bus::{Bucket, Bus, Fault, Key};
use mesh_sdk::{ConsumerName, ProviderName, Time};

use super::Words;
use crate::wiring::delivery::awaited::Awaited;
use crate::wiring::words;

/// One line for each provider on which the consumer ever had, or is to have, another password. A word that was
/// said and not followed yet counts: who rotates and waits means that rotation.
pub async fn rotated(
    bus: &dyn Bus,
    consumer: &ConsumerName,
    provider: Option<&ProviderName>,
) -> Result<Vec<Awaited>, Fault> {
    let mine = |(of, who): &(ProviderName, ConsumerName)| {
        who == consumer && provider.is_none_or(|one| one == of)
    };
    let mut all: BTreeMap<ProviderName, (Option<Journal>, Option<Begin>)> = BTreeMap::new();
    for entry in bus.list(Bucket::Meta, &Key::of(&[NAME])).await?.entries {
        let journal: Journal = serde_json::from_slice(&entry.value)
            .map_err(|error| Fault::Corrupt(format!("{}: {error}", entry.key)))?;
        let of = (journal.provider.clone(), journal.consumer.clone());
        if mine(&of) {
            all.entry(of.0).or_default().0 = Some(journal);
        }
    }
    for (of, begin) in Words::of(&words::read(bus).await?).begin {
        if mine(&of) {
            all.entry(of.0).or_default().1 = Some(begin);
        }
    }
    let known = all.into_iter().filter(|(_, (journal, begin))| {
        begin.is_some() || journal.as_ref().is_some_and(|one| one.number > 0)
    });
    Ok(known
        .map(|(provider, (journal, begin))| {
            let (reached, how, at) = stands(journal.as_ref(), begin.as_ref());
            Awaited {
                subject: format!("{consumer} on {provider}"),
                reached,
                how,
                at,
            }
        })
        .collect())
}

fn stands(journal: Option<&Journal>, begin: Option<&Begin>) -> (bool, String, Option<Time>) {
    let followed = journal.and_then(|journal| journal.asked);
    let pending = begin.filter(|begin| followed.is_none_or(|at| at < begin.at));
    let under_way = journal.filter(|journal| journal.step != Step::Resting);
    match (under_way, pending, journal) {
        (Some(journal), ..) => {
            let mut how = format!("rotation {} is {}", journal.number, journal.step.as_str());
            if let Some(first) = journal.waits_on.first() {
                how.push_str(&format!(", waits for {}: {}", first.on, first.unblock));
            }
            (false, how, Some(journal.since))
        }
        (None, Some(begin), _) => {
            let how = "it was asked for and has not begun";
            (false, how.to_owned(), Some(begin.at))
        }
        (None, None, Some(journal)) => {
            let how = format!("rotation {} is over", journal.number);
            (true, how, Some(journal.since))
        }
        (None, None, None) => (false, "no rotation was asked for".to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use mesh_loops::rotation::journal::Way;

    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_millis(seconds * 1000)
    }
    fn journal(step: Step, asked: Option<i64>) -> Journal {
        let name = |text| ConsumerName::new(text).expect("name");
        let provider = ProviderName::new("cache").expect("name");
        let mut journal = Journal::new(provider, name("web"), Way::TwoPasswords, at(5));
        journal.step = step;
        journal.number = 1;
        journal.asked = asked.map(at);
        journal
    }
    fn begin(seconds: i64) -> Begin {
        Begin {
            at: at(seconds),
            due: at(seconds),
            reason: String::new(),
        }
    }

    #[test]
    fn a_word_that_is_not_followed_yet_is_waited_for() {
        let over = journal(Step::Resting, Some(4));
        assert!(stands(Some(&over), None).0);
        assert!(stands(Some(&over), Some(&begin(4))).0);
        let (reached, how, since) = stands(Some(&over), Some(&begin(9)));
        assert_eq!((reached, since), (false, Some(at(9))), "{how}");
        assert!(!stands(None, Some(&begin(9))).0);
        let (reached, how, _) = stands(Some(&journal(Step::Waiting, Some(9))), Some(&begin(9)));
        assert!(!reached && how == "rotation 1 is waiting", "{how}");
    }
}
