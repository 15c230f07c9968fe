//! The other way round: what a server holds that nobody asks for, and the login that proves its list (R-2,
//!

use std::time::Duration;

use serde_json::Value;

use crate::lab::Lab;
use crate::redis::Redis;
use crate::removing::{SHORT, daemon, is_off};
use crate::restarting::settled;
use crate::storing::remove;
use crate::wait::{stays, until, until_true};

const LONG_GRACE: &str =
    "verify_every = \"1s\"\nlist_every = \"1s\"\nremove_after = \"1s\"\ngrace = \"1h\"";

/// Another login with the mark of one that is there.
fn copy_mark(redis: &Redis, from: &str, to: &str) {
    let line = redis.user(from).expect("it is there");
    let start = line.find('(').expect("a selector");
    let end = line.rfind(')').expect("its end");
    redis.ask(&[
        "ACL",
        "SETUSER",
        to,
        "on",
        ">older-password",
        &line[start..=end],
    ]);
}

fn leftover(lab: &Lab, login: &str) -> Option<Value> {
    let status = lab.status();
    let all = status["leftovers"].as_array().expect("a list").clone();
    all.into_iter().find(|one| one["login"] == login)
}

#[test]
fn r14_meshkeepers_own_login_is_there_opens_nothing_and_is_counted_nowhere() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web"]);
    lab.mesh(&["plan"])
        .ends(2)
        .says("1 to do")
        .says("mesh-canary");
    lab.mesh(&["apply"]).ends(0).says("applied 1");
    let own = redis.canaries();
    assert_eq!(own.len(), 1, "{own:?}");
    assert!(is_off(&redis, &own[0]), "{:?}", redis.user(&own[0]));
    let writes = redis.writes();
    lab.mesh(&["apply"]).ends(0).says("asked 1").says("held 1");
    assert_eq!(redis.writes(), writes, "again changes nothing");
    assert_eq!(lab.states(), ["web=held"]);
    assert_eq!(lab.status()["leftovers"].as_array().map(Vec::len), Some(0));
    lab.mesh(&["plan"]).ends(0).says("Nothing to do.");
    // It is healed like any other, and alarms nobody.
    redis.ask(&["ACL", "DELUSER", &own[0]]);
    lab.mesh(&["plan"]).ends(0).says("Nothing to do.");
    lab.mesh(&["apply"]).ends(0);
    assert_eq!(redis.canaries(), own);
    lab.mesh(&["apply"]).ends(0);
    redis.ask(&["ACL", "SETUSER", &own[0], "on"]);
    lab.mesh(&["apply"]).ends(0);
    assert!(is_off(&redis, &own[0]));
    // Another provider's, and another mesh's, is another one.
    let other = Lab::new();
    other.cache(&redis, "", ["api"]);
    other.mesh(&["apply"]).ends(0);
    assert_eq!(redis.canaries().len(), 2);
    lab.mesh(&["apply"]).ends(0);
    assert_eq!(lab.status()["strangers"]["cache"]["count"], 3);
    assert_eq!(lab.status()["strangers"]["cache"]["damaged"], 0);
}

#[test]
fn r14_without_it_only_a_person_lets_go() {
    let lines = format!("{LONG_GRACE}\ncanary = false");
    let (lab, redis, _up) = daemon(&lines, &["web", "api", "job"]);
    assert_eq!(redis.canaries(), Vec::<String>::new());
    lab.cache(&redis, &lines, ["api", "job"]);
    until("it is told", 20, || {
        let all = lab.conditions();
        if all.contains(&"RemovalHeld cache".to_owned()) {
            Ok(())
        } else {
            Err(all)
        }
    });
    stays("nothing goes", Duration::from_secs(3), || {
        (!is_off(&redis, "web"), redis.user("web"))
    });
    lab.mesh(&["plan"])
        .says("without a canary")
        .says("stays: keys");
    lab.approve("cache").ends(0);
    until_true("it is switched off", 20, || {
        (is_off(&redis, "web"), redis.user("web"))
    });
}

#[test]
fn r14_what_is_meshkeepers_own_is_refused_in_a_manifest() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["mesh-canary"]);
    lab.mesh(&["check"]).ends(1).says("Meshkeeper's own name");
    let mut text = crate::lab::cache(&redis, "", ["web"]);
    crate::lab::need(&mut text, "api", "cache", "login = \"mesh-canary-x\"");
    lab.manifest(&text);
    lab.mesh(&["check"]).ends(1).says("are Meshkeeper's own");
}

#[test]
fn r3_another_login_with_the_mark_of_one_who_is_asked_for_is_superseded() {
    let (lab, redis, _up) = daemon(LONG_GRACE, &["web", "api", "job"]);
    copy_mark(&redis, "web", "older");
    until("it is shown", 20, || match leftover(&lab, "older") {
        Some(one) if one["kind"] == "superseded" && one["consumer"] == "web" => Ok(()),
        other => Err(other),
    });
    stays("it works", Duration::from_secs(3), || {
        (
            redis.lets_in("older", "older-password"),
            redis.user("older"),
        )
    });
    // Once nobody asks for `web` any more, both of its logins go.
    lab.cache(&redis, LONG_GRACE, ["api", "job"]);
    for login in ["web", "older"] {
        until_true("it is switched off", 30, || {
            (is_off(&redis, login), redis.user(login))
        });
    }
    lab.cache(&redis, LONG_GRACE, ["web", "api", "job"]);
    let password = lab.password("web", "cache");
    until_true("it is switched on", 20, || {
        (redis.lets_in("web", &password), redis.user("web"))
    });
    settled(&lab);
    assert!(is_off(&redis, "older"), "nobody asks for that one");
}

#[test]
fn r9_who_left_while_the_bus_was_lost_goes_by_the_same_steps() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, SHORT, ["web", "api", "job"]);
    lab.mesh(&["apply"]).ends(0);
    redis.ask(&["SET", "web:1", "data"]);
    remove(&lab.data(), "mesh.db");
    lab.cache(&redis, SHORT, ["api", "job"]);
    lab.mesh(&["apply"]);
    assert!(!is_off(&redis, "web"), "not at once");
    let plan = lab.mesh(&["plan"]);
    assert!(plan.out.contains("leaving"), "{plan:#?}");
    until_true("a later one switches it off", 20, || {
        lab.mesh(&["apply"]);
        (is_off(&redis, "web"), redis.user("web"))
    });
    until_true("a later one drops it", 20, || {
        lab.mesh(&["apply"]);
        (!redis.users().contains("web"), redis.users())
    });
    assert_eq!(redis.ask(&["GET", "web:1"]).text(), "data", "R-5");
}

#[test]
fn r13_what_another_provider_of_the_same_server_asks_for_stays() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let text = |cache: &[&str], other: &[&str]| {
        let mut text = crate::lab::cache(&redis, SHORT, cache.iter().copied());
        text.push_str(&format!(
            "\n[provider.other]\nkind = \"redis\"\nurl = \"{}\"\n{SHORT}\n",
            redis.url()
        ));
        for name in other {
            crate::lab::need(&mut text, name, "other", "");
        }
        text
    };
    lab.manifest(&text(&["web", "api", "job"], &["mail", "post"]));
    lab.mesh(&["apply"]).ends(0);
    assert_eq!(redis.canaries().len(), 2, "one for each");
    // `web` is handed to the other provider: its mark is the first one's still.
    lab.manifest(&text(&["api", "job"], &["mail", "post", "web"]));
    stays("it stays", Duration::from_secs(8), || {
        lab.mesh(&["apply"]);
        (!is_off(&redis, "web"), redis.user("web"))
    });
}
