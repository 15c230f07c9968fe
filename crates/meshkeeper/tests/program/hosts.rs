//! Several hosts on one bus and one provider: one has it, a dead one is replaced, and one that was stopped or cut
//! off ends first (B-4).

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use crate::lab::{Lab, Up};
use crate::redis::Redis;
use crate::restarting::settled;
use crate::shared::{Nats, Wire, first, joined, manifest};
use crate::wait::{stays, until};

/// A lost login is seen within this.
const LINES: &str = "verify_every = \"5s\"";

/// A host that has the provider, and one that could.
struct Two {
    nats: Nats,
    redis: Redis,
    one: Lab,
    first: Up,
    two: Lab,
    second: Up,
    password: String,
}

impl Two {
    fn start() -> Self {
        let (nats, redis) = (Nats::start(1), Redis::start());
        let one = first(&nats, &redis, LINES, &["web"]);
        let two = joined("two", &one);
        Self::on(nats, redis, one, two)
    }
    fn on(nats: Nats, redis: Redis, one: Lab, two: Lab) -> Self {
        let first = one.up(&[]);
        settled(&one);
        let second = Up::of(two.command(&["up"]));
        second.says("commands::up: up");
        until("they see each other", 30, || match second.log() {
            log if log.contains("the other hosts that are there") => Ok(()),
            log => Err(log),
        });
        let password = one.password("web", "cache");
        Self {
            nats,
            redis,
            one,
            first,
            two,
            second,
            password,
        }
    }
    fn lose(&self) {
        self.redis.ask(&["ACL", "DELUSER", "web"]);
    }
    fn healed(&self, seconds: u64) {
        until("it is healed", seconds, || {
            match self.redis.lets_in("web", &self.password) {
                true => Ok(()),
                false => Err((self.first.log(), self.second.log())),
            }
        });
    }
}

const CLAIMS: &str = "this host has the lease";

#[test]
fn b4_a_killed_host_is_replaced_within_a_minute_and_nobody_acts_beside_it() {
    let mut hosts = Two::start();
    hosts.lose();
    hosts.healed(20);
    assert!(!hosts.second.log().contains(CLAIMS), "it stood by");
    let json = hosts.two.mesh(&["apply", "--json"]).ends(0).json();
    assert_eq!(json["by_daemon"], true, "the first host is asked");
    hosts
        .two
        .mesh(&["status"])
        .ends(0)
        .says("(daemon runs on one)");

    hosts.first.kill();
    let began = Instant::now();
    hosts.lose();
    hosts.healed(60);
    assert!(hosts.second.log().contains(CLAIMS));
    println!(
        "a killed host's work was done by the other after {:?}",
        began.elapsed()
    );
    settled(&hosts.two);
    until("the other puts the wish in force", 30, || {
        match hosts.two.mesh(&["status"]) {
            ran if ran.out.contains("(daemon runs on two)") => Ok(()),
            ran => Err(ran),
        }
    });
    assert_eq!(hosts.two.password("web", "cache"), hosts.password);
    // It comes back, and waits until it is given back.
    let mut first = Up::of(hosts.one.command(&["up"]));
    first.says("the other hosts that are there");
    assert!(!first.log().contains(CLAIMS));
    hosts.second.stop().ends(0);
    let began = Instant::now();
    first.says(CLAIMS);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    let writes = hosts.redis.writes();
    settled(&hosts.one);
    assert_eq!(hosts.redis.writes(), writes, "again changes nothing");
    first.stop().ends(0);
    drop(hosts.nats);
}

#[test]
fn b4_a_stopped_host_begins_nothing_when_it_goes_on() {
    let hosts = Two::start();
    hosts.first.halt();
    until("the other takes over", 75, || match hosts.second.log() {
        log if log.contains(CLAIMS) => Ok(()),
        log => Err(log),
    });
    settled(&hosts.two);
    // The one that is entitled cannot act now either: whatever is healed would be the first one's doing.
    hosts.second.halt();
    hosts.lose();
    hosts.first.signal(Signal::CONT);
    stays("it stays lost", Duration::from_secs(12), || {
        let users = hosts.redis.users();
        (!users.contains("web"), hosts.first.log())
    });
    hosts.first.says("this host acts no more");
    hosts.second.signal(Signal::CONT);
    hosts.healed(90);
}

#[test]
fn b4_a_host_that_is_cut_off_stops_before_the_other_begins() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let one = first(&nats, &redis, LINES, &["web"]);
    let two = joined("two", &one);
    let wire = Wire::to(nats.cluster.ports()[0]);
    let line = format!("bus = \"nats://127.0.0.1:{}\"", wire.port());
    one.manifest(&manifest(&line, &redis, LINES, &["web"]));
    let hosts = Two::on(nats, redis, one, two);
    wire.cut();
    let began = Instant::now();
    let stopped = until("it stops", 30, || match hosts.first.log() {
        log if log.contains("this host acts no more") => Ok(began.elapsed()),
        log => Err(log),
    });
    assert!(
        !hosts.second.log().contains(CLAIMS),
        "the other still waits"
    );
    hosts.lose();
    let taken = until("the other takes over", 75, || {
        let healed = hosts.redis.users().contains("web");
        match hosts.second.log() {
            log if log.contains(CLAIMS) => Ok(began.elapsed()),
            log => {
                assert!(!healed, "somebody healed without the claim: {log}");
                Err(log)
            }
        }
    });
    println!("cut off, it stopped after {stopped:?}, and the other began after {taken:?}");
    hosts.healed(30);
    // It is back among the members.
    wire.mend();
    until("it is back", 90, || match hosts.first.log() {
        log if log.matches("commands::up: up").count() > 1 => Ok(()),
        log => Err(log),
    });
}
