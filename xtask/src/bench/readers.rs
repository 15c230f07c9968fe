//! The page under readers: how soon it begins, and what passes cost while many follow it.

use super::page::{Row, Target, told};
use super::runs::Bench;
use super::stopwatch::{Stopwatch, median, pause};
use super::subject::{Counted, Up};
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Readers with live streams, each of which asks for the page again at every change.
const READERS: usize = 200;
/// Readers that ask and take nothing.
const SLOW: usize = 8;
/// By then the daemon has dropped a reader that takes nothing.
const STALLED: Duration = Duration::from_secs(30);
/// A page is asked for so many times.
const TIMES: usize = 20;

/// When the first byte of an answer came, and its length.
fn ask(port: u16, path: &str) -> Result<(Duration, usize)> {
    let watch = Stopwatch::start();
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
    let mut first = [0; 12];
    stream.read_exact(&mut first)?;
    let began = watch.read();
    ensure!(first.ends_with(b"200"), "{path} is not answered");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest)?;
    Ok((began, rest.len()))
}

/// Measures a daemon that looks after `users` consumers named `app-NNNNNN` on `cache`.
pub(super) fn all(bench: &Bench<'_>, up: Up, on: &str, users: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut say = |row: Row| {
        (bench.say)(&format!("  {}", row.line()));
        rows.push(row);
    };
    let row = |what: &str, ours, raw, target, note: String| Row {
        what: what.to_owned(),
        on: on.to_owned(),
        ours,
        raw,
        target,
        note,
    };
    let alone = passes(bench, &up, users)?;
    let before = up.memory()?.0;
    for (what, began, note) in first_bytes(up.port(), users)? {
        say(row(&what, began, None, Target::Under(100), note));
    }
    let follow: Vec<Follower> = (0..READERS)
        .map(|_| Follower::start(up.port()))
        .collect::<Result<_>>()?;
    let slow: Vec<TcpStream> = (0..SLOW)
        .map(|_| greedy(up.port()))
        .collect::<Result<_>>()?;
    let watch = Stopwatch::start();
    let cpu = up.cpu()?;
    let beside = passes(bench, &up, users)?;
    let share = (up.cpu()? - cpu).as_secs_f64() / watch.read().as_secs_f64() * 100.0;
    let loads: u64 = follow
        .iter()
        .map(|one| one.loads.load(Ordering::Relaxed))
        .sum();
    let (now, highest) = up.memory()?;
    let note = format!(
        "median of {}, the raw side without readers; {loads} pages were asked for meanwhile, {share:.0} % of a core; \
         {} MiB resident, {} before, {} at the highest",
        bench.passes,
        now >> 20,
        before >> 20,
        highest >> 20,
    );
    say(row(
        &format!("a healthy pass, {READERS} readers with live streams"),
        beside,
        Some(alone),
        Target::Times(1.1),
        note,
    ));
    // By then those that took nothing are dropped.
    while watch.read() < STALLED {
        pause(100);
    }
    let mut dropped = 0;
    for stream in slow {
        dropped += usize::from(is_over(stream)?);
    }
    let watch = Stopwatch::start();
    drop(up);
    let ended = watch.read();
    for one in follow {
        one.end()?;
    }
    let note = format!(
        "with {READERS} streams open; {dropped} of {SLOW} readers that took nothing had been dropped before"
    );
    say(row(
        "`mesh up` ends",
        ended,
        None,
        Target::Under(2_000),
        note,
    ));
    Ok(rows)
}

/// When each view begins, at the latest.
fn first_bytes(port: u16, users: usize) -> Result<Vec<(String, Duration, String)>> {
    let mut measured = Vec::new();
    for (what, path) in [
        ("the overview", "/".to_owned()),
        ("its last page", format!("/?page={}", users.div_ceil(50))),
        (
            "filtered by a name that is last",
            format!("/?q=app-{:06}", users - 1),
        ),
        (
            "filtered by a state that nobody has",
            "/?state=braked".to_owned(),
        ),
        ("a consumer", format!("/consumer/app-{:06}", users / 2)),
        ("a provider", "/provider/cache".to_owned()),
    ] {
        let mut all = Vec::new();
        for _ in 0..TIMES {
            all.push(ask(port, &path)?);
        }
        let times: Vec<Duration> = all.iter().map(|(began, _)| *began).collect();
        let longest = times.iter().max().copied().unwrap_or_default();
        let note = format!(
            "the longest of {TIMES}, beside passes; median {}, {} kB",
            told(median(&times)),
            all[0].1 / 1000
        );
        measured.push((format!("{what}: first byte"), longest, note));
    }
    Ok(measured)
}

fn passes(bench: &Bench<'_>, up: &Up, users: usize) -> Result<Duration> {
    let mut counted: Counted = up.pass_after(up.metrics()?, users)?;
    let mut took = Vec::new();
    for _ in 0..bench.passes {
        counted = up.pass_after(counted, users)?;
        took.push(counted.took);
    }
    Ok(median(&took))
}

/// A reader that follows the page until the stream ends.
struct Follower {
    loads: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Follower {
    fn start(port: u16) -> Result<Self> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        write!(stream, "GET /changes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")?;
        let mut lines = BufReader::new(stream).lines();
        let head = lines.next().context("no answer")??;
        ensure!(head.contains("200"), "no stream: {head}");
        let loads = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&loads);
        let thread = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if line.starts_with("data: ") && ask(port, "/").is_ok() {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Ok(Self { loads, thread })
    }
    fn end(self) -> Result<()> {
        let ended = self.thread.join();
        ended.map_err(|_| anyhow::anyhow!("a reader failed"))
    }
}

/// Asks for more than any buffer takes, and takes nothing.
fn greedy(port: u16) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    for _ in 0..2_000 {
        // It is full once nothing is taken any more.
        if write!(stream, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").is_err() {
            break;
        }
    }
    Ok(stream)
}

/// Whether the other side has ended it: then what is left comes to an end.
fn is_over(mut stream: TcpStream) -> Result<bool> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let watch = Stopwatch::start();
    let mut bytes = vec![0; 1 << 16];
    while watch.read() < Duration::from_secs(30) {
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(true),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return Ok(true),
            Err(_) => return Ok(false),
        }
        pause(0);
    }
    Ok(false)
}
