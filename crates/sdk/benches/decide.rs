//! How many consumers the core decides for in a second: a healthy pass over 100,000, and one on which
//! all were lost.
#![expect(
    clippy::expect_used,
    reason = "a benchmark, like a test, may fail loudly"
)]

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mesh_sdk::adapter::Capabilities;
use mesh_sdk::decide::{Core, SecretState, Settings, Step, Stored, Wanted, WholeWish};
use mesh_sdk::provision::Digest;
use mesh_sdk::{Answer, ConsumerName, Login, Proof, Time};

const MINUTE: Duration = Duration::from_secs(60);

fn core(count: usize) -> (Core, WholeWish, Time) {
    let mut caps = Capabilities::none();
    caps.holds = true;
    caps.holds_all = true;
    caps.disable = true;
    caps.list = true;
    let now = Time::from_millis(1_700_000_000_000);
    let wanted = (0..count).map(|i| {
        let name = format!("consumer-{i}");
        let mut digest = [0; 16];
        digest[..8].copy_from_slice(&i.to_be_bytes());
        Wanted {
            consumer: ConsumerName::new(&name).expect("a name"),
            login: Login::new(&name).expect("a login"),
            digest: Digest::from_bytes(digest),
            enabled: true,
            adopt: false,
            secret: SecretState::Ready,
        }
    });
    let wish = WholeWish {
        generation: 1,
        wanted: wanted.collect(),
        kept: Vec::new(),
        ..WholeWish::default()
    };
    let mut core = Core::new(Settings::default(), caps, Stored::default(), now);
    core.set_wish(wish.clone(), now);
    (core, wish, now)
}

/// One pass on which everyone gets this answer; how many steps came of it.
fn pass(core: &mut Core, now: Time, answer: &Answer) -> usize {
    let plan = core.begin(now);
    for i in plan.ask {
        core.answer(i, now, Ok(answer.clone()));
    }
    let steps = core.steps(now);
    for (i, step) in &steps {
        if matches!(step, Step::Create(_)) {
            core.effect(*i, now, Ok(()));
            core.looked_again(*i, now, Ok(Answer::held(Proof::Verifier)));
        }
    }
    core.end(now);
    core.take_dirty();
    steps.len()
}

fn healthy(c: &mut Criterion) {
    let mut group = c.benchmark_group("healthy pass");
    for count in [1_000, 100_000] {
        let (mut core, _, mut now) = core(count);
        let held = Answer::held(Proof::Verifier);
        pass(&mut core, now, &held);
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(BenchmarkId::from_parameter(count), |b| {
            b.iter(|| {
                now = now + MINUTE;
                assert_eq!(pass(&mut core, now, &held), 0);
            });
        });
    }
    group.finish();
}

fn all_lost(c: &mut Criterion) {
    let mut group = c.benchmark_group("pass on which all were lost");
    let count = 100_000;
    group.throughput(Throughput::Elements(count as u64));
    group.sample_size(10);
    group.bench_function(BenchmarkId::from_parameter(count), |b| {
        b.iter_batched_ref(
            || {
                let (mut core, _, now) = core(count);
                pass(&mut core, now, &Answer::held(Proof::Verifier));
                (core, now + MINUTE)
            },
            |(core, now)| assert_eq!(pass(core, *now, &Answer::absent()), count),
            criterion::BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn same_wish(c: &mut Criterion) {
    let mut group = c.benchmark_group("the same wish again");
    let count = 100_000;
    let (mut core, wish, now) = core(count);
    group.throughput(Throughput::Elements(count as u64));
    group.bench_function(BenchmarkId::from_parameter(count), |b| {
        b.iter_batched(
            || wish.clone(),
            |wish| core.set_wish(wish, now),
            criterion::BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, healthy, all_lost, same_wish);
criterion_main!(benches);
