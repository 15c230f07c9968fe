//! What the driver and the core cost by themselves: a healthy pass over 100,000 consumers, and the heal of
//! 10,000. Beside each stands the raw cost of the doubles that it runs on, to be taken off, and that of the
//! core alone.
//!
//! What is measured is the time that this thread had a processor, where the system tells it (Linux), so
//! that the figures hold on a machine that is busy with other things; else the time that passed.

#![allow(missing_docs, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use mesh_sdk::adapter::{Cx, Sink};
use mesh_sdk::bus::{Bucket, Bus, Expect, Key, Write};
use mesh_sdk::clock::Clock;
use mesh_sdk::decide::{Core, SecretState, Settings, Wanted, WholeWish};
use mesh_sdk::handle::{AdapterHandle, Asked};
use mesh_sdk::harness::{Limits, Parts, ProviderWish, Provisioner};
use mesh_sdk::provision::WishParts;
use mesh_sdk::testing::{FakeBackend, FakeMint, FakeValues, MemoryBus, Trace};
use mesh_sdk::{
    Answer, ConsumerName, Login, Marker, MeshId, Proof, ProviderName, Secret, Time, Wish,
};
use tokio::runtime::{Builder, Runtime};

/// What the work cost, over and over; `setup` is not counted.
fn spent(times: u64, mut setup: impl FnMut(), mut work: impl FnMut()) -> Duration {
    let mut spent = Duration::ZERO;
    for _ in 0..times {
        setup();
        let (cpu, wall) = (on_cpu(), tokio::time::Instant::now());
        work();
        spent += match (cpu, on_cpu()) {
            (Some(before), Some(after)) => after - before,
            _ => wall.elapsed(),
        };
    }
    spent
}

fn on_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

fn wish_of(name: &ConsumerName) -> Wish {
    let parts = WishParts {
        consumer: name.clone(),
        login: Login::from(name),
        password: Some(Secret::from(format!("password-of-{name}"))),
        values: Arc::new(FakeValues::default()),
        canonical_values: Vec::new(),
        enabled: true,
        adopt: false,
        exact: false,
        second: None,
        base: None,
        generated: false,
    };
    Wish::new(parts, &Secret::from("key"))
}

fn wish(n: usize) -> ProviderWish {
    let mut all = ProviderWish {
        whole: WholeWish {
            generation: 1,
            ..WholeWish::default()
        },
        ..ProviderWish::default()
    };
    for i in 0..n {
        let name = ConsumerName::new(&format!("consumer-{i}")).expect("name");
        let one = wish_of(&name);
        all.whole.wanted.push(Wanted {
            consumer: name.clone(),
            login: one.login().clone(),
            digest: one.digest(),
            enabled: true,
            adopt: false,
            secret: SecretState::Ready,
        });
        all.wishes.insert(name, Arc::new(one));
    }
    all
}

struct World {
    runtime: Runtime,
    backend: FakeBackend,
    bus: MemoryBus,
    marker: Marker,
    wish: ProviderWish,
    loop_: Provisioner,
}

/// A loop over `n` consumers that are all held.
fn settled(n: usize) -> World {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let (backend, bus) = (
        FakeBackend::new(Trace::default()),
        MemoryBus::new(Trace::default()),
    );
    let provider = ProviderName::new("cache").expect("name");
    let mesh = MeshId::new("home").expect("name");
    let marker = Marker::new(mesh, "i1", provider.clone(), Secret::from("key"));
    let wish = wish(n);
    let parts = |marker: Marker| Parts {
        provider,
        node: None,
        adapter: Arc::new(backend.clone()),
        marker,
        settings: Settings::default(),
        limits: Limits::default(),
        bus: Arc::new(bus.clone()),
        mint: Arc::new(FakeMint::new(Trace::default(), |name, _| wish_of(name))),
        clock: Clock::starting_at(Time::from_millis(1_700_000_000_000)),
        scrub: Arc::new(str::to_owned),
        observers: Vec::new(),
        stop: Default::default(),
    };
    let opened = Provisioner::open(parts(marker.clone()));
    let mut loop_ = runtime.block_on(opened).expect("opens");
    loop_.set_wish(wish.clone());
    for _ in 0..3 {
        loop_.core_mut().hint();
        runtime.block_on(loop_.pass()).expect("a pass");
    }
    World {
        runtime,
        backend,
        bus,
        marker,
        wish,
        loop_,
    }
}

