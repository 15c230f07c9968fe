//! Beats: told by the loop itself as it goes, and on the bus only while a pass takes long (B-8).

use std::time::Duration;

use mesh_sdk::bus::{Bucket, Bus};
use mesh_sdk::harness::beat::{Beat, bound_of};
use mesh_sdk::testing::{Act, Call};

use crate::support::{MINUTE, SECOND, World};

const NAME: &str = "provisioner/cache";

async fn on_the_bus(world: &World) -> Option<Beat> {
    let entry = world.bus.get(Bucket::Loop, &Beat::key(NAME)).await;
    let entry = entry.expect("get")?;
    Some(serde_json::from_slice(&entry.value).expect("a beat"))
}

#[tokio::test(start_paused = true)]
async fn b8_a_short_pass_beats_in_the_process_and_writes_nothing_for_it() {
    let world = World::many(100);
    let mut loop_ = world.settled().await;
    let pulse = loop_.pulse().clone();
    let before = pulse.last();
    loop_.pass().await.expect("a pass");
    let after = pulse.last();
    assert!(after.done > before.done && after.counter > before.counter);
    assert_eq!((after.asked, after.unknown), (100, 0));
    assert_eq!(on_the_bus(&world).await, None);
    // It rests, and says for how long.
    let running = world.run_this(loop_);
    tokio::time::sleep(SECOND).await;
    let rests = pulse.last();
    assert_eq!(rests.since, None);
    assert!(rests.due > 0 && rests.due <= 60_000, "{rests:?}");
    tokio::time::sleep(2 * MINUTE).await;
    assert!(pulse.last().pass > rests.pass, "it goes on");
    running.stop().await;
    let watched = pulse.watched();
    drop(pulse);
    assert_eq!(watched.last(), None, "a loop that ended has no pulse");
}

#[tokio::test(start_paused = true)]
async fn b8_a_pass_that_takes_long_beats_on_the_bus_and_finishes_something_within_its_bound() {
    let world = World::many(8).singly();
    let loop_ = world.settled().await;
    let pulse = loop_.pulse().clone();
    world.backend.always(Call::Holds, "c3", Act::Hang);
    let running = world.run_this(loop_);
    tokio::time::sleep(Duration::from_secs(25)).await;
    let told = on_the_bus(&world).await.expect("a beat");
    assert!(told.since.is_some(), "{told:?}");
    assert_eq!((told.due, told.doing.as_ref()), (10_000, "asks"));
    let (counter, done) = (pulse.last().counter, pulse.last().done);
    assert!(counter >= told.counter && done >= told.done);
    // The look that hangs is cut off at its deadline: that is something finished.
    tokio::time::sleep(bound_of(&world.settings)).await;
    assert!(pulse.last().done > done);
    running.stop().await;
}
