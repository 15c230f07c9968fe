//! The Redis adapter beside the raw protocol, on a real server in the same run.
//!
//! `cargo bench -p mesh-catalog --bench redis -- [redis7|redis62|valkey9] [consumers] [rules…]`
#![allow(clippy::print_stdout, reason = "a bench tells its figures")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a bench may end with a panic"
)]

use std::time::Duration;

use mesh_catalog::redis::RedisKind;
use mesh_conformance::servers::{Flavor, Options, RedisServer, encode};
use mesh_sdk::adapter::{ProviderSettings, Sink};
use mesh_sdk::handle::{AdapterHandle, AnyKind, Asked};
use mesh_sdk::provision::WishParts;
use mesh_sdk::{Answer, ConsumerName, Cx, Login, Marker, MeshId, ProviderName, Secret, Wish};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // `cargo bench` adds `--bench`.
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let flavor = match args.next().as_deref() {
        Some("redis62") => Flavor::Redis62,
        Some("valkey9") => Flavor::Valkey9,
        _ => Flavor::Redis7,
    };
    let count = args.next().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let mut rules: Vec<String> = args.collect();
    if rules.is_empty() {
        rules = ["+@read", "+@write", "-@dangerous"]
            .map(str::to_owned)
            .into();
    }
    runtime.block_on(run(flavor, count, &rules));
}

async fn run(flavor: Flavor, count: usize, rules: &[String]) {
    let config = vec![("slowlog-log-slower-than".to_owned(), "50000".to_owned())];
    let options = Options {
        config,
        ..Options::default()
    };
    let mut server = RedisServer::start(flavor, options).await.expect("a server");
    println!("{} {count} consumers, {}", flavor.name(), rules.join(" "));

    let provider = ProviderName::new("cache").expect("a name");
    let settings = ProviderSettings::new(provider.clone(), "redis", "127.0.0.1", server.port());
    let mesh = MeshId::new("bench").expect("a name");
    let marker = Marker::new(mesh, "i1", provider, Secret::from("key"));
    let adapter = AnyKind::open(&RedisKind, settings).expect("an adapter");
    let wishes = wishes(count, rules);
    let asked: Vec<Asked<'_>> = wishes
        .iter()
        .map(|wish| Asked {
            wish,
            adopted: false,
        })
        .collect();
    println!("  memory with the wishes, and its peak: {}", memory());

    let (mut raw, mut took) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        server.restart().await.expect("a restart");
        raw.push(raw_creates(server.port(), flavor, &wishes, &marker, rules).await);
        server.restart().await.expect("a restart");
        let sink = Sink::new(count);
        let start = Instant::now();
        let cx = Cx::default();
        let call = adapter.create_all(&cx, &marker, &asked, &sink);
        call.await.expect("create_all");
        took.push(start.elapsed());
        assert!(sink.take().into_iter().all(|one| one == Some(Ok(()))));
    }
    pair(
        "raw pipelined ACL SETUSER",
        &mut raw,
        "create_all",
        &mut took,
    );

    let after = Cx::new(Duration::from_millis(50), true);
    let mut looks = [look(&adapter, &after, &marker, &asked).await];
    line("look after the effect", &mut looks);
    let cx = Cx::default();
    line(
        "first look",
        &mut [look(&adapter, &cx, &marker, &asked).await],
    );
    let (mut raw, mut took) = (Vec::new(), Vec::new());
    for _ in 0..3 * ROUNDS {
        took.push(look(&adapter, &cx, &marker, &asked).await);
    }
    let slow = server
        .slow(Duration::from_millis(50))
        .await
        .expect("slow log");
    println!("  commands of ours over 50 ms: {slow:?}");
    raw_list(server.port()).await;
    for _ in 0..3 * ROUNDS {
        raw.push(raw_list(server.port()).await);
        took.push(look(&adapter, &cx, &marker, &asked).await);
    }
    pair("raw ACL LIST, again", &mut raw, "healthy look", &mut took);
    println!("  memory, and its peak: {}", memory());
}

/// Raw and ours in turn, so many times; the best of each counts, since other work only ever adds.
const ROUNDS: usize = 3;

fn pair(raw: &str, raws: &mut [Duration], ours: &str, all: &mut [Duration]) {
    line(raw, raws);
    line(ours, all);
    println!(
        "  {ours} / {raw}: {:.2}",
        all[0].as_secs_f64() / raws[0].as_secs_f64()
    );
}

