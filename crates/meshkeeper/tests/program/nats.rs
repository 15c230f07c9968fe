//! The program on a bus of NATS servers: every word, what is refused, and moving there and back.

use std::fs;
use std::time::Duration;

use mesh_conformance::servers::{JetOptions, Proxy};
use tokio::time::Instant;

use crate::lab::Lab;
use crate::redis::Redis;
use crate::restarting::settled;
use crate::shared::{BY_BOOTSTRAP, Nats, bring_key, by_password, first, host, joined, manifest};
use crate::wait::until;

fn files(lab: &Lab) -> Vec<String> {
    let Ok(entries) = fs::read_dir(lab.data()) else {
        return Vec::new();
    };
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.expect("entry").file_name();
        name.to_string_lossy().into_owned()
    };
    entries.map(name).collect()
}

#[test]
fn b2_every_word_works_on_nats() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let lab = first(&nats, &redis, "", &["web", "api"]);
    lab.mesh(&["bus", "bootstrap"])
        .ends(0)
        .says("there was nothing to make");
    lab.mesh(&["check"]).ends(0);
    lab.mesh(&["plan"]).ends(2).says("create");
    lab.mesh(&["apply"]).ends(0).says("applied 2");
    let (password, writes) = (lab.password("web", "cache"), redis.writes());
    assert!(redis.lets_in("web", &password));
    lab.mesh(&["apply"]).ends(0).says("held 2");
    lab.mesh(&["plan"]).ends(0).says("Nothing to do.");
    assert_eq!(redis.writes(), writes, "again changes nothing");
    lab.mesh(&["status"])
        .ends(0)
        .says("(no daemon)")
        .says("2 held");
    lab.mesh(&["status", "--check"]).ends(0).says("OK: 2 of 2");
    lab.mesh(&["explain", "web"]).ends(0).says("held");
    lab.mesh(&["conditions"]).ends(0);
    lab.mesh(&["loops"]).ends(0).says("provisioner/cache");
    lab.mesh(&["doctor"]);
    assert!(lab.events("web").contains(&"applied".to_owned()));

    lab.mesh(&["pause", "web", "--for", "1h"]).ends(0);
    redis.ask(&["ACL", "DELUSER", "web"]);
    lab.mesh(&["apply"]).ends(3);
    assert!(!redis.users().contains("web"), "paused");
    lab.mesh(&["silence", "Paused", "cache/web", "--reason", "known"]);
    lab.mesh(&["resume", "web"]).ends(0);
    until("it is healed", 30, || match lab.mesh(&["apply"]) {
        ran if ran.code == 0 => Ok(()),
        ran => Err(ran),
    });
    assert!(redis.lets_in("web", &password), "with the same password");
    assert!(
        !files(&lab).contains(&"mesh.db".to_owned()),
        "no second store"
    );
}

#[test]
fn b2_a_daemon_on_nats_heals_hears_words_and_stops() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let lab = first(&nats, &redis, "", &["web"]);
    let mut up = lab.up(&[]);
    settled(&lab);
    lab.mesh(&["status"]).ends(0).says("(daemon runs on one)");
    redis.ask(&["ACL", "DELUSER", "web"]);
    let json = lab.mesh(&["apply", "--json"]).ends(0).json();
    assert_eq!(json["by_daemon"], true, "{json:#}");
    assert!(redis.users().contains("web"));
    up.stop().ends(0);
    lab.mesh(&["status"]).ends(0).says("(no daemon)");
    // It was given back: the next one need not wait.
    let began = Instant::now();
    lab.mesh(&["apply"]).ends(0);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn b2_opening_makes_nothing_and_says_what_to_do() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let lab = host("one");
    lab.manifest(&manifest(&nats.line(), &redis, "", &["web"]));
    lab.mesh(&["status"])
        .ends(1)
        .warns("nothing was ever applied here");
    for word in ["apply", "up", "plan"] {
        lab.mesh(&[word])
            .ends(1)
            .warns("does not use the bus at nats://127.0.0.1:")
            .warns("mesh bus bootstrap");
    }
    assert!(!files(&lab).contains(&"installation.key".to_owned()));
    lab.mesh(&["bus", "adopt"])
        .ends(1)
        .warns("installation.key");
    lab.mesh(&["bus", "bootstrap"]).ends(0);
    lab.mesh(&["apply"]).ends(0);
    // Somebody deletes the streams: told, and never made again by who only opens.
    let (cluster, runtime) = (&nats.cluster, &nats.runtime);
    runtime.block_on(async {
        let mut admin = cluster.admin(0).await.expect("admin");
        for stream in ["KV_mesh_home", "MESH_LOG_home"] {
            let what = format!("$JS.API.STREAM.DELETE.{stream}");
            let gone = admin.json(&what, "").await.expect("answer");
            assert_eq!(gone["success"], true, "{gone}");
        }
    });
    let writes = redis.writes();
    for word in ["apply", "status", "plan"] {
        lab.mesh(&[word]).ends(1).warns("mesh bus bootstrap");
    }
    let password = redis.user("web");
    lab.mesh(&["bus", "bootstrap"])
        .ends(0)
        .says("made KV_mesh_home");
    // Made again, it is empty: everything is adopted, nobody is new, and it is told (B-6).
    lab.mesh(&["apply"]);
    assert!(lab.conditions().contains(&"BusReplaced store".to_owned()));
    until("it comes to rest", 30, || match lab.mesh(&["apply"]) {
        ran if ran.code == 0 => Ok(()),
        ran => Err(ran),
    });
    assert_eq!((redis.writes(), redis.user("web")), (writes, password));
}

