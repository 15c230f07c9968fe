//! Who leaves: leaving, switched off, dropped; coming back; the removal brake; what never removes.

use std::time::Duration;

use crate::lab::{Lab, Up, cache, need};
use crate::redis::{Client, Redis};
use crate::restarting::settled;
use crate::wait::{stays, until, until_true};

pub(crate) const SHORT: &str =
    "verify_every = \"1s\"\nlist_every = \"1s\"\nremove_after = \"1s\"\ngrace = \"3s\"";
const LONG_GRACE: &str =
    "verify_every = \"1s\"\nlist_every = \"1s\"\nremove_after = \"1s\"\ngrace = \"1h\"";

pub(crate) fn daemon(lines: &str, consumers: &[&str]) -> (Lab, Redis, Up) {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, lines, consumers.iter().copied());
    let up = lab.up(&[]);
    until_true("all are there", 30, || {
        (redis.users().len() == consumers.len(), redis.users())
    });
    settled(&lab);
    (lab, redis, up)
}

pub(crate) fn is_off(redis: &Redis, name: &str) -> bool {
    redis.user(name).is_some_and(|user| user.contains(" off "))
}

#[test]
fn r6_who_leaves_is_shown_then_switched_off_with_its_sessions_then_dropped() {
    let (lab, redis, _up) = daemon(SHORT, &["web", "api", "job"]);
    let password = lab.password("web", "cache");
    let mut session = Client::connect(redis.port).expect("client");
    session.ask(&["AUTH", "web", &password]);
    session.ask(&["SET", "web:1", "data"]);
    lab.cache(&redis, SHORT, ["api", "job"]);
    until("it is shown as leaving or disabled", 20, || {
        let status = lab.status();
        let leftovers = status["leftovers"].as_array().expect("leftovers").clone();
        let found = leftovers
            .iter()
            .any(|l| l["login"] == "web" && l["until"].is_string() && l["consumer"] == "web");
        if found {
            Ok(())
        } else {
            Err(status["leftovers"].clone())
        }
    });
    until_true("it is switched off", 20, || {
        (is_off(&redis, "web"), redis.user("web"))
    });
    assert!(!redis.lets_in("web", &password));
    until("its session is ended", 10, || {
        match session.try_ask(&["GET", "web:1"]) {
            None => Ok(()),
            Some(reply) => Err(reply),
        }
    });
    until_true("it is dropped", 20, || {
        (!redis.users().contains("web"), redis.users())
    });
    // its data stays.
    assert_eq!(redis.ask(&["GET", "web:1"]).text(), "data");
    let events = lab.events("web");
    let order: Vec<&str> = events
        .iter()
        .map(String::as_str)
        .filter(|k| ["leaving", "switched_off", "dropped"].contains(k))
        .collect();
    assert_eq!(order, ["leaving", "switched_off", "dropped"]);
    settled(&lab);
}

#[test]
fn r6_who_comes_back_within_the_grace_has_its_password_still() {
    let (lab, redis, _up) = daemon(LONG_GRACE, &["web", "api", "job"]);
    let password = lab.password("web", "cache");
    lab.cache(&redis, LONG_GRACE, ["api", "job"]);
    until_true("it is switched off", 20, || {
        (is_off(&redis, "web"), redis.user("web"))
    });
    let leftovers = until("it is shown", 20, || {
        let leftovers = lab.status()["leftovers"].clone();
        if leftovers[0]["kind"] == "disabled" {
            Ok(leftovers)
        } else {
            Err(leftovers)
        }
    });
    let until_text = leftovers[0]["until"].as_str().expect("until");
    let until_time: jiff::Timestamp = until_text.parse().expect("time");
    let at: jiff::Timestamp = lab.status()["at"]
        .as_str()
        .expect("at")
        .parse()
        .expect("time");
    let left = until_time.as_second() - at.as_second();
    assert!(
        (3300..=3600).contains(&left),
        "the provider's own grace: {left} s"
    );
    lab.cache(&redis, LONG_GRACE, ["web", "api", "job"]);
    until_true("it is switched on", 20, || {
        (redis.lets_in("web", &password), redis.user("web"))
    });
    settled(&lab);
    assert_eq!(lab.password("web", "cache"), password);
    let events = lab.events("web");
    assert!(events.contains(&"came_back".to_owned()), "{events:?}");
    assert_eq!(events.iter().filter(|k| *k == "minted").count(), 1);
}