fn wishes(count: usize, rules: &[String]) -> Vec<Wish> {
    let key = Secret::from("key");
    let wish = |n: usize| {
        let consumer = ConsumerName::new(&format!("app-{n:06}")).expect("a name");
        let values = serde_json::json!({ "keys": [format!("app{n}:*")], "commands": rules });
        let parsed = RedisKind.parse_values(values).expect("values");
        let parts = WishParts {
            login: Login::from(&consumer),
            password: Some(Secret::from(format!("password-of-{consumer}"))),
            consumer,
            values: parsed.values,
            canonical_values: parsed.canonical,
            enabled: true,
            adopt: false,
            exact: false,
            second: None,
            base: None,
            generated: false,
        };
        Wish::new(parts, &key)
    };
    (0..count).map(wish).collect()
}

async fn look(adapter: &AdapterHandle, cx: &Cx, marker: &Marker, asked: &[Asked<'_>]) -> Duration {
    let sink = Sink::new(asked.len());
    let start = Instant::now();
    adapter
        .holds_all(cx, marker, asked, &sink)
        .await
        .expect("holds_all");
    let took = start.elapsed();
    let held = |one: &_| matches!(one, Some(Ok(Answer::Held(_))));
    assert!(sink.take().iter().all(held), "not all are held");
    took
}

async fn raw_creates(
    port: u16,
    flavor: Flavor,
    wishes: &[Wish],
    marker: &Marker,
    rules: &[String],
) -> Duration {
    let command = |(n, wish): (usize, &Wish)| {
        let password = wish.password().expect("a password").expose();
        let hash: String = Sha256::digest(password)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let mark = marker.mark(wish.consumer());
        let mark = match flavor.has_selectors() {
            true => format!("(resetchannels ~{mark})"),
            false => format!("~{mark}"),
        };
        let mut args = vec![
            "ACL".to_owned(),
            "SETUSER".into(),
            wish.login().to_string(),
            "reset".into(),
        ];
        args.extend([
            format!("#{hash}"),
            format!("~app{n}:*"),
            "resetchannels".into(),
        ]);
        args.extend(rules.iter().cloned());
        args.extend([mark, "on".into()]);
        let args: Vec<&[u8]> = args.iter().map(|a| a.as_bytes()).collect();
        encode(&args)
    };
    let bytes: Vec<u8> = wishes.iter().enumerate().flat_map(command).collect();
    let socket = TcpStream::connect(("127.0.0.1", port))
        .await
        .expect("connect");
    socket.set_nodelay(true).expect("nodelay");
    let (mut read, mut write) = socket.into_split();
    let start = Instant::now();
    let sending = tokio::spawn(async move {
        write.write_all(&bytes).await.expect("send");
        write
    });
    let mut left = wishes.len() * 5;
    let mut buffer = vec![0; 64 * 1024];
    while left > 0 {
        let got = read.read(&mut buffer).await.expect("read");
        assert!(got > 0 && !buffer[..got].contains(&b'-'), "refused");
        left -= got;
    }
    let took = start.elapsed();
    drop(sending.await);
    took
}

async fn raw_list(port: u16) -> Duration {
    let mut socket = TcpStream::connect(("127.0.0.1", port))
        .await
        .expect("connect");
    let start = Instant::now();
    socket
        .write_all(&encode(&[b"ACL", b"LIST"]))
        .await
        .expect("send");
    let mut buffer = vec![0; 256 * 1024];
    let mut wanted = None;
    let mut lines = 0;
    loop {
        let got = socket.read(&mut buffer).await.expect("read");
        lines += buffer[..got].iter().filter(|b| **b == b'\n').count();
        let wanted = *wanted.get_or_insert_with(|| {
            let end = buffer.iter().position(|b| *b == b'\r').expect("a header");
            let users = std::str::from_utf8(&buffer[1..end]).expect("a number");
            1 + 2 * users.parse::<usize>().expect("a number")
        });
        if lines >= wanted {
            return start.elapsed();
        }
    }
}

fn line(what: &str, all: &mut [Duration]) {
    all.sort_unstable();
    let millis = |d: Duration| d.as_secs_f64() * 1e3;
    let (best, middle) = (millis(all[0]), millis(all[all.len() / 2]));
    println!("  {what:<28} best {best:>8.1} ms, median {middle:>8.1} ms");
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) / 1024
    };
    format!("{} MiB, {} MiB", of("VmRSS:"), of("VmHWM:"))
}
