//! The pure core alone: how long 100,000 consumers take, healthy and lost.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use mesh_sdk::adapter::{Capabilities, Server};
use mesh_sdk::decide::{Core, SecretState, Settings, Step, Stored, Wanted, WholeWish};
use mesh_sdk::provision::Digest;
use mesh_sdk::{Answer, ConsumerName, Login, Proof, Time};

const CONSUMERS: usize = 100_000;

fn capabilities() -> Capabilities {
    let mut all = Capabilities::none();
    all.server = true;
    all.holds = true;
    all.holds_all = true;
    all.create_all = true;
    all.disable = true;
    all.list = true;
    all
}

fn wish() -> WholeWish {
    let wanted = |n: usize| {
        let name = format!("app-{n:06}");
        Wanted {
            consumer: ConsumerName::new(&name).unwrap(),
            login: Login::new(&name).unwrap(),
            digest: Digest::from_bytes((n as u128).to_be_bytes()),
            enabled: true,
            adopt: false,
            secret: SecretState::Ready,
        }
    };
    WholeWish {
        generation: 1,
        wanted: (0..CONSUMERS).map(wanted).collect(),
        kept: Vec::new(),
    }
}

/// A core, the time, and the number of the server's run.
struct World {
    core: Core,
    now: Time,
    run: u32,
}

impl World {
    fn new() -> Self {
        let now = Time::from_millis(1_000_000_000_000);
        let mut core = Core::new(Settings::default(), capabilities(), Stored::default(), now);
        core.set_wish(wish(), now);
        let mut world = Self { core, now, run: 0 };
        world.lost();
        world
    }

    fn begin(&mut self, restart: bool) -> Vec<usize> {
        self.now = self.now + Duration::from_secs(60);
        self.run += u32::from(restart);
        let mut server = Server::default();
        server.run = Some(self.run.to_string());
        self.core.server_seen(self.now, Ok(server));
        self.core.hint();
        self.core.begin(self.now).ask
    }

    fn healthy(&mut self) {
        let ask = self.begin(false);
        assert_eq!(ask.len(), CONSUMERS);
        for i in ask {
            self.core
                .answer(i, self.now, Ok(Answer::held(Proof::Verifier)));
        }
        assert!(self.core.steps(self.now).is_empty());
        let end = self.core.end(self.now);
        assert_eq!(black_box(end).summary.held, CONSUMERS);
        assert!(self.core.take_dirty().is_empty());
    }

    fn lost(&mut self) {
        for i in self.begin(true) {
            self.core.answer(i, self.now, Ok(Answer::absent()));
        }
        let steps = self.core.steps(self.now);
        assert_eq!(steps.len(), CONSUMERS);
        for (i, step) in &steps {
            assert!(matches!(step, Step::Create(_)));
            self.core.effect(*i, self.now, Ok(()));
        }
        for (i, _) in steps {
            self.core
                .looked_again(i, self.now, Ok(Answer::held(Proof::Login)));
        }
        black_box(self.core.end(self.now));
        assert_eq!(self.core.take_dirty().len(), CONSUMERS);
    }
}

fn core(c: &mut Criterion) {
    let mut world = World::new();
    // The first check after a heal writes that it was held; the ones after it write nothing.
    let settle = |world: &mut World| {
        for i in world.begin(false) {
            world
                .core
                .answer(i, world.now, Ok(Answer::held(Proof::Verifier)));
        }
        world.core.end(world.now);
        world.core.take_dirty();
    };
    settle(&mut world);
    let mut group = c.benchmark_group("100000");
    group.sample_size(20);
    group.bench_function("a healthy pass", |b| b.iter(|| world.healthy()));
    group.bench_function("all lost, applied, looked at again", |b| {
        b.iter(|| world.lost())
    });
    group.finish();
}

criterion_group!(benches, core);
criterion_main!(benches);
