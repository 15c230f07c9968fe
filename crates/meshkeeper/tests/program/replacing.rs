//! Three servers that fail, and a bus that is put back from an earlier copy of itself (B-6).

use std::fs;
use std::path::Path;

use crate::lab::Lab;
use crate::redis::Redis;
use crate::restarting::settled;
use crate::shared::{Nats, first, manifest};
use crate::wait::until;

const LINES: &str = "verify_every = \"5s\"";
const STATE: &str = "KV_mesh_home";

fn heals(redis: &Redis, password: &str, seconds: u64, log: impl Fn() -> String) {
    redis.ask(&["ACL", "DELUSER", "web"]);
    until("it is healed", seconds, || {
        match redis.lets_in("web", password) {
            true => Ok(()),
            false => Err(log()),
        }
    });
}

/// Waits until the pass that repaired is over, and another one was made: its check is the brake's (H-11), and what is
/// taken away before it is another story. Then all is well.
fn checked(lab: &Lab) {
    let last = || {
        let picture = lab.mesh(&["status", "--json"]);
        let loops = (!picture.out.is_empty()).then(|| picture.json()["loops"].clone());
        let of = |one: &serde_json::Value| Some(one["last_pass"].as_str()?.to_owned());
        loops.and_then(|all| all.as_array()?.iter().find_map(of))
    };
    for pass in ["the pass that repaired", "a pass after it"] {
        let before = last();
        until(pass, 60, || match last() {
            now if now.is_some() && now != before => Ok(()),
            now => Err(now),
        });
    }
    settled(lab);
}

#[test]
fn b6_a_cluster_loses_any_server_and_the_daemon_goes_on() {
    let (mut nats, redis) = (Nats::start(3), Redis::start());
    let lab = first(&nats, &redis, LINES, &["web"]);
    let mut up = lab.up(&[]);
    settled(&lab);
    let password = lab.password("web", "cache");
    let Nats { cluster, runtime } = &mut nats;
    let leader = runtime.block_on(cluster.leader(STATE)).expect("leader");
    runtime.block_on(cluster.kill9(leader)).expect("killed");
    heals(&redis, &password, 60, || up.log());
    runtime
        .block_on(cluster.start_again(leader))
        .expect("again");
    checked(&lab);
    let leader = runtime.block_on(cluster.leader(STATE)).expect("leader");
    runtime.block_on(cluster.stop(leader)).expect("stopped");
    heals(&redis, &password, 60, || up.log());
    cluster.go_on(leader).expect("goes on");
    checked(&lab);
    // Without a majority nothing is done and nothing is lost; with one again it goes on by itself.
    let (a, b) = ((leader + 1) % 3, (leader + 2) % 3);
    for n in [a, b] {
        runtime.block_on(cluster.kill9(n)).expect("killed");
    }
    up.says("this host acts no more");
    lab.mesh(&["status"]).ends(1);
    for n in [a, b] {
        // The first of two cannot serve alone, so neither is waited for before both were started.
        cluster.launch_again(n).expect("again");
    }
    until("it is well again", 120, || match lab.mesh(&["status"]) {
        ran if ran.code == 0 => Ok(()),
        ran => Err((ran, up.log())),
    });
    heals(&redis, &password, 60, || up.log());
    assert_eq!(lab.password("web", "cache"), password);
    up.stop().ends(0);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("folder");
    for entry in fs::read_dir(from).expect("read") {
        let path = entry.expect("entry").path();
        let to = to.join(path.file_name().expect("name"));
        match path.is_dir() {
            true => copy(&path, &to),
            false => drop(fs::copy(&path, &to).expect("copied")),
        }
    }
}

/// Ends the server, keeps a copy of its folder or puts one back, and starts it again.
fn restart_with(nats: &mut Nats, put_back: Option<&Path>, keep: Option<&Path>) {
    let Nats { cluster, runtime } = nats;
    runtime.block_on(cluster.terminate(0)).expect("ended");
    let store = cluster.store(0);
    if let Some(keep) = keep {
        copy(&store, keep);
    }
    if let Some(from) = put_back {
        fs::remove_dir_all(&store).expect("removed");
        copy(from, &store);
    }
    runtime.block_on(cluster.start_again(0)).expect("again");
}

