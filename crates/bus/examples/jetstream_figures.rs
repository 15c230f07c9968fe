//! Measures the bus on NATS servers of its own, one and three on this machine:
//! `cargo run --release -p mesh-bus --example jetstream_figures [ENTRIES]`.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::disallowed_methods)]

use std::io::Write as _;
use std::time::{Duration, Instant};

use mesh_bus::JetstreamBus;
use mesh_bus::jetstream::{Layout, Link, Server, bootstrap};
use mesh_conformance::servers::{JetCluster, JetOptions};
use mesh_sdk::bus::{Bucket, Bus, Expect, Key, Put, Write};
use mesh_sdk::clock::Clock;

fn tell(what: &str, figure: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{what:<48} {figure}");
}
fn rate(count: usize, span: Duration) -> String {
    let count = u32::try_from(count).map_or(f64::MAX, f64::from);
    let per_second = count / span.as_secs_f64();
    format!("{per_second:.0}/s ({:.0} ms)", span.as_secs_f64() * 1e3)
}

fn write(n: usize) -> Write {
    Write {
        key: Key::of(&["cache", &format!("consumer-{n:06}")]),
        expect: Expect::Absent,
        value: vec![b'a'; 400],
    }
}

async fn measure(servers: usize, entries: usize) {
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
    let made = bootstrap(
        &link,
        "figures",
        folder.path(),
        "i",
        &layout,
        Clock::system(),
    );
    made.await.expect("bootstrap");
    let opened = JetstreamBus::open(&link, "figures", folder.path()).await;
    let bus = opened.expect("open").bus;
    tell("servers", servers);
    let start = Instant::now();
    for n in 0..500 {
        let put = bus.put_if(Bucket::Version, write(n)).await;
        assert!(matches!(put, Ok(Put::Done(_))), "{put:?}");
    }
    tell("one write after the other", rate(500, start.elapsed()));
    let start = Instant::now();
    let writes = (0..entries).map(write).collect();
    let puts = bus.put_each(Bucket::Record, writes).await.expect("put");
    assert!(puts.iter().all(|put| matches!(put, Put::Done(_))));
    tell("writes together", rate(entries, start.elapsed()));
    let start = Instant::now();
    for n in 0..1000 {
        let got = bus.get(Bucket::Version, &write(n % 500).key).await;
        assert!(got.expect("get").is_some());
    }
    tell("one read after the other", rate(1000, start.elapsed()));
    let start = Instant::now();
    let list = bus.list(Bucket::Record, &Key::everything()).await;
    assert_eq!(list.expect("list").entries.len(), entries);
    tell("a whole list", rate(entries, start.elapsed()));
}

#[tokio::main]
async fn main() {
    let entries = std::env::args().nth(1).and_then(|n| n.parse().ok());
    for servers in [1, 3] {
        measure(servers, entries.unwrap_or(100_000)).await;
    }
}
