//! The claim: one host is active, a dead one is replaced, and one that was cut off stops first.

use std::sync::Arc;
use std::time::Duration;

use mesh_bus::claim::{
    Answer, Ask, BEAT, Claim, Holder, Lease, SILENT, STOP_AFTER, patience, take,
};
use mesh_sdk::ProviderName;
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

fn ask(host: &str) -> Ask {
    Ask::new(Lease::Installation, holder(host))
}

fn as_bus(bus: &MemoryBus) -> Arc<dyn Bus> {
    Arc::new(bus.clone())
}

async fn mine(bus: &MemoryBus, host: &str) -> Claim {
    match take(as_bus(bus), ask(host)).await.expect("take") {
        Answer::Mine(claim) => claim,
        Answer::Other(other) => panic!("{other:?} has it"),
    }
}

#[tokio::test(start_paused = true)]
async fn b4_a_second_host_is_refused_by_the_first_ones_name() {
    let bus = MemoryBus::default();
    let first = mine(&bus, "one").await;
    let began = Instant::now();
    let second = take(as_bus(&bus), ask("two")).await.expect("take");
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
    mesh_bus::claim::holder(bus, &Lease::Installation)
        .await
        .expect("read")
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
async fn b5_a_candidate_whose_writes_have_no_outcome_says_so() {
    let bus = MemoryBus::default();
    for _ in 0..3 {
        bus.trouble(Bucket::Loop, Trouble::UnknownLost(0));
    }
    let asked = take(as_bus(&bus), ask("one")).await;
    assert!(matches!(asked, Err(Fault::Unreachable(_))));
    assert_eq!(mine(&bus, "one").await.fence(), 1);
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
        .map(|n| tokio::spawn(take(as_bus(&bus), ask(&format!("c{n}")))))
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

/// A host of a history: it holds the claim, or asks for it.
enum Host {
    Holds(Claim),
    Asks(tokio::task::JoinHandle<Result<Answer, Fault>>),
}

/// Chance by number.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// Three hosts over ten minutes, whose bus fails in every way that it knows, and who die and come back.
/// Answers how often the claim went to somebody.
async fn history(seed: u64) -> u64 {
    let bus = MemoryBus::default();
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let asks = |n: usize| Host::Asks(tokio::spawn(take(as_bus(&bus), ask(&format!("h{n}")))));
    let mut hosts: Vec<Host> = (0..3).map(asks).collect();
    let (mut taken, mut met) = (0, 0);
    for second in 0..600 {
        // One trouble waits at a time: writes alone meet them, and there are few.
        if second < 400 && bus.commits(Bucket::Loop) >= met && chance.below(3) == 0 {
            met = bus.commits(Bucket::Loop) + 1;
            let unreachable = || Fault::Unreachable("away".to_owned());
            bus.trouble(
                Bucket::Loop,
                match chance.below(6) {
                    0 => Trouble::Fail(unreachable()),
                    1 => Trouble::FailAfter(unreachable()),
                    2 => Trouble::Conflict(0),
                    3 => Trouble::UnknownDone(0),
                    4 => Trouble::UnknownLost(0),
                    _ => Trouble::Delay(Duration::from_secs(chance.below(25))),
                },
            );
        }
        for (n, host) in hosts.iter_mut().enumerate() {
            let again = match host {
                // It dies without a word, or as it was told to.
                Host::Holds(_) if second < 400 && chance.below(60) == 0 => true,
                Host::Holds(claim) if second < 400 && chance.below(90) == 0 => {
                    claim.give_back().await;
                    true
                }
                Host::Holds(claim) => claim.is_lost(),
                Host::Asks(asking) if asking.is_finished() => match asking.await.expect("asked") {
                    Ok(Answer::Mine(claim)) => {
                        taken += 1;
                        *host = Host::Holds(claim);
                        false
                    }
                    Ok(Answer::Other(_)) | Err(_) => true,
                },
                Host::Asks(_) => false,
            };
            if again {
                *host = asks(n);
            }
        }
        let acts = |host: &&Host| matches!(host, Host::Holds(claim) if claim.may_act());
        let acting = hosts.iter().filter(acts).count();
        assert!(acting <= 1, "seed {seed}: {acting} act at second {second}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let holds = |host: &&Host| matches!(host, Host::Holds(claim) if claim.may_act());
    assert_eq!(
        hosts.iter().filter(holds).count(),
        1,
        "seed {seed}: nobody acts in the end"
    );
    taken
}

#[tokio::test(start_paused = true)]
async fn b4_whatever_fails_no_two_hosts_act_at_once_and_one_does_in_the_end() {
    let mut taken = 0;
    for seed in 1..=300 {
        taken += history(seed).await;
    }
    assert!(taken > 900, "the histories hold few changes: {taken}");
}

#[tokio::test(start_paused = true)]
async fn b4_the_leases_of_two_providers_and_of_the_installation_are_three() {
    let bus = MemoryBus::default();
    let provider = |name: &str| Lease::Provider(ProviderName::new(name).expect("name"));
    let mut kept = Vec::new();
    for (lease, host) in [
        (Lease::Installation, "one"),
        (provider("cache"), "two"),
        (provider("db"), "three"),
    ] {
        let asked = take(as_bus(&bus), Ask::new(lease.clone(), holder(host))).await;
        let Ok(Answer::Mine(claim)) = asked else {
            panic!("{lease} is held already");
        };
        let read = mesh_bus::claim::holder(&bus, &lease).await.expect("read");
        assert_eq!(read, Some(holder(host)));
        kept.push(claim);
    }
    tokio::time::sleep(3 * SILENT).await;
    assert!(
        kept.iter()
            .all(|claim| claim.may_act() && claim.fence() == 1)
    );
}

#[tokio::test(start_paused = true)]
async fn b4_who_is_less_preferred_waits_longer_and_nobody_waits_less() {
    assert_eq!(patience(0), SILENT);
    assert_eq!(patience(9), SILENT + Duration::from_secs(10));
    for (asked, least) in [(patience(9), patience(9)), (Duration::ZERO, SILENT)] {
        let bus = MemoryBus::default();
        drop(mine(&bus, "one").await);
        let began = Instant::now();
        let asking = Ask {
            patience: asked,
            ..ask("two")
        };
        let taken = take(as_bus(&bus), asking).await.expect("take");
        assert!(matches!(taken, Answer::Mine(_)));
        let waited = began.elapsed();
        assert!(waited >= least && waited < least + BEAT, "{waited:?}");
    }
}
