//! B-9, B-5: servers that are killed, stopped and cut off. What was done is there; nothing else is claimed.

use std::time::Duration;

use mesh_bus::jetstream::JetstreamBus;
use mesh_conformance::servers::until;
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put};

use crate::gate::Gate;
use crate::ground::{Ground, PATIENCE, done, done_in_the_end, link, put, rings, value};

/// Everything that was done is listed, with its value.
async fn all_there(bus: &dyn Bus, count: usize) {
    let listed = until("a list", PATIENCE, || async {
        let list = bus.list(Bucket::Record, &Key::everything()).await;
        list.map_err(|fault| fault.to_string())
    });
    let list = listed.await.expect("list");
    assert_eq!(list.entries.len(), count);
    for entry in list.entries {
        let text = String::from_utf8_lossy(&entry.value).into_owned();
        assert_eq!(Key::of(&[&format!("k{text}")]), entry.key);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b9_the_one_server_killed_between_writes_loses_nothing_done() {
    let mut ground = Ground::of(1).await;
    let bus = ground.open_known().await;
    let mut n = 0;
    for _ in 0..4 {
        for _ in 0..25 {
            done_in_the_end(&bus, &format!("k{n}"), &n.to_string()).await;
            n += 1;
        }
        ground.cluster.kill9(0).await.expect("kill");
        let down = bus.get(Bucket::Record, &Key::of(&["k0"])).await;
        assert!(matches!(down, Err(Fault::Unreachable(_))), "{down:?}");
        ground.cluster.start_again(0).await.expect("start");
    }
    all_there(&bus, n).await;
    drop(bus);
    all_there(&ground.open_known().await, n).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b9_the_leader_of_three_killed_between_writes_loses_nothing_done() {
    let mut ground = Ground::of(3).await;
    let bus = ground.open_known().await;
    let mut n = 0;
    for _ in 0..3 {
        for _ in 0..25 {
            done_in_the_end(&bus, &format!("k{n}"), &n.to_string()).await;
            n += 1;
        }
        let leader = ground.cluster.leader(&ground.state()).await;
        let leader = leader.expect("leader");
        ground.cluster.kill9(leader).await.expect("kill");
        for _ in 0..10 {
            done_in_the_end(&bus, &format!("k{n}"), &n.to_string()).await;
            n += 1;
        }
        ground.cluster.start_again(leader).await.expect("start");
    }
    all_there(&bus, n).await;
    assert!(bus.health().await.writable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b5_without_a_majority_nothing_is_done_and_no_list_is_empty() {
    let mut ground = Ground::of(3).await;
    let bus = ground.open_known().await;
    done(&bus, "k0", "0").await;
    for n in [0, 1] {
        ground.cluster.kill9(n).await.expect("kill");
    }
    let wrote = put(&bus, "k1", Expect::Absent, "1").await;
    assert!(
        matches!(wrote, Ok(Put::Unknown) | Err(Fault::Unreachable(_))),
        "{wrote:?}"
    );
    // The server that is left may take itself for the leader for a while: what it lists was done.
    let given_up = until("the last server is not believed", PATIENCE, || async {
        match bus.list(Bucket::Record, &Key::everything()).await {
            Err(Fault::Unreachable(_)) => Ok(()),
            Ok(list) if list.entries.iter().any(|e| e.key == Key::of(&["k0"])) => {
                Err("it still lists".to_owned())
            }
            other => panic!("{other:?}"),
        }
    });
    given_up.await.expect("not believed");
    // A server that takes itself for the leader answers reads of its own for a while longer.
    let health = bus.health().await;
    assert!(!health.writable, "{health:?}");
    for n in [0, 1] {
        ground.cluster.start_again(n).await.expect("start");
    }
    done_in_the_end(&bus, "k1", "1").await;
    all_there(&bus, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b5_a_stopped_server_makes_a_write_unknown_and_it_is_read_back() {
    let ground = Ground::of(1).await;
    let bus = ground.open_known().await;
    done(&bus, "k0", "0").await;
    ground.cluster.stop(0).await.expect("stop");
    let wrote = put(&bus, "k1", Expect::Absent, "1").await;
    assert_eq!(wrote, Ok(Put::Unknown));
    let read = bus.get(Bucket::Record, &Key::of(&["k0"])).await;
    assert!(matches!(read, Err(Fault::Unreachable(_))), "{read:?}");
    ground.cluster.go_on(0).expect("go on");
    // It was on its way, so it happened: read back, and not written twice.
    let landed = until("what was on its way", PATIENCE, || async {
        match bus.get(Bucket::Record, &Key::of(&["k1"])).await {
            Ok(Some(entry)) if entry.value == b"1" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    landed.await.expect("landed");
    let again = put(&bus, "k1", Expect::Absent, "1").await;
    assert_eq!(again, Ok(Put::Conflict));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b5_a_write_whose_answer_is_cut_off_is_unknown_and_is_there() {
    let ground = Ground::of(1).await;
    let gate = Gate::before(ground.cluster.ports()[0]).await;
    let other = tempfile::tempdir().expect("folder");
    let opened = JetstreamBus::open(&link(&[gate.port]), &ground.mesh, other.path()).await;
    let bus = opened.expect("open").bus;
    let direct = ground.open_known().await;
    gate.mute(true);
    let writes = ["a", "b", "c"].map(|key| mesh_sdk::bus::Write {
        key: Key::of(&[key]),
        expect: Expect::Absent,
        value: b"cut".to_vec(),
    });
    let (one, many, ()) = tokio::join!(
        put(&bus, "k1", Expect::Absent, "1"),
        bus.put_each(Bucket::Condition, writes.to_vec()),
        async {
            let arrived = until("the write", PATIENCE, || async {
                let single = value(&direct, "k1").await;
                let batch = direct.get(Bucket::Condition, &Key::of(&["c"])).await;
                match (single, batch) {
                    (Some(_), Ok(Some(_))) => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            });
            arrived.await.expect("arrived");
            gate.cut();
        }
    );
    assert_eq!(one, Ok(Put::Unknown));
    assert_eq!(many, Ok(vec![Put::Unknown; 3]));
    gate.mute(false);
    // The caller reads back, and finds it.
    done_in_the_end(&bus, "k1", "1").await;
    let again = put(&bus, "k1", Expect::Absent, "2").await;
    assert_eq!(again, Ok(Put::Conflict));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b5_a_write_that_does_not_go_out_is_not_kept_for_later() {
    let mut ground = Ground::of(1).await;
    let bus = ground.open_known().await;
    ground.cluster.kill9(0).await.expect("kill");
    let refused = until("a lost connection", PATIENCE, || async {
        match put(&bus, "k1", Expect::Absent, "1").await {
            Err(Fault::Unreachable(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    refused.await.expect("refused");
    let before = put(&bus, "k2", Expect::Absent, "2").await;
    assert!(matches!(before, Err(Fault::Unreachable(_))), "{before:?}");
    ground.cluster.start_again(0).await.expect("start");
    done_in_the_end(&bus, "k3", "3").await;
    tokio::time::timeout(Duration::from_secs(10), async {
        assert_eq!(value(&bus, "k2").await, None, "it came later");
    })
    .await
    .expect("read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b7_the_leader_of_three_stopped_in_its_tracks_is_replaced_and_watches_hear_on() {
    let ground = Ground::of(3).await;
    let bus = ground.open_known().await;
    let watch = bus.watch(Bucket::Record, &Key::everything()).await;
    let mut watch = watch.expect("watch");
    let mut n = 0;
    for _ in 0..2 {
        for _ in 0..10 {
            done_in_the_end(&bus, &format!("k{n}"), &n.to_string()).await;
            n += 1;
        }
        let leader = ground.cluster.leader(&ground.state()).await;
        let leader = leader.expect("leader");
        ground.cluster.stop(leader).await.expect("stop");
        for _ in 0..10 {
            done_in_the_end(&bus, &format!("k{n}"), &n.to_string()).await;
            n += 1;
        }
        rings(&mut *watch, &format!("k{}", n - 1)).await;
        ground.cluster.go_on(leader).expect("go on");
    }
    all_there(&bus, n).await;
}
