//! the list, who it shows, and who is in use.

use std::time::Duration;

use mesh_sdk::adapter::Use;
use mesh_sdk::bus::Bucket;
use mesh_sdk::testing::{Act, Call, FakeLogin};
use mesh_sdk::{Class, ConsumerName, Error};

use crate::support::{MINUTE, World, standing};

/// Twenty consumers, and a login with our mark for one of whom nobody knows.
async fn with_ghost() -> World {
    let world = World::many(20).guarded();
    drop(world.settled().await);
    let ghost = ConsumerName::new("ghost").expect("a name");
    let mark = world.parts().marker.mark(&ghost).to_string();
    world.backend.change("ghost", |login| {
        *login = Some(FakeLogin {
            password: Some(b"old".to_vec()),
            mark: Some(mark),
            grants: String::new(),
            enabled: true,
        });
    });
    world
}

/// Passes a minute apart, each of another process.
async fn processes(world: &World, count: u32) {
    for _ in 0..count {
        world.apply().await.expect("a pass");
        tokio::time::advance(MINUTE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn r1_a_list_costs_one_call_every_list_every_and_writes_nothing() {
    let world = World::many(20).guarded();
    let mut loop_ = world.settled().await;
    world.backend.forget_calls();
    for _ in 0..30 {
        loop_.set_wish(world.wish());
        loop_.pass().await.expect("a pass");
        tokio::time::advance(MINUTE).await;
    }
    let listed = world.backend.calls(Call::List);
    assert!((3..=4).contains(&listed), "{listed} lists in half an hour");
    assert_eq!(world.backend.calls(Call::Uses), 0);
    assert_eq!(world.bus.values(Bucket::Record).len(), 21);
}

#[tokio::test(start_paused = true)]
async fn r2_who_only_the_list_shows_is_taken_away_over_processes() {
    let world = with_ghost().await;
    processes(&world, 9).await;
    assert!(world.backend.login("ghost").expect("there").enabled);
    assert_eq!(world.bus.values(Bucket::Record).len(), 22, "it is stored");
    processes(&world, 10).await;
    assert!(!world.backend.login("ghost").expect("there").enabled);
    tokio::time::advance(24 * 60 * MINUTE).await;
    processes(&world, 2).await;
    assert_eq!(world.backend.login("ghost"), None);
    let calls = (Call::Disable, Call::Remove);
    let calls = (world.backend.calls(calls.0), world.backend.calls(calls.1));
    assert_eq!(calls, (1, 1));
    assert_eq!(world.backend.len(), 21);
}

#[tokio::test(start_paused = true)]
async fn r8_a_list_that_hangs_takes_nobody_away_and_is_told() {
    let world = with_ghost().await;
    world.backend.always(Call::List, "", Act::Hang);
    processes(&world, 30).await;
    assert!(world.backend.login("ghost").expect("there").enabled);
    let loop_ = world.open().await;
    assert_eq!(standing(&loop_), ["LookUnknown cache"]);
}

#[tokio::test(start_paused = true)]
async fn r6_a_use_is_asked_for_with_one_call_and_puts_the_drop_off() {
    let world = with_ghost().await.able(|caps| caps.uses = true);
    processes(&world, 11).await;
    assert_eq!(
        world.backend.calls(Call::Uses),
        1,
        "before it is switched off"
    );
    assert!(!world.backend.login("ghost").expect("there").enabled);
    tokio::time::advance(24 * 60 * MINUTE).await;
    let used = Use::new(Duration::from_secs(60), "a login was refused");
    world.backend.set_use("ghost", Some(used));
    processes(&world, 2).await;
    assert!(world.backend.login("ghost").is_some());
    let loop_ = world.open().await;
    assert_eq!(standing(&loop_), ["OrphanInUse cache/ghost"]);
    drop(loop_);
    world.backend.set_use("ghost", None);
    let denied = Act::Fail(Error::new(Class::Denied, "no rights"));
    world.backend.always(Call::Uses, "", denied);
    tokio::time::advance(24 * 60 * MINUTE).await;
    processes(&world, 8).await;
    assert!(world.backend.login("ghost").is_some(), "nobody knows");
    world.backend.behave();
    processes(&world, 2).await;
    assert_eq!(world.backend.login("ghost"), None);
}
