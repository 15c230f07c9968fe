//! Who sees that something stands still: a loop, a host, the bus, the whole mesh (B-7, B-8, B-10).

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use crate::lab::{Lab, Up, need};
use crate::redis::{Redis, free_port};
use crate::restarting::settled;
use crate::serving::get;
use crate::shared::{Nats, first, joined};
use crate::wait::{stays, until};

/// A monitor that counts who tells it that all is alive.
struct Monitor {
    port: u16,
    told: Arc<AtomicUsize>,
    answers: Arc<AtomicU16>,
}

const TOKEN: &str = "5f0c7d1e-monitor-token";

impl Monitor {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind");
        let port = listener.local_addr().expect("address").port();
        let (told, answers) = (Arc::default(), Arc::new(AtomicU16::new(200)));
        let monitor = Self {
            port,
            told: Arc::clone(&told),
            answers: Arc::clone(&answers),
        };
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let mut bytes = [0; 4096];
                let n = client.read(&mut bytes).unwrap_or(0);
                let asked = String::from_utf8_lossy(&bytes[..n]).into_owned();
                if asked.starts_with(&format!("GET /ping/{TOKEN} ")) {
                    told.fetch_add(1, Ordering::SeqCst);
                }
                let code = answers.load(Ordering::SeqCst);
                let answer = format!("HTTP/1.1 {code} -\r\ncontent-length: 0\r\n\r\n");
                let _ = client.write_all(answer.as_bytes());
            }
        });
        monitor
    }
    fn lines(&self) -> String {
        format!(
            "[mesh.alive]\nurl = \"http://127.0.0.1:{}/ping/{TOKEN}\"\nevery = \"1s\"\n",
            self.port
        )
    }
    fn count(&self) -> usize {
        self.told.load(Ordering::SeqCst)
    }
    fn is_told(&self, what: &str, seconds: u64) {
        let before = self.count();
        until(what, seconds, || match self.count() {
            n if n > before + 1 => Ok(()),
            n => Err(n),
        });
    }
    /// What was on its way is over; then nothing comes any more.
    fn hears_nothing(&self, what: &str, within: Duration) {
        let mut last = (self.count(), Instant::now());
        until(what, within.as_secs(), || {
            let n = self.count();
            if n != last.0 {
                last = (n, Instant::now());
            }
            match last.1.elapsed() {
                quiet if quiet > Duration::from_secs(5) => Ok(()),
                quiet => Err((n, quiet)),
            }
        });
    }
}

fn manifest(bus: &str, monitor: Option<&Monitor>, redis: &Redis, lines: &str) -> String {
    let alive = monitor.map(Monitor::lines).unwrap_or_default();
    let mut text = format!(
        "[mesh]\nid = \"home\"\n{bus}\n{alive}\n[provider.cache]\nkind = \"redis\"\nurl = \"{}\"\n{lines}\n",
        redis.url()
    );
    need(&mut text, "web", "cache", "");
    text
}

fn standing(lab: &Lab, what: &str, seconds: u64) {
    until(&format!("{what} stands"), seconds, || {
        let all = lab.conditions();
        match all.iter().any(|one| one == what) {
            true => Ok(()),
            false => Err(all),
        }
    });
}

fn gone(lab: &Lab, what: &str, seconds: u64) {
    until(&format!("{what} is cleared"), seconds, || {
        let all = lab.conditions();
        match all.iter().any(|one| one == what || one.contains("told")) {
            false => Ok(()),
            true => Err(all),
        }
    });
}

#[test]
fn b8_a_monitor_is_told_while_every_loop_moves_and_no_longer() {
    let (lab, redis, monitor) = (Lab::new(), Redis::start(), Monitor::start());
    let lines = "verify_every = \"1s\"\nask_timeout = \"2s\"\napply_timeout = \"2s\"";
    lab.manifest(&manifest("", Some(&monitor), &redis, lines));
    lab.mesh(&["check"]).ends(0);
    let mut up = lab.up(&[]);
    monitor.is_told("the monitor is told", 30);
    // A backend that hangs is unknown, and its loop goes on.
    redis.hang();
    stays("nothing hangs", Duration::from_secs(12), || {
        let log = up.log();
        (!log.contains("LoopS"), log)
    });
    monitor.is_told("it is told while a backend hangs", 10);
    redis.go_on();
    // The process stands still, and then goes on.
    up.signal(Signal::STOP);
    monitor.hears_nothing("a stopped process tells nothing", Duration::from_secs(20));
    up.signal(Signal::CONT);
    monitor.is_told("it is told again", 30);
    // A monitor that refuses is a condition, which goes when it takes it.
    monitor.answers.store(500, Ordering::SeqCst);
    standing(&lab, "AliveUntold monitor", 30);
    monitor.answers.store(204, Ordering::SeqCst);
    gone(&lab, "AliveUntold monitor", 40);
    let ran = up.stop().ends(0);
    assert!(!ran.err.contains(TOKEN), "{}", ran.err);
    monitor.hears_nothing("a daemon that ended tells nothing", Duration::from_secs(10));
}

