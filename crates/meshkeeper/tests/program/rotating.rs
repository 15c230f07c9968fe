//! Another password without a moment in which none works: old and new are valid together, `status` names who has not
//! taken the new one up, and nothing is retired before (R-3, S-7).

use std::fs;

use serde_json::Value;

use crate::lab::{Lab, cache};
use crate::postgres::{Postgres, own_database};
use crate::redis::Redis;
use crate::wait::until_true;

const THREE: [&str; 3] = ["one", "slow", "two"];

/// Tables of `deliver` for three consumers, of which one takes its time.
fn deliver() -> String {
    let table = |name: &str| {
        let more = if name == "slow" {
            "acknowledge = \"person\""
        } else {
            ""
        };
        format!("\n[[consumer.{name}.deliver]]\nenv_file = \"{name}.env\"\n{more}\n")
    };
    THREE.map(table).concat()
}

/// A variable of a consumer's env file.
fn variable(lab: &Lab, consumer: &str, name: &str) -> String {
    let text = fs::read_to_string(lab.path().join(format!("{consumer}.env"))).unwrap_or_default();
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}=")));
    found.unwrap_or_default().to_owned()
}

fn rotation(lab: &Lab, consumer: &str) -> Value {
    let picture = lab.status();
    let all = picture["rotations"].as_array().expect("rotations").iter();
    let mut all = all.filter(|one| one["consumer"] == consumer);
    all.next().cloned().unwrap_or(Value::Null)
}

fn until_step(lab: &Lab, consumer: &str, step: &str) {
    until_true(&format!("{consumer} is {step}"), 90, || {
        let one = rotation(lab, consumer);
        (one["step"] == step, one)
    });
}

/// Three consumers, one of them slow, on any server. `enters`: whether a login with a password comes in.
fn rotates(lab: &Lab, provider: &str, enters: &dyn Fn(&str, &str) -> bool) {
    let upper = provider.to_uppercase();
    let seen = |consumer: &str| {
        let of = |word: &str| variable(lab, consumer, &format!("{upper}_{word}"));
        (of("USER"), of("PASSWORD"))
    };
    let mut up = lab.up(&[]);
    until_true("the first delivery", 90, || {
        let all = THREE.map(seen);
        (all.iter().all(|(_, password)| !password.is_empty()), all)
    });
    lab.mesh(&["ack", "delivery", "slow", "--reason", "it started with it"])
        .ends(0);
    let before = THREE.map(seen);
    assert!(
        before
            .iter()
            .all(|(login, password)| enters(login, password))
    );
    for consumer in THREE {
        lab.mesh(&["rotate", consumer, provider, "--reason", "a test"])
            .ends(0);
    }
    until_step(lab, "one", "resting");
    until_step(lab, "two", "resting");
    until_step(lab, "slow", "waiting");
    let slow_old = before[1].clone();
    until_true("the new one lies there", 30, || {
        let now = seen("slow");
        (now != slow_old, now)
    });
    let slow_new = seen("slow");
    until_true("the one is named", 30, || {
        let one = rotation(lab, "slow");
        let named = one["waits_on"][0]["on"]
            .as_str()
            .is_some_and(|on| on.contains("slow.env"));
        (named && one["waits_on"][0]["since"].is_string(), one)
    });
    // Killed and started again: it goes on waiting, and both work.
    up.kill();
    let mut up = lab.up(&[]);
    until_true("the daemon looked again", 60, || {
        (
            enters(&slow_old.0, &slow_old.1) && enters(&slow_new.0, &slow_new.1),
            rotation(lab, "slow"),
        )
    });
    assert_eq!(rotation(lab, "slow")["step"], "waiting");
    lab.mesh(&["status"]).says("slow.env").says("waiting");
    lab.mesh(&["explain", "slow"]).ends(0).says("waits for");
    for (consumer, (login, password)) in ["one", "two"].into_iter().zip([&before[0], &before[2]]) {
        let (now_login, now_password) = seen(consumer);
        assert!(enters(&now_login, &now_password), "{consumer}");
        assert!(!enters(login, password), "{consumer}: the old one is gone");
        assert_eq!(lab.password(consumer, provider), now_password);
    }

    lab.mesh(&["ack", "delivery", "slow", "--reason", "restarted by hand"])
        .ends(0);
    until_step(lab, "slow", "resting");
    assert!(enters(&slow_new.0, &slow_new.1));
    assert!(!enters(&slow_old.0, &slow_old.1));
    lab.mesh(&["apply"]).ends(0);
    let after = THREE.map(seen);
    lab.mesh(&["apply"]).ends(0);
    lab.mesh(&["plan"]).ends(0).says("Nothing to do.");
    assert_eq!(THREE.map(seen), after, "again changes nothing");
    assert!(THREE.iter().all(|one| rotation(lab, one)["number"] == 1));
    let shown = format!("{:?}", lab.status());
    assert!(
        after
            .iter()
            .chain(&before)
            .all(|(_, password)| !shown.contains(password))
    );
    up.stop();
}

