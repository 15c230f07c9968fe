//! The wish: manifests and password files that change, break, and come back (R-8, O-28, O-29, O-36).

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::process::Signal;

use crate::lab::{Lab, Up, cache, need};
use crate::redis::Redis;
use crate::restarting::settled;
use crate::wait::{stays, until, until_true};

const SHORT: &str =
    "verify_every = \"1s\"\nlist_every = \"1s\"\nremove_after = \"1s\"\ngrace = \"1s\"";

fn daemon(consumers: &[&str]) -> (Lab, Redis, Up) {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, SHORT, consumers.iter().copied());
    let up = lab.up(&[]);
    settled(&lab);
    (lab, redis, up)
}

fn told(lab: &Lab, what: &str) {
    until(&format!("{what} is told"), 20, || {
        let all = lab.conditions();
        if all.iter().any(|c| c == what) {
            Ok(())
        } else {
            Err(all)
        }
    });
}

fn all_stay(lab: &Lab, redis: &Redis, names: &[&str]) {
    let writes = redis.writes();
    stays("nobody is touched", Duration::from_secs(3), || {
        let lines = redis.ask(&["ACL", "LIST"]).texts();
        let there = |name: &&str| {
            let start = format!("user {name} on ");
            lines.iter().any(|line| line.starts_with(&start))
        };
        (names.iter().all(there) && redis.writes() == writes, lines)
    });
    drop(lab.states());
}

#[test]
fn r8_o36_a_manifest_that_does_not_parse_removes_nobody_and_goes_on_from_the_last_good_one() {
    let (lab, redis, _up) = daemon(&["web", "api", "job"]);
    let good = cache(&redis, SHORT, ["web", "api", "job"]);
    for broken in [
        "[mesh\nid = ",
        "",
        "[mesh]\nid = \"home\"\n[provider.cache]\nkind = \"redis\"\nurl = 3\n[consumer.web.needs.cache]\n[consumer.web.needs.cache]\n",
    ] {
        lab.manifest(broken);
        told(&lab, "WishUnreadable manifest");
        all_stay(&lab, &redis, &["web", "api", "job"]);
    }
    // What is lost meanwhile is healed from the last good one.
    redis.ask(&["ACL", "DELUSER", "web"]);
    until_true("it is healed", 20, || {
        (redis.users().contains("web"), redis.users())
    });
    lab.manifest(&good);
    until("the condition goes", 20, || {
        let all = lab.conditions();
        if all.iter().any(|c| c.starts_with("WishUnreadable")) {
            Err(all)
        } else {
            Ok(())
        }
    });
    settled(&lab);
}

#[test]
fn r8_without_a_daemon_an_apply_tells_the_broken_manifest_where_monitors_look() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, SHORT, ["web"]);
    lab.mesh(&["apply"]).ends(0);
    let (password, writes) = (lab.password("web", "cache"), redis.writes());
    lab.manifest("[mesh");
    for word in ["apply", "up", "plan"] {
        lab.mesh(&[word]).ends(1);
    }
    lab.mesh(&["status", "--check"])
        .ends(3)
        .says("WishUnreadable");
    // What is there can be seen, and a person can speak, while the manifest is broken.
    lab.mesh(&["explain", "web"]).ends(0).says("held");
    lab.mesh(&["events"]).ends(0).says("minted");
    lab.mesh(&["loops"]).ends(0);
    lab.mesh(&["pause", "web", "--for", "1s"]).ends(0);
    assert_eq!(lab.password("web", "cache"), password);
    assert_eq!(redis.writes(), writes);
    lab.cache(&redis, SHORT, ["web"]);
    until("a good one ends it", 20, || {
        let ran = lab.mesh(&["apply"]);
        if ran.code == 0 { Ok(()) } else { Err(ran) }
    });
}

#[test]
fn o36_a_manifest_that_is_gone_removes_nobody() {
    let (lab, redis, mut up) = daemon(&["web", "api"]);
    std::fs::remove_file(lab.path().join("mesh.toml")).expect("removed");
    up.says("the last good wish stays in force");
    all_stay(&lab, &redis, &["web", "api"]);
    lab.cache(&redis, SHORT, ["web", "api"]);
    settled(&lab);
    up.stop().ends(0);
}