/// A mesh with two consumers whose bus is then put back to when there was one.
fn gone_back(between: impl FnOnce(&Lab), after: impl FnOnce(&Lab, &Redis)) {
    let (mut nats, redis) = (Nats::start(1), Redis::start());
    let lab = first(&nats, &redis, LINES, &["web"]);
    lab.mesh(&["apply"]).ends(0);
    let old = lab.path().join("old-store");
    restart_with(&mut nats, None, Some(&old));
    lab.manifest(&manifest(&nats.line(), &redis, LINES, &["web", "late"]));
    lab.mesh(&["apply"]).ends(0);
    let before: Vec<String> = ["web", "late"].map(|n| lab.password(n, "cache")).into();
    let writes = redis.writes();
    between(&lab);
    restart_with(&mut nats, Some(&old), None);
    after(&lab, &redis);
    let mut passes = 0;
    until("it comes to rest", 60, || {
        passes += 1;
        match lab.mesh(&["apply"]) {
            ran if ran.code == 0 => Ok(()),
            ran => Err(ran),
        }
    });
    assert!(passes <= 5, "it took {passes} passes");
    let now: Vec<String> = ["web", "late"].map(|n| lab.password(n, "cache")).into();
    assert_eq!(now, before, "nothing was minted twice");
    assert_eq!(
        redis.writes(),
        writes,
        "nothing was removed, reset or made again"
    );
}

#[test]
fn b6_an_earlier_copy_of_the_bus_removes_resets_and_mints_nothing() {
    gone_back(
        |_| {},
        |lab, _| {
            lab.mesh(&["apply"]);
            let told = lab.conditions();
            assert!(told.contains(&"BusReplaced store".to_owned()), "{told:?}");
        },
    );
}

#[test]
fn b6_an_earlier_copy_of_the_bus_is_taken_up_by_a_persons_word() {
    gone_back(
        |lab| drop(lab.mesh(&["bus", "adopt"]).ends(0).says("already")),
        |lab, _| {
            lab.mesh(&["bus", "adopt"])
                .ends(0)
                .says("an older copy of the bus was restored")
                .says("in epoch 2");
            lab.mesh(&["bus", "adopt"]).ends(0).says("already");
        },
    );
}

#[test]
fn b6_an_earlier_copy_of_the_bus_under_a_running_daemon_is_seen_and_told() {
    let (mut nats, redis) = (Nats::start(1), Redis::start());
    let lab = first(&nats, &redis, LINES, &["web"]);
    lab.mesh(&["apply"]).ends(0);
    let old = lab.path().join("old-store");
    restart_with(&mut nats, None, Some(&old));
    lab.manifest(&manifest(&nats.line(), &redis, LINES, &["web", "late"]));
    let mut up = lab.up(&[]);
    settled(&lab);
    let late = lab.password("late", "cache");
    let writes = redis.writes();
    restart_with(&mut nats, Some(&old), None);
    until("it is told", 120, || match lab.conditions() {
        told if told.contains(&"BusReplaced store".to_owned()) => Ok(()),
        told => Err((told, up.log())),
    });
    until("both are held", 60, || match lab.states() {
        states if states.iter().filter(|s| s.ends_with("=held")).count() == 2 => Ok(()),
        states => Err((states, up.log())),
    });
    assert_eq!(lab.password("late", "cache"), late);
    assert_eq!(
        redis.writes(),
        writes,
        "nothing was removed, reset or made again"
    );
    heals(&redis, &lab.password("web", "cache"), 30, || up.log());
    up.stop().ends(0);
}

#[test]
fn b6_streams_that_are_deleted_under_a_daemon_come_back_by_a_persons_word_alone() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let lab = first(&nats, &redis, LINES, &["web"]);
    let mut up = lab.up(&[]);
    settled(&lab);
    let (password, writes) = (lab.password("web", "cache"), redis.writes());
    nats.runtime.block_on(async {
        let mut admin = nats.cluster.admin(0).await.expect("admin");
        for stream in [STATE, "MESH_LOG_home"] {
            let what = format!("$JS.API.STREAM.DELETE.{stream}");
            let gone = admin.json(&what, "").await.expect("answer");
            assert_eq!(gone["success"], true, "{gone}");
        }
    });
    until("it stops acting", 60, || match up.log() {
        log if log.contains("this host acts no more") => Ok(()),
        log => Err(log),
    });
    up.says("`mesh bus bootstrap` makes it");
    lab.mesh(&["bus", "bootstrap"])
        .ends(1)
        .warns("stop it first");
    up.stop().ends(0);
    lab.mesh(&["bus", "bootstrap"])
        .ends(0)
        .says("made KV_mesh_home");
    let mut up = lab.up(&[]);
    until("it is told and held", 60, || {
        let (told, states) = (lab.conditions(), lab.states());
        match told.contains(&"BusReplaced store".to_owned()) && states == ["web=held"] {
            true => Ok(()),
            false => Err((told, states, up.log())),
        }
    });
    assert_eq!(lab.password("web", "cache"), password);
    assert_eq!(
        redis.writes(),
        writes,
        "nothing was removed, reset or made again"
    );
    up.stop().ends(0);
}