#[test]
fn b2_with_the_bus_dead_every_word_says_so_in_time() {
    let (mut nats, redis) = (Nats::start(1), Redis::start());
    let lab = first(&nats, &redis, "", &["web"]);
    lab.mesh(&["apply"]).ends(0);
    let stopped = nats.runtime.block_on(nats.cluster.stop(0));
    stopped.expect("stopped");
    // What this host knew last is shown at once, and said to be of then.
    let began = Instant::now();
    lab.mesh(&["status"])
        .ends(1)
        .says("The bus does not answer. So it stood")
        .says("1 held")
        .warns("no `mesh up` runs on this host");
    let took = began.elapsed();
    println!("status without its bus took {took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    let json = lab.mesh(&["status", "--json"]).ends(1).json();
    assert_eq!(json["from_memory"], true, "{json:#}");
    for words in [
        vec!["explain", "web"],
        vec!["status", "--check"],
        vec!["conditions"],
    ] {
        let began = Instant::now();
        lab.mesh(&words)
            .ends(1)
            .warns("Nothing can be told without it; no `mesh up` runs on this host");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(12), "{words:?} took {took:?}");
    }
    nats.cluster.go_on(0).expect("goes on");
    lab.mesh(&["status"]).ends(0);
    nats.runtime
        .block_on(nats.cluster.kill9(0))
        .expect("killed");
    let began = Instant::now();
    lab.mesh(&["status"])
        .ends(1)
        .warns("no NATS server answers at nats://127.0.0.1:");
    assert!(
        began.elapsed() < Duration::from_secs(12),
        "{:?}",
        began.elapsed()
    );
    lab.mesh(&["apply"]).ends(1).warns("no NATS server answers");
    nats.runtime
        .block_on(nats.cluster.start_again(0))
        .expect("again");
    lab.mesh(&["apply"]).ends(0).says("held 1");
}

#[test]
fn b2_a_bus_that_is_far_away_is_waited_for_and_not_called_dead() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    // Its greeting comes within the time, and what is asked after it does not.
    let later = Duration::from_millis(60);
    let proxy = Proxy::far(nats.cluster.ports()[0], later);
    let proxy = nats.runtime.block_on(proxy).expect("proxy");
    let bus = format!("bus = \"nats://127.0.0.1:{}\"", proxy.port());
    let lab = host("one");
    lab.manifest(&manifest(&bus, &redis, "", &["web"]));
    lab.mesh(&["bus", "bootstrap"]).ends(0);
    lab.mesh(&["apply"]).ends(0);
    assert!(files(&lab).contains(&"picture.json".to_owned()));
    let began = Instant::now();
    lab.mesh(&["status"])
        .ends(0)
        .says("(no daemon)")
        .says("1 held");
    let took = began.elapsed();
    println!("far status took {took:?}");
    assert!(took > 3 * later, "not far at all: {took:?}");
    let json = lab.mesh(&["status", "--json"]).ends(0).json();
    assert_eq!(json["from_memory"], serde_json::Value::Null, "{json:#}");
}

