//! What the bus costs for each consumer, embedded and on one and three NATS servers of its own, as lines of
//! four fields that `cargo xtask bench --only bus` makes a table of:
//! `cargo run --release -p mesh-bus --example scale [ENTRIES]`.
#![allow(clippy::expect_used, clippy::disallowed_methods)]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use mesh_bus::embedded::{EmbeddedBus, Settings};
use mesh_bus::jetstream::{Layout, Link, Server, bootstrap};
use mesh_bus::{JetstreamBus, mint};
use mesh_conformance::servers::{JetCluster, JetOptions};
use mesh_sdk::bus::{Bucket, Bus, Expect, Key, Put, Write};
use mesh_sdk::clock::Clock;

/// Values as the program writes them for a consumer in good health, and for one in trouble.
const VALUES: [(Bucket, &str, &str); 4] = [
    (
        Bucket::Wish,
        "wish",
        r#"{"consumer":"consumer-0000000","provider":"cache","login":"consumer-0000000","standing":"wanted","digest":"00000000000000000000000000000000","enabled":true,"adopt":false,"data":[]}"#,
    ),
    (
        Bucket::Record,
        "record",
        r#"{"login":"consumer-0000000","applied":"00000000000000000000000000000000","intent":"00000000000000000000000000000000","applied_at":"2026-11-30T10:00:00.000Z","last":{"held":{"at":"2026-11-30T10:00:00.000Z","proof":"exact"}},"run":1}"#,
    ),
    (
        Bucket::Version,
        "version with its sealed copy",
        r#"{"id":"00000000000000000000000000000000","fingerprint":"00000000000000000000000000000000","copy":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}"#,
    ),
    (
        Bucket::Condition,
        "condition",
        r#"{"id":{"kind":"backend_lost_it","owner":"provisioner/cache","subject":"consumer-0000000"},"status":"true","severity":"warning","reason":"missing","message":"the login is not there; it was made again at 10:00:00 and is looked at on the next pass","action":"nothing to do now; `mesh status consumer-0000000` says more","since":"2026-11-30T10:00:00.000Z","last_seen":"2026-11-30T10:00:00.000Z","observed_generation":1,"count":1,"flapping":false}"#,
    ),
];
/// Writes of one batch, as a pass makes them.
const BATCH: usize = 1000;

struct Told<'t>(&'t str);

impl Told<'_> {
    fn line(&self, what: &str, figure: String, how: &str) {
        let on = self.0;
        let _ = writeln!(std::io::stdout(), "{what}\t{on}\t{figure}\t{how}");
    }
    fn rate(&self, what: &str, count: usize, span: Duration, how: &str) {
        let count = u32::try_from(count).map_or(f64::MAX, f64::from);
        let rate = count / span.as_secs_f64().max(1e-9);
        self.line(what, format!("{rate:.0}/s"), how);
    }
}

fn write(n: usize, value: &str) -> Write {
    let name = format!("consumer-{n:07}");
    Write {
        key: Key::of(&["cache", &name]),
        expect: Expect::Absent,
        value: value.replace("consumer-0000000", &name).into_bytes(),
    }
}

async fn put_all(bus: &dyn Bus, bucket: Bucket, value: &str, entries: usize) -> Duration {
    let start = Instant::now();
    for first in (0..entries).step_by(BATCH) {
        let batch = (first..entries.min(first + BATCH)).map(|n| write(n, value));
        let puts = bus.put_each(bucket, batch.collect()).await.expect("put");
        assert!(puts.iter().all(|put| matches!(put, Put::Done(_))));
    }
    start.elapsed()
}

async fn measure(told: &Told<'_>, bus: &dyn Bus, entries: usize, size: &dyn Fn() -> u64) {
    let start = Instant::now();
    let singles = 300;
    for n in 0..singles {
        let put = bus.put_if(Bucket::Word, write(n, VALUES[1].2)).await;
        assert!(matches!(put, Ok(Put::Done(_))), "{put:?}");
    }
    told.rate(
        "writes, one after the other",
        singles,
        start.elapsed(),
        "one writer, each synced",
    );
    for (bucket, name, value) in VALUES {
        let before = size();
        let span = put_all(bus, bucket, value, entries).await;
        let each = size().saturating_sub(before) / entries.max(1) as u64;
        let how = format!("{entries} new ones, {BATCH} in a batch");
        if bucket == Bucket::Record {
            told.rate("records, in batches", entries, span, &how);
        }
        let what = format!("one {name} of {} bytes, on the disk", value.len());
        told.line(&what, format!("{each} bytes"), &how);
    }
    let start = Instant::now();
    let list = bus.list(Bucket::Record, &Key::everything()).await;
    assert_eq!(list.expect("list").entries.len(), entries);
    let millis = start.elapsed().as_millis();
    told.line(
        &format!("a whole list of {entries}"),
        format!("{millis} ms"),
        "every record",
    );
    let start = Instant::now();
    for n in 0..singles {
        let got = bus.get(Bucket::Word, &write(n, "").key).await;
        assert!(got.expect("get").is_some());
    }
    told.rate(
        "reads, one after the other",
        singles,
        start.elapsed(),
        "one reader",
    );
}