impl World {
    fn pass(&mut self) -> usize {
        self.loop_.core_mut().hint();
        let report = self.runtime.block_on(self.loop_.pass()).expect("a pass");
        report.summary.held + report.summary.applied
    }
    fn asked(&self) -> Vec<Asked<'_>> {
        let wanted = self.wish.whole.wanted.iter();
        let wish = |w: &Wanted| Asked {
            wish: &self.wish.wishes[&w.consumer],
            adopted: false,
        };
        wanted.map(wish).collect()
    }
    /// The double's own bulk look.
    fn raw_look(&self, asked: &[Asked<'_>]) {
        let adapter: AdapterHandle = Arc::new(self.backend.clone());
        let (cx, sink) = (Cx::default(), Sink::new(asked.len()));
        let call = adapter.holds_all(&cx, &self.marker, asked, &sink);
        self.runtime.block_on(call).expect("asked");
        assert_eq!(sink.take().len(), asked.len());
    }
    fn raw_create(&self, asked: &[Asked<'_>]) {
        let adapter: AdapterHandle = Arc::new(self.backend.clone());
        let (cx, sink) = (Cx::default(), Sink::new(asked.len()));
        let call = adapter.create_all(&cx, &self.marker, asked, &sink);
        self.runtime.block_on(call).expect("created");
    }
}

fn healthy(c: &mut Criterion) {
    let mut group = c.benchmark_group("healthy_100000");
    group.sample_size(10);
    let mut world = settled(100_000);
    let asked = world.asked();
    group.bench_function("double_alone", |b| {
        b.iter_custom(|times| spent(times, || (), || world.raw_look(&asked)));
    });
    drop(asked);
    group.bench_function("core_alone", |b| {
        b.iter_custom(|times| spent(times, || (), || core_alone(world.loop_.core_mut())));
    });
    group.bench_function("pass", |b| {
        b.iter_custom(|times| spent(times, || (), || assert_eq!(world.pass(), 100_000)));
    });
    group.finish();
}

/// A healthy pass without driver, adapter and bus.
fn core_alone(core: &mut Core) {
    let now = Time::from_millis(1_700_000_500_000);
    core.hint();
    let plan = core.begin(now);
    for i in plan.ask {
        core.answer(i, now, Ok(Answer::held(Proof::Verifier)));
    }
    assert_eq!(core.steps(now), []);
    let end = core.end(now);
    assert_eq!((end.summary.held, core.take_dirty().len()), (100_000, 0));
}

fn heal(c: &mut Criterion) {
    let mut group = c.benchmark_group("heal_10000");
    group.sample_size(10);
    let mut world = settled(10_000);
    let asked = world.asked();
    let records: Vec<Write> = world.bus_writes();
    let bus = MemoryBus::default();
    group.bench_function("doubles_alone", |b| {
        let setup = || {
            world.backend.restart();
            bus.wipe();
        };
        let work = || {
            world.raw_look(&asked);
            for batch in asked.chunks(2_000) {
                world.raw_create(batch);
                world.raw_look(batch);
            }
            let put = bus.put_each(Bucket::Record, records.clone());
            world.runtime.block_on(put).expect("written");
        };
        b.iter_custom(|times| spent(times, setup, work));
    });
    drop(asked);
    group.bench_function("pass", |b| {
        let backend = world.backend.clone();
        let setup = || backend.restart();
        b.iter_custom(|times| spent(times, setup, || assert_eq!(world.pass(), 10_000)));
    });
    group.finish();
}

impl World {
    /// As many bytes as the pass writes.
    fn bus_writes(&self) -> Vec<Write> {
        let values = self.bus.values(Bucket::Record).into_iter();
        let write = |(i, value): (usize, serde_json::Value)| Write {
            key: Key::of(&["cache", &format!("consumer-{i}")]),
            expect: Expect::Absent,
            value: value.to_string().into_bytes(),
        };
        values.enumerate().map(write).collect()
    }
}

criterion_group!(benches, healthy, heal);
criterion_main!(benches);