#[test]
fn b8_a_host_that_stands_still_is_told_by_the_other_within_a_minute() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let one = first(&nats, &redis, "verify_every = \"5s\"", &["web"]);
    let two = joined("two", &one);
    let up = one.up(&[]);
    settled(&one);
    let second = Up::of(two.command(&["up"]));
    second.says("the other hosts that are there");
    stays("in order, nothing is told", Duration::from_secs(15), || {
        let log = second.log();
        (!log.contains("Loop"), log)
    });
    up.halt();
    let began = Instant::now();
    until("it is told", 60, || match second.log() {
        log if log.contains("LoopSilent") => Ok(()),
        log => Err(log),
    });
    println!("told after {:?}", began.elapsed());
    second.says("this host has the claim on the installation");
    gone(&two, "LoopSilent cache", 60);
    settled(&two);
}

#[test]
fn b8_a_deleted_stream_is_told_within_a_minute_and_nothing_is_written_blindly() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let one = first(&nats, &redis, "verify_every = \"2s\"", &["web"]);
    let port = free_port();
    let mut up = one.up(&["--listen", &format!("127.0.0.1:{port}")]);
    settled(&one);
    let (writes, user) = (redis.writes(), redis.user("web"));
    let began = Instant::now();
    nats.runtime.block_on(async {
        let mut admin = nats.cluster.admin(0).await.expect("admin");
        let gone = admin.json("$JS.API.STREAM.DELETE.KV_mesh_home", "").await;
        assert_eq!(gone.expect("answer")["success"], true);
    });
    until("it is told in the log", 60, || match up.log() {
        log if log.contains("BusTampered") => Ok(()),
        log => Err(log),
    });
    println!("told after {:?}", began.elapsed());
    let shown = || {
        let (code, body) = get(port, "/status");
        let fine = code == 503 && body.contains("BusTampered bus since");
        (fine, (code, body))
    };
    until("it is shown without the bus", 30, || match shown() {
        (true, _) => Ok(()),
        (false, state) => Err(state),
    });
    // Also once this host has let go of the bus.
    until("it lets go", 60, || match up.log() {
        log if log.contains("mesh bus bootstrap") => Ok(()),
        log => Err(log),
    });
    assert!(shown().0, "{:?}", shown().1);
    assert_eq!((redis.writes(), redis.user("web")), (writes, user.clone()));
    // Made again by a person: told, and everything is as it was.
    up.stop().ends(0);
    one.mesh(&["bus", "bootstrap"])
        .ends(0)
        .says("made KV_mesh_home");
    let mut up = one.up(&["--listen", &format!("127.0.0.1:{port}")]);
    standing(&one, "BusReplaced store", 30);
    until("it is held", 30, || match one.states() {
        states if states == ["web=held"] => Ok(()),
        states => Err(states),
    });
    until("it is seen gone", 60, || match get(port, "/status") {
        (200, body) if !body.contains("\"BusTampered\"") => Ok(()),
        other => Err(other),
    });
    assert_eq!((redis.writes(), redis.user("web")), (writes, user));
    up.stop().ends(0);
}

#[test]
fn b8_settings_that_were_changed_are_told_and_cleared_by_looking() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let one = first(&nats, &redis, "verify_every = \"2s\"", &["web"]);
    let mut up = one.up(&[]);
    settled(&one);
    let set = |copies: bool| {
        nats.runtime.block_on(async {
            let mut admin = nats.cluster.admin(0).await.expect("admin");
            let info = admin.json("$JS.API.STREAM.INFO.MESH_LOG_home", "").await;
            let mut config = info.expect("info")["config"].clone();
            let table = config.as_object_mut().expect("config");
            if copies {
                let to = serde_json::json!({ "src": ">", "dest": "copy.>" });
                table.insert("republish".to_owned(), to);
            } else {
                table.remove("republish");
            }
            let body = config.to_string();
            let done = admin
                .json("$JS.API.STREAM.UPDATE.MESH_LOG_home", &body)
                .await;
            let done = done.expect("answer");
            assert!(done.get("error").is_none(), "{done}");
        });
    };
    set(true);
    standing(&one, "BusTampered bus", 30);
    set(false);
    gone(&one, "BusTampered bus", 40);
    up.stop().ends(0);
}