#[test]
fn b3_with_the_printed_permissions_all_works_and_no_more_is_allowed() {
    let (lab, redis) = (host("one"), Redis::start());
    lab.manifest(&manifest("", &redis, "", &["web"]));
    let printed = lab.mesh(&["bus", "permissions"]).ends(0).out;
    let mut users = "  { user: admin, password: admin-password }\n".to_owned();
    for part in printed.split("# ").skip(1) {
        let (role, rest) = part.split_once(':').expect("role");
        let text = &rest[rest.find("permissions {").expect("permissions")..];
        users += &format!("  {{ user: {role}, password: {role}-password, {text} }}\n");
    }
    let nats = Nats::with(JetOptions {
        authorization: format!("authorization {{ users: [\n{users}] }}\n"),
        admin: Some(("admin".to_owned(), "admin-password".to_owned())),
        ..JetOptions::default()
    });
    let bus = by_password(&lab, &nats);
    lab.manifest(&manifest(&bus, &redis, "", &["web"]));
    lab.mesh(&["check"]).ends(0);
    // The loops' login makes no stream.
    let refused = lab.mesh(&["bus", "bootstrap"]).ends(1);
    assert!(!refused.err.contains("loops-password"), "{refused:#?}");
    lab.mesh(&[&["bus", "bootstrap"][..], &BY_BOOTSTRAP].concat())
        .ends(0);
    lab.mesh(&["apply"]).ends(0);
    let mut up = lab.up(&[]);
    settled(&lab);
    lab.mesh(&["pause", "web"]).ends(0);
    lab.mesh(&["resume", "web"]).ends(0);
    lab.mesh(&["apply"]).ends(0);
    let ran = up.stop().ends(0);
    assert!(!ran.err.contains("complains"), "{}", ran.err);
    // A host that only looks.
    let looks = host("looks");
    bring_key(&lab, &looks);
    looks.write("reader.password", "reader-password");
    let bus = bus.replace("loops", "reader") + "\ninbox = \"_INBOX_mesh_home_reader\"";
    looks.manifest(&manifest(&bus, &redis, "", &["web"]));
    looks.mesh(&["bus", "adopt"]).ends(0);
    looks.mesh(&["status"]).ends(0).says("1 held");
    looks.mesh(&["plan"]).ends(0);
    let writes = redis.writes();
    looks
        .mesh(&["apply"])
        .ends(1)
        .warns("may this login write?");
    assert_eq!(redis.writes(), writes);
    lab.write("loops.password", "another-password");
    let wrong = lab.mesh(&["status"]).ends(1).warns("refuse the login");
    assert!(!wrong.err.contains("another-password"), "{wrong:#?}");
}

#[test]
fn b6_an_installation_moves_to_nats_and_back_with_its_passwords() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let lab = host("one");
    let own = manifest("", &redis, "", &["web", "api"]);
    lab.manifest(&own);
    lab.mesh(&["apply"]).ends(0);
    let (password, writes) = (lab.password("web", "cache"), redis.writes());
    let there = manifest(&nats.line(), &redis, "", &["web", "api"]);
    lab.manifest(&there);
    // It is not taken up by itself.
    lab.mesh(&["apply"]).ends(1).warns("mesh bus export");
    lab.mesh(&["bus", "export", "mesh.export"]).ends(0);
    lab.mesh(&["bus", "export", "mesh.export"])
        .ends(1)
        .warns("there is a file");
    let exported = fs::read_to_string(lab.path().join("mesh.export")).expect("export");
    assert!(!exported.contains(&password));
    lab.mesh(&["bus", "bootstrap"]).ends(0);
    lab.mesh(&["apply"]).ends(1);
    for _ in 0..2 {
        lab.mesh(&["bus", "import", "mesh.export"]).ends(0);
    }
    lab.mesh(&["status"]).ends(0).says("2 held");
    lab.mesh(&["apply"]).ends(0).says("held 2");
    assert!(!lab.conditions().contains(&"BusReplaced store".to_owned()));
    assert_eq!(lab.password("web", "cache"), password);
    assert!(
        lab.events("web").contains(&"applied".to_owned()),
        "with its history"
    );

    lab.manifest(&own);
    lab.mesh(&["apply"]).ends(1).warns("mesh bus export");
    lab.mesh(&["bus", "export", "back.export"]).ends(0);
    let exported = fs::read_to_string(lab.path().join("back.export")).expect("export");
    assert!(!exported.contains(&password));
    for _ in 0..2 {
        lab.mesh(&["bus", "import", "back.export"]).ends(0);
    }
    lab.mesh(&["apply"]).ends(0).says("held 2");
    assert_eq!(lab.password("web", "cache"), password);
    assert_eq!(redis.writes(), writes, "nothing was made, reset or removed");
}

