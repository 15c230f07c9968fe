//! The brake over processes and the second writer (H-11, H-15, H-24, O-31).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::lab::Lab;
use crate::redis::{Client, Redis};
use crate::restarting::settled;
use crate::wait::{rest, until, until_true};

#[test]
fn h24_passes_of_processes_in_quick_succession_cannot_outwit_the_brake() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web", "api"]);
    lab.mesh(&["apply"]).ends(0);
    lab.mesh(&["apply"]).ends(0);
    // Somebody else takes it away before each pass.
    let mut repaired = 0;
    for _ in 0..6 {
        redis.ask(&["ACL", "DELUSER", "web"]);
        lab.mesh(&["apply"]);
        repaired += usize::from(redis.users().contains("web"));
    }
    assert!(
        repaired <= 2,
        "six passes in a minute repaired it {repaired} times"
    );
    let states = lab.states();
    assert!(states.contains(&"web=braked".to_owned()), "{states:?}");
    assert!(states.contains(&"api=held".to_owned()), "{states:?}");
    assert!(
        lab.conditions().contains(&"Braked cache/web".to_owned()),
        "{:?}",
        lab.conditions()
    );
    lab.mesh(&["explain", "web"])
        .ends(0)
        .says("not asked before");
    lab.mesh(&["plan"]).ends(0).says("waits").says("braked");
    lab.mesh(&["status"]).ends(3).says("mesh resume CONSUMER");
    // A person's word ends it, once.
    lab.mesh(&["resume", "web"]).ends(0);
    lab.mesh(&["apply"]);
    assert!(redis.users().contains("web"));
    // Held twice: the condition goes.
    lab.mesh(&["apply"]);
    lab.mesh(&["apply"]);
    lab.mesh(&["apply"]).ends(0);
}

/// Sets another password all the time, on a thread.
struct Rival {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<u32>>,
}

impl Rival {
    fn start(port: u16) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut wrote = 0;
            let mut client = Client::connect(port).expect("client");
            while !seen.load(Ordering::Relaxed) {
                client.ask(&["ACL", "SETUSER", "web", "resetpass", ">the-rivals-password"]);
                wrote += 1;
                rest();
            }
            wrote
        });
        let thread = Some(thread);
        Self { stop, thread }
    }
    fn stop(&mut self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(0, |t| t.join().expect("rival"))
    }
}
impl Drop for Rival {
    fn drop(&mut self) {
        self.stop();
    }
}

#[test]
fn h11_o31_a_second_writer_ends_in_the_brake_and_settles_when_it_ends() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "verify_every = \"1s\"", ["web", "api"]);
    let _up = lab.up(&[]);
    settled(&lab);
    let password = lab.password("web", "cache");
    let mut rival = Rival::start(redis.port);
    until("it is braked", 30, || {
        let states = lab.states();
        if states.contains(&"web=braked".to_owned()) {
            Ok(())
        } else {
            Err(states)
        }
    });
    let conditions = lab.conditions();
    let told = |c: &String| c == "Braked cache/web" || c == "TugOfWar cache/web";
    assert!(conditions.iter().any(told), "{conditions:?}");
    // Nothing else slows down.
    redis.ask(&["ACL", "DELUSER", "api"]);
    until_true("the other one is healed", 10, || {
        (redis.users().contains("api"), redis.users())
    });
    assert!(rival.stop() > 0);
    assert_eq!(
        lab.password("web", "cache"),
        password,
        "what is delivered does not change"
    );
    // Its next check heals it; nobody has to say anything.
    until("it settles by itself", 60, || {
        if redis.lets_in("web", &password) {
            Ok(())
        } else {
            Err(lab.conditions())
        }
    });
}

#[test]
fn h15_a_login_that_changes_after_being_held_is_a_tug_of_war() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "verify_every = \"1s\"", ["web"]);
    lab.mesh(&["apply"]).ends(0);
    for _ in 0..5 {
        lab.mesh(&["apply"]);
        redis.ask(&["ACL", "SETUSER", "web", "resetpass", ">another-password"]);
        lab.mesh(&["apply"]);
    }
    let conditions = lab.conditions();
    assert!(
        conditions.contains(&"TugOfWar cache/web".to_owned()),
        "{conditions:?}"
    );
    lab.mesh(&["explain", "web"]).ends(0).says("other password");
}