#[test]
fn r3_three_on_redis_and_the_slow_one_keeps_both_passwords_until_it_has_the_new_one() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let text = cache(&redis, "verify_every = \"2s\"", THREE);
    lab.manifest(&format!("{text}{}", deliver()));
    rotates(&lab, "cache", &|login, password| {
        redis.lets_in(login, password)
    });
}

#[test]
fn r3_three_on_postgresql_and_the_slow_one_keeps_both_logins_until_it_has_the_new_one() {
    let (lab, postgres) = (Lab::new(), Postgres::start());
    postgres.asked_for(&lab, "", &THREE, own_database, &deliver());
    rotates(&lab, "it", &|login, password| {
        postgres.enters_in(login.trim_end_matches("__b"), login, password)
    });
}

#[test]
fn h24_apply_alone_makes_every_step_and_says_who_is_waited_for() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.manifest(&cache(&redis, "", ["web"]));
    lab.mesh(&["apply"]).ends(0);
    let old = lab.password("web", "cache");
    lab.mesh(&["rotate", "web"])
        .ends(0)
        .says("at the next `mesh apply`");
    lab.mesh(&["plan"]).ends(2).says("rotate");
    lab.mesh(&["apply"]).ends(0);
    let new = lab.password("web", "cache");
    assert!(new != old && redis.lets_in("web", &old) && redis.lets_in("web", &new));
    lab.mesh(&["status"])
        .ends(0)
        .says("nothing is delivered to it");
    lab.mesh(&["apply"]).ends(0);
    assert_eq!(lab.password("web", "cache"), new, "nothing is made twice");
    // Back, while it is valid, and taken up.
    lab.mesh(&["rotate", "web", "--back", "--reason", "it could not"])
        .ends(0);
    lab.mesh(&["apply"]).ends(0);
    assert_eq!(lab.password("web", "cache"), old);
    assert!(redis.lets_in("web", &new));
    lab.mesh(&["ack", "rotation", "web", "--reason", "it has it"])
        .ends(0);
    lab.mesh(&["apply"]).ends(0);
    assert!(redis.lets_in("web", &old) && !redis.lets_in("web", &new));
    // By force.
    lab.mesh(&["rotate", "web"]).ends(0);
    lab.mesh(&["apply"]).ends(0);
    lab.mesh(&["rotate", "web", "--force", "--reason", "a leak"])
        .ends(0);
    lab.mesh(&["apply"]).ends(0);
    assert!(!redis.lets_in("web", &old));
    assert!(redis.lets_in("web", &lab.password("web", "cache")));
    let events = lab.events("web");
    lab.mesh(&["apply"]).ends(0);
    lab.mesh(&["plan"]).ends(0).says("Nothing to do.");
    assert_eq!(lab.events("web"), events);
}

#[test]
fn b6_a_store_that_is_put_back_between_two_steps_neither_makes_another_nor_takes_one_away() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.manifest(&cache(&redis, "", ["web"]));
    lab.mesh(&["apply"]).ends(0);
    let copy = lab.path().join("older");
    let bus = |from: &std::path::Path, to: &std::path::Path| {
        fs::create_dir_all(to).expect("folder");
        for entry in fs::read_dir(to).expect("folder").flatten() {
            if entry.file_name().to_string_lossy().starts_with("mesh.db") {
                fs::remove_file(entry.path()).expect("remove");
            }
        }
        for entry in fs::read_dir(from).expect("folder").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("mesh.db") {
                fs::copy(entry.path(), to.join(&name)).expect("copy");
            }
        }
    };
    bus(&lab.data(), &copy);
    assert!(
        fs::read_dir(&copy).expect("folder").next().is_some(),
        "the store's files"
    );
    lab.mesh(&["rotate", "web"]).ends(0);
    lab.mesh(&["apply"]).ends(0);
    let new = lab.password("web", "cache");
    bus(&copy, &lab.data());
    lab.mesh(&["apply"]);
    lab.mesh(&["apply"]);
    assert_eq!(lab.password("web", "cache"), new);
    assert!(redis.lets_in("web", &new));
    assert_eq!(
        (
            rotation(&lab, "web")["number"].clone(),
            rotation(&lab, "web")["step"].clone()
        ),
        (1.into(), "waiting".into())
    );
}
