//! Asking: H-4 to H-9, H-13, H-16.

use std::time::Duration;

use mesh_sdk::answer::Proof;
use mesh_sdk::bus::Bucket;
use mesh_sdk::decide::State;
use mesh_sdk::testing::{Act, Call};
use mesh_sdk::{Answer, Class, Error};
use tokio::time::Instant;

use crate::support::{MINUTE, SECOND, World, slot, standing, state, states};

fn unreachable() -> Act {
    Act::Fail(Error::new(Class::Unreachable, "connection refused"))
}

#[tokio::test(start_paused = true)]
async fn h4_every_consumer_is_asked_within_verify_every_and_with_jitter() {
    let world = World::many(20);
    let running = world.run().await;
    tokio::time::sleep(60 * MINUTE).await;
    let made = world.backend.made(Call::HoldsAll);
    let gaps: Vec<Duration> = made.windows(2).map(|w| w[1].at - w[0].at).collect();
    assert!(gaps.len() >= 59, "{}", gaps.len());
    // The first gap holds the look again after the first creates.
    for gap in &gaps[1..] {
        assert!(*gap <= MINUTE && *gap >= 54 * SECOND, "{gap:?}");
    }
    let distinct: std::collections::BTreeSet<_> = gaps.iter().collect();
    assert!(distinct.len() > 20, "they are jittered");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn h16_whoever_asks_for_a_pass_waits_while_the_adapter_rests() {
    let world = World::many(10);
    let running = world.run().await;
    tokio::time::sleep(MINUTE / 2).await;
    world.backend.forget_calls();
    for name in ["c2", "c5"] {
        world.backend.once(Call::Holds, name, Act::Rest);
    }
    for name in ["c0", "c9"] {
        world.backend.drop_login(name);
    }
    let report = running.pass().await.expect("a pass");
    assert!(!report.rests);
    assert_eq!(world.backend.len(), 10, "both are healed");
    let looks = world.backend.calls(Call::HoldsAll) + world.backend.calls(Call::Holds);
    assert_eq!(looks, 5, "three parts, and a look after each effect");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn h16_an_adapter_that_rests_without_an_answer_is_asked_no_more_than_others() {
    let world = World::many(1);
    let running = world.run().await;
    tokio::time::sleep(10 * MINUTE).await;
    world.backend.forget_calls();
    world.backend.always(Call::Holds, "c0", Act::Rest);
    tokio::time::sleep(10 * MINUTE).await;
    let calls = world.backend.calls(Call::HoldsAll) + world.backend.calls(Call::Holds);
    assert!(calls <= 12, "{calls} looks in ten minutes");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn h4_two_providers_do_not_beat_in_step() {
    let mut worlds = [World::many(1), World::many(1)];
    worlds[1].provider = "database".into();
    let mut times = Vec::new();
    for world in &worlds {
        let running = world.run().await;
        let start = Instant::now();
        tokio::time::sleep(20 * MINUTE).await;
        let made = world.backend.made(Call::HoldsAll);
        times.push(
            made.iter()
                .skip(2)
                .map(|m| m.at - start)
                .collect::<Vec<_>>(),
        );
        running.stop().await;
    }
    let same = times[0]
        .iter()
        .zip(&times[1])
        .filter(|(a, b)| a == b)
        .count();
    assert!(same <= 1, "{same} passes at the same moment");
}

#[tokio::test(start_paused = true)]
async fn h6_a_lost_consumer_is_applied_again_on_the_same_pass() {
    let world = World::of(&["api", "web"]);
    let mut loop_ = world.settled().await;
    world.backend.drop_login("web");
    let report = loop_.pass().await.expect("a pass");
    assert_eq!((report.summary.lost, report.summary.applied), (1, 1));
    assert!(world.backend.login("web").is_some());
    assert_eq!(state(&loop_, "web"), State::Held);
    let lines = world.bus.lines();
    let healed = lines
        .iter()
        .find(|l| l.value.contains("was lost"))
        .expect("told");
    assert!(healed.value.contains("absent"), "{}", healed.value);
    assert_eq!(healed.subject, "healed.cache.web");
}

#[tokio::test(start_paused = true)]
async fn h7_a_failed_look_changes_nothing_and_is_asked_again() {
    for world in [
        World::of(&["api", "web"]),
        World::of(&["api", "web"]).singly(),
    ] {
        let mut loop_ = world.settled().await;
        world.backend.drop_login("web");
        world.backend.always(Call::Holds, "web", unreachable());
        for _ in 0..7 {
            loop_.pass().await.expect("a pass");
            tokio::time::advance(MINUTE).await;
        }
        assert_eq!(state(&loop_, "web"), State::Unknown);
        assert_eq!(
            world.backend.calls(Call::Create) + world.backend.calls(Call::CreateAll),
            0
        );
        assert_eq!(
            standing(&loop_),
            ["LookUnknown cache/web"],
            "after 5 minutes"
        );
        world.backend.behave();
        loop_.pass().await.expect("a pass");
        assert_eq!(state(&loop_, "web"), State::Held);
    }
}

#[tokio::test(start_paused = true)]
async fn h8_a_failed_check_does_not_stop_those_after_it() {
    for world in [World::many(30), World::many(30).singly()] {
        let mut loop_ = world.settled().await;
        world.backend.always(Call::Holds, "c0", unreachable());
        world.backend.drop_login("c29");
        let report = loop_.pass().await.expect("a pass");
        assert_eq!((report.summary.unknown, report.summary.held), (1, 28));
        assert!(
            world.backend.login("c29").is_some(),
            "the last one was asked and healed"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn h9_a_hanging_check_is_cut_off_and_ends_the_asking() {
    let mut world = World::many(30).singly();
    world.limits.concurrency = 1;
    let mut loop_ = world.settled().await;
    world.backend.always(Call::Holds, "c1", Act::Hang);
    world.backend.drop_login("c0");
    let start = Instant::now();
    let report = loop_.pass().await.expect("a pass");
    assert_eq!(start.elapsed(), 30 * SECOND, "nobody else was waited for");
    assert_eq!((report.summary.asked, report.summary.unknown), (2, 1));
    assert_eq!(report.summary.not_asked, 28);
    assert!(
        world.backend.login("c0").is_some(),
        "a loss already answered is healed"
    );
    assert_eq!(state(&loop_, "c1"), State::Unknown);
    assert_eq!(
        state(&loop_, "c2"),
        State::Held,
        "who was not asked keeps the last word"
    );
}

#[tokio::test(start_paused = true)]
async fn h9_the_next_pass_begins_with_those_who_were_not_asked() {
    let mut world = World::many(30).singly();
    world.limits.concurrency = 1;
    let mut loop_ = world.settled().await;
    world.backend.always(Call::Holds, "c1", Act::Hang);
    loop_.pass().await.expect("a pass");
    tokio::time::advance(MINUTE).await;
    world.backend.forget_calls();
    let report = loop_.pass().await.expect("a pass");
    let order: Vec<String> = world
        .backend
        .made(Call::Holds)
        .into_iter()
        .map(|m| m.consumer)
        .collect();
    let hanging = order.iter().position(|c| c == "c1").expect("asked last");
    assert_eq!(hanging, 29, "{order:?}");
    assert_eq!(report.summary.held, 29);
}

#[tokio::test(start_paused = true)]
async fn h9_checks_in_flight_finish_under_their_own_deadline_and_count() {
    let mut world = World::many(4).singly();
    world.limits.concurrency = 2;
    let mut loop_ = world.settled().await;
    world.backend.always(Call::Holds, "c0", Act::Hang);
    world
        .backend
        .always(Call::Holds, "c1", Act::After(29 * SECOND));
    world
        .backend
        .always(Call::Holds, "c2", Act::After(20 * SECOND));
    world.backend.drop_login("c2");
    let start = Instant::now();
    let report = loop_.pass().await.expect("a pass");
    // c0 is cut at 30 s; c2 began at 29 s and finishes at 49 s; c3 is never asked.
    assert_eq!(
        start.elapsed(),
        69 * SECOND,
        "the look again after the heal takes 20 s more"
    );
    assert_eq!(report.summary.not_asked, 1);
    assert_eq!((report.summary.held, report.summary.lost), (1, 1));
    assert!(world.backend.login("c2").is_some());
}

#[tokio::test(start_paused = true)]
async fn h9_a_timeout_that_the_client_reports_ends_the_asking_too() {
    let mut world = World::many(5).singly();
    world.limits.concurrency = 1;
    let mut loop_ = world.settled().await;
    let timed_out = Error::new(Class::TimedOut, "the client gave up");
    world
        .backend
        .always(Call::Holds, "c0", Act::Fail(timed_out));
    let report = loop_.pass().await.expect("a pass");
    assert_eq!((report.summary.asked, report.summary.not_asked), (1, 4));
}

#[tokio::test(start_paused = true)]
async fn h9_a_bulk_look_is_cut_off_only_after_30_s_without_progress() {
    let world = World::many(10);
    let mut loop_ = world.settled().await;
    for i in 0..10 {
        world
            .backend
            .always(Call::Holds, &format!("c{i}"), Act::After(20 * SECOND));
    }
    let start = Instant::now();
    let report = loop_.pass().await.expect("a pass");
    assert_eq!(start.elapsed(), 200 * SECOND);
    assert_eq!(report.summary.held, 10, "it was slow, and it was alive");
}

#[tokio::test(start_paused = true)]
async fn h9_a_bulk_look_that_hangs_is_cut_off_and_what_it_answered_counts() {
    let world = World::many(10);
    let mut loop_ = world.settled().await;
    world.backend.drop_login("c2");
    world
        .backend
        .always(Call::Holds, "c4", Act::After(20 * SECOND));
    world.backend.always(Call::Holds, "c5", Act::Hang);
    let start = Instant::now();
    let report = loop_.pass().await.expect("a pass");
    let took = start.elapsed();
    assert!(took >= 50 * SECOND && took <= 54 * SECOND, "{took:?}");
    assert_eq!(
        (
            report.summary.held,
            report.summary.lost,
            report.summary.unknown
        ),
        (4, 1, 5)
    );
    assert!(world.backend.login("c2").is_some(), "healed all the same");
}

#[tokio::test(start_paused = true)]
async fn h9_local_computing_is_not_counted_against_the_server() {
    let world = World::many(10);
    let mut loop_ = world.settled().await;
    world
        .backend
        .always(Call::Holds, "c4", Act::Compute(5 * MINUTE));
    let report = loop_.pass().await.expect("a pass");
    assert_eq!(report.summary.held, 10);
}

#[tokio::test(start_paused = true)]
async fn h9_two_bulk_timeouts_and_the_next_pass_asks_singly() {
    let world = World::many(10);
    let mut loop_ = world.settled().await;
    world.backend.always(Call::HoldsAll, "", Act::Hang);
    for expected in [(1, 0), (2, 0), (2, 10), (3, 10)] {
        loop_.pass().await.expect("a pass");
        let calls = (
            world.backend.calls(Call::HoldsAll),
            world.backend.calls(Call::Holds),
        );
        assert_eq!(calls, expected);
        tokio::time::advance(MINUTE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn h13_a_healthy_pass_writes_nothing_but_its_beat() {
    let world = World::many(50);
    let mut loop_ = world.settled().await;
    let before: Vec<usize> = Bucket::ALL.iter().map(|b| world.bus.writes(*b)).collect();
    let lines = world.bus.lines().len();
    for _ in 0..30 {
        let report = loop_.pass().await.expect("a pass");
        assert_eq!(report.summary.held, 50);
        tokio::time::advance(MINUTE).await;
    }
    let made = [Call::Create, Call::CreateAll, Call::Disable, Call::Remove];
    assert!(made.iter().all(|call| world.backend.calls(*call) == 0));
    for (bucket, before) in Bucket::ALL.iter().zip(before) {
        let expected = if *bucket == Bucket::Loop { 30 } else { 0 };
        assert_eq!(
            world.bus.writes(*bucket) - before,
            expected,
            "{}",
            bucket.as_str()
        );
    }
    assert_eq!(world.bus.lines().len(), lines);
}

#[tokio::test(start_paused = true)]
async fn h16_one_bulk_call_answers_for_ten_thousand() {
    let world = World::many(10_000);
    let mut loop_ = world.settled().await;
    let report = loop_.pass().await.expect("a pass");
    assert_eq!(report.summary.held, 10_000);
    assert_eq!(world.backend.calls(Call::HoldsAll), 1);
    assert_eq!(world.backend.calls(Call::Holds), 0);
    assert_eq!(states(&loop_)[&State::Held], 10_000);
}

#[tokio::test(start_paused = true)]
async fn h5_an_answer_says_how_it_was_proven() {
    let world = World::of(&["web"]);
    let mut loop_ = world.settled().await;
    world
        .backend
        .always(Call::Holds, "web", Act::Say(Answer::held(Proof::Login)));
    loop_.pass().await.expect("a pass");
    let record = &loop_.core().slots()[slot(&loop_, "web")].record;
    let json = serde_json::to_string(&record.last).expect("json");
    assert!(json.contains("\"login\""), "{json}");
}
