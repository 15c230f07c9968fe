//! A server that restarts, forgets, hangs and comes back, under `mesh up`.

use std::time::Duration;

use rustix::process::Signal;

use crate::lab::{Lab, cache, need};
use crate::redis::Redis;
use crate::wait::{stays, until, until_true};

/// A daemon on these consumers, all of them held.
fn daemon(lab: &Lab, redis: &Redis, lines: &str, consumers: &[&str]) -> crate::lab::Up {
    lab.cache(redis, lines, consumers.iter().copied());
    let up = lab.up(&[]);
    until_true("all are there", 30, || {
        (redis.users().len() == consumers.len(), redis.users())
    });
    settled(lab);
    up
}

/// Waits until the picture is well.
pub(crate) fn settled(lab: &Lab) {
    until("the picture is well", 30, || {
        let ran = lab.mesh(&["status", "--json"]);
        match ran.code {
            0 => Ok(()),
            1 => Err(ran.err),
            _ => Err(amiss(&ran.json())),
        }
    });
}

/// What is not as asked in a picture.
fn amiss(picture: &serde_json::Value) -> String {
    let list = |what: &str| picture[what].as_array().expect("list").clone();
    let amiss = list("provisions");
    let amiss = amiss.iter().filter(|p| p["state"] != "held").take(5);
    let conditions = list("conditions");
    let conditions = conditions
        .iter()
        .filter(|c| c["severity"] != "info")
        .take(5);
    let loops = list("loops");
    let all = amiss.chain(conditions).chain(&loops);
    all.map(|v| format!("{v}\n")).collect()
}

#[test]
fn o18_a_restart_that_forgets_is_healed_by_the_hint_and_told_as_explained() {
    let (lab, mut redis) = (Lab::new(), Redis::start());
    let _up = daemon(&lab, &redis, "", &["web", "api", "job"]);
    let password = lab.password("web", "cache");
    redis.restart();
    // `verify_every` is a minute: only the hint can be this quick.
    until_true("all are back", 15, || {
        (redis.users().len() == 3, redis.users())
    });
    assert!(redis.lets_in("web", &password));
    settled(&lab);
    assert!(lab.events("web").contains(&"healed".to_owned()));
    let conditions = lab.conditions();
    let braked = conditions.iter().any(|c| c.starts_with("Braked"));
    assert!(!braked, "a restart explains the loss: {conditions:?}");
    assert!(
        conditions.contains(&"NotDurable cache".to_owned()),
        "{conditions:?}"
    );
}

#[test]
fn o18_with_an_aclfile_a_restart_forgets_nothing_and_costs_no_write() {
    let (lab, mut redis) = (Lab::new(), Redis::with_aclfile());
    let _up = daemon(&lab, &redis, "", &["web", "api"]);
    assert!(
        redis.calls().contains_key("acl|save"),
        "{:?}",
        redis.calls()
    );
    redis.restart();
    until_true("it is asked again", 20, || {
        let calls = redis.calls();
        let asked = ["acl|list", "acl|getuser"];
        (asked.iter().any(|c| calls.contains_key(*c)), calls)
    });
    assert_eq!(redis.users().len(), 2);
    stays("nothing is written", Duration::from_secs(2), || {
        (redis.writes() == 0, redis.calls())
    });
    let conditions = lab.conditions();
    assert!(
        !conditions.contains(&"NotDurable cache".to_owned()),
        "{conditions:?}"
    );
}

#[test]
fn h14_a_thousand_consumers_are_back_soon_after_a_restart() {
    let (lab, mut redis) = (Lab::new(), Redis::start());
    let names: Vec<String> = (0..1000).map(|n| format!("c{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let _up = daemon(&lab, &redis, "", &names);
    let accepted = redis.restart();
    until("all thousand are back", 20, || match redis.users().len() {
        1000 => Ok(()),
        n => Err(format!("{n} of 1000")),
    });
    let took = accepted.elapsed();
    println!("1,000 consumers were back {took:?} after the server accepted connections");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn h9_o26_a_server_that_hangs_is_unknown_and_never_written_while_another_heals() {
    let (lab, hanging, fine) = (Lab::new(), Redis::start(), Redis::start());
    let mut text = cache(
        &hanging,
        "verify_every = \"1s\"\nask_timeout = \"500ms\"\nunknown_after = \"1s\"",
        ["web"],
    );
    text.push_str(&format!(
        "\n[provider.other]\nkind = \"redis\"\nurl = \"{}\"\nverify_every = \"1s\"\n",
        fine.url()
    ));
    need(&mut text, "api", "other", "");
    lab.manifest(&text);
    let _up = lab.up(&[]);
    settled(&lab);
    let writes = hanging.writes();
    hanging.hang();
    fine.ask(&["ACL", "DELUSER", "api"]);
    until_true("the other one is healed", 10, || {
        (fine.users().contains("api"), fine.users())
    });
    until("the hanging one is unknown", 20, || {
        let states = lab.states();
        let wanted = ["web=unknown", "api=held"].map(str::to_owned);
        if wanted.iter().all(|w| states.contains(w)) {
            Ok(())
        } else {
            Err(states)
        }
    });
    until("it is told", 20, || {
        let all = lab.conditions();
        if all.contains(&"BackendUnreachable cache".to_owned()) {
            Ok(())
        } else {
            Err(all)
        }
    });
    lab.mesh(&["explain", "web"]).ends(0).says("unknown");
    hanging.go_on();
    settled(&lab);
    assert_eq!(hanging.writes(), writes, "{:?}", hanging.calls());
}

#[test]
fn o26_a_stop_during_a_hang_takes_seconds_and_is_orderly() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let mut up = daemon(&lab, &redis, "verify_every = \"1s\"", &["web"]);
    redis.hang();
    until("a pass hangs", 20, || {
        let status = lab.status();
        let next = status["loops"][0]["next_pass"]
            .as_str()
            .unwrap_or("")
            .to_owned();
        let at = status["at"].as_str().unwrap_or("").to_owned();
        if next < at { Ok(()) } else { Err((next, at)) }
    });
    let began = tokio::time::Instant::now();
    let ran = up.stop().ends(0);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}: {ran:#?}");
    assert!(ran.err.contains("stopped"), "{ran:#?}");
}

#[test]
fn a_stop_without_trouble_is_quick_and_a_second_start_goes_on() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let mut up = daemon(&lab, &redis, "", &["web"]);
    let writes = redis.writes();
    let began = tokio::time::Instant::now();
    up.stop().ends(0);
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    let mut up = lab.up(&[]);
    until_true("it looks again", 20, || {
        let status = lab.status();
        (status["loops"][0]["state"] == "running", status)
    });
    assert_eq!(redis.writes(), writes);
    up.signal(Signal::INT);
    up.ends(Duration::from_secs(5)).ends(0);
}

#[test]
fn b8_a_daemon_that_hangs_is_late_and_the_picture_is_not_well() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let up = daemon(&lab, &redis, "verify_every = \"1s\"", &["web"]);
    up.signal(Signal::STOP);
    until("its loop is late", 75, || {
        let ran = lab.mesh(&["status", "--json"]);
        let picture = ran.json();
        let state = picture["loops"][0]["state"]
            .as_str()
            .unwrap_or("?")
            .to_owned();
        match (ran.code, state.as_str()) {
            (3, "late") => Ok(()),
            _ => Err((ran.code, state)),
        }
    });
    up.signal(Signal::CONT);
    settled(&lab);
}