#[test]
fn r8_successive_applies_finish_a_removal_and_none_of_them_waits() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, SHORT, ["web", "api", "job"]);
    lab.mesh(&["apply"]).ends(0);
    lab.cache(&redis, SHORT, ["api", "job"]);
    lab.mesh(&["apply"]).ends(0);
    assert!(
        redis.users().contains("web") && !is_off(&redis, "web"),
        "not at once"
    );
    until_true("a later one switches it off", 20, || {
        lab.mesh(&["apply"]).ends(0);
        (is_off(&redis, "web"), redis.user("web"))
    });
    until_true("a later one drops it", 20, || {
        lab.mesh(&["apply"]).ends(0);
        (!redis.users().contains("web"), redis.users())
    });
}

#[test]
fn r7_four_of_ten_wait_for_a_person_who_lets_exactly_those_go() {
    let names: Vec<String> = (0..10).map(|n| format!("c{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (lab, redis, _up) = daemon(LONG_GRACE, &names);
    lab.cache(&redis, LONG_GRACE, names[4..].iter().copied());
    until("it is held back and told", 20, || {
        let all = lab.conditions();
        if all.contains(&"RemovalHeld cache".to_owned()) {
            Ok(())
        } else {
            Err(all)
        }
    });
    stays("nobody is switched off", Duration::from_secs(3), || {
        let off: Vec<&&str> = names.iter().filter(|n| is_off(&redis, n)).collect();
        (off.is_empty(), format!("{off:?}"))
    });
    let plan = lab.mesh(&["plan"]);
    assert!(
        plan.out.contains("leaving") && plan.out.contains("c0"),
        "{plan:#?}"
    );
    // Without the set's name nothing happens, and it is told.
    let set = lab.removal_set("cache");
    let ran = lab.mesh(&["approve", "removals", "cache"]).ends(1);
    ran.says("c0 (login c0)").warns(&format!("--set {set}"));
    plan.says(&format!("mesh approve removals cache --set {set}"));
    lab.mesh(&["status"]).says(&format!("--set {set}"));
    let ran = lab.approve("cache").ends(0);
    for name in &names[..4] {
        assert!(ran.err.contains(name), "{ran:#?}");
    }
    until_true("those four are switched off", 20, || {
        let off = names.iter().filter(|n| is_off(&redis, n)).count();
        (off == 4, off)
    });
    // One more that leaves now is none of those.
    lab.cache(&redis, LONG_GRACE, names[5..].iter().copied());
    until("it is leaving", 20, || {
        let status = lab.status();
        let left = status["leftovers"].as_array().expect("list").len();
        if left == 5 { Ok(()) } else { Err(left) }
    });
    for name in &names[5..] {
        assert!(!is_off(&redis, name), "{name}");
    }
}

#[test]
fn r7_an_empty_wish_after_a_full_one_needs_approval() {
    let (lab, redis, _up) = daemon(SHORT, &["web"]);
    lab.cache(&redis, SHORT, []);
    until("it is told", 20, || {
        let all = lab.conditions();
        if all.contains(&"RemovalHeld cache".to_owned()) {
            Ok(())
        } else {
            Err(all)
        }
    });
    stays("nothing goes", Duration::from_secs(3), || {
        let user = redis.user("web");
        (user.as_ref().is_some_and(|u| u.contains(" on ")), user)
    });
    lab.approve("cache").ends(0);
    until_true("it goes", 20, || {
        (!redis.users().contains("web"), redis.users())
    });
}

#[test]
fn r7_removals_are_counted_over_the_whole_mesh() {
    let (lab, one, two) = (Lab::new(), Redis::start(), Redis::start());
    let manifest = |leaving: bool| {
        let lines = format!("{LONG_GRACE}\nmax_removals = 20");
        let mut text = cache(&one, &lines, []);
        text.push_str(&format!(
            "\n[provider.other]\nkind = \"redis\"\nurl = \"{}\"\n{lines}\n",
            two.url()
        ));
        for n in 0..20 {
            for (provider, letter) in [("cache", "a"), ("other", "b")] {
                if !leaving || n >= 6 {
                    need(&mut text, &format!("{letter}{n}"), provider, "");
                }
            }
        }
        lab.manifest(&text);
    };
    manifest(false);
    let _up = lab.up(&[]);
    settled(&lab);
    // Six of twenty of each: neither provider alone holds that back, twelve in the mesh are too many.
    manifest(true);
    until("it is told on both", 20, || {
        let all = lab.conditions();
        let told = ["RemovalHeld cache", "RemovalHeld other"];
        if told.iter().all(|t| all.iter().any(|c| c == t)) {
            Ok(())
        } else {
            Err(all)
        }
    });
    stays("nobody is switched off", Duration::from_secs(3), || {
        let off = |redis: &Redis, letter: &str| {
            (0..6)
                .filter(|n| is_off(redis, &format!("{letter}{n}")))
                .count()
        };
        let both = (off(&one, "a"), off(&two, "b"));
        (both == (0, 0), both)
    });
    lab.mesh(&["conditions"]).ends(0).says("in the whole mesh");
}

#[test]
fn r13_a_provider_that_leaves_the_manifest_removes_nothing_and_is_told() {
    let (lab, redis, two) = (Lab::new(), Redis::start(), Redis::start());
    let mut text = cache(&redis, SHORT, ["web"]);
    let without = text.clone();
    text.push_str(&format!(
        "\n[provider.other]\nkind = \"redis\"\nurl = \"{}\"\n{SHORT}\n",
        two.url()
    ));
    need(&mut text, "api", "other", "");
    lab.manifest(&text);
    let _up = lab.up(&[]);
    settled(&lab);
    let password = lab.password("api", "other");
    lab.manifest(&without);
    until("it is told", 20, || {
        let all = lab.conditions();
        if all.contains(&"ProviderGone other".to_owned()) {
            Ok(())
        } else {
            Err(all)
        }
    });
    let writes = two.writes();
    stays("nothing happens there", Duration::from_secs(3), || {
        (
            two.writes() == writes && two.lets_in("api", &password),
            two.calls(),
        )
    });
    assert_eq!(lab.states(), ["web=held"]);
    // Back again: nothing was lost.
    lab.manifest(&text);
    until("it is held again", 20, || {
        let states = lab.states();
        if states == ["web=held", "api=held"] || states == ["api=held", "web=held"] {
            Ok(())
        } else {
            Err(states)
        }
    });
    assert_eq!(lab.password("api", "other"), password);
    assert_eq!(two.writes(), writes);
    settled(&lab);
}

#[test]
fn r3_a_changed_login_keeps_the_old_one_and_shows_it() {
    let (lab, redis, _up) = daemon(SHORT, &["web", "api"]);
    let password = lab.password("web", "cache");
    let mut text = cache(&redis, SHORT, ["api"]);
    need(&mut text, "web", "cache", "login = \"web2\"");
    lab.manifest(&text);
    until_true("the new one is there", 20, || {
        (redis.users().contains("web2"), redis.users())
    });
    stays("the old one works", Duration::from_secs(4), || {
        (redis.lets_in("web", &password), redis.user("web"))
    });
    let status = lab.status();
    assert_eq!(
        status["leftovers"][0]["kind"], "superseded",
        "{:#}",
        status["leftovers"]
    );
    assert_eq!(status["leftovers"][0]["login"], "web");
}
