//! Applying: H-2, H-3, H-10 to H-12, H-18, H-20 to H-22, H-25.

use std::collections::HashMap;
use std::time::Duration;

use mesh_sdk::answer::Proof;
use mesh_sdk::bus::Bucket;
use mesh_sdk::decide::{Last, State};
use mesh_sdk::harness::MintFault;
use mesh_sdk::testing::{Act, Call, FakeLogin};
use mesh_sdk::{Class, ConsumerName, Error};
use tokio::time::Instant;

use crate::support::{MINUTE, Need, SECOND, World, slot, standing, state, states};

fn denied() -> Act {
    Act::Fail(Error::new(Class::Denied, "no rights"))
}
fn name(text: &str) -> ConsumerName {
    ConsumerName::new(text).expect("name")
}
fn creates(world: &World) -> usize {
    world.backend.calls(Call::Create) + world.backend.calls(Call::CreateAll)
}

#[tokio::test(start_paused = true)]
async fn h2_what_the_backend_holds_is_adopted_without_a_write() {
    let world = World::many(5);
    world.apply().await.expect("a pass");
    world.bus.wipe();
    world.backend.forget_calls();
    let mut loop_ = world.open().await;
    let report = loop_.pass().await.expect("a pass");
    assert_eq!((report.summary.held, creates(&world)), (5, 0));
    assert_eq!(world.bus.values(Bucket::Record).len(), 5);
    assert_eq!(states(&loop_)[&State::Held], 5);
}

#[tokio::test(start_paused = true)]
async fn h3_a_failing_create_neither_stops_nor_delays_the_others() {
    for world in [World::many(20), World::many(20).singly()] {
        world.backend.always(Call::Create, "c0", denied());
        let start = Instant::now();
        let mut loop_ = world.open().await;
        let report = loop_.pass().await.expect("a pass");
        assert_eq!((report.summary.applied, report.summary.failed), (19, 1));
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(standing(&loop_).contains(&"ApplyFailed cache/c0".to_owned()));
        assert_eq!(states(&loop_)[&State::Held], 19);
    }
}

#[tokio::test(start_paused = true)]
async fn h3_a_hanging_create_costs_its_own_deadline_and_nothing_else() {
    let world = World::many(40).singly();
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
    assert_eq!((report.summary.applied, report.summary.failed), (39, 1));
}

#[tokio::test(start_paused = true)]
async fn h3_consumers_that_hang_cannot_starve_the_others() {
    // Ten of them fill every lane twice over; the rest is healed on this pass or the next.
    let mut world = World::many(60).singly();
    world.limits.concurrency = 4;
    let mut loop_ = world.settled().await;
    world.backend.forget();
    for i in 0..10 {
        world
            .backend
            .always(Call::Create, &format!("c{i}"), Act::Hang);
    }
    let start = Instant::now();
    loop_.pass().await.expect("a pass");
    let took = start.elapsed();
    assert!(
        took <= 90 * SECOND,
        "{took:?}: what is in flight after two silent rounds finishes"
    );
    loop_.pass().await.expect("a pass");
    assert_eq!(world.backend.len(), 50);
}

#[tokio::test(start_paused = true)]
async fn h3_a_consumer_that_hangs_in_the_bulk_create_is_found_out() {
    let world = World::many(20);
    let mut loop_ = world.settled().await;
    world.backend.forget();
    world.backend.always(Call::Create, "c3", Act::Hang);
    for _ in 0..3 {
        loop_.pass().await.expect("a pass");
        tokio::time::advance(MINUTE).await;
    }
    assert_eq!(world.backend.len(), 19, "the third pass creates one by one");
    assert_eq!(states(&loop_)[&State::Held], 19);
}

