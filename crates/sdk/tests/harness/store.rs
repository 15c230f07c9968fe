//! The store: outcomes that are unknown, conflicts, a full disk, conditions and history.

use mesh_sdk::bus::{Bucket, Fault, Key};
use mesh_sdk::decide::State;
use mesh_sdk::harness::{Provisioner, StoreFault};
use mesh_sdk::testing::{Act, Call, Trouble};
use mesh_sdk::{Class, Error};

use crate::support::{MINUTE, SECOND, World, standing, state, states};

fn full() -> Fault {
    Fault::Full("no space left on device".into())
}
fn denied() -> Act {
    Act::Fail(Error::new(Class::Denied, "no rights"))
}

/// What the bus holds is what a core that never met trouble would have there.
fn assert_stored(world: &World, loop_: &Provisioner, why: &str) {
    let stored = world.bus.values(Bucket::Record);
    for slot in loop_.core().slots() {
        let name = slot.consumer.as_str();
        let found = stored.iter().find(|v| v["consumer"] == name);
        let found = found.unwrap_or_else(|| panic!("{why}: no record of {name}"));
        let json = serde_json::to_value(&slot.record).expect("json");
        for (field, value) in json.as_object().expect("an object") {
            assert_eq!(&found[field], value, "{why}: {field} of {name}");
        }
    }
    let stored = world.bus.values(Bucket::Condition);
    let raised = stored.iter().filter(|v| v["raised"] == true).count();
    assert_eq!(raised, standing(loop_).len(), "{why}: {stored:?}");
}

