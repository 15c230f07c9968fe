//! Several processes on one data folder: `apply` beside a daemon, two daemons, readers while it writes.

use std::time::Duration;

use crate::lab::{Lab, Up, cache, states};
use crate::redis::Redis;
use crate::restarting::settled;
use crate::wait::{until, until_true};

fn daemon(lines: &str) -> (Lab, Redis, Up) {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, lines, ["web"]);
    let up = lab.up(&[]);
    settled(&lab);
    (lab, redis, up)
}

#[test]
fn b4_an_apply_beside_a_daemon_asks_that_for_the_pass() {
    let (lab, redis, mut up) = daemon("");
    redis.ask(&["ACL", "DELUSER", "web"]);
    let json = lab.mesh(&["apply", "--json"]).json();
    assert_eq!(json["by_daemon"], true, "{json:#}");
    assert_eq!(states(&json["status"]), ["web=held"]);
    assert!(redis.users().contains("web"));
    assert_eq!(json["status"]["daemon"], true);
    up.stop().ends(0);
}

#[test]
fn b4_the_pass_of_a_daemon_is_made_with_the_manifest_as_it_is_now() {
    let (lab, redis, _up) = daemon("");
    for n in 0..5 {
        let name = format!("new{n}");
        lab.cache(&redis, "", ["web", &name]);
        let ran = lab.mesh(&["apply", "--json"]);
        let states = states(&ran.json()["status"]);
        assert!(
            states.contains(&format!("{name}=held")),
            "{states:?}: {ran:#?}"
        );
        assert!(redis.users().contains(&name));
    }
}

#[test]
fn b4_an_apply_beside_a_daemon_does_not_wait_for_a_provider_that_has_no_loop() {
    let (mut lab, redis) = (Lab::new(), Redis::start());
    lab.set("PATH", "/usr/bin:/bin");
    let mut text = cache(&redis, "", ["web"]);
    text.push_str(
        "\n[provider.shut]\nkind = \"redis\"\nurl = \"redis://127.0.0.1:1\"\n\
         admin = { user = \"admin\", password = { file = \"not-there\" } }\n",
    );
    crate::lab::need(&mut text, "api", "shut", "");
    lab.manifest(&text);
    let _up = lab.up(&[]);
    until_true("web is there", 20, || {
        (redis.users().contains("web"), redis.users())
    });
    let began = tokio::time::Instant::now();
    let json = lab.mesh(&["apply", "--json"]).ends(3).json();
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(states(&json["status"]), ["web=held", "api=unknown"]);
    let conditions = lab.conditions();
    assert!(
        conditions.contains(&"SecretUnreadable shut".to_owned()),
        "{conditions:?}"
    );
}

#[test]
fn b4_a_second_daemon_on_one_folder_is_refused() {
    let (lab, _redis, mut up) = daemon("");
    lab.mesh(&["up"]).ends(1).warns("another `mesh up`");
    assert!(up.has_ended().is_none());
    up.stop().ends(0);
    // The right is free again at once.
    let mut again = lab.up(&[]);
    again.stop().ends(0);
}

#[test]
fn b4_many_applies_at_once_take_turns() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let names: Vec<String> = (0..20).map(|n| format!("c{n}")).collect();
    lab.cache(&redis, "", names.iter().map(String::as_str));
    let mut all: Vec<Up> = (0..4).map(|_| Up::of(lab.command(&["apply"]))).collect();
    // Readers take the lock for a moment, too, and must not be taken for a runner.
    let mut readers: Vec<Up> = (0..4).map(|_| Up::of(lab.command(&["status"]))).collect();
    for one in &mut all {
        one.ends(Duration::from_secs(60)).ends(0);
    }
    for one in &mut readers {
        let ran = one.ends(Duration::from_secs(60));
        assert!([0, 1, 3].contains(&ran.code), "{ran:#?}");
    }
    assert_eq!(redis.users().len(), 20);
    let minted = lab
        .events("cache")
        .iter()
        .filter(|k| *k == "minted")
        .count();
    assert_eq!(minted, 20, "each password is made once");
}

#[test]
fn b7_the_picture_can_be_read_while_the_daemon_writes() {
    let (lab, redis, _up) = daemon("verify_every = \"1s\"");
    for n in 0..30 {
        if n % 3 == 0 {
            redis.ask(&["ACL", "DELUSER", "web"]);
        }
        let ran = lab.mesh(&["status", "--json"]);
        assert!(ran.code == 0 || ran.code == 3, "{ran:#?}");
        ran.json();
    }
}

#[test]
fn h25_words_reach_the_daemon_within_a_second_or_so() {
    let (lab, redis, _up) = daemon("verify_every = \"1h\"");
    // A braked login: nothing else would look at it for an hour.
    redis.ask(&["ACL", "DELUSER", "web"]);
    let began = tokio::time::Instant::now();
    lab.mesh(&["resume", "web"])
        .ends(0)
        .says("takes effect now");
    let spoken = tokio::time::Instant::now();
    until_true("it is healed", 10, || {
        (redis.users().contains("web"), redis.users())
    });
    println!(
        "a word took {:?} to say and {:?} to be done",
        spoken - began,
        spoken.elapsed()
    );
    assert!(spoken.elapsed() < Duration::from_secs(5));
}

#[test]
fn h25_a_word_said_without_a_daemon_counts_once_at_the_next_apply() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web"]);
    lab.mesh(&["apply"]).ends(0);
    let braked = || {
        for _ in 0..4 {
            redis.ask(&["ACL", "DELUSER", "web"]);
            lab.mesh(&["apply"]);
        }
        assert!(!redis.users().contains("web"), "{:?}", lab.conditions());
        assert_eq!(lab.states(), ["web=braked"]);
    };
    braked();
    lab.mesh(&["resume", "web"])
        .ends(0)
        .says("at the next `mesh apply`");
    lab.mesh(&["apply"]);
    assert!(redis.users().contains("web"));
    // The word was used up: the brake comes again.
    braked();
    lab.mesh(&["apply"]).ends(3);
    assert!(!redis.users().contains("web"));
}

#[test]
fn b4_an_apply_takes_over_when_the_daemon_dies_under_it() {
    let (lab, redis, mut up) = daemon("");
    redis.hang();
    let mut apply = Up::of(lab.command(&["apply"]));
    until_true("it waits for the daemon", 20, || {
        (apply.log().contains("a daemon runs here"), apply.log())
    });
    up.kill();
    redis.go_on();
    let ran = apply.ends(Duration::from_secs(60));
    assert!(ran.code == 0 || ran.code == 3, "{ran:#?}");
    until("held", 10, || {
        lab.mesh(&["apply"]);
        let states = lab.states();
        if states == ["web=held"] {
            Ok(())
        } else {
            Err(states)
        }
    });
}