#[test]
fn b8_a_bus_without_a_majority_is_told_and_cleared_when_its_servers_are_back() {
    let (mut nats, redis) = (Nats::start(3), Redis::start());
    let one = first(&nats, &redis, "verify_every = \"2s\"", &["web"]);
    let port = free_port();
    let mut up = one.up(&["--listen", &format!("127.0.0.1:{port}")]);
    settled(&one);
    one.mesh(&["status", "--check"]).ends(0).says("OK: 1 of 1");
    until("the daemon looked", 30, || {
        let known = std::fs::read_to_string(one.data().join("health.json"));
        match known.unwrap_or_default() {
            known if known.contains("\"all\":1") => Ok(()),
            known => Err(known),
        }
    });
    for n in [1, 2] {
        nats.runtime
            .block_on(nats.cluster.kill9(n))
            .expect("killed");
    }
    let began = Instant::now();
    until("it is told in the log", 90, || match up.log() {
        log if log.contains("BusNoQuorum") => Ok(()),
        log => Err(log),
    });
    println!("told after {:?}", began.elapsed());
    until("it is shown", 30, || match get(port, "/status") {
        (503, body) if body.contains("BusNoQuorum bus since") => Ok(()),
        other => Err(other),
    });
    // A monitor has its answer at once.
    let began = Instant::now();
    let ran = one.mesh(&["status", "--check"]).ends(3);
    let took = began.elapsed();
    ran.says("NOT WELL: 1 of 1 held on this host, as of ")
        .says("the bus does not answer");
    println!("status --check took {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    for n in [1, 2] {
        nats.cluster.launch_again(n).expect("launched");
    }
    until("it is seen gone", 120, || match get(port, "/status") {
        (200, body) if !body.contains("BusNoQuorum") => Ok(()),
        other => Err(other),
    });
    let writes = redis.writes();
    settled(&one);
    assert!(up.log().contains("BusNoQuorum"));
    assert_eq!(redis.writes(), writes, "again changes nothing");
    up.stop().ends(0);
}

#[test]
fn b1_what_is_shared_lies_on_the_bus() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let one = first(&nats, &redis, "verify_every = \"1s\"", &["web"]);
    let mut up = one.up(&[]);
    settled(&one);
    one.mesh(&["pause", "web"]).ends(0);
    standing(&one, "Paused cache/web", 30);
    let subjects = nats.runtime.block_on(async {
        let mut admin = nats.cluster.admin(0).await.expect("admin");
        let all = "{\"subjects_filter\":\">\"}";
        let info = admin.json("$JS.API.STREAM.INFO.KV_mesh_home", all).await;
        info.expect("info")["state"]["subjects"].clone()
    });
    for shared in [
        "wish.cache.web",
        "record.cache.web",
        "condition.",
        "loop.x-",
        "loop.claim.installation",
        "meta.provider.cache",
        "word.",
        "version.cache.web",
    ] {
        let prefix = format!("$KV.mesh_home.{shared}");
        let subjects = subjects.as_object().expect("subjects");
        let there = subjects.keys().any(|subject| subject.starts_with(&prefix));
        assert!(there, "{prefix}: {subjects:#?}");
    }
    up.stop().ends(0);
}

#[test]
fn b10_each_changed_look_is_told_to_who_listens() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let one = first(&nats, &redis, "verify_every = \"1s\"", &["web", "api"]);
    let mut up = one.up(&[]);
    settled(&one);
    let heard = nats.runtime.block_on(async {
        let mut admin = nats.cluster.admin(0).await.expect("admin");
        let hears = admin.hear("mesh.home.obs.provisioner.cache.*");
        let loses = async {
            tokio::task::yield_now().await;
            redis.ask(&["ACL", "DELUSER", "web"]);
        };
        futures(hears, loses).await
    });
    let told = heard.expect("a changed look is told");
    assert_eq!(told["loop"], "provisioner/cache", "{told}");
    assert_eq!(
        told["consumer"], "web",
        "who did not change is not told: {told}"
    );
    assert_eq!(told["happened"][0], "healed", "{told}");
    assert_eq!(told["state"], "held", "{told}");
    up.stop().ends(0);
}

/// Both, and what the first came to.
async fn futures<T>(first: impl Future<Output = T>, second: impl Future<Output = ()>) -> T {
    tokio::join!(first, second).0
}
