//! Applying: H-3, H-10, H-12, H-20 to H-25.

use mesh_sdk::decide::{Happening, State};
use mesh_sdk::testing::{Act, Call};
use mesh_sdk::{Class, Error};
use tokio::time::Instant;

use crate::support::{MINUTE, SECOND, World, standing, state, states};

#[tokio::test(start_paused = true)]
async fn h3_a_failing_create_neither_stops_nor_delays_the_others() {
    for world in [World::many(20), World::many(20).singly()] {
        let denied = Error::new(Class::Denied, "no rights");
        world.backend.always(Call::Create, "c0", Act::Fail(denied));
        let start = Instant::now();
        let mut loop_ = world.open().await;
        let report = loop_.pass().await.expect("a pass");
        assert_eq!((report.summary.applied, report.summary.failed), (19, 1));
        assert_eq!(start.elapsed(), std::time::Duration::ZERO);
        assert!(standing(&loop_).contains(&"ApplyFailed cache/c0".to_owned()));
        assert_eq!(states(&loop_)[&State::Held], 19);
    }
}

#[tokio::test(start_paused = true)]
async fn h3_a_hanging_create_costs_its_own_deadline_and_nothing_else() {
    let world = World::many(20).singly();
    world.backend.always(Call::Create, "c0", Act::Hang);
    let start = Instant::now();
    let mut loop_ = world.open().await;
    let report = loop_.pass().await.expect("a pass");
    assert_eq!(start.elapsed(), 30 * SECOND);
    let created = world.backend.made(Call::Create);
    assert!(
        created.iter().all(|m| m.at == start),
        "everyone else was created at once"
    );
    assert_eq!((report.summary.applied, report.summary.failed), (19, 1));
    let _ = Happening::Adopted;
    let _ = (MINUTE, state(&loop_, "c0"));
}