#[test]
fn o29_refused_entries_keep_what_they_had_and_the_others_go_on() {
    let (lab, redis, _up) = daemon(&["web", "api"]);
    // `web` is written in a way that cannot be, `api` is left out: with such a manifest nobody leaves.
    let mut text = cache(&redis, SHORT, ["job"]);
    text.push_str("\n[consumer.web.needs.cache]\nkeys = 7\n");
    lab.manifest(&text);
    until_true("the new one is made", 20, || {
        (redis.users().contains("job"), redis.users())
    });
    told(&lab, "Refused cache/web");
    all_stay(&lab, &redis, &["web", "api", "job"]);
    let states = lab.states();
    assert!(states.contains(&"web=refused".to_owned()), "{states:?}");
    lab.cache(&redis, SHORT, ["web", "api", "job"]);
    settled(&lab);
}

#[test]
fn r8_o29_a_provider_that_is_refused_keeps_its_loop_and_nobody_begins_to_leave() {
    let (lab, redis, _up) = daemon(&["web", "api"]);
    let good = cache(&redis, SHORT, ["web", "api"]);
    lab.manifest(&good.replace("url = \"redis:", "url = \"radish:"));
    until("the mistake is told", 20, || {
        let all = lab.conditions();
        match all.iter().any(|c| c.starts_with("Refused ")) {
            true => Ok(()),
            false => Err(all),
        }
    });
    all_stay(&lab, &redis, &["web", "api"]);
    redis.ask(&["ACL", "DELUSER", "web"]);
    until_true("its loop heals on", 20, || {
        (redis.users().contains("web"), redis.users())
    });
    lab.manifest(&good);
    settled(&lab);
    for name in ["web", "api"] {
        let events = lab.events(name);
        assert!(!events.contains(&"leaving".to_owned()), "{events:?}");
    }
}

#[test]
fn r8_o29_a_loop_that_must_wait_lets_nobody_of_the_others_leave() {
    let (lab, redis) = (Lab::new(), Redis::start());
    redis.ask(&["CONFIG", "SET", "requirepass", "the-first-password"]);
    let redis = redis.with_password("the-first-password");
    lab.write("cache.password", "the-first-password");
    let admin = "admin = { user = \"default\", password = { file = \"cache.password\" } }";
    let mut text = cache(&redis, &format!("{SHORT}\n{admin}"), ["web"]);
    text.push_str(
        "\n[provider.other]\nkind = \"redis\"\nurl = \"redis://127.0.0.1:1\"\n\
         admin = { user = \"default\", password = { file = \"not.there\" } }\n",
    );
    need(&mut text, "api", "other", "");
    lab.manifest(&text);
    let _up = lab.up(&[]);
    until_true("web is there", 20, || {
        (redis.users().contains("web"), redis.users())
    });
    told(&lab, "SecretUnreadable other");
    // The other one is tried again and again meanwhile; the admin of this one gets another password.
    redis.ask(&["CONFIG", "SET", "requirepass", "the-second-password"]);
    let redis = redis.with_password("the-second-password");
    lab.write("cache.password", "the-second-password");
    redis.ask(&["ACL", "DELUSER", "web"]);
    until_true("web is healed with the new one", 45, || {
        (redis.users().contains("web"), redis.users())
    });
    stays("web stays", Duration::from_secs(3), || {
        let events = lab.events("web");
        let fine = redis.users().contains("web") && !events.contains(&"leaving".to_owned());
        (fine, events)
    });
}

#[test]
fn o28_a_password_source_that_is_missing_never_clears_the_password() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let path = lab.write("web.password", "the-first-password\n");
    let mut text = cache(&redis, SHORT, ["api"]);
    need(
        &mut text,
        "web",
        "cache",
        "password = { file = \"web.password\" }",
    );
    lab.manifest(&text);
    let _up = lab.up(&[]);
    settled(&lab);
    let held = || {
        let fine = redis.lets_in("web", "the-first-password") && !redis.lets_in("web", "");
        (fine, redis.user("web"))
    };
    let troubles: [&dyn Fn(); 4] = [
        &|| std::fs::remove_file(&path).expect("removed"),
        &|| drop(lab.write("web.password", "")),
        &|| drop(lab.write("web.password", "\n")),
        &|| drop(lab.write("web.password", "short")),
    ];
    for trouble in troubles {
        let writes = redis.writes();
        trouble();
        told(&lab, "SecretUnreadable cache/web");
        stays(
            "the last password stays in force",
            Duration::from_millis(1500),
            held,
        );
        assert_eq!(redis.writes(), writes);
        assert!(
            lab.states().contains(&"web=held".to_owned()),
            "{:?}",
            lab.states()
        );
        // A loss meanwhile is healed with the last known one.
        redis.ask(&["ACL", "DELUSER", "web"]);
        until_true("it is healed", 20, held);
        lab.write("web.password", "the-first-password\n");
        until("it is told no more", 20, || {
            let all = lab.conditions();
            if all.iter().any(|c| c.starts_with("SecretUnreadable")) {
                Err(all)
            } else {
                Ok(())
            }
        });
        settled_but_for_the_brake(&lab, &redis);
    }
    // Another one is a rotation: nobody said yet that the app has it.
    lab.write("web.password", "the-second-password\n");
    until_true("the new one is in force", 20, || {
        (
            redis.lets_in("web", "the-second-password"),
            redis.user("web"),
        )
    });
    assert!(redis.lets_in("web", "the-first-password"));
}

