//! An app that logs in each 100 ms loses not one login, whatever is rotated, restarted or killed meanwhile.
//!
//! It is a well-made one: it reads its env file anew for each login, and tells its hook when none is under way that began
//! with what was there before. A refused password is a lost login. A server that is not reachable while the test restarts
//! it is not: then the app reads again and tries again. Redis keeps its users in an `aclfile` here: without one a restart
//! forgets everybody, and until that is healed nobody's login can come in.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::time::Instant;

use crate::lab::{Lab, cache};
use crate::redis::{Client, Redis, Reply};
use crate::wait::{rest, until_true};

const ROTATIONS: u64 = 20;
const EACH: Duration = Duration::from_millis(100);

/// What the app and the test share.
#[derive(Default)]
struct Shared {
    /// Odd while the server is being restarted.
    restarts: AtomicU64,
    ended: AtomicBool,
    logins: AtomicU64,
    lost: Mutex<Vec<String>>,
}

/// How one login came out.
enum Login {
    In,
    Refused(String),
    Unreachable(String),
}

struct App {
    env: PathBuf,
    lock: PathBuf,
    port: u16,
    shared: Arc<Shared>,
}

impl App {
    fn start(env: PathBuf, lock: PathBuf, port: u16) -> (Arc<Shared>, JoinHandle<()>) {
        let shared = Arc::new(Shared::default());
        let app = Self {
            env,
            lock,
            port,
            shared: Arc::clone(&shared),
        };
        (shared, std::thread::spawn(move || app.runs()))
    }
    fn runs(&self) {
        while !self.shared.ended.load(Ordering::SeqCst) {
            let began = Instant::now();
            self.logs_in();
            while began.elapsed() < EACH {
                rest();
            }
        }
    }
    /// One login, tried again only while the server is being restarted.
    fn logs_in(&self) {
        loop {
            let before = self.shared.restarts.load(Ordering::SeqCst);
            let came = self.tries();
            let after = self.shared.restarts.load(Ordering::SeqCst);
            let lost = match came {
                Login::In => {
                    self.shared.logins.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                Login::Unreachable(_) if before % 2 == 1 || before != after => {
                    rest();
                    continue;
                }
                Login::Refused(why) | Login::Unreachable(why) => why,
            };
            self.shared.lost.lock().expect("lost").push(lost);
            return;
        }
    }
    /// Reads the file and logs in, as one piece for the hook.
    fn tries(&self) -> Login {
        let lock = File::options().append(true).open(&self.lock);
        let lock = lock.expect("the lock's file");
        lock.lock().expect("the lock");
        let (login, password) = read(&self.env);
        let mut client = match Client::connect(self.port) {
            Ok(client) => client,
            Err(fault) => return Login::Unreachable(fault.to_string()),
        };
        match client.try_ask(&["AUTH", &login, &password]) {
            None => Login::Unreachable("no answer".to_owned()),
            Some(Reply::Error(text)) => Login::Refused(text),
            Some(_) => Login::In,
        }
    }
}

fn read(env: &Path) -> (String, String) {
    let text = fs::read_to_string(env).unwrap_or_default();
    let of = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        lines.next().unwrap_or_default().to_owned()
    };
    (of("CACHE_USER="), of("CACHE_PASSWORD="))
}

/// The number of the rotation, once it rests.
fn finished(lab: &Lab) -> Option<u64> {
    let ran = lab.mesh(&["status", "--json"]);
    let picture: serde_json::Value = serde_json::from_str(&ran.out).ok()?;
    let one = picture["rotations"].as_array()?.first()?.clone();
    let number = one["number"].as_u64()?;
    (one["step"] == "resting").then_some(number)
}

#[test]
fn r3_an_app_loses_no_login_over_20_rotations_5_restarts_of_redis_and_3_deaths_of_the_daemon() {
    let (lab, mut redis) = (Lab::new(), Redis::with_aclfile());
    let (env, lock) = (lab.path().join("web.env"), lab.write("web.lock", ""));
    let text = cache(&redis, "verify_every = \"1s\"", ["web"]);
    // The hook ends once no login is under way that began before it.
    lab.manifest(&format!(
        "{text}\n[[consumer.web.deliver]]\nenv_file = \"web.env\"\n\
         reload = {{ command = [\"/usr/bin/flock\", \"{}\", \"/bin/true\"] }}\n",
        lock.display()
    ));
    let mut up = lab.up(&[]);
    until_true("the first delivery", 60, || {
        let (login, password) = read(&env);
        let there = !password.is_empty() && redis.lets_in(&login, &password);
        (there, there)
    });
    let first = read(&env);
    let (shared, app) = App::start(env.clone(), lock, redis.port);
    for number in 1..=ROTATIONS {
        lab.mesh(&["rotate", "web", "cache", "--reason", "a test"])
            .ends(0);
        // Amid the rotation, each time at another place of it.
        if number % 4 == 0 {
            shared.restarts.fetch_add(1, Ordering::SeqCst);
            redis.restart();
            shared.restarts.fetch_add(1, Ordering::SeqCst);
        }
        if number % 6 == 0 {
            up.kill();
            up = lab.up(&[]);
        }
        until_true(&format!("rotation {number} is finished"), 60, || {
            (finished(&lab) == Some(number), lab.status())
        });
        let lost = shared.lost.lock().expect("lost").clone();
        assert!(lost.is_empty(), "rotation {number}: {lost:?}");
    }
    shared.ended.store(true, Ordering::SeqCst);
    app.join().expect("the app");
    let lost = shared.lost.lock().expect("lost").clone();
    assert!(lost.is_empty(), "{lost:?}");
    let logins = shared.logins.load(Ordering::SeqCst);
    println!("{logins} logins, none lost");
    assert!(logins > ROTATIONS, "{logins}: it logged in all the time");
    let last = read(&env);
    assert_ne!(last, first);
    assert!(redis.lets_in(&last.0, &last.1) && !redis.lets_in(&first.0, &first.1));
    up.stop();
    lab.mesh(&["apply"]).ends(0);
    lab.mesh(&["plan"]).ends(0).says("Nothing to do.");
    assert_eq!(read(&env), last, "again changes nothing");
}
