//! Who leaves while nobody looks, who leaves with many others, and logins that were had before.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::lab::{Lab, cache, need};
use crate::redis::Redis;
use crate::removing::{SHORT, daemon, is_off};
use crate::restarting::settled;
use crate::wait::{stays, until, until_true};

const LONG_GRACE: &str =
    "verify_every = \"1s\"\nlist_every = \"1s\"\nremove_after = \"1s\"\ngrace = \"1h\"";

#[test]
fn r2_who_leaves_while_the_daemon_is_down_is_removed_and_its_data_stays() {
    let (lab, redis, mut up) = daemon(SHORT, &["web", "api", "job"]);
    let password = lab.password("web", "cache");
    redis.ask(&["SET", "web:1", "data"]);
    up.stop();
    lab.cache(&redis, SHORT, ["api", "job"]);
    let _up = lab.up(&[]);
    until_true("it is switched off", 20, || {
        (is_off(&redis, "web"), redis.user("web"))
    });
    assert!(!redis.lets_in("web", &password));
    until_true("it is dropped", 20, || {
        (!redis.users().contains("web"), redis.users())
    });
    assert_eq!(redis.ask(&["GET", "web:1"]).text(), "data");
    settled(&lab);
}

#[test]
fn r9_who_left_while_the_daemon_was_down_and_its_store_was_lost_is_removed() {
    let (lab, redis, mut up) = daemon(SHORT, &["web", "api", "job"]);
    up.stop();
    for name in ["mesh.db", "mesh.db-wal", "mesh.db-shm"] {
        // Not each of them is there.
        drop(std::fs::remove_file(lab.data().join(name)));
    }
    lab.cache(&redis, SHORT, ["api", "job"]);
    let _up = lab.up(&[]);
    // Only the server knows of it now, by the mark.
    until_true("it is switched off", 30, || {
        (is_off(&redis, "web"), redis.user("web"))
    });
    until_true("it is dropped", 20, || {
        (!redis.users().contains("web"), redis.users())
    });
    let states = lab.states();
    assert!(states.contains(&"api=held".to_owned()), "{states:?}");
}

#[test]
fn r7_forty_of_fifty_wait_as_one_condition_and_exactly_those_go() {
    let names: Vec<String> = (0..50).map(|n| format!("c{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (lab, redis, _up) = daemon(LONG_GRACE, &names);
    let off = || -> BTreeSet<&str> {
        names
            .iter()
            .copied()
            .filter(|name| is_off(&redis, name))
            .collect()
    };
    lab.cache(&redis, LONG_GRACE, names[40..].iter().copied());
    until("it is held back and told once", 20, || {
        let all = lab.conditions();
        let held = all.iter().filter(|one| one.starts_with("Removal"));
        if held.eq(["RemovalHeld cache"]) {
            Ok(())
        } else {
            Err(all)
        }
    });
    lab.mesh(&["conditions"])
        .ends(0)
        .says("40 logins would go, and none does");
    stays("nobody is switched off", Duration::from_secs(3), || {
        (off().is_empty(), off())
    });
    let set = lab.removal_set("cache");
    let ran = lab.mesh(&["plan"]).says(&format!("--set {set}"));
    assert_eq!(ran.out.matches("leaving ").count(), 41, "{ran:#?}");
    // One comes back: what was shown is not what waits now, and nothing is approved.
    lab.cache(&redis, LONG_GRACE, names[39..].iter().copied());
    until("the set is another one", 20, || {
        let now = lab.removal_set("cache");
        if now == set { Err(now) } else { Ok(()) }
    });
    lab.mesh(&["approve", "removals", "cache", "--set", &set])
        .ends(1)
        .says("c38 (login c38)")
        .warns("is not what that set was");
    stays("nobody is switched off", Duration::from_secs(2), || {
        (off().is_empty(), off())
    });
    lab.approve("cache")
        .ends(0)
        .says("39 removals of cache may go");
    until_true("those are switched off", 20, || {
        (off().len() == 39, off().len())
    });
    let gone: BTreeSet<&str> = names[..39].iter().copied().collect();
    assert_eq!(off(), gone);
    stays("no others are", Duration::from_secs(2), || {
        (off() == gone, off())
    });
    until("the condition is over", 20, || {
        let all = lab.conditions();
        if all.contains(&"RemovalHeld cache".to_owned()) {
            Err(all)
        } else {
            Ok(())
        }
    });
}

#[test]
fn r3_a_login_that_was_had_before_works_until_a_person_retires_it() {
    let (lab, redis, _up) = daemon(SHORT, &["web", "api"]);
    let password = lab.password("web", "cache");
    lab.mesh(&["retire", "web", "cache"])
        .ends(1)
        .warns("no superseded login");
    let with = |login: &str| {
        let mut text = cache(&redis, SHORT, ["api"]);
        need(&mut text, "web", "cache", &format!("login = \"{login}\""));
        lab.manifest(&text);
        until_true("the new one is there", 20, || {
            (redis.users().contains(login), redis.users())
        });
    };
    with("web2");
    with("web3");
    stays("the old ones work", Duration::from_secs(4), || {
        let both = redis.lets_in("web", &password) && redis.lets_in("web2", &password);
        (both, redis.users())
    });
    // Which one is for a person to say, and none that it has now.
    lab.mesh(&["retire", "web", "cache"])
        .ends(1)
        .warns("web, web2");
    lab.mesh(&["retire", "web", "cache", "web3"])
        .ends(1)
        .warns("is the login that web has");
    lab.mesh(&["retire", "api", "cache", "web"]).ends(1);
    lab.mesh(&["retire", "web", "cache", "web"]).ends(0);
    until_true("it is switched off", 20, || {
        let gone = !redis.users().contains("web");
        (gone || is_off(&redis, "web"), redis.user("web"))
    });
    until_true("it is dropped", 20, || {
        (!redis.users().contains("web"), redis.users())
    });
    assert!(redis.lets_in("web2", &password) && redis.lets_in("web3", &password));
    lab.mesh(&["retire", "web", "cache"]).ends(0);
    until_true("the other is dropped", 30, || {
        (!redis.users().contains("web2"), redis.users())
    });
    assert!(redis.lets_in("web3", &password));
    settled(&lab);
}

#[test]
fn r3_without_a_daemon_a_retired_login_goes_with_later_applies() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, SHORT, ["web", "api"]);
    lab.mesh(&["apply"]).ends(0);
    let mut text = cache(&redis, SHORT, ["api"]);
    need(&mut text, "web", "cache", "login = \"web2\"");
    lab.manifest(&text);
    lab.mesh(&["apply"]);
    lab.mesh(&["retire", "web", "cache"])
        .ends(0)
        .says("at the next `mesh apply`");
    until_true("later ones drop it", 40, || {
        lab.mesh(&["apply"]);
        (!redis.users().contains("web"), redis.user("web"))
    });
    assert!(redis.users().contains("web2"));
}
