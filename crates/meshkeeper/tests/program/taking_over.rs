//! Taking over: a renamed consumer, provider or mesh keeps its logins, and nothing is taken without
//! a password that fits (H-18).

use std::time::Duration;

use crate::lab::{Lab, cache, need};
use crate::redis::Redis;
use crate::removing::{SHORT, daemon, is_off};
use crate::restarting::settled;
use crate::wait::{stays, until, until_true};

/// The manifest in which `web` is called `site` now, with the login that it had.
fn renamed(redis: &Redis, others: &[&str]) -> String {
    let mut text = cache(redis, SHORT, others.iter().copied());
    text.push_str(
        "\n[consumer.site.needs.cache]\nlogin = \"web\"\nkeys = [\"web:*\"]\n\
         commands = [\"+@read\", \"+@write\"]\n",
    );
    text
}

fn told(lab: &Lab, condition: &str) {
    until(&format!("{condition} is told"), 20, || {
        let all = lab.conditions();
        if all.iter().any(|one| one == condition) {
            Ok(())
        } else {
            Err(all)
        }
    });
}

#[test]
fn r13_a_renamed_consumer_is_handed_its_login_with_its_password() {
    let (lab, redis, _up) = daemon(SHORT, &["web", "api", "job"]);
    let password = lab.password("web", "cache");
    lab.manifest(&renamed(&redis, &["api", "job"]));
    told(&lab, "LoginTaken cache/site");
    lab.mesh(&["conditions"]).ends(0).says("mesh adopt site");
    // The old name's login is somebody's who is asked for: it goes nowhere, for as long as that takes.
    stays("it works", Duration::from_secs(5), || {
        (redis.lets_in("web", &password), redis.user("web"))
    });
    lab.mesh(&["adopt", "site", "cache"])
        .ends(0)
        .says("taken over from web");
    until("the new name holds it", 20, || {
        let mut states = lab.states();
        states.sort();
        if states == ["api=held", "job=held", "site=held"] {
            Ok(())
        } else {
            Err(states)
        }
    });
    assert_eq!(lab.password("site", "cache"), password);
    assert!(redis.lets_in("web", &password));
    let user = redis.user("web").expect("web");
    assert!(user.contains(".cache.site."), "the mark: {user}");
    // The old name's departure ends, and took nothing with it.
    until("nothing is left over", 20, || {
        let left = lab.status()["leftovers"].clone();
        if left.as_array().is_some_and(Vec::is_empty) {
            Ok(())
        } else {
            Err(left)
        }
    });
    settled(&lab);
    let events = lab.events("web");
    let taken = ["switched_off", "dropped"];
    assert!(
        !events.iter().any(|kind| taken.contains(&kind.as_str())),
        "{events:?}"
    );
    let writes = redis.writes();
    stays("again changes nothing", Duration::from_secs(3), || {
        (
            redis.writes() == writes && redis.lets_in("web", &password),
            redis.calls(),
        )
    });
    // Made by Meshkeeper under its old name, it goes like any other when it is asked for no more.
    lab.cache(&redis, SHORT, ["api", "job"]);
    until_true("it is switched off", 20, || {
        (is_off(&redis, "web"), redis.user("web"))
    });
}

#[test]
fn r13_a_password_that_fits_no_more_hands_nothing_over() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web"]);
    lab.mesh(&["apply"]).ends(0);
    lab.manifest(&renamed(&redis, &[]));
    redis.ask(&["ACL", "SETUSER", "web", "resetpass", ">somebody-elses"]);
    let before = redis.user("web");
    lab.mesh(&["apply"]).ends(3);
    lab.mesh(&["adopt", "site", "cache"]).ends(0);
    lab.mesh(&["apply"]).ends(3);
    lab.mesh(&["apply"]).ends(3);
    assert_eq!(redis.user("web"), before);
    told(&lab, "LoginTaken cache/site");
}

#[test]
fn r13_a_renamed_provider_is_handed_its_logins() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web", "api"]);
    lab.mesh(&["apply"]).ends(0);
    let password = lab.password("web", "cache");
    let text = cache(&redis, "", ["web", "api"]);
    lab.manifest(
        &text
            .replace("provider.cache", "provider.kv")
            .replace("needs.cache", "needs.kv"),
    );
    lab.mesh(&["apply"]).ends(3);
    told(&lab, "LoginTaken kv/web");
    for name in ["web", "api"] {
        lab.mesh(&["adopt", name, "kv"])
            .ends(0)
            .says(&format!("taken over from {name} on cache"));
    }
    lab.mesh(&["apply"]);
    lab.mesh(&["apply"]).ends(0);
    assert_eq!(lab.password("web", "kv"), password);
    assert!(redis.lets_in("web", &password));
    let (user, writes) = (redis.user("web").expect("web"), redis.writes());
    assert!(user.contains(".kv.web."), "the mark: {user}");
    lab.mesh(&["apply"]).ends(0);
    assert_eq!(redis.writes(), writes, "again changes nothing");
}

#[test]
fn r13_a_mesh_with_another_id_takes_its_own_logins_back() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web"]);
    lab.mesh(&["apply"]).ends(0);
    let password = lab.password("web", "cache");
    let text = cache(&redis, "", ["web"]);
    lab.manifest(&text.replace("id = \"home\"", "id = \"house\""));
    lab.mesh(&["apply"]).ends(3);
    told(&lab, "LoginTaken cache/web");
    lab.mesh(&["adopt", "web", "cache"]).ends(0);
    lab.mesh(&["apply"]);
    lab.mesh(&["apply"]).ends(0);
    assert!(redis.lets_in("web", &password));
    let user = redis.user("web").expect("web");
    assert!(user.contains("mk1.house."), "the mark: {user}");
}

