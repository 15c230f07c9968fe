//! The claim: one host is active, a dead one is replaced, and one that was cut off stops first.

use std::sync::Arc;
use std::time::Duration;

use mesh_bus::claim::{Answer, BEAT, Claim, Holder, SILENT, STOP_AFTER, take};
use mesh_sdk::bus::{Bucket, Bus, Fault};
use mesh_sdk::testing::{MemoryBus, Trouble};
use tokio::time::Instant;

fn holder(host: &str) -> Holder {
    Holder {
        host: host.to_owned(),
        start: format!("{host}-1"),
        runner: "up".to_owned(),
    }
}

fn as_bus(bus: &MemoryBus) -> Arc<dyn Bus> {
    Arc::new(bus.clone())
}

async fn mine(bus: &MemoryBus, host: &str) -> Claim {
    match take(as_bus(bus), holder(host)).await.expect("take") {
        Answer::Mine(claim) => claim,
        Answer::Other(other) => panic!("{other:?} has it"),
    }
}

#[tokio::test(start_paused = true)]
async fn b4_a_second_host_is_refused_by_the_first_ones_name() {
    let bus = MemoryBus::default();
    let first = mine(&bus, "one").await;
    let began = Instant::now();
    let second = take(as_bus(&bus), holder("two")).await.expect("take");
    let Answer::Other(other) = second else {
        panic!("both have it");
    };
    assert_eq!(other, holder("one"));
    assert!(began.elapsed() <= 2 * BEAT, "{:?}", began.elapsed());
    assert!(!first.is_lost());
    first.give_back().await;
    let began = Instant::now();
    let second = mine(&bus, "two").await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(second.fence(), 2);
}

#[tokio::test(start_paused = true)]
async fn b4_a_dead_host_is_replaced_after_the_candidates_own_wait() {
    let bus = MemoryBus::default();
    drop(mine(&bus, "one").await);
    let began = Instant::now();
    let second = mine(&bus, "two").await;
    let waited = began.elapsed();
    assert!(waited >= SILENT && waited < SILENT + 2 * BEAT, "{waited:?}");
    assert_eq!(second.fence(), 2);
}

#[tokio::test(start_paused = true)]
async fn b4_a_host_that_cannot_beat_stops_well_before_another_begins() {
    let bus = MemoryBus::default();
    let first = mine(&bus, "one").await;
    let cut = Instant::now();
    bus.set_full(Some(Fault::Unreachable("cut off".to_owned())));
    first.lost().await;
    let stopped = cut.elapsed();
    assert!(stopped <= STOP_AFTER + BEAT, "{stopped:?}");
    assert!(stopped + 3 * BEAT < SILENT, "{stopped:?}");
    bus.set_full(None);
    assert_eq!(mine(&bus, "two").await.fence(), 2);
}

#[tokio::test(start_paused = true)]
async fn b4_who_was_stopped_may_not_act_even_before_the_loss_is_noticed() {
    let bus = MemoryBus::default();
    let first = mine(&bus, "one").await;
    assert!(first.may_act());
    // Its task never gets to run again: as in the first moment after a stop.
    bus.trouble(Bucket::Loop, Trouble::Hang);
    tokio::time::sleep(BEAT).await;
    assert!(first.may_act());
    tokio::time::advance(STOP_AFTER - BEAT).await;
    assert!(!first.may_act());
}

#[tokio::test(start_paused = true)]
async fn b4_who_stands_on_the_bus_is_told_by_name_until_it_gave_back() {
    let bus = MemoryBus::default();
    let read = || async { holder_of(&bus).await.map(|holder| holder.host) };
    assert_eq!(read().await, None);
    let first = mine(&bus, "one").await;
    assert_eq!(read().await.as_deref(), Some("one"));
    first.give_back().await;
    assert_eq!(read().await, None);
}

async fn holder_of(bus: &MemoryBus) -> Option<Holder> {
    mesh_bus::claim::holder(bus).await.expect("read")
}

#[tokio::test(start_paused = true)]
async fn b4_a_beat_that_never_returns_does_not_keep_the_claim() {
    let bus = MemoryBus::default();
    let first = mine(&bus, "one").await;
    let cut = Instant::now();
    bus.trouble(Bucket::Loop, Trouble::Hang);
    first.lost().await;
    assert!(cut.elapsed() <= STOP_AFTER + BEAT, "{:?}", cut.elapsed());
}

#[tokio::test(start_paused = true)]
async fn b5_an_unknown_beat_is_read_back_whether_it_happened_or_not() {
    let bus = MemoryBus::default();
    bus.trouble(Bucket::Loop, Trouble::UnknownDone(0));
    let first = mine(&bus, "one").await;
    for trouble in [
        Trouble::UnknownDone(0),
        Trouble::UnknownLost(0),
        Trouble::FailAfter(Fault::Unreachable("late".to_owned())),
        Trouble::Fail(Fault::Unreachable("never".to_owned())),
    ] {
        bus.trouble(Bucket::Loop, trouble);
        tokio::time::sleep(3 * BEAT).await;
        assert!(!first.is_lost());
    }
}

#[tokio::test(start_paused = true)]
async fn b6_a_claim_on_a_bus_that_was_wiped_is_lost() {
    let bus = MemoryBus::default();
    let first = mine(&bus, "one").await;
    bus.wipe();
    let lost = tokio::time::timeout(2 * BEAT, first.lost()).await;
    assert!(lost.is_ok(), "it was held on");
}

#[tokio::test(start_paused = true)]
async fn b4_of_many_candidates_one_wins() {
    let bus = MemoryBus::default();
    drop(mine(&bus, "dead").await);
    let candidates: Vec<_> = (0..8)
        .map(|n| tokio::spawn(take(as_bus(&bus), holder(&format!("c{n}")))))
        .collect();
    let mut kept = Vec::new();
    for candidate in candidates {
        if let Answer::Mine(claim) = candidate.await.expect("task").expect("take") {
            kept.push(claim);
        }
    }
    assert_eq!(kept.len(), 1);
    assert!(!kept[0].is_lost());
}
