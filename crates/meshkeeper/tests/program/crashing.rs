//! Killed at every step: what was begun is finished by the next run, nothing is lost, nothing made twice
//! (H-22, H-23, O-42).

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::lab::{Lab, Up, cache};
use crate::redis::Redis;
use crate::wait::{rest, until};

/// On which side of the server's work the program dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// The command never reaches the server.
    Before,
    /// The server has done it, and the program never hears of it.
    After,
}

/// Kills the program at the n-th command of a kind that passes through.
struct Deadly {
    port: u16,
    state: Arc<State>,
}

struct State {
    command: Vec<u8>,
    at: usize,
    moment: Moment,
    seen: AtomicUsize,
    victim: Mutex<Option<Pid>>,
    /// Everything passes and nobody dies.
    harmless: AtomicBool,
    struck: AtomicBool,
}

impl Deadly {
    fn before(server: u16, command: &str, at: usize, moment: Moment) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("port");
        let port = listener.local_addr().expect("address").port();
        let state = Arc::new(State {
            command: command.as_bytes().to_vec(),
            at,
            moment,
            seen: AtomicUsize::new(0),
            victim: Mutex::new(None),
            harmless: AtomicBool::new(false),
            struck: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(client, server, &state));
            }
        });
        Self { port, state }
    }
    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

/// Hands both directions on, and watches the requests for the command.
fn serve(client: TcpStream, server: u16, state: &Arc<State>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
        return;
    };
    let mute = Arc::new(AtomicBool::new(false));
    let answers = {
        let (mut from, mut to) = (
            server.try_clone().expect("clone"),
            client.try_clone().expect("clone"),
        );
        let mute = Arc::clone(&mute);
        std::thread::spawn(move || {
            let mut bytes = [0; 16 * 1024];
            while let Ok(n @ 1..) = from.read(&mut bytes) {
                if mute.load(Ordering::SeqCst) || to.write_all(&bytes[..n]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Both);
        })
    };
    let (mut from, mut to) = (client, server);
    let mut bytes = [0; 16 * 1024];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        let part = &bytes[..n];
        let found = part
            .windows(state.command.len())
            .filter(|w| w.eq_ignore_ascii_case(&state.command))
            .count();
        let before = state.seen.fetch_add(found, Ordering::SeqCst);
        let now = before <= state.at && state.at < before + found;
        if now && !state.harmless.load(Ordering::SeqCst) {
            if state.moment == Moment::After {
                mute.store(true, Ordering::SeqCst);
                let _ = to.write_all(part);
                done_by(&to);
            }
            strike(state);
            break;
        }
        if to.write_all(part).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = answers.join();
}

/// Waits until the server has worked off what was sent: it closes its side once it has read the end.
fn done_by(server: &TcpStream) {
    let _ = server.shutdown(Shutdown::Write);
    let began = Instant::now();
    let mut byte = [0];
    let _ = server.set_read_timeout(Some(Duration::from_secs(5)));
    while began.elapsed() < Duration::from_secs(5) {
        match server.peek(&mut byte) {
            Ok(0) | Err(_) => return,
            Ok(_) => rest(),
        }
    }
}

fn strike(state: &State) {
    let victim = *state.victim.lock().expect("victim");
    if let Some(pid) = victim {
        let _ = kill_process(pid, Signal::KILL);
    }
    state.struck.store(true, Ordering::SeqCst);
}

fn names(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("c{n}")).collect()
}

/// Every password that a store knows now.
fn known(lab: &Lab, names: &[String]) -> Vec<Option<String>> {
    let one = |name: &String| {
        let ran = lab.mesh(&["credentials", name, "cache", "--json"]);
        (ran.code == 0).then(|| {
            ran.json()["password"]
                .as_str()
                .expect("password")
                .to_owned()
        })
    };
    names.iter().map(one).collect()
}

/// After a crash: whoever the server knows has its password in the store; a run heals all; then nothing
/// changes any more.
fn recovers(lab: &Lab, redis: &Redis, names: &[String], what: &str) {
    let there = redis.users();
    let before = known(lab, names);
    for (name, password) in names.iter().zip(&before) {
        if there.contains(name) {
            let password = password.as_ref();
            let password = password.unwrap_or_else(|| {
                panic!("{what}: {name} is on the server and its password is nowhere")
            });
            assert!(redis.lets_in(name, password), "{what}: {name}");
        }
    }
    until(&format!("{what}: it converges"), 30, || {
        let ran = lab.mesh(&["apply"]);
        if ran.code == 0 { Ok(()) } else { Err(ran) }
    });
    let after = known(lab, names);
    for ((name, before), after) in names.iter().zip(&before).zip(&after) {
        let after = after
            .as_ref()
            .unwrap_or_else(|| panic!("{what}: {name} has no password"));
        assert!(redis.lets_in(name, after), "{what}: {name}");
        if there.contains(name) {
            assert_eq!(before.as_ref(), Some(after), "{what}: {name} was made anew");
        }
    }
    let writes = redis.writes();
    lab.mesh(&["apply"]).ends(0);
    assert_eq!(redis.writes(), writes, "{what}: again changes nothing");
}

