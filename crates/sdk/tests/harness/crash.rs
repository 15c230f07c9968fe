//! H-23, B-6: the program crashes, or the bus is wiped, between any two steps; the next process converges.

use mesh_sdk::bus::Bucket;
use mesh_sdk::decide::State;
use mesh_sdk::testing::{Act, Call, FakeLogin};

use crate::support::{MINUTE, Need, World, states};

/// One consumer of each sort that a pass can meet, and a stranger's login.
async fn eventful(singly: bool) -> World {
    let needs = ["old", "changed", "leaving", "fine", "well"];
    let mut world = World::of(&needs).guarded();
    if singly {
        world = world.singly();
    }
    world.settings.remove_after = MINUTE;
    world.settings.grace = 2 * MINUTE;
    drop(world.settled().await);
    world
        .backend
        .change("stranger", |login| *login = Some(stranger()));
    world.backend.drop_login("old");
    world.needs[1].grants = "more".into();
    world.needs.remove(2);
    world.needs.push(Need::minted("new"));
    world.needs.push(Need::minted("newer"));
    world.generation = 2;
    world
}

fn stranger() -> FakeLogin {
    FakeLogin {
        password: Some(b"theirs".to_vec()),
        mark: None,
        grants: "all".into(),
        enabled: true,
    }
}

/// Eight passes of one process, or as many as it makes until it runs into the trap.
async fn live(world: &World) -> bool {
    let process = async {
        let mut loop_ = world.open().await;
        for _ in 0..8 {
            loop_.set_wish(world.wish());
            loop_.pass().await.expect("a pass");
            tokio::time::advance(MINUTE).await;
        }
    };
    tokio::select! {
        () = process => false,
        () = world.trace.trapped() => true,
    }
}

async fn converges(world: &World, at: usize) {
    world.trace.record();
    assert!(!live(world).await);
    let steps = world.trace.steps();
    world.trace.off();
    let mut loop_ = world.open().await;
    world.backend.forget_calls();
    loop_.pass().await.expect("a pass");
    let all = states(&loop_);
    assert_eq!(
        all.get(&State::Held),
        Some(&6),
        "crash at {at}: {all:?}, then {steps:#?}"
    );
    assert_eq!(world.mint.asked_again(), 0, "crash at {at}: a second mint");
    assert_eq!(world.mint.versions(), 2);
    assert_eq!(
        world.backend.login("stranger"),
        Some(stranger()),
        "crash at {at}"
    );
    let writes = [Call::Create, Call::CreateAll, Call::Disable, Call::Remove];
    let again: usize = writes.iter().map(|call| world.backend.calls(*call)).sum();
    assert_eq!(again, 0, "crash at {at}: again changes nothing");
}

#[tokio::test(start_paused = true)]
async fn h23_a_crash_between_any_two_steps_converges_without_a_second_mint() {
    for singly in [false, true] {
        let mut crashes = 0;
        loop {
            let world = eventful(singly).await;
            world.trace.record_and_trap(crashes);
            if !live(&world).await {
                break;
            }
            crashes += 1;
            converges(&world, crashes).await;
            assert!(
                world.backend.login("leaving").is_none(),
                "crash at {crashes}"
            );
        }
        assert!(crashes > 40, "{crashes}");
    }
}

#[tokio::test(start_paused = true)]
async fn b6_the_bus_wiped_between_any_two_steps_removes_and_mints_nothing_twice() {
    let mut wipes = 0;
    loop {
        let world = eventful(false).await;
        world.trace.record_and_trap(wipes);
        if !live(&world).await {
            break;
        }
        wipes += 1;
        world.bus.wipe();
        converges(&world, wipes).await;
    }
    assert!(wipes > 40, "{wipes}");
}

#[tokio::test(start_paused = true)]
async fn b6_a_bus_wiped_under_a_running_loop_is_filled_again() {
    let world = World::many(30);
    world.backend.always(Call::Holds, "c1", Act::Hang);
    world.backend.behave();
    let mut loop_ = world.settled().await;
    world.bus.wipe();
    for _ in 0..2 {
        loop_.pass().await.expect("a pass");
        tokio::time::advance(MINUTE).await;
    }
    assert_eq!(world.bus.values(Bucket::Record).len(), 30);
    assert_eq!(world.bus.values(Bucket::Loop).len(), 1);
    assert_eq!(world.backend.calls(Call::CreateAll), 0);
}

#[tokio::test(start_paused = true)]
async fn h23_the_order_of_one_apply() {
    for (singly, create) in [(true, "Create web"), (false, "CreateAll ")] {
        let mut world = World::of(&["web", "api"]);
        if singly {
            world = world.singly();
            world.needs.truncate(1);
        }
        world.trace.record();
        world.apply().await.expect("a pass");
        let steps = world.trace.steps();
        let n = world.needs.len();
        let look = if singly { "Holds web" } else { "HoldsAll " };
        let expected = [
            "backend: Server ".to_owned(),
            "backend: List ".to_owned(),
            format!("backend: {look}"),
            format!("bus: write {n} to record"),
            format!("bus: written {n} to record"),
            format!("backend: {create}"),
            format!("backend: {create} done"),
            format!("backend: {look}"),
            "bus: append".to_owned(),
            format!("bus: write {n} to record"),
            format!("bus: written {n} to record"),
            "bus: write 1 to loop".to_owned(),
            "bus: written 1 to loop".to_owned(),
        ];
        assert_eq!(steps, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn h23_nothing_is_applied_before_it_was_looked_at_again() {
    let world = World::of(&["web"]);
    world.backend.always(Call::Create, "web", Act::Lie);
    let mut loop_ = world.open().await;
    loop_.pass().await.expect("a pass");
    let record = &loop_.core().slots()[0].record;
    assert!(record.applied.is_none() && record.intent.is_some());
    let stored = &world.bus.values(Bucket::Record)[0];
    assert!(stored.get("applied").is_none() && stored.get("intent").is_some());
}

#[tokio::test(start_paused = true)]
async fn h23_a_batch_has_its_intents_in_one_write_each() {
    let mut world = World::many(100);
    world.limits.batch = 40;
    world.apply().await.expect("a pass");
    // Three batches of intents, and all records at the end.
    assert_eq!(world.bus.commits(Bucket::Record), 4);
    assert_eq!(world.backend.calls(Call::CreateAll), 3);
    // One look, and one after each batch.
    assert_eq!(world.backend.calls(Call::HoldsAll), 4);
}

#[tokio::test(start_paused = true)]
async fn h24_the_brake_survives_successive_processes() {
    let world = World::of(&["web"]);
    world.backend.always(Call::Create, "web", Act::Lie);
    for _ in 0..(12 * 60) {
        world.apply().await.expect("a pass");
        tokio::time::advance(MINUTE).await;
    }
    let tried = world.backend.calls(Call::Create);
    assert!(tried <= 18, "{tried} re-applies in 12 hours of cron");
}
