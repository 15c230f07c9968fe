//! Measures the embedded store on this machine's disk: `cargo run --release -p mesh-bus --example figures [FOLDER]`.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mesh_bus::embedded::{EmbeddedBus, Settings};
use mesh_sdk::bus::{Bucket, Bus, Entry, Expect, Key, Put, Write};
use mesh_sdk::clock::Clock;

fn tell(what: &str, figure: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{what:<58} {figure}");
}
fn ms(span: Duration) -> String {
    format!("{:.2} ms", span.as_secs_f64() * 1e3)
}
fn middle(mut spans: Vec<Duration>) -> Duration {
    spans.sort();
    spans[spans.len() / 2]
}

fn raw_sync(folder: &Path) -> Duration {
    let mut file = File::create(folder.join("raw")).expect("file");
    let once = |_| {
        let start = Instant::now();
        file.write_all(&[7; 4096]).expect("write");
        file.sync_data().expect("sync");
        start.elapsed()
    };
    middle((0..50).map(once).collect())
}

fn write(n: usize, round: u8, expect: Expect) -> Write {
    Write {
        key: Key::of(&["cache", &format!("consumer-{n:06}")]),
        expect,
        value: vec![b'a' + round; 400],
    }
}

async fn bulk(bus: &EmbeddedBus, rows: usize) -> Duration {
    let mut expects = vec![Expect::Absent; rows];
    let mut spans = Vec::new();
    for round in 0..7 {
        let writes = (0..rows).map(|n| write(n, round, expects[n])).collect();
        let start = Instant::now();
        let puts = bus.put_each(Bucket::Record, writes).await.expect("put");
        spans.push(start.elapsed());
        for (n, put) in puts.iter().enumerate() {
            let Put::Done(rev) = put else {
                panic!("{put:?}")
            };
            expects[n] = Expect::At(*rev);
        }
    }
    tell(&format!("put_each of {rows} new rows"), ms(spans[0]));
    middle(spans.split_off(1))
}

async fn entries(bus: &EmbeddedBus) -> Vec<Entry> {
    let prefix = Key::everything();
    let start = Instant::now();
    let list = bus.list(Bucket::Record, &prefix).await.expect("list");
    tell(
        &format!("list of {} rows", list.entries.len()),
        ms(start.elapsed()),
    );
    list.entries
}

async fn singles(bus: &Arc<EmbeddedBus>, writers: usize, each: usize) -> f64 {
    let start = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|w| {
            let bus = Arc::clone(bus);
            tokio::spawn(async move {
                let mut expect = Expect::Absent;
                for _ in 0..each {
                    let write = Write {
                        key: Key::of(&["single", &format!("{writers}-{w}")]),
                        expect,
                        value: vec![b'x'; 400],
                    };
                    match bus.put_if(Bucket::Record, write).await.expect("put") {
                        Put::Done(rev) => expect = Expect::At(rev),
                        other => panic!("{other:?}"),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("task");
    }
    (writers * each) as f64 / start.elapsed().as_secs_f64()
}

async fn gets(bus: &EmbeddedBus) -> Duration {
    let start = Instant::now();
    for n in 0..1000 {
        let key = Key::of(&["cache", &format!("consumer-{n:06}")]);
        bus.get(Bucket::Record, &key).await.expect("get");
    }
    start.elapsed() / 1000
}

async fn history(bus: &EmbeddedBus) {
    let subject = |n: usize| Key::of(&["adv", "apply", "cache", &format!("consumer-{n:06}")]);
    let line = |n| {
        (
            subject(n),
            format!("{{\"n\":{n},\"text\":\"{}\"}}", "y".repeat(150)),
        )
    };
    let start = Instant::now();
    bus.append((0..10_000).map(line).collect())
        .await
        .expect("append");
    tell(
        "append of 10000 lines, each of its own subject",
        ms(start.elapsed()),
    );
    let start = Instant::now();
    let prefix = Key::of(&["adv", "apply", "cache"]);
    bus.history(&prefix, 0, 100).await.expect("history");
    tell(
        "history: newest 100 of 10000 under a prefix",
        ms(start.elapsed()),
    );
}

#[tokio::main]
async fn main() {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let base = given.unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::tempdir_in(base).expect("folder");
    tell(
        "raw write and fdatasync of 4 KiB, median of 50",
        ms(raw_sync(folder.path())),
    );
    let settings = Settings {
        installation: "figures".to_owned(),
        clock: Clock::system(),
    };
    let start = Instant::now();
    let bus = EmbeddedBus::open(folder.path(), &settings)
        .expect("open")
        .bus;
    tell("open, new", ms(start.elapsed()));
    let span = bulk(&bus, 10_000).await;
    tell("put_each of 10000 changed rows, median of 6", ms(span));
    let span = bulk_many(&bus).await;
    tell("100000 rows in ten put_each", ms(span));
    entries(&bus).await;
    entries(&bus).await;
    tell("get, one after the other, each", ms(gets(&bus).await));
    history(&bus).await;
    let bus = Arc::new(bus);
    for (writers, each) in [(1, 200), (16, 100), (64, 100)] {
        let rate = singles(&bus, writers, each).await;
        tell(
            &format!("put_if with {writers} writers"),
            format!("{rate:.0}/s"),
        );
    }
    drop(bus);
    let start = Instant::now();
    let bus = EmbeddedBus::open(folder.path(), &settings)
        .expect("open")
        .bus;
    tell("open, 100000 rows", ms(start.elapsed()));
    drop(bus);
}

async fn bulk_many(bus: &EmbeddedBus) -> Duration {
    let start = Instant::now();
    for part in 1..11 {
        let writes = (0..10_000).map(|n| write(part * 10_000 + n, 0, Expect::Absent));
        bus.put_each(Bucket::Record, writes.collect())
            .await
            .expect("put");
    }
    start.elapsed()
}
