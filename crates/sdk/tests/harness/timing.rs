//! The runner: hints, words, faults and the orderly stop.

use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::bus::{Bucket, Fault};
use mesh_sdk::decide::State;
use mesh_sdk::harness::skeleton::{Message, Word};
use mesh_sdk::testing::{Act, Call, Trouble};
use mesh_sdk::{Class, Error};
use tokio::time::Instant;

use crate::support::{MINUTE, Need, Reports, SECOND, World, state};

#[tokio::test(start_paused = true)]
async fn h14_a_hint_heals_at_once() {
    let world = World::many(1_000);
    let running = world.run().await;
    tokio::time::sleep(10 * MINUTE + SECOND).await;
    world.backend.restart();
    world.backend.hint();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(
        world.backend.len(),
        1_000,
        "healed within 10 ms of the hint"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn h14_without_hints_the_timer_heals() {
    let world = World::many(10).able(|caps| caps.hint = false);
    let running = world.run().await;
    tokio::time::sleep(10 * MINUTE).await;
    world.backend.restart();
    tokio::time::sleep(MINUTE).await;
    assert_eq!(world.backend.len(), 10);
    assert_eq!(
        world.backend.calls(Call::Hint),
        0,
        "what is not declared is not called"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn h14_a_storm_of_hints_is_folded_and_bounded() {
    let world = World::many(10);
    let running = world.run().await;
    tokio::time::sleep(MINUTE).await;
    world.backend.forget_calls();
    let start = Instant::now();
    for _ in 0..600 {
        for _ in 0..5 {
            running.door.send(Message::Hint).await.expect("runs");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let took = start.elapsed();
    let passes = world.backend.calls(Call::HoldsAll);
    assert!(
        took >= MINUTE && passes <= 7,
        "{passes} passes for 3000 empty hints in {took:?}"
    );
    assert!(passes >= 3);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn h14_a_backend_that_hints_without_end_is_heard_once_a_second() {
    let world = World::many(1);
    let hinting = world.backend.clone();
    let storm = tokio::spawn(async move {
        loop {
            hinting.hint();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let running = world.run().await;
    tokio::time::sleep(MINUTE).await;
    storm.abort();
    let heard = world.backend.calls(Call::Hint);
    assert!((55..=65).contains(&heard), "{heard}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn h14_a_hint_during_a_pass_is_not_lost() {
    let world = World::many(5).singly();
    let running = world.run().await;
    tokio::time::sleep(MINUTE).await;
    world
        .backend
        .always(Call::Holds, "c0", Act::After(20 * SECOND));
    running.door.send(Message::Hint).await.expect("runs");
    tokio::time::sleep(10 * SECOND).await;
    // c1 was asked already and is dropped now; the hint comes while c0 is still being asked.
    world.backend.drop_login("c1");
    running.door.send(Message::Hint).await.expect("runs");
    world.backend.behave();
    tokio::time::sleep(11 * SECOND).await;
    assert!(
        world.backend.login("c1").is_some(),
        "healed by the second hint"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn h14_hints_that_come_while_the_server_is_down_do_not_hold_back_the_next() {
    let world = World::many(10);
    let running = world.run().await;
    tokio::time::sleep(MINUTE).await;
    let refused = Error::new(Class::Unreachable, "connection refused");
    world.backend.set_server(|server| *server = Err(refused));
    for _ in 0..6 {
        running.door.send(Message::Hint).await.expect("runs");
        tokio::time::sleep(5 * SECOND).await;
    }
    world
        .backend
        .set_server(|server| *server = Ok(Default::default()));
    world.backend.restart();
    running.door.send(Message::Hint).await.expect("runs");
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(world.backend.len(), 10);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn h14_failing_hints_are_asked_for_less_and_less() {
    let world = World::many(1);
    let refused = Error::new(Class::Unreachable, "connection refused");
    world.backend.always(Call::Hint, "", Act::Fail(refused));
    let running = world.run().await;
    tokio::time::sleep(10 * MINUTE).await;
    let asked = world.backend.calls(Call::Hint);
    assert!((10..=20).contains(&asked), "{asked}");
    world.backend.behave();
    world.backend.once(Call::Hint, "", Act::Panic);
    tokio::time::sleep(3 * MINUTE).await;
    world.backend.restart();
    world.backend.hint();
    tokio::time::sleep(SECOND).await;
    assert_eq!(
        world.backend.len(),
        1,
        "a panic there does not end the listening"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn h1_a_changed_wish_starts_a_pass_and_a_confirmed_one_does_not() {
    let mut world = World::of(&["api", "web"]);
    let running = world.run().await;
    tokio::time::sleep(MINUTE + SECOND).await;
    world.backend.forget_calls();
    let wish = Box::new(world.wish());
    running
        .door
        .send(Message::Word(Word::Wish(wish)))
        .await
        .expect("runs");
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.backend.calls(Call::HoldsAll), 0);
    world.needs[1].grants = "all".into();
    world.needs.push(Need::given("job"));
    world.generation = 2;
    let wish = Box::new(world.wish());
    running
        .door
        .send(Message::Word(Word::Wish(wish)))
        .await
        .expect("runs");
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.backend.login("web").expect("web").grants, "all");
    assert!(world.backend.login("job").is_some());
    let loop_ = running.stop().await;
    assert_eq!(state(&loop_, "job"), State::Held);
}

#[tokio::test(start_paused = true)]
async fn a_loop_goes_on_when_nobody_holds_its_door() {
    let world = World::many(3).able(|caps| caps.hint = false);
    let running = world.run().await;
    drop(running.door);
    tokio::time::sleep(10 * MINUTE).await;
    world.backend.forget();
    tokio::time::sleep(MINUTE).await;
    assert_eq!(world.backend.len(), 3);
    running.stop.cancel();
    running.task.await.expect("ends");
}

#[tokio::test(start_paused = true)]
async fn a_person_who_asks_for_a_pass_is_answered_when_it_is_done() {
    let world = World::many(3);
    let running = world.run().await;
    tokio::time::sleep(SECOND).await;
    world.backend.forget();
    let report = running.pass().await.expect("stored");
    assert_eq!((report.summary.lost, report.summary.applied), (3, 3));
    let slot = |state| report.states.iter().find(|(s, _)| *s == state);
    assert_eq!(slot(State::Held), Some(&(State::Held, 3)));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_tried_again_with_growing_delay_and_catches_up() {
    let world = World::many(3);
    world
        .bus
        .set_full(Some(Fault::Full("no space left".into())));
    let running = world.run().await;
    tokio::time::sleep(4 * SECOND).await;
    assert!(running.pass().await.is_err(), "who asked is told");
    tokio::time::sleep(30 * MINUTE).await;
    let passes = world.backend.calls(Call::HoldsAll);
    assert!((28..=40).contains(&passes), "{passes}");
    assert!(
        world.backend.is_empty(),
        "nothing was sent without its intent"
    );
    world.bus.set_full(None);
    tokio::time::sleep(MINUTE).await;
    assert_eq!(world.backend.len(), 3);
    assert_eq!(world.bus.values(Bucket::Record).len(), 3);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stop_during_a_hanging_look_takes_less_than_a_second() {
    let calls = [
        (Call::Server, ""),
        (Call::HoldsAll, ""),
        (Call::Holds, "c1"),
        (Call::List, ""),
    ];
    for (call, consumer) in calls {
        let mut world = World::many(20);
        if call == Call::Holds {
            world = world.singly();
        }
        let mut running = world.run().await;
        tokio::time::sleep(SECOND).await;
        world.backend.always(call, consumer, Act::Hang);
        if call == Call::List {
            world.needs.truncate(18);
            world.generation = 2;
            let wish = Box::new(world.wish());
            running
                .door
                .send(Message::Word(Word::Wish(wish)))
                .await
                .expect("runs");
        } else {
            running.door.send(Message::Hint).await.expect("runs");
        }
        tokio::time::sleep(15 * SECOND).await;
        let start = Instant::now();
        running.stop.cancel();
        let loop_ = (&mut running.task).await.expect("ends");
        assert!(start.elapsed() < SECOND, "{call:?}: {:?}", start.elapsed());
        assert_eq!(
            state(&loop_, "c2"),
            State::Held,
            "{call:?}: nothing was made up"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn stop_during_an_effect_lets_it_finish_for_at_most_5_s() {
    for bulk in [true, false] {
        for (takes, finishes) in [(3 * SECOND, true), (20 * SECOND, false)] {
            let world = if bulk {
                World::many(3)
            } else {
                World::many(3).singly()
            };
            world.backend.always(Call::Create, "c1", Act::After(takes));
            let mut running = world.run().await;
            tokio::time::sleep(SECOND).await;
            let start = Instant::now();
            running.stop.cancel();
            let loop_ = (&mut running.task).await.expect("ends");
            let took = start.elapsed();
            assert!(took <= 5 * SECOND, "{took:?}");
            assert_eq!(
                world.backend.login("c1").is_some(),
                finishes,
                "bulk: {bulk}"
            );
            drop(loop_);
            // The next process looks first and finds the rest to do.
            let mut again = World {
                stop: Default::default(),
                ..world
            };
            again.backend.behave();
            again.generation = 1;
            again.apply().await.expect("a pass");
            assert_eq!(again.backend.len(), 3);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stop_between_two_batches_of_a_mass_heal() {
    let mut world = World::many(100);
    world.limits.batch = 10;
    let running = world.run().await;
    tokio::time::sleep(SECOND).await;
    world.backend.forget();
    world
        .backend
        .once(Call::Create, "c15", Act::After(2 * SECOND));
    running.door.send(Message::Hint).await.expect("runs");
    tokio::time::sleep(SECOND).await;
    running.stop().await;
    assert_eq!(
        world.backend.len(),
        20,
        "the second batch was finished, the third not begun"
    );
}

#[tokio::test(start_paused = true)]
async fn stop_is_not_held_up_by_a_store_that_hangs() {
    let world = World::many(3);
    let running = world.run().await;
    tokio::time::sleep(SECOND).await;
    for _ in 0..9 {
        world.bus.trouble(Bucket::Loop, Trouble::Hang);
    }
    running.door.send(Message::Hint).await.expect("runs");
    tokio::time::sleep(6 * SECOND).await;
    let start = Instant::now();
    running.stop().await;
    assert!(start.elapsed() <= 5 * SECOND, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn every_pass_is_told_to_who_watches() {
    let world = World::many(3);
    let reports = Arc::new(Reports::default());
    let mut parts = world.parts();
    parts.observers.push(reports.clone());
    let mut loop_ = mesh_sdk::harness::Provisioner::open(parts)
        .await
        .expect("opens");
    loop_.set_wish(world.wish());
    loop_.pass().await.expect("a pass");
    let all = reports.0.lock().expect("reports");
    assert_eq!((all.len(), all[0].label.as_str()), (1, "cache"));
    assert_eq!(all[0].summary.applied, 3);
}