#[tokio::test(start_paused = true)]
async fn b5_every_outcome_of_every_write_ends_with_what_it_should() {
    let troubles = || {
        [
            Trouble::Conflict(0),
            Trouble::Conflict(2),
            Trouble::UnknownDone(1),
            Trouble::UnknownLost(1),
            Trouble::Fail(full()),
            Trouble::FailAfter(Fault::Unreachable("reset".into())),
            Trouble::Hang,
        ]
    };
    for bucket in [Bucket::Record, Bucket::Condition, Bucket::Loop] {
        for before in 0..3 {
            for trouble in troubles() {
                let why = format!("{} {trouble:?} after {before}", bucket.as_str());
                let world = World::many(4);
                world.backend.always(Call::Create, "c3", denied());
                for _ in 0..before {
                    world.bus.trouble(bucket, Trouble::Delay(SECOND));
                }
                world.bus.trouble(bucket, trouble);
                let mut loop_ = world.open().await;
                for _ in 0..14 {
                    // An error is allowed as long as the next passes make up for it.
                    drop(loop_.pass().await);
                    tokio::time::advance(MINUTE).await;
                }
                assert_eq!(states(&loop_)[&State::Held], 3, "{why}");
                assert_stored(&world, &loop_, &why);
                loop_.pass().await.expect("a pass without trouble");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn b5_an_intent_that_was_written_after_all_is_good_enough() {
    let world = World::many(3);
    world.bus.trouble(Bucket::Record, Trouble::UnknownDone(1));
    let report = world.apply().await.expect("read back, and found done");
    assert_eq!((report.summary.applied, world.backend.len()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn b5_a_conflict_of_one_intent_holds_back_that_one_only() {
    for trouble in [Trouble::Conflict(1), Trouble::UnknownLost(1)] {
        let world = World::many(3);
        world.bus.trouble(Bucket::Record, trouble);
        let mut loop_ = world.open().await;
        let fault = loop_.pass().await.expect_err("told");
        assert_eq!(fault, StoreFault::Contended("c1".into()));
        assert!(
            world.backend.login("c1").is_none(),
            "not sent without its intent"
        );
        assert_eq!(world.backend.len(), 2);
        let stored = world.bus.values(Bucket::Record);
        let c1 = stored.iter().find(|v| v["consumer"] == "c1");
        assert!(
            c1.is_none_or(|v| v["intent"].is_null() && v["applied"].is_null()),
            "and it claims nothing"
        );
        loop_.pass().await.expect("a pass");
        assert_eq!(states(&loop_)[&State::Held], 3);
    }
}

#[tokio::test(start_paused = true)]
async fn h23_with_a_full_disk_nothing_new_is_sent_and_the_lost_are_healed() {
    for world in [World::many(5), World::many(5).singly()] {
        let mut world = world;
        let mut loop_ = world.settled().await;
        world.needs[0].grants = "more".into();
        world.generation = 2;
        loop_.set_wish(world.wish());
        world.backend.drop_login("c3");
        world.bus.set_full(Some(full()));
        let fault = loop_.pass().await.expect_err("told");
        assert_eq!(fault, StoreFault::Bus(full()));
        assert_eq!(
            world.backend.login("c0").expect("c0").grants,
            "",
            "not sent"
        );
        assert!(
            world.backend.login("c3").is_some(),
            "healing needs no intent"
        );
        world.bus.set_full(None);
        loop_.pass().await.expect("a pass");
        assert_eq!(world.backend.login("c0").expect("c0").grants, "more");
        assert_stored(&world, &loop_, "what was owed is written");
        let lines = world.bus.lines();
        assert!(
            lines.iter().any(|l| l.subject == "healed.cache.c3"),
            "and told"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn r8_a_store_that_cannot_be_read_starts_nothing() {
    let world = World::many(3);
    world.apply().await.expect("a pass");
    world
        .bus
        .set_unreadable(Some(Fault::Unreachable("locked".into())));
    assert!(Provisioner::open(world.parts()).await.is_err());
    world.bus.set_unreadable(None);
    world.stop.cancel();
    assert!(
        Provisioner::open(world.parts()).await.is_err(),
        "a stop ends a start"
    );
    for bucket in [Bucket::Record, Bucket::Condition, Bucket::Loop] {
        let world = World::many(3);
        let key = match bucket {
            Bucket::Record => Key::of(&["cache", "c1"]),
            Bucket::Loop => Key::of(&["provisioner/cache"]),
            _ => Key::of(&["provisioner/cache", "Paused", "cache"]),
        };
        world.bus.put(bucket, key, b"{\"half\":".to_vec());
        let fault = Provisioner::open(world.parts())
            .await
            .err()
            .expect("an error");
        assert!(matches!(fault, StoreFault::Unreadable { .. }), "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn c2_a_condition_is_the_same_one_across_processes_and_history_tells_its_life() {
    let world = World::of(&["api", "web"]);
    for _ in 0..2 {
        world.apply().await.expect("a pass");
        tokio::time::advance(MINUTE).await;
    }
    world.backend.drop_login("web");
    world.backend.always(Call::Create, "web", denied());
    for _ in 0..10 {
        world.apply().await.expect("a pass");
        tokio::time::advance(MINUTE).await;
    }
    let stored = world.bus.values(Bucket::Condition);
    assert_eq!(stored.len(), 1, "{stored:#?}");
    let condition = &stored[0]["condition"];
    assert_eq!(
        (&condition["type"], &condition["count"]),
        (&"HealFailed".into(), &10.into())
    );
    let since = condition["since"].as_i64().expect("since");
    let seen = condition["last_seen"].as_i64().expect("last seen");
    assert_eq!(seen - since, 9 * 60_000);
    let of_kind = |kind: &str| {
        let lines = world.bus.lines();
        lines
            .iter()
            .filter(|l| l.subject == format!("{kind}.cache.web"))
            .count()
    };
    assert_eq!((of_kind("raised"), of_kind("cleared")), (1, 0));
    world.backend.behave();
    for _ in 0..3 {
        world.apply().await.expect("a pass");
        tokio::time::advance(MINUTE).await;
    }
    assert_eq!(
        (of_kind("raised"), of_kind("cleared")),
        (1, 1),
        "cleared after two good looks"
    );
    assert_eq!(world.bus.values(Bucket::Condition)[0]["raised"], false);
}

#[tokio::test(start_paused = true)]
async fn c4_who_could_not_be_asked_is_not_well() {
    let mut world = World::many(10).singly();
    world.limits.concurrency = 1;
    let mut loop_ = world.settled().await;
    world.backend.drop_login("c5");
    world.backend.always(Call::Create, "c5", denied());
    loop_.pass().await.expect("a pass");
    assert_eq!(standing(&loop_), ["HealFailed cache/c5"]);
    world.backend.behave();
    tokio::time::advance(MINUTE).await;
    loop_.pass().await.expect("healed: the first good look");
    for _ in 0..4 {
        tokio::time::advance(MINUTE).await;
        // The first one that is asked hangs, so that nobody else is.
        for i in 0..10 {
            world
                .backend
                .always(Call::Holds, &format!("c{i}"), Act::Hang);
        }
        loop_.pass().await.expect("a pass");
        let raised = standing(&loop_);
        assert!(
            raised.contains(&"HealFailed cache/c5".to_owned()),
            "{raised:?}"
        );
    }
    world.backend.behave();
    tokio::time::advance(MINUTE).await;
    loop_.pass().await.expect("the second good look");
    assert!(!standing(&loop_).contains(&"HealFailed cache/c5".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn c5_a_standing_condition_is_written_now_and_then_and_its_changes_at_once() {
    let world = World::many(50);
    let mut loop_ = world.settled().await;
    for i in 0..30 {
        world
            .backend
            .always(Call::Holds, &format!("c{i}"), denied());
    }
    for _ in 0..20 {
        loop_.pass().await.expect("a pass");
        tokio::time::advance(MINUTE).await;
    }
    let before = world.bus.writes(Bucket::Condition);
    for _ in 0..40 {
        loop_.pass().await.expect("a pass");
        tokio::time::advance(MINUTE).await;
    }
    let writes = world.bus.writes(Bucket::Condition) - before;
    assert!(
        (100..=150).contains(&writes),
        "{writes} for 30 conditions over 40 passes"
    );
    world.backend.behave();
    for _ in 0..2 {
        loop_.pass().await.expect("a pass");
        tokio::time::advance(MINUTE).await;
    }
    let stored = world.bus.values(Bucket::Condition);
    assert!(
        stored.iter().all(|v| v["raised"] == false),
        "cleared at once"
    );
}

#[tokio::test(start_paused = true)]
async fn b8_the_beat_says_when_the_next_pass_is_due() {
    let world = World::many(3);
    let mut loop_ = world.open().await;
    let report = loop_.pass().await.expect("a pass");
    let beat = &world.bus.values(Bucket::Loop)[0];
    assert_eq!(beat["class"], "provisioner");
    assert_eq!(beat["next_pass"], report.next_at.as_millis());
    assert_eq!(beat["last_pass"], report.at.as_millis());
    assert_eq!(beat["version"], "Fake 1");
    loop_.request(7);
    loop_.pass().await.expect("a pass");
    assert_eq!(world.bus.values(Bucket::Loop)[0]["answered_request"], 7);
    loop_.request(8);
    world.stop.cancel();
    loop_.pass().await.expect("a pass that was stopped");
    assert_eq!(world.bus.values(Bucket::Loop)[0]["answered_request"], 7);
    assert_eq!(state(&loop_, "c0"), State::Held);
}
