//! What people say: switched off in the manifest, paused, acknowledged, silenced (H-25, C-3).

use crate::lab::{Lab, cache, need};
use crate::redis::{Client, Redis};
use crate::removing::{SHORT, daemon, is_off};
use crate::restarting::settled;
use crate::wait::{until, until_true};

#[test]
fn h25_enabled_false_keeps_a_login_switched_off_with_its_password() {
    let (lab, redis, _up) = daemon(SHORT, &["api"]);
    let manifest = |enabled: bool| {
        let mut text = cache(&redis, SHORT, ["api"]);
        need(&mut text, "web", "cache", &format!("enabled = {enabled}"));
        lab.manifest(&text);
    };
    manifest(true);
    until_true("it is there", 20, || {
        (redis.users().contains("web"), redis.users())
    });
    settled(&lab);
    let password = lab.password("web", "cache");
    let mut session = Client::connect(redis.port).expect("client");
    session.ask(&["AUTH", "web", &password]);
    manifest(false);
    until_true("it is off", 20, || {
        (is_off(&redis, "web"), redis.user("web"))
    });
    until("its session is ended", 10, || {
        match session.try_ask(&["PING"]) {
            None => Ok(()),
            Some(reply) => Err(reply),
        }
    });
    until("it is shown", 20, || {
        let states = lab.states();
        if states.contains(&"web=disabled".to_owned()) {
            Ok(())
        } else {
            Err(states)
        }
    });
    // Somebody switches it on: that is a loss.
    redis.ask(&["ACL", "SETUSER", "web", "on"]);
    until_true("it is off again", 20, || {
        (is_off(&redis, "web"), redis.user("web"))
    });
    manifest(true);
    until_true("it is on", 20, || {
        (redis.lets_in("web", &password), redis.user("web"))
    });
}

#[test]
fn h25_a_pause_stops_writes_and_not_looks_and_has_an_end() {
    let (lab, redis, _up) = daemon(SHORT, &["web", "api"]);
    lab.mesh(&["pause", "web", "--for", "1h"])
        .ends(0)
        .says("takes effect now");
    lab.mesh(&["pause", "web", "--for", "8d"]).ends(64);
    until("it is told", 20, || {
        let all = lab.conditions();
        if all.contains(&"Paused cache/web".to_owned()) {
            Ok(())
        } else {
            Err(all)
        }
    });
    redis.ask(&["ACL", "DELUSER", "web", "api"]);
    until_true("the other one is healed", 20, || {
        (redis.users().contains("api"), redis.users())
    });
    until("it is seen lost", 20, || {
        let states = lab.states();
        if states.contains(&"web=lost".to_owned()) {
            Ok(())
        } else {
            Err(states)
        }
    });
    assert!(!redis.users().contains("web"));
    lab.mesh(&["resume", "web"]).ends(0);
    until_true("it is healed", 20, || {
        (redis.users().contains("web"), redis.users())
    });
    // A short pause ends by itself.
    lab.mesh(&["pause", "cache", "--for", "2s"]).ends(0);
    redis.ask(&["ACL", "DELUSER", "web"]);
    until_true("it is healed when the pause is over", 20, || {
        (redis.users().contains("web"), redis.users())
    });
}

#[test]
fn c3_a_silenced_condition_does_not_count_and_an_acknowledged_one_does() {
    let (lab, redis) = (Lab::new(), Redis::start());
    redis.ask(&["ACL", "SETUSER", "web", "on", ">the-old-password"]);
    lab.write("web.password", "quite-another-one");
    let mut text = cache(&redis, "", ["api"]);
    need(
        &mut text,
        "web",
        "cache",
        "password = { file = \"web.password\" }\nenabled = true",
    );
    lab.manifest(&text);
    lab.mesh(&["apply"]).ends(3);
    lab.mesh(&["ack", "LoginTaken", "cache/web", "--reason", "seen"])
        .ends(0);
    let status = lab.mesh(&["status", "--json"]).ends(3).json();
    let taken = status["conditions"].as_array().expect("list").iter();
    let taken = taken
        .clone()
        .find(|c| c["type"] == "LoginTaken")
        .expect("LoginTaken");
    assert!(taken["acknowledged_until"].is_string(), "{taken:#}");
    // The state of the provision counts for itself; the condition alone can be silenced.
    lab.mesh(&[
        "silence",
        "LoginTaken",
        "cache/web",
        "--reason",
        "later",
        "--for",
        "1h",
    ])
    .ends(0);
    let status = lab.status();
    let taken = status["conditions"].as_array().expect("list").iter();
    let taken = taken
        .clone()
        .find(|c| c["type"] == "LoginTaken")
        .expect("LoginTaken");
    assert!(taken["silenced_until"].is_string(), "{taken:#}");
    lab.mesh(&[
        "silence",
        "LoginTaken",
        "cache/web",
        "--reason",
        "x",
        "--for",
        "8d",
    ])
    .ends(64);
    lab.mesh(&["silence", "LoginTaken", "cache/nobody", "--reason", "x"])
        .ends(1);
    lab.mesh(&["silence", "Nonsense", "cache/web", "--reason", "x"])
        .ends(64);
    let words = lab.mesh(&["events"]).ends(0);
    assert!(
        words.out.contains("acknowledged") && words.out.contains("later"),
        "{words:#?}"
    );
}