#[tokio::test(start_paused = true)]
async fn h9_a_server_that_hangs_in_every_create_does_not_keep_the_loop_for_hours() {
    let mut world = World::many(1_000);
    world.limits.batch = 100;
    let mut loop_ = world.settled().await;
    world.backend.forget();
    world.backend.always(Call::CreateAll, "", Act::Hang);
    let start = Instant::now();
    loop_.pass().await.expect("a pass");
    assert!(start.elapsed() <= 70 * SECOND, "{:?}", start.elapsed());
    world.backend.behave();
    loop_.pass().await.expect("a pass");
    assert_eq!(world.backend.len(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn h9_a_hanging_removal_ends_nothing_but_itself() {
    let mut world = World::many(30).guarded();
    world.settings.remove_after = MINUTE;
    let mut loop_ = world.settled().await;
    world.backend.always(Call::Disable, "c28", Act::Hang);
    world.needs.truncate(28);
    world.generation = 2;
    let mut longest = Duration::ZERO;
    for round in 0..6 {
        loop_.set_wish(world.wish());
        world.backend.drop_login(&format!("c{round}"));
        let start = Instant::now();
        loop_.pass().await.expect("a pass");
        longest = longest.max(start.elapsed());
        // The one that is lost before each pass is braked after a while.
        let states = states(&loop_);
        let braked = states.get(&State::Braked).copied().unwrap_or_default();
        assert_eq!(states[&State::Held] + braked, 28);
        tokio::time::advance(5 * MINUTE).await;
    }
    assert_eq!(longest, 30 * SECOND);
    assert!(!world.backend.login("c29").expect("c29").enabled);
    assert!(world.backend.login("c28").expect("c28").enabled);
    assert!(standing(&loop_).contains(&"RemovalStuck cache/c28".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn h10_what_cannot_be_asked_is_created_at_start_restart_and_word_only() {
    let world = World::many(5).able(|caps| (caps.holds, caps.holds_all) = (false, false));
    let mut loop_ = world.open().await;
    loop_.pass().await.expect("a pass");
    let start = creates(&world);
    assert_eq!((start, world.backend.len()), (1, 5));
    for _ in 0..10 {
        tokio::time::advance(MINUTE).await;
        loop_.pass().await.expect("a pass");
    }
    assert_eq!(creates(&world), start, "trusted from memory");
    let record = &loop_.core().slots()[0].record;
    assert!(matches!(
        record.last,
        Last::Held {
            proof: Proof::Record,
            ..
        }
    ));
    world.backend.restart();
    tokio::time::advance(MINUTE).await;
    loop_.pass().await.expect("a pass");
    assert_eq!((creates(&world), world.backend.len()), (start + 1, 5));
    let now = world.clock.now();
    loop_.core_mut().release(Some(&name("c1")), now);
    loop_.pass().await.expect("a pass");
    assert_eq!(creates(&world), start + 2);
    world.open().await.pass().await.expect("a pass");
    assert_eq!(creates(&world), start + 3, "another process starts");
    let asked = world.backend.calls(Call::Holds) + world.backend.calls(Call::HoldsAll);
    assert_eq!(asked, 0);
}

#[tokio::test(start_paused = true)]
async fn a10_what_an_adapter_can_do_is_read_at_each_pass() {
    let world = World::many(5);
    let mut loop_ = world.open().await;
    loop_.pass().await.expect("a pass");
    let cannot_be_asked =
        |caps: &mut mesh_sdk::Capabilities| (caps.holds, caps.holds_all) = (false, false);
    drop(world.backend.clone().with(cannot_be_asked));
    world.backend.forget_calls();
    tokio::time::advance(MINUTE).await;
    loop_.pass().await.expect("a pass");
    let asked = world.backend.calls(Call::Holds) + world.backend.calls(Call::HoldsAll);
    assert_eq!((asked, creates(&world)), (0, 1), "created once, in bulk");
}

#[tokio::test(start_paused = true)]
async fn h11_a_consumer_that_will_not_stay_is_braked_to_once_an_hour() {
    let world = World::of(&["api", "web"]).singly();
    world.backend.always(Call::Create, "web", Act::Lie);
    let running = world.run().await;
    tokio::time::sleep(6 * 60 * MINUTE).await;
    world.backend.forget_calls();
    tokio::time::sleep(12 * 60 * MINUTE).await;
    let tried = world.backend.made(Call::Create);
    assert!((11..=13).contains(&tried.len()), "{}", tried.len());
    let loop_ = running.stop().await;
    assert_eq!(state(&loop_, "web"), State::Braked);
    assert_eq!(state(&loop_, "api"), State::Held);
    assert_eq!(standing(&loop_), ["Braked cache/web"]);
}

#[tokio::test(start_paused = true)]
async fn h12_a_lost_consumer_whose_re_apply_fails_is_tried_at_each_check() {
    let world = World::of(&["api", "web"]).singly();
    let mut loop_ = world.settled().await;
    world.backend.drop_login("web");
    world.backend.always(Call::Create, "web", denied());
    for _ in 0..20 {
        loop_.pass().await.expect("a pass");
        tokio::time::advance(MINUTE).await;
    }
    assert_eq!(creates(&world), 20);
    let record = &loop_.core().slots()[slot(&loop_, "web")].record;
    assert_eq!((record.strikes, record.failures), (0, 20));
    world.backend.behave();
    loop_.pass().await.expect("a pass");
    assert_eq!(state(&loop_, "web"), State::Held);
}

#[tokio::test(start_paused = true)]
async fn h18_a_login_of_somebody_else_is_left_alone() {
    let world = World::of(&["web"]);
    let theirs = FakeLogin {
        password: Some(b"theirs".to_vec()),
        mark: None,
        grants: "all".into(),
        enabled: true,
    };
    world
        .backend
        .change("web", |login| *login = Some(theirs.clone()));
    let mut loop_ = world.open().await;
    for _ in 0..5 {
        loop_.pass().await.expect("a pass");
        tokio::time::advance(MINUTE).await;
    }
    assert_eq!(
        (creates(&world), world.backend.login("web")),
        (0, Some(theirs))
    );
    assert_eq!(state(&loop_, "web"), State::Refused);
    assert_eq!(standing(&loop_), ["LoginTaken cache/web"]);
}

#[tokio::test(start_paused = true)]
async fn h20_another_server_under_the_address_is_only_read() {
    let world = World::many(5);
    let identity = |id: &'static str| {
        world.backend.set_server(|server| {
            if let Ok(server) = server {
                server.identity = Some(id.into());
            }
        });
    };
    identity("one");
    let mut loop_ = world.settled().await;
    identity("two");
    world.backend.forget();
    for _ in 0..3 {
        loop_.pass().await.expect("a pass");
        tokio::time::advance(MINUTE).await;
    }
    assert_eq!((creates(&world), world.backend.len()), (0, 0));
    assert!(standing(&loop_).contains(&"ServerChanged cache".to_owned()));
    loop_.core_mut().approve_server();
    loop_.pass().await.expect("a pass");
    assert_eq!(world.backend.len(), 5, "healed by the ordinary path");
}

#[tokio::test(start_paused = true)]
async fn h21_a_read_only_server_is_asked_and_repairs_wait() {
    let world = World::many(5);
    let mut loop_ = world.settled().await;
    world.backend.drop_login("c1");
    let read_only = |why: Option<&str>| {
        let why = why.map(str::to_owned);
        world.backend.set_server(|server| {
            if let Ok(server) = server {
                server.read_only = why;
            }
        });
    };
    read_only(Some("a replica of 10.0.0.1"));
    let report = loop_.pass().await.expect("a pass");
    assert_eq!((report.summary.held, creates(&world)), (4, 0));
    assert_eq!(state(&loop_, "c1"), State::Unknown);
    assert_eq!(standing(&loop_), ["WaitsForWritable cache"]);
    read_only(None);
    tokio::time::advance(MINUTE).await;
    loop_.pass().await.expect("a pass");
    assert_eq!(state(&loop_, "c1"), State::Held);
}

#[tokio::test(start_paused = true)]
async fn h22_nothing_is_applied_before_the_secret_exists() {
    let world = World::with(vec![Need::minted("web"), Need::given("api")]);
    world
        .mint
        .fail_next(MintFault::NotNow("the disk is full".into()));
    let mut loop_ = world.open().await;
    loop_.pass().await.expect("a pass");
    assert!(
        world.backend.login("web").is_none(),
        "not now: tried on the next pass"
    );
    assert!(
        world.backend.login("api").is_some(),
        "nobody else waits for it"
    );
    assert_eq!(state(&loop_, "web"), State::Pending);
    let told = |what: &str| world.bus.lines().iter().any(|l| l.value.contains(what));
    assert!(told("no password minted: the disk is full"));
    world.trace.record();
    tokio::time::advance(MINUTE).await;
    loop_.pass().await.expect("a pass");
    let steps = world.trace.steps();
    let at = |what: &str| steps.iter().position(|s| s == what).expect(what);
    assert!(
        at("mint: done web") < at("backend: Create web"),
        "{steps:?}"
    );
    let password = world
        .backend
        .login("web")
        .expect("web")
        .password
        .expect("set");
    let version = world.mint.version(&name("web")).expect("a version");
    assert_eq!(password, version.into_bytes());
    assert_eq!(state(&loop_, "web"), State::Held);
    assert!(
        told("a password was minted and sealed"),
        "it is in the history"
    );
}

#[tokio::test(start_paused = true)]
async fn h22_a_lost_secret_is_told_and_nothing_is_written() {
    let world = World::with(vec![Need::minted("web")]);
    let lost = MintFault::Lost("version 3 does not open".into());
    world.mint.fail_next(lost);
    let mut loop_ = world.open().await;
    for _ in 0..5 {
        loop_.pass().await.expect("a pass");
        loop_.set_wish(world.wish());
        tokio::time::advance(MINUTE).await;
    }
    assert_eq!((creates(&world), world.mint.calls()), (0, 1));
    assert_eq!(state(&loop_, "web"), State::Refused);
    assert_eq!(standing(&loop_), ["SecretLost cache/web"]);
}

#[tokio::test(start_paused = true)]
async fn h22_a_wish_that_is_older_than_the_mint_does_not_undo_it() {
    let world = World::with(vec![Need::minted("web")]);
    let old = world.wish();
    let mut loop_ = world.open().await;
    loop_.pass().await.expect("a pass");
    loop_.set_wish(old);
    loop_.pass().await.expect("a pass");
    assert_eq!(state(&loop_, "web"), State::Held);
    assert_eq!(standing(&loop_), Vec::<String>::new());
    loop_.set_wish(world.wish());
    loop_.pass().await.expect("a pass");
    assert_eq!(
        (state(&loop_, "web"), world.mint.asked_again()),
        (State::Held, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn h25_a_pause_stops_writes_and_not_looks() {
    let world = World::many(5);
    let mut loop_ = world.settled().await;
    world.backend.drop_login("c1");
    world.backend.drop_login("c2");
    let until = world.clock.now() + 10 * MINUTE;
    let one = HashMap::from([(name("c1"), until)]);
    loop_.core_mut().set_pauses(None, &one);
    loop_.pass().await.expect("a pass");
    assert_eq!(state(&loop_, "c1"), State::Lost, "it was looked at");
    assert!(world.backend.login("c1").is_none());
    assert!(world.backend.login("c2").is_some());
    assert_eq!(standing(&loop_), ["Paused cache/c1"]);
    loop_.core_mut().set_pauses(Some(until), &HashMap::new());
    world.backend.forget();
    world.backend.forget_calls();
    tokio::time::advance(MINUTE).await;
    loop_.pass().await.expect("a pass");
    assert_eq!(
        (creates(&world), world.backend.calls(Call::HoldsAll)),
        (0, 1)
    );
    tokio::time::advance(11 * MINUTE).await;
    loop_.pass().await.expect("a pass");
    assert_eq!(world.backend.len(), 5, "a pause always has an end");
}

#[tokio::test(start_paused = true)]
async fn h25_a_login_that_is_switched_on_again_is_told() {
    let world = World::of(&["web"]);
    let mut loop_ = world.settled().await;
    world.backend.change("web", |login| {
        if let Some(login) = login {
            login.enabled = false;
        }
    });
    loop_.pass().await.expect("a pass");
    assert!(world.backend.login("web").expect("web").enabled);
    let lines = world.bus.lines();
    assert!(lines.iter().any(|l| l.value.contains("enabled = false")));
}

#[tokio::test(start_paused = true)]
async fn r6_who_leaves_is_switched_off_once_and_dropped_once() {
    let mut world = World::many(20).guarded();
    let mut loop_ = world.settled().await;
    world.needs.truncate(19);
    world.generation = 2;
    let mut steps = Vec::new();
    for _ in 0..(26 * 60) {
        loop_.set_wish(world.wish());
        loop_.pass().await.expect("a pass");
        steps.push((
            world.backend.calls(Call::Disable),
            world.backend.calls(Call::Remove),
        ));
        tokio::time::advance(MINUTE).await;
    }
    assert_eq!(steps[5], (0, 0), "it works on for a while");
    assert_eq!(steps[60], (1, 0));
    assert_eq!(steps[26 * 60 - 1], (1, 1));
    assert_eq!(world.backend.len(), 20, "with our own");
    // Its record says nothing any more, and its return is a new consumer's.
    let mut again = World {
        generation: 3,
        ..world
    };
    again.needs.push(Need::given("c19"));
    again.apply().await.expect("a pass");
    assert_eq!(again.backend.len(), 21);
}
