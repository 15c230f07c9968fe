//! The watchdog: sees that every loop passes when it said it would (B-8).
//!
//! It judges by what the loops wrote on the bus, as `status` does, and not by what they say of themselves.
//! It runs where the loops run. Whether *it* runs is seen by `status`, which computes the same from the same
//! entries, and by the service manager, which hears of it only while all is in order.

use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::Time;
use mesh_sdk::book::Book;
use mesh_sdk::bus::{Bus, Fault};
use mesh_sdk::clock::Clock;
use mesh_sdk::condition::{ConditionType, Fact, Reason};
use mesh_sdk::decide::conditions::Seen;
use mesh_sdk::harness::skeleton::Declared;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{owner, publish};
use crate::status;

/// The owner's name on the bus.
pub const OWNER: &str = "watchdog";
/// How often it looks.
pub const EVERY: Duration = Duration::from_secs(5);
/// A loop that is late for so long is not going to pass any more: the service manager is not told that all
/// is in order. A long pass, such as after a mass loss, is late and not stuck.
const STUCK: Duration = Duration::from_secs(3600);

/// What it declares of itself.
pub fn declared() -> Declared {
    Declared {
        class: "watchdog",
        compares_against: "when each loop said that it would pass next",
        repairs: "nothing; under systemd a process whose loop is stuck for an hour is restarted",
        may_take_away: "nothing",
        blind_spots: "its own process: `mesh status` sees that, and on a shared bus another host takes over",
        raises: vec![ConditionType::LoopLate.as_str()],
        period: "5 s",
    }
}

/// Looks until the stop; after each look by which nobody is stuck it says so.
pub async fn watch(
    bus: Arc<dyn Bus>,
    clock: Clock,
    fine: impl Fn() + Send,
    stop: CancellationToken,
) {
    let mut book = None;
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stop.cancelled() => return,
        }
        match look(bus.as_ref(), clock.now(), &mut book).await {
            Ok(true) => {}
            Ok(false) => fine(),
            Err(fault) => {
                book = None;
                warn!("the watchdog could not look: {fault}");
                // The bus is away, and that is nothing that a restart would mend.
                fine();
            }
        }
    }
}

/// One look. Answers whether a loop is stuck.
async fn look(bus: &dyn Bus, now: Time, book: &mut Option<Book>) -> Result<bool, Fault> {
    let providers = status::providers(bus).await?;
    let loops = status::loops(bus, &providers, now, true).await?;
    let late = loops.iter().map(|(view, _)| view);
    let late: Vec<_> = late.filter(|view| view.state == "late").collect();
    let facts = late.iter().map(|view| {
        let due = view.next_pass.map_or(Duration::ZERO, |at| now.since(at));
        let subject = view.name.split_once('/').map_or(&*view.name, |(_, l)| l);
        Fact {
            kind: ConditionType::LoopLate,
            subject: subject.to_owned(),
            reason: Reason::NoBeat,
            message: format!("its pass was due {} s ago and has not ended", due.as_secs()),
            action: None,
            final_at_once: true,
        }
    });
    let facts: Vec<Fact> = facts.collect();
    let open = match book {
        Some(open) => open,
        None => book.insert(Book::open(bus, OWNER).await?),
    };
    let standing = open.ledger().kept().any(|kept| kept.raised);
    if standing || !facts.is_empty() {
        let generation = publish::head(bus).await?.generation;
        let changes = open.look(now, generation, facts, |_| Seen::Good);
        owner::tell(bus, OWNER, now, &changes).await?;
        open.store(bus, &changes).await?;
    }
    let stuck = |at: Time| now.since(at) > STUCK;
    Ok(late.iter().any(|view| view.next_pass.is_some_and(stuck)))
}

#[cfg(test)]
mod tests {
    //! B-8: a loop that does not pass when it said is told, until it was seen passing again.
    use super::*;
    use crate::wiring::shapes::ProviderEntry;
    use mesh_bus::EmbeddedBus;
    use mesh_bus::embedded::Settings;
    use mesh_sdk::ProviderName;
    use mesh_sdk::bus::{Bucket, Expect, Key, Put, Write};
    use mesh_sdk::decide::{ServerRecord, Summary};
    use mesh_sdk::harness::LoopRecord;

    const NAME: &str = "provisioner/cache";

    async fn put<T: serde::Serialize>(bus: &dyn Bus, bucket: Bucket, key: Key, value: &T) {
        let before = bus.get(bucket, &key).await.expect("get");
        let write = Write {
            key,
            expect: before.map_or(Expect::Absent, |entry| Expect::At(entry.rev)),
            value: serde_json::to_vec(value).expect("JSON"),
        };
        let put = bus.put_if(bucket, write).await.expect("put");
        assert!(matches!(put, Put::Done(_)));
    }

    async fn passes(bus: &dyn Bus, next_pass: Time) {
        let record = LoopRecord {
            class: "provisioner".to_owned(),
            label: "cache".to_owned(),
            server: ServerRecord::default(),
            version: String::new(),
            last_pass: Some(Time::from_millis(0)),
            next_pass: Some(next_pass),
            summary: Summary::default(),
            generation: 1,
            answered_request: 0,
            removals: 0,
        };
        put(bus, Bucket::Loop, Key::of(&[NAME]), &record).await;
    }

    #[tokio::test]
    async fn b8_a_loop_that_does_not_pass_is_told_until_it_does() {
        let folder = tempfile::tempdir().expect("folder");
        let settings = Settings {
            installation: "inst1".to_owned(),
            clock: Clock::system(),
        };
        let bus = EmbeddedBus::open(folder.path(), &settings)
            .expect("open")
            .bus;
        let provider = ProviderName::new("cache").expect("name");
        let entry = ProviderEntry {
            provider: provider.clone(),
            kind: "redis".to_owned(),
            loops: vec![NAME.to_owned()],
            addresses: Vec::new(),
            verify_every: 1000,
            remove_after: 1000,
            grace: 1000,
            can_ask: true,
            gone: false,
            closed: None,
        };
        put(&bus, Bucket::Meta, ProviderEntry::key(&provider), &entry).await;
        let at = |seconds: i64| Time::from_millis(seconds * 1000);
        let mut book = None;
        let told = async || {
            let loops = status::loops(&bus, std::slice::from_ref(&entry), at(0), true).await;
            let all = status::conditions(&bus, &loops.expect("loops"), at(0)).await;
            let all = all.expect("conditions").into_iter();
            all.map(|c| format!("{} {}", c.condition.id.kind, c.condition.id.subject))
                .collect::<Vec<_>>()
        };
        passes(&bus, at(100)).await;
        assert_eq!(look(&bus, at(105), &mut book).await, Ok(false));
        let quiet = bus.health().await.seq;
        assert_eq!(look(&bus, at(109), &mut book).await, Ok(false));
        assert_eq!(bus.health().await.seq, quiet, "in order, it writes nothing");
        assert!(told().await.is_empty());
        assert_eq!(
            look(&bus, at(111), &mut book).await,
            Ok(false),
            "late is not stuck"
        );
        assert_eq!(told().await, ["LoopLate cache"]);
        // Another process goes on with the same condition, and an hour is not a long pass any more.
        book = None;
        assert_eq!(look(&bus, at(100 + 3601), &mut book).await, Ok(true));
        assert_eq!(told().await, ["LoopLate cache"]);
        passes(&bus, at(4000)).await;
        for n in 0..2 {
            assert_eq!(look(&bus, at(3990 + n), &mut book).await, Ok(false));
        }
        assert!(told().await.is_empty());
    }
}
