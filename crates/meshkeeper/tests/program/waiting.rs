//! `mesh wait`, for scripts: it ends when it is so, says what it waits for when it is not, and only looks.

use std::fs;

use tokio::time::Instant;

use crate::lab::{Lab, Up, cache};
use crate::redis::Redis;
use crate::shared::{Nats, first};
use crate::wait::until_true;

/// Looks once.
fn once(lab: &Lab, what: &str, code: i32) -> crate::lab::Ran {
    lab.mesh(&["wait", "--for", what, "web", "--timeout", "0s"])
        .ends(code)
}

/// Adds a table of `deliver` for `web`.
fn delivering(text: &str, lines: &str) -> String {
    format!("{text}\n[[consumer.web.deliver]]\n{lines}\n")
}

#[test]
fn without_a_daemon_it_tells_what_stands_and_what_it_waits_for() {
    let (lab, mut redis) = (Lab::new(), Redis::start());
    let with_file = |keys: &str| {
        let text = cache(&redis, "ask_timeout = \"2s\"", ["web"]);
        let text = text.replace("keys =", "password = { file = \"given\" }\nkeys =");
        let text = text.replace("web:*", keys);
        delivering(&text, "json_file = \"web.json\"\nacknowledge = \"person\"")
    };
    lab.write("given", "first-password-1\n");
    lab.manifest(&with_file("web:*"));
    once(&lab, "held", 3).says("nothing was ever applied here");
    lab.mesh(&["wait", "--for", "held", "nobody", "--timeout", "0s"])
        .ends(1);
    lab.mesh(&["apply"]).ends(0);
    once(&lab, "held", 0).says("web on cache: held, proven by");
    let json = lab.mesh(&["wait", "--for", "held", "web", "cache", "--json"]);
    let json = json.ends(0).json();
    assert_eq!(
        (&json["reached"], &json["daemon"]),
        (&true.into(), &false.into())
    );
    lab.mesh(&["wait", "--for", "held", "web", "other"])
        .ends(1)
        .warns("nobody asks anything for web of other");

    once(&lab, "delivered", 3)
        .says("waits for web to take it up")
        .says("not delivered within 0s")
        .warns("no daemon");
    lab.mesh(&["ack", "delivery", "web", "--reason", "restarted"])
        .ends(0);
    lab.mesh(&["apply"]).ends(0);
    once(&lab, "delivered", 0).says("is taken up");
    let events = lab.events("web");

    // Whoever changed the manifest, or a file that it names, waits for what it asks for now.
    lab.manifest(&with_file("web2:*"));
    once(&lab, "held", 3).says("is not in force yet");
    once(&lab, "delivered", 3).says("cache: what the manifest asks for is not in force yet");
    assert_eq!(lab.events("web"), events, "it only looks");
    lab.mesh(&["apply"]).ends(0);
    for what in ["held", "delivered"] {
        once(&lab, what, 0);
    }
    lab.mesh(&["wait", "--for", "rotated", "web"])
        .ends(1)
        .warns("never had another password");
    lab.write("given", "second-password-2\n");
    for what in ["held", "delivered"] {
        once(&lab, what, 3).says("is not in force yet");
    }
    lab.mesh(&["apply"]).ends(0);
    once(&lab, "held", 0);
    once(&lab, "delivered", 3).says("to take it up");
    // Another given password is a rotation, which waits for whom it is delivered to.
    once(&lab, "rotated", 3).says("rotation 1 is waiting");
    // From another folder, and with a manifest that is called otherwise, the place is the same one.
    let manifest = lab.path().join("mesh.toml");
    let mut elsewhere = lab.command(&["apply", "--config", manifest.to_str().expect("path")]);
    elsewhere.current_dir("/");
    crate::lab::run(elsewhere).ends(0);
    let deliveries = lab.status()["deliveries"].clone();
    assert_eq!(deliveries.as_array().map(Vec::len), Some(1), "{deliveries}");

    redis.kill();
    lab.mesh(&["apply"]).ends(3);
    once(&lab, "held", 3).says("unknown");
    // Without a manifest what stands is all there is to go by.
    fs::remove_file(&manifest).expect("removed");
    once(&lab, "delivered", 3).says("to take it up");
}

#[test]
fn asked_in_a_way_that_cannot_be_it_ends_with_64() {
    let lab = Lab::new();
    for args in [
        &["wait", "web"][..],
        &["wait", "--for", "held"],
        &["wait", "--for", "green", "web"],
        &["wait", "--for", "held", "web", "--timeout", "soon"],
        &["wait", "--for", "held", "Not A Name"],
    ] {
        lab.mesh(args).ends(64);
    }
}

#[test]
fn beside_a_daemon_it_ends_when_what_the_manifest_asks_for_is_there() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.manifest(&cache(&redis, "", ["web"]));
    let mut before = Up::of(lab.command(&["wait", "--for", "held", "web"]));
    let mut up = lab.up(&[]);
    before.ends(std::time::Duration::from_secs(60)).ends(0);
    assert!(redis.lets_in("web", &lab.password("web", "cache")));
    lab.mesh(&["wait", "--for", "delivered", "web"])
        .ends(1)
        .warns("nothing is delivered to web");
    let text = cache(&redis, "", ["web", "api"]);
    lab.manifest(&delivering(&text, "json_file = \"web.json\""));
    lab.mesh(&["wait", "--for", "held", "api"]).ends(0);
    assert!(redis.lets_in("api", &lab.password("api", "cache")));
    lab.mesh(&["wait", "--for", "delivered", "web", "cache"])
        .ends(0);
    let there = fs::read_to_string(lab.path().join("web.json")).expect("there");
    assert!(there.contains(&lab.password("web", "cache")));
    up.stop();
}

#[test]
fn on_a_shared_bus_it_is_the_same_and_without_the_bus_it_cannot_tell() {
    let (mut nats, redis) = (Nats::start(1), Redis::start());
    let lab = first(&nats, &redis, "", &["web"]);
    let text = fs::read_to_string(lab.path().join("mesh.toml")).expect("there");
    lab.manifest(&delivering(
        &text,
        "json_file = \"web.json\"\nhost = \"one\"",
    ));
    let mut up = lab.up(&[]);
    for what in ["held", "delivered"] {
        lab.mesh(&["wait", "--for", what, "web"]).ends(0);
    }
    assert!(lab.path().join("web.json").exists());
    let loops = lab.mesh(&["loops", "--json"]).ends(0).json();
    let of = loops["loops"].as_array().expect("loops").iter();
    let hosts: Vec<_> = of
        .map(|one| (one["name"].clone(), one["host"].clone()))
        .collect();
    assert!(
        hosts.contains(&("delivery/one".into(), "one".into())),
        "{hosts:?}"
    );
    until_true("the daemon kept what it knows", 60, || {
        let kept = fs::read_to_string(lab.data().join("picture.json")).unwrap_or_default();
        (kept.contains("web.json"), kept)
    });
    nats.runtime
        .block_on(nats.cluster.kill9(0))
        .expect("killed");
    lab.mesh(&["wait", "--for", "held", "web", "--timeout", "3s"])
        .ends(1);
    // The daemon on this host kept what it knew.
    let began = Instant::now();
    lab.mesh(&["status"])
        .ends(1)
        .says("The bus does not answer. So it stood")
        .says("web.json")
        .warns("`mesh up` runs on this host");
    println!("status without its bus took {:?}", began.elapsed());
    up.kill();
}