/// One death through the proxy: at the `at`-th `command`, on this side of the server's work.
fn dies_at(command: &str, at: usize, moment: Moment, word: &str, how_many: usize) {
    let what = format!("{word} killed {moment:?} {command} number {at}");
    let (lab, redis) = (Lab::new(), Redis::start());
    let names = names(how_many);
    let deadly = Deadly::before(redis.port, command, at, moment);
    let text = cache(&redis, "", names.iter().map(String::as_str));
    lab.manifest(&text.replace(&redis.url(), &deadly.url()));
    let mut run = Up::of(lab.command(&[word]));
    *deadly.state.victim.lock().expect("victim") = Some(run.pid());
    until(&format!("{what}: it struck or ended"), 30, || {
        let struck = deadly.state.struck.load(Ordering::SeqCst);
        if struck || run.has_ended().is_some() {
            Ok(())
        } else {
            Err(run.log())
        }
    });
    let struck = deadly.state.struck.load(Ordering::SeqCst);
    run.kill();
    deadly.state.harmless.store(true, Ordering::SeqCst);
    assert!(struck || word == "apply", "{what}");
    recovers(&lab, &redis, &names, &what);
}

#[test]
fn h23_o42_a_death_around_the_first_write_is_finished_by_the_next_run() {
    for moment in [Moment::Before, Moment::After] {
        for (command, at) in [("SETUSER", 0), ("GETUSER", 0), ("USERS", 0), ("INFO", 0)] {
            dies_at(command, at, moment, "apply", 5);
        }
    }
}

#[test]
fn h23_o42_a_death_amid_many_writes_is_finished_by_the_next_run() {
    for moment in [Moment::Before, Moment::After] {
        for at in [3, 7] {
            dies_at("SETUSER", at, moment, "apply", 8);
        }
        dies_at("SETUSER", 2, moment, "up", 8);
        dies_at("GETUSER", 5, moment, "up", 8);
    }
}

/// Chance that a seed replays.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }
}

#[test]
fn h22_h23_deaths_at_random_points_lose_nothing_and_make_nothing_twice() {
    let seed = 20_261;
    let mut chance = Chance(seed);
    let (lab, redis) = (Lab::new(), Redis::start());
    let all = names(40);
    let wish = |count: usize| {
        let some = all[..count].iter().map(String::as_str);
        lab.cache(&redis, "verify_every = \"1s\"", some);
    };
    // How long a run takes here and now, so that deaths fall all over it.
    wish(10);
    let began = Instant::now();
    lab.mesh(&["apply"]).ends(0);
    let whole = u64::try_from(began.elapsed().as_micros()).expect("short");
    let mut passwords: Vec<Option<String>> = vec![None; all.len()];
    for round in 0..32 {
        // New consumers come, and some are lost.
        let count = 20 + round / 2;
        wish(count);
        for _ in 0..chance.below(4) {
            let name = &all[usize::try_from(chance.below(20)).expect("small")];
            redis.ask(&["ACL", "DELUSER", name]);
        }
        let word = if chance.below(2) == 0 { "apply" } else { "up" };
        let mut run = Up::of(lab.command(&[word]));
        let patience = Duration::from_micros(chance.below(whole * 3 / 2));
        let began = Instant::now();
        while began.elapsed() < patience && run.has_ended().is_none() {
            std::thread::yield_now();
        }
        run.kill();
        let what = format!("seed {seed}, round {round}, {word} killed after {patience:?}");
        let there = redis.users();
        for _ in 0..3 {
            let i = usize::try_from(chance.below(count as u64)).expect("small");
            let name = &all[i];
            if !there.contains(name) {
                continue;
            }
            let known = known(&lab, std::slice::from_ref(name)).remove(0);
            let known = known.unwrap_or_else(|| panic!("{what}: the password of {name} is lost"));
            assert!(redis.lets_in(name, &known), "{what}: {name}");
            let before = passwords[i].get_or_insert_with(|| known.clone());
            assert_eq!(*before, known, "{what}: {name} was made anew");
        }
    }
    // The brake may hold some back: a person's word ends that.
    lab.mesh(&["resume", "cache"]).ends(0);
    let all = &all[..35];
    recovers(&lab, &redis, all, "in the end");
    for (before, now) in passwords.iter().zip(known(&lab, all)) {
        assert!(
            before.is_none() || *before == now,
            "made anew: {before:?}, {now:?}"
        );
    }
}

/// The bytes of the store's files that change with each commit.
fn prints(lab: &Lab) -> Vec<(PathBuf, u64)> {
    let Ok(entries) = std::fs::read_dir(lab.data()) else {
        return Vec::new();
    };
    let mut all: Vec<(PathBuf, u64)> = entries
        .flatten()
        .filter_map(|entry| {
            let length = entry.metadata().ok()?.len();
            Some((entry.path(), length))
        })
        .filter(|(path, _)| path.to_string_lossy().ends_with("-wal"))
        .collect();
    all.sort();
    all
}

#[test]
fn h22_deaths_between_the_stores_writes_lose_nothing_and_make_nothing_twice() {
    for nth in 1..=8 {
        let what = format!("killed after {nth} growths of the stores' logs");
        let (lab, redis) = (Lab::new(), Redis::start());
        let names = names(6);
        lab.cache(&redis, "", names.iter().map(String::as_str));
        let mut run = Up::of(lab.command(&["apply"]));
        let (mut growths, mut before) = (0, prints(&lab));
        while growths < nth && run.has_ended().is_none() {
            let now = prints(&lab);
            growths += usize::from(now != before);
            before = now;
        }
        run.kill();
        recovers(&lab, &redis, &names, &what);
    }
}