#[test]
fn b3_s7_a_host_without_the_installations_key_is_refused_and_with_it_knows_the_passwords() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let one = first(&nats, &redis, "", &["web"]);
    one.mesh(&["apply"]).ends(0);
    let password = one.password("web", "cache");
    let two = host("two");
    two.manifest(&manifest(&nats.line(), &redis, "", &["web"]));
    two.mesh(&["bus", "bootstrap"])
        .ends(1)
        .warns("installation.key");
    two.mesh(&["bus", "adopt"])
        .ends(1)
        .warns("has no installation.key");
    // A key of its own is not the installation's.
    fs::write(two.data().join("installation.key"), [7; 32]).expect("written");
    two.mesh(&["bus", "adopt"])
        .ends(1)
        .warns("is not that of this installation");
    drop(two);
    let two = joined("two", &one);
    two.mesh(&["bus", "adopt"]).ends(0).says("already");
    let writes = redis.writes();
    assert_eq!(
        two.password("web", "cache"),
        password,
        "from the sealed copy"
    );
    two.mesh(&["apply"]).ends(0).says("held 1");
    assert_eq!(redis.writes(), writes);
    // What the second host makes, the first one knows, and nobody without the key.
    let more = manifest(&nats.line(), &redis, "", &["web", "api"]);
    one.manifest(&more);
    two.manifest(&more);
    two.mesh(&["apply"]).ends(0);
    let api = two.password("api", "cache");
    one.mesh(&["apply"]).ends(0).says("held 2");
    assert_eq!(one.password("api", "cache"), api);
    for name in fs::read_dir(nats.cluster.store(0)).expect("store") {
        let text = tree(&name.expect("entry").path());
        assert!(!contains(&text, password.as_bytes()) && !contains(&text, api.as_bytes()));
    }
    let other = host("other");
    bring_key(&one, &other);
    other.manifest(&more);
    other.mesh(&["apply"]).ends(1).warns("mesh bus adopt");
}

fn tree(path: &std::path::Path) -> Vec<u8> {
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("read");
        return entries
            .flat_map(|e| tree(&e.expect("entry").path()))
            .collect();
    }
    fs::read(path).expect("read")
}
fn contains(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

#[test]
fn b10_each_pass_is_told_to_who_listens() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let lab = first(&nats, &redis, "verify_every = \"1s\"", &["web"]);
    let mut up = lab.up(&[]);
    let heard = nats.runtime.block_on(async {
        let mut admin = nats.cluster.admin(0).await.expect("admin");
        admin.hear("mesh.home.obs.provisioner.cache").await
    });
    let told = heard.expect("a pass is told");
    assert_eq!(told["loop"], "provisioner/cache", "{told}");
    assert_eq!(told["summary"]["asked"], 1, "{told}");
    let heard = nats.runtime.block_on(async {
        let mut admin = nats.cluster.admin(0).await.expect("admin");
        redis.ask(&["ACL", "DELUSER", "web"]);
        admin.hear("mesh.home.log.healed.cache.>").await
    });
    let told = heard.expect("a repair is told");
    assert_eq!(told["consumer"], "web", "{told}");
    up.stop().ends(0);
}

#[test]
fn s5_a_bus_without_tls_by_a_persons_word_is_a_standing_condition() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let lab = first(&nats, &redis, "", &["web"]);
    lab.mesh(&["apply"]).ends(0);
    let port = nats.cluster.ports()[0];
    let plain = format!("bus = {{ url = \"nats://127.0.0.1:{port}\", dangerously_plain = true }}");
    lab.manifest(&manifest(&plain, &redis, "", &["web"]));
    lab.mesh(&["apply"]).ends(3);
    assert!(lab.conditions().contains(&"TlsUnverified bus".to_owned()));
    lab.manifest(&manifest(&nats.line(), &redis, "", &["web"]));
    lab.mesh(&["apply"]).ends(0);
}