#[test]
fn h18_nothing_is_taken_over_without_a_password_that_somebody_knows() {
    let (lab, redis) = (Lab::new(), Redis::start());
    redis.set_user("web on >the-old-password ~* +@all");
    let before = redis.user("web");
    lab.cache(&redis, "", ["web", "api"]);
    lab.mesh(&["apply"]).ends(3);
    lab.mesh(&["adopt", "web", "cache"])
        .ends(1)
        .warns("nothing here knows the password of `web`")
        .warns("password = { file");
    lab.mesh(&["apply"]).ends(3);
    assert_eq!(redis.user("web"), before);
}

#[test]
fn r13_an_entry_that_cannot_be_read_keeps_its_login() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web"]);
    lab.mesh(&["apply"]).ends(0);
    let mut text = renamed(&redis, &[]);
    need(&mut text, "web", "cache", "kes = 1");
    lab.manifest(&text);
    lab.mesh(&["apply"]).ends(3);
    lab.mesh(&["adopt", "site", "cache"])
        .ends(1)
        .warns("nobody takes it over");
}

#[test]
fn h18_an_existing_server_is_imported_and_taken_over_as_it_stands() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let users: [(&str, &[&str]); 4] = [
        ("web", &["on", "~web:*", "+@read", "+@write"]),
        ("Job-Queue", &["on", "~q:*", "&q", "+@all", "-@dangerous"]),
        ("it's\"me\\\u{202e}", &["on", "~x:*", "+get"]),
        ("old", &["off", "~old:*", "+@read"]),
    ];
    for (name, rules) in users {
        let mut command = vec!["ACL", "SETUSER", name, ">the-old-password"];
        command.extend(rules);
        redis.ask(&command);
    }
    let manifest = cache(&redis, "", []);
    lab.manifest(&manifest);
    let writes = redis.writes();
    let ran = lab
        .mesh(&["import", "cache"])
        .ends(0)
        .warns("4 logins of cache");
    let text = ran.out;
    assert!(!text.contains("the-old-password"), "{text}");
    assert_eq!(
        lab.mesh(&["import", "cache"]).ends(0).out,
        text,
        "the same again"
    );
    let json = lab.mesh(&["import", "cache", "--json"]).ends(0).json();
    assert_eq!(json["logins"].as_array().map(Vec::len), Some(4), "{json:#}");
    // Appended as it is, it is in order, and nothing is done without passwords.
    lab.manifest(&format!("{manifest}{text}"));
    lab.mesh(&["check"]).ends(0);
    lab.mesh(&["plan"])
        .ends(0)
        .says("waits")
        .says("Nothing to do.");
    assert_eq!(redis.writes(), writes, "{:?}", redis.calls());
    // With them it is taken over.
    lab.write("password", "the-old-password");
    let given = text.replace(
        "# password = { file = \"…\" }",
        "password = { file = \"password\" }",
    );
    lab.manifest(&format!("{manifest}{given}"));
    let plan = lab.mesh(&["plan", "--json"]).ends(2).json();
    let changes = plan["changes"].as_array().expect("changes");
    let takes = |one: &&serde_json::Value| one["action"] == "take over";
    let others: Vec<_> = changes
        .iter()
        .filter(|one| one["consumer"] != "mesh-canary" && !takes(one))
        .collect();
    assert!(
        others.is_empty() && changes.iter().filter(takes).count() == 4,
        "{plan:#}"
    );
    assert_eq!(redis.writes(), writes);
    lab.mesh(&["apply"]).ends(0);
    for (name, rules) in users {
        assert_eq!(
            redis.lets_in(name, "the-old-password"),
            rules[0] == "on",
            "{name}"
        );
    }
    lab.mesh(&["plan"]).ends(0).says("Nothing to do.");
    lab.mesh(&["import", "cache"])
        .ends(0)
        .warns("no login of cache to import");
}

#[test]
fn h18_h21_nodes_that_differ_are_told_and_imported_once() {
    let (lab, one, two) = (Lab::new(), Redis::start(), Redis::start());
    for (redis, keys) in [(&one, "~web:*"), (&two, "~other:*")] {
        redis.ask(&[
            "ACL",
            "SETUSER",
            "web",
            "on",
            ">the-old-password",
            keys,
            "+get",
        ]);
    }
    two.ask(&[
        "ACL",
        "SETUSER",
        "job",
        "on",
        ">the-old-password",
        "~job:*",
        "+get",
    ]);
    let text = cache(&one, "", []);
    let urls = format!("urls = [\"{}\", \"{}\"]", one.url(), two.url());
    let manifest = text.replace(&format!("url = \"{}\"", one.url()), &urls);
    lab.manifest(&manifest);
    let ran = lab
        .mesh(&["import", "cache"])
        .ends(0)
        .warns("the nodes differ about 2");
    let (a, b) = (one.port, two.port);
    let ran = ran.says(&format!(
        "it may do other things on 127.0.0.1:{b} than on 127.0.0.1:{a}"
    ));
    let ran = ran
        .says(&format!("127.0.0.1:{a} does not have it"))
        .says("keys = [\"web:*\"]");
    assert_eq!(ran.out.matches("[consumer.").count(), 2, "{ran:#?}");
    lab.manifest(&format!("{manifest}{}", ran.out));
    lab.mesh(&["check"]).ends(0);
}

#[test]
fn h18_a_provider_that_is_not_there_cannot_be_imported() {
    let lab = Lab::new();
    lab.mesh(&["import", "cache"])
        .ends(1)
        .warns("there is no manifest");
    lab.manifest("[mesh]\nid = \"home\"\n");
    lab.mesh(&["import", "cache"])
        .ends(1)
        .warns("no provider `cache`");
    lab.mesh(&["import", "Not A Name"]).ends(64);
}