/// Each of these losses comes after a held answer: no brake, at most a tug of war.
fn settled_but_for_the_brake(lab: &Lab, redis: &Redis) {
    lab.mesh(&["resume", "web"]).ends(0);
    until_true("it is there", 20, || {
        (redis.users().contains("web"), redis.users())
    });
    settled(lab);
}

#[test]
fn o28_a_new_consumer_whose_password_cannot_be_read_is_not_made_and_keeps_nobody_waiting() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let mut text = cache(&redis, SHORT, ["api"]);
    need(
        &mut text,
        "web",
        "cache",
        "password = { file = \"web.password\" }",
    );
    lab.manifest(&text);
    lab.mesh(&["plan"]).ends(2);
    lab.mesh(&["apply"]).ends(3);
    assert!(redis.users().contains("api") && !redis.users().contains("web"));
    told(&lab, "SecretUnreadable cache/web");
    lab.write("web.password", "here-it-is-now");
    lab.mesh(&["apply"]);
    assert!(redis.lets_in("web", "here-it-is-now"));
    lab.mesh(&["apply"]).ends(0);
}

#[test]
fn o28_a_password_that_nobody_may_read_is_like_a_missing_one() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let path = lab.write("web.password", "the-first-password");
    let mut text = cache(&redis, "", []);
    need(
        &mut text,
        "web",
        "cache",
        "password = { file = \"web.password\" }",
    );
    lab.manifest(&text);
    lab.mesh(&["apply"]).ends(0);
    // Root may read everything, so a folder stands in its place.
    std::fs::remove_file(&path).expect("removed");
    std::fs::create_dir(&path).expect("folder");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).expect("rights");
    let writes = redis.writes();
    lab.mesh(&["apply"]).ends(3);
    assert_eq!(redis.writes(), writes);
    assert!(redis.lets_in("web", "the-first-password"));
    assert_eq!(lab.password("web", "cache"), "the-first-password");
}

#[test]
fn r8_a_changed_manifest_and_a_hangup_are_followed() {
    let (lab, redis, up) = daemon(&["web"]);
    lab.cache(&redis, SHORT, ["web", "one"]);
    until_true("a changed file is followed", 20, || {
        (redis.users().contains("one"), redis.users())
    });
    let before = up.log().matches("asked to read the manifest again").count();
    up.signal(Signal::HUP);
    up.says("asked to read the manifest again");
    assert_eq!(before, 0);
    // The same manifest again changes nothing.
    let writes = redis.writes();
    stays("nothing is written", Duration::from_secs(1), || {
        (redis.writes() == writes, redis.calls())
    });
}

#[test]
fn o29_a_provider_that_cannot_be_opened_does_not_stop_the_others() {
    let (lab, redis, away) = (Lab::new(), Redis::start(), Redis::start());
    let mut text = cache(&redis, SHORT, ["web"]);
    text.push_str(&format!(
        "\n[provider.other]\nkind = \"redis\"\nurl = \"{}\"\nverify_every = \"1s\"\n\
         admin = {{ user = \"default\", password = {{ file = \"admin.password\" }} }}\n",
        away.url()
    ));
    need(&mut text, "api", "other", "");
    lab.manifest(&text);
    let _up = lab.up(&[]);
    until_true("web is there", 20, || {
        (redis.users().contains("web"), redis.users())
    });
    told(&lab, "SecretUnreadable other");
    assert!(
        lab.states().contains(&"api=unknown".to_owned()),
        "{:?}",
        lab.states()
    );
    assert!(away.users().is_empty());
    away.ask(&["CONFIG", "SET", "requirepass", "the-admins-password"]);
    lab.write("admin.password", "the-admins-password");
    let away = away.with_password("the-admins-password");
    until_true("it is opened when its password is there", 45, || {
        (away.users().contains("api"), away.users())
    });
    settled(&lab);
}
