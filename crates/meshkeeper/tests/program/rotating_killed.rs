//! Killed at each step of a rotation: the next one goes on there, and makes no second password (R-3, S-7, H-22).
//!
//! The mirror is written before the bus, so a death at the sight of a step in it falls between the two or just after.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::lab::{Lab, cache};
use crate::postgres::{Postgres, own_database};
use crate::redis::Redis;
use crate::wait::until_true;

const PATIENCE: Duration = Duration::from_secs(60);
const DELIVER: &str =
    "\n[[consumer.web.deliver]]\nenv_file = \"web.env\"\nacknowledge = \"person\"\n";

/// The journal's mirror, if there is one. What is still being written beside it is none yet: a death there leaves a
/// sealed candidate that nobody ever heard of.
fn mirror(lab: &Lab) -> Option<Value> {
    let entries = fs::read_dir(lab.data().join("rotations")).ok()?;
    let paths = entries.flatten().map(|entry| entry.path());
    let whole = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let texts = whole.filter_map(|path| fs::read(path).ok());
    let mut all = texts.filter_map(|text| serde_json::from_slice::<Value>(&text).ok());
    all.find(|journal| journal["number"] == 1)
}

const STEPS: [&str; 4] = ["proving", "waiting", "retiring", "resting"];

/// Looks without a rest between: some steps are short. On a busy machine one may be over before it is seen, and the
/// death comes at the next.
fn at_the_sight_of(lab: &Lab, step: &str) -> Value {
    let began = Instant::now();
    let at = |text: &Value| STEPS.iter().position(|one| text == one);
    loop {
        match mirror(lab) {
            Some(journal) if at(&journal["step"]) >= at(&step.into()) => return journal,
            last => assert!(began.elapsed() < PATIENCE, "no {step} in {last:?}"),
        }
        std::thread::yield_now();
    }
}

fn rotation(lab: &Lab) -> Value {
    lab.status()["rotations"][0].clone()
}

/// What is delivered: login and password.
fn delivered(lab: &Lab, provider: &str) -> (String, String) {
    let text = fs::read_to_string(lab.path().join("web.env")).unwrap_or_default();
    let of = |word: &str| {
        let start = format!("{}_{word}=", provider.to_uppercase());
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(&start));
        lines.next().unwrap_or_default().to_owned()
    };
    (of("USER"), of("PASSWORD"))
}

/// One death at the sight of each step. `enters`: whether a login with a password comes in.
fn dies_at_each_step(lab: &Lab, provider: &str, enters: &dyn Fn(&str, &str) -> bool) {
    let mut up = lab.up(&[]);
    until_true("the first delivery", 90, || {
        let (login, password) = delivered(lab, provider);
        let there = !password.is_empty() && enters(&login, &password);
        (there, there)
    });
    let ack = || {
        lab.mesh(&["ack", "delivery", "web", "--reason", "it has it"])
            .ends(0);
    };
    ack();
    let old = delivered(lab, provider);
    lab.mesh(&["rotate", "web", provider, "--reason", "a test"])
        .ends(0);
    let mut made = Value::Null;
    for step in ["proving", "waiting", "retiring"] {
        let seen = at_the_sight_of(lab, step);
        up.kill();
        // The same candidate as at the death before.
        match step {
            "proving" if seen["step"] == "proving" => made = seen["other"].clone(),
            "proving" => made = seen["current"].clone(),
            _ => assert_eq!(seen["current"], made, "{step}: no second password"),
        }
        if step != "retiring" {
            assert!(enters(&old.0, &old.1), "{step}: the old one works");
        }
        up = lab.up(&[]);
        if step == "waiting" {
            until_true("the new one lies there", 90, || {
                let now = delivered(lab, provider);
                (now != old && enters(&now.0, &now.1), now.0)
            });
            assert!(
                enters(&old.0, &old.1),
                "the old one works until it is retired"
            );
            assert_eq!(rotation(lab)["step"], "waiting");
            ack();
        }
    }
    until_true("it rests", 90, || {
        let one = rotation(lab);
        (one["step"] == "resting", one)
    });
    let new = delivered(lab, provider);
    assert!(new != old && enters(&new.0, &new.1) && !enters(&old.0, &old.1));
    up.stop();
    lab.mesh(&["apply"]).ends(0);
    lab.mesh(&["plan"]).ends(0).says("Nothing to do.");
    assert_eq!(delivered(lab, provider), new, "again changes nothing");
    assert_eq!(rotation(lab)["number"], 1);
}

#[test]
fn h22_s7_a_death_at_each_step_on_redis_makes_no_second_password() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let text = cache(&redis, "verify_every = \"2s\"", ["web"]);
    lab.manifest(&format!("{text}{DELIVER}"));
    dies_at_each_step(&lab, "cache", &|login, password| {
        redis.lets_in(login, password)
    });
}

#[test]
fn h22_s7_a_death_at_each_step_on_postgresql_makes_no_second_password() {
    let (lab, postgres) = (Lab::new(), Postgres::start());
    postgres.asked_for(&lab, "", &["web"], own_database, DELIVER);
    dies_at_each_step(&lab, "it", &|login, password| {
        postgres.enters_in("web", login, password)
    });
}