/// Bytes of all files below.
fn bytes(folder: &Path) -> u64 {
    let mut sum = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let meta = entry.metadata().ok();
        sum += match meta {
            Some(meta) if meta.is_dir() => bytes(&entry.path()),
            Some(meta) => meta.len(),
            None => 0,
        };
    }
    sum
}

/// KiB of memory of this process's children.
fn children() -> u64 {
    let own = format!("PPid:\t{}", std::process::id());
    let mut sum = 0;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        if status.lines().any(|line| line == own) {
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            sum += number.unwrap_or(0);
        }
    }
    sum
}

async fn embedded(entries: usize) {
    let folder = tempfile::tempdir().expect("folder");
    let settings = Settings {
        installation: "scale".to_owned(),
        clock: Clock::system(),
    };
    let bus = EmbeddedBus::open(folder.path(), &settings)
        .expect("open")
        .bus;
    let told = Told("embedded");
    measure(&told, &bus, entries, &|| bytes(folder.path())).await;
    let vault = tempfile::tempdir().expect("folder");
    seal(&told, vault.path(), entries).await;
}

async fn seal(told: &Told<'_>, folder: &Path, entries: usize) {
    use mesh_bus::vault::{KeySource, SealedVault};
    use mesh_sdk::name::{ConsumerName, ProviderName};
    let vault = SealedVault::open(folder, &KeySource::Folder).expect("open");
    let cache = ProviderName::new("cache").expect("name");
    let one = |n: usize| {
        let name = ConsumerName::new(&format!("consumer-{n:07}")).expect("name");
        (name, mint::password(mint::os_random).expect("random"))
    };
    let before = bytes(folder);
    let start = Instant::now();
    for first in (0..entries).step_by(BATCH) {
        let batch = (first..entries.min(first + BATCH)).map(one);
        vault
            .keep_many(&cache, batch.collect())
            .await
            .expect("kept");
    }
    let how = format!("{entries} new ones, {BATCH} in a batch");
    told.rate(
        "passwords made and sealed, in batches",
        entries,
        start.elapsed(),
        &how,
    );
    let each = bytes(folder).saturating_sub(before) / entries.max(1) as u64;
    told.line(
        "one sealed password, on the disk",
        format!("{each} bytes"),
        &how,
    );
}

async fn jetstream(servers: usize, entries: usize) {
    let options = JetOptions {
        servers,
        ..JetOptions::default()
    };
    let cluster = JetCluster::start(options).await.expect("servers");
    let server = |port: u16| Server {
        host: "127.0.0.1".to_owned(),
        port,
        tls: false,
    };
    let link = Link {
        servers: cluster.ports().into_iter().map(server).collect(),
        ..Link::default()
    };
    let folder = tempfile::tempdir().expect("folder");
    let layout = Layout {
        replicas: u8::try_from(servers).expect("few"),
        max_bytes: None,
    };
    let clock = Clock::system();
    let made = bootstrap(&link, "scale", folder.path(), "i", &layout, clock).await;
    made.expect("bootstrap");
    let opened = JetstreamBus::open(&link, "scale", folder.path()).await;
    let bus = opened.expect("open").bus;
    let name = match servers {
        1 => "NATS, one server".to_owned(),
        more => format!("NATS, {more} servers on this machine"),
    };
    let told = Told(&name);
    let before = children();
    measure(&told, &bus, entries, &|| bytes(&cluster.store(0))).await;
    let kept = entries * VALUES.len();
    let grown = children().saturating_sub(before) / servers as u64;
    let what = "a server's memory, grown";
    told.line(
        what,
        format!("{} MiB", grown / 1024),
        &format!("each, by {kept} values"),
    );
}

#[tokio::main]
async fn main() {
    let entries = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let entries = entries.unwrap_or(100_000);
    embedded(entries).await;
    jetstream(1, entries).await;
    jetstream(3, entries).await;
}
