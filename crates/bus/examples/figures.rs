//! Measures the embedded store on this machine's disk: `cargo run --release -p mesh-bus --example figures [FOLDER]`.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::disallowed_methods)]

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mesh_bus::embedded::{EmbeddedBus, Settings};
use mesh_bus::mint;
use mesh_bus::vault::{KeySource, SealedVault};
use mesh_sdk::bus::{Bucket, Bus, Entry, Expect, Key, Put, Write};
use mesh_sdk::clock::Clock;
use mesh_sdk::name::{ConsumerName, ProviderName};
use mesh_sdk::scrub::Scrubber;
use mesh_sdk::secret::Secret;
use mesh_sdk::vault::Vault;

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
    scrub();
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
    vault(folder.path()).await;
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let digits = line.map(|line| {
        line.chars()
            .filter(char::is_ascii_digit)
            .collect::<String>()
    });
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

async fn vault(folder: &Path) {
    let vault = SealedVault::open(folder, &KeySource::Folder).expect("open");
    let cache = ProviderName::new("cache").expect("name");
    let name = |n: usize| ConsumerName::new(&format!("consumer-{n:06}")).expect("name");
    let one = |n| (name(n), mint::password(mint::os_random).expect("random"));
    let start = Instant::now();
    vault
        .keep_many(&cache, (0..100_000).map(one).collect())
        .await
        .expect("kept");
    tell("mint and keep_many of 100000 secrets", ms(start.elapsed()));
    let start = Instant::now();
    for n in 0..100 {
        let (name, secret) = one(n);
        vault.keep(&cache, &name, &secret).await.expect("kept");
    }
    tell("keep, one after the other, each", ms(start.elapsed() / 100));
    drop(vault);
    let start = Instant::now();
    let vault = SealedVault::open(folder, &KeySource::Folder).expect("open");
    let all = vault.open_many(&cache).await.expect("read");
    tell(
        &format!("open the vault and open_many of {}", all.len()),
        ms(start.elapsed()),
    );
    assert!(all.iter().all(|kept| kept.secret.is_ok()));
}

fn scrub() {
    let minted = || mint::password(mint::os_random).expect("random");
    let secrets: Vec<Secret> = (0..100_000).map(|_| minted()).collect();
    let scrubber = Scrubber::new();
    let before = resident();
    let start = Instant::now();
    let sample = String::from_utf8_lossy(secrets[77].expose()).into_owned();
    scrubber.add_all(secrets);
    tell(
        &format!("a scrubber learns {} secrets", scrubber.known()),
        ms(start.elapsed()),
    );
    tell(
        "its index, beside the secrets themselves",
        format!("{} KiB", resident().saturating_sub(before)),
    );
    let plain = "2026-11-30T10:00:00Z  INFO mesh::harness: pass done provider=cache asked=100000 \
                 answered=100000 unknown=0 lost=3 healed=3 ms=412 next=2026-11-30T10:01:00Z";
    let url = format!("error: redis://web:{sample}@127.0.0.1:6379/0 refused");
    for (what, text) in [("without a secret", plain), ("with one", &url)] {
        let start = Instant::now();
        for _ in 0..10_000 {
            std::hint::black_box(scrubber.scrub(std::hint::black_box(text)));
        }
        tell(
            &format!("scrub of a line of {} bytes {what}", text.len()),
            format!("{:.1} us", start.elapsed().as_secs_f64() * 1e6 / 10_000.0),
        );
    }
    let long = plain.repeat(6000);
    let start = Instant::now();
    std::hint::black_box(scrubber.scrub(&long));
    tell(
        &format!("scrub of {} bytes", long.len()),
        ms(start.elapsed()),
    );
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
