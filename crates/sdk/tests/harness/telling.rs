//! What is told: no secret, no storm, nothing when all is well; and what an adapter's panic costs.

use std::sync::{Arc, Mutex};

use mesh_sdk::answer::{Difference, Held, Lost, MarkSeen, Proof};
use mesh_sdk::bus::{Bucket, Fault};
use mesh_sdk::decide::State;
use mesh_sdk::harness::MintFault;
use mesh_sdk::testing::{Act, Call};
use mesh_sdk::{Answer, Class, Error};
use tracing::field::{Field, Visit};
use tracing::{Level, Metadata, Subscriber, span};

use crate::support::{MINUTE, Need, World, slot, standing, states};

/// Keeps every log line.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Level, String)>>>);

impl Log {
    fn lines(&self, least: Level) -> Vec<String> {
        let all = self.0.lock().expect("log");
        let loud = all.iter().filter(|(level, _)| *level <= least);
        loud.map(|(_, line)| line.clone()).collect()
    }
}

struct Line(String);
impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        let level = *event.metadata().level();
        self.0.lock().expect("log").push((level, line.0));
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn h13_a_healthy_pass_logs_nothing_above_debug() {
    let world = World::many(50);
    let mut loop_ = world.settled().await;
    let log = Log::default();
    let guard = tracing::subscriber::set_default(log.clone());
    for _ in 0..10 {
        loop_.pass().await.expect("a pass");
        tokio::time::advance(MINUTE).await;
    }
    drop(guard);
    assert_eq!(log.lines(Level::INFO), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn h20_a_mass_loss_is_healed_at_once_and_told_once() {
    let world = World::many(10_000);
    let mut loop_ = world.settled().await;
    let log = Log::default();
    let before = world.bus.lines().len();
    let guard = tracing::subscriber::set_default(log.clone());
    world.backend.restart();
    let report = loop_.pass().await.expect("a pass");
    drop(guard);
    assert_eq!(
        (report.summary.lost, report.summary.applied),
        (10_000, 10_000)
    );
    assert_eq!(states(&loop_)[&State::Held], 10_000);
    assert_eq!(standing(&loop_), ["MassLoss cache"]);
    let lines = log.lines(Level::TRACE);
    assert!(lines.len() <= 3, "{lines:?}");
    assert!(
        lines
            .iter()
            .any(|l| l.contains("count=10000") && l.contains("absent")),
        "{lines:?}"
    );
    assert!(world.bus.lines().len() - before <= 3);
    assert_eq!(world.backend.calls(Call::CreateAll), 5, "in batches");
}

#[tokio::test(start_paused = true)]
async fn s2_every_text_that_comes_in_is_scrubbed() {
    let needs = (0..9).map(|i| Need::given(&format!("c{i}")));
    let mut needs: Vec<Need> = needs.collect();
    needs.push(Need::minted("m0"));
    needs.push(Need::minted("m1"));
    let world = World::with(needs).able(|caps| caps.create_all = false);
    let planted = |class| Act::Fail(Error::new(class, "the password is planted"));
    let log = Log::default();
    let guard = tracing::subscriber::set_default(log.clone());
    let mut loop_ = world.settled().await;
    world
        .backend
        .always(Call::Holds, "c0", planted(Class::Busy));
    let lost = |detail: &str| {
        Answer::Lost(Box::new(Lost {
            differences: Difference::Password.into(),
            detail: detail.into(),
            mark: MarkSeen::Ours,
            password_fits: false,
        }))
    };
    world
        .backend
        .always(Call::Holds, "c1", Act::Say(lost("planted is not the one")));
    let warning = Held {
        proof: Proof::Login,
        warning: Some("planted may do all".into()),
    };
    world
        .backend
        .always(Call::Holds, "c2", Act::Say(Answer::Held(warning)));
    world.backend.drop_login("c3");
    world
        .backend
        .always(Call::Create, "c3", planted(Class::Denied));
    world.backend.drop_login("c4");
    world
        .backend
        .always(Call::Create, "c4", planted(Class::RefusedValue));
    world.backend.drop_login("m0");
    world
        .mint
        .fail_next(MintFault::Lost("planted does not open".into()));
    world
        .mint
        .fail_next(MintFault::NotNow("planted is busy".into()));
    world.backend.set_server(|server| {
        if let Ok(server) = server {
            server.version = "Fake planted".into();
            server.forgets = Some("planted is kept in memory".into());
        }
    });
    for _ in 0..8 {
        drop(loop_.pass().await);
        tokio::time::advance(MINUTE).await;
    }
    world.backend.set_server(|server| {
        if let Ok(server) = server {
            server.read_only = Some("planted is the primary".into());
        }
    });
    drop(loop_.pass().await);
    let refused = Error::new(Class::Unreachable, "redis://:planted@host refused");
    world.backend.set_server(|server| *server = Err(refused));
    for _ in 0..8 {
        drop(loop_.pass().await);
        tokio::time::advance(MINUTE).await;
    }
    let unreachable = Fault::Unreachable("nats://planted@host".into());
    world.bus.set_full(Some(unreachable));
    let fault = loop_.pass().await.expect_err("told").to_string();
    world.bus.set_full(None);
    drop(guard);
    let mut all = vec![fault];
    for bucket in Bucket::ALL {
        all.extend(world.bus.values(bucket).iter().map(ToString::to_string));
    }
    all.extend(world.bus.lines().into_iter().map(|l| l.value));
    all.extend(log.lines(Level::TRACE));
    for kept in loop_.ledger().kept() {
        all.push(kept.condition.message.clone());
    }
    let told = all.iter().filter(|text| text.contains("***")).count();
    assert!(told > 15, "the texts came through: {told}");
    for text in all {
        assert!(!text.contains("planted"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn s2_a_panic_in_an_adapter_is_one_consumers_error() {
    for singly in [true, false] {
        let mut world = World::many(10);
        if singly {
            world = world.singly();
        }
        let mut loop_ = world.settled().await;
        world.backend.always(Call::Holds, "c1", Act::Panic);
        world.backend.drop_login("c2");
        world.backend.always(Call::Create, "c2", Act::Panic);
        world.backend.drop_login("c3");
        let report = loop_.pass().await.expect("a pass");
        assert_eq!(
            (report.summary.held, report.summary.unknown),
            (7, 1),
            "singly: {singly}"
        );
        assert_eq!((report.summary.applied, report.summary.failed), (1, 1));
        assert!(world.backend.login("c3").is_some());
        let record = &loop_.core().slots()[slot(&loop_, "c2")].record;
        let failed = record.failed.as_ref().expect("failed");
        assert_eq!(failed.to_string(), "bug: the adapter panicked in create");
    }
}

#[tokio::test(start_paused = true)]
async fn s2_a_panic_in_any_call_leaves_the_loop_alive() {
    for call in [Call::Server, Call::HoldsAll, Call::CreateAll, Call::List] {
        let mut world = World::many(30);
        let mut loop_ = world.settled().await;
        world.backend.once(call, "", Act::Panic);
        world.needs.truncate(29);
        world.generation = 2;
        loop_.set_wish(world.wish());
        world.backend.drop_login("c1");
        world.backend.drop_login("c2");
        for _ in 0..2 {
            loop_.pass().await.expect("a pass");
            tokio::time::advance(MINUTE).await;
        }
        assert_eq!(states(&loop_)[&State::Held], 29, "{call:?}");
    }
}
