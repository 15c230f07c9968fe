//! How long a big manifest takes to read and check: 100,000 consumers, in order and with mistakes.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use meshkeeper::manifest::{Kinds, parse};

#[allow(dead_code)]
#[path = "../tests/it/kind.rs"]
mod kind;

const CONSUMERS: usize = 100_000;

fn text(mistakes: bool) -> String {
    let mut text = String::from(
        "[mesh]\nid = \"home\"\n[provider.store]\nkind = \"shelf\"\nurl = \"shelf://127.0.0.1\"\n",
    );
    for n in 0..CONSUMERS {
        let key = if mistakes && n % 10 == 0 {
            "bords"
        } else {
            "boards"
        };
        writeln!(
            text,
            "\n[consumer.app-{n}.needs.store]\n{key} = [\"app-{n}:*\", \"shared:*\"]\naccess = \"put\"\npassword = {{ file = \"secrets/app-{n}\" }}"
        )
        .unwrap();
    }
    text
}

fn big(c: &mut Criterion) {
    let kinds = Kinds::new(kind::catalogue());
    let mut group = c.benchmark_group("100,000 consumers");
    group.sample_size(10);
    let (good, bad) = (text(false), text(true));
    let read = |text: String| {
        let reading = parse(Path::new("mesh.toml"), text, &kinds);
        assert!(reading.manifest.is_some());
        reading
    };
    group.bench_function("in order", |b| {
        b.iter_batched(
            || good.clone(),
            |text| black_box(read(text)),
            BatchSize::LargeInput,
        );
    });
    group.bench_function("every tenth misspelt, all told", |b| {
        let told = |text: String| {
            let problems = read(text).problems;
            assert_eq!(problems.errors(), CONSUMERS / 10);
            let texts = problems
                .list()
                .iter()
                .map(|problem| problems.render(problem, false).len());
            texts.sum::<usize>()
        };
        b.iter_batched(
            || bad.clone(),
            |text| black_box(told(text)),
            BatchSize::LargeInput,
        );
    });
    group.bench_function("the form alone (toml crate)", |b| {
        b.iter(|| black_box(toml::de::DeTable::parse(&good).unwrap()));
    });
    group.finish();
}

criterion_group!(benches, big);
criterion_main!(benches);
