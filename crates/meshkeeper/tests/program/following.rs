//! `mesh events --follow`: what comes is shown as it comes, on both kinds of bus, until it is told to stop (C-5).

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::lab::{Lab, Up};
use crate::redis::Redis;
use crate::restarting::settled;
use crate::shared::{Nats, first};
use crate::wait::until;

/// The events that it showed so far.
fn shown(following: &Up) -> Vec<Value> {
    let text = following.out();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines = whole.lines().map(serde_json::from_str);
    lines
        .collect::<Result<_, _>>()
        .expect("a line of JSON each")
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|e| e["kind"].as_str()).collect()
}

fn follows(lab: &Lab, redis: &Redis) {
    let mut up = lab.up(&[]);
    settled(lab);
    let follow = |args: &[&str]| {
        let all = [&["events", "--follow", "--json"], args].concat();
        Up::of(lab.command(&all))
    };
    let mut of_web = follow(&["web", "--since", "1h"]);
    let mut of_api = follow(&["cache/api"]);
    for (following, name) in [(&of_web, "web"), (&of_api, "api")] {
        until("what was is shown", 60, || {
            let events = shown(following);
            let all = events.iter().all(|event| event["consumer"] == name);
            match all && kinds(&events).contains(&"applied") {
                true => Ok(()),
                false => Err(events),
            }
        });
    }
    let before = shown(&of_api);
    redis.ask(&["ACL", "DELUSER", "web"]);
    let events = until("what comes is shown", 60, || {
        let events = shown(&of_web);
        match kinds(&events).contains(&"healed") {
            true => Ok(events),
            false => Err(events),
        }
    });
    let healed = kinds(&events).iter().filter(|k| **k == "healed").count();
    assert_eq!(healed, 1, "nothing is shown twice: {events:#?}");
    assert_eq!(shown(&of_api), before, "and what is not asked for is not");
    for (following, signal) in [(&mut of_web, Signal::TERM), (&mut of_api, Signal::INT)] {
        following.signal(signal);
        following.ends(Duration::from_secs(20)).ends(0);
    }
    up.stop().ends(0);
}

const LINES: &str = "verify_every = \"1s\"";

#[test]
fn c5_events_are_followed_on_the_embedded_bus() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, LINES, ["web", "api"]);
    follows(&lab, &redis);
}

#[test]
fn c5_events_are_followed_on_nats() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let lab = first(&nats, &redis, LINES, &["web", "api"]);
    follows(&lab, &redis);
}
