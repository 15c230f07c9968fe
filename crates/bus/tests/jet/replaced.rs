//! B-6, B-7, O-38: a bus whose stream was deleted, made again or restored is seen, and is never an empty one.

use std::fs;
use std::path::Path;

use mesh_bus::jetstream::{Found, OpenFault, Replaced};
use mesh_conformance::servers::until;
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put};

use crate::ground::{Ground, PATIENCE, done, put, rings, value};

async fn changed(bus: &dyn Bus) {
    let seen = until("the other store is seen", PATIENCE, || async {
        match bus.list(Bucket::Record, &Key::everything()).await {
            Err(Fault::EpochChanged) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    seen.await.expect("seen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_a_second_bootstrap_changes_nothing_and_another_installation_is_refused() {
    let ground = Ground::of(1).await;
    let rev = done(&ground.open_known().await, "k", "v").await;
    assert_eq!(ground.bootstrap().await, Ok(Vec::new()));
    let bus = ground.open_known().await;
    let entry = bus.get(Bucket::Record, &Key::of(&["k"])).await;
    assert_eq!(entry.expect("get").expect("there").rev, rev);
    let other = tempfile::tempdir().expect("folder");
    let layout = ground.layout();
    let taken = mesh_bus::jetstream::bootstrap(
        &ground.link,
        &ground.mesh,
        other.path(),
        "inst2",
        &layout,
        mesh_sdk::clock::Clock::system(),
    );
    let taken = taken.await;
    assert!(matches!(taken, Err(OpenFault::Taken { .. })), "{taken:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_a_folder_that_never_used_the_bus_is_told_so_once_and_disturbs_nobody() {
    let ground = Ground::of(1).await;
    let bus = ground.open_known().await;
    done(&bus, "k", "v").await;
    let other = tempfile::tempdir().expect("folder");
    for _ in 0..2 {
        let opened = ground.open_in(other.path()).await.expect("open");
        assert_eq!(opened.found, Found::Replaced(Replaced::NoMark));
        assert_eq!(opened.bus.epoch(), bus.epoch());
    }
    let opened = ground.open_in(other.path()).await.expect("open");
    opened.bus.replacement_told().expect("told");
    drop(opened);
    let opened = ground.open_in(other.path()).await.expect("open");
    assert_eq!(opened.found, Found::Known);
    done(&bus, "k", "w").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_a_deleted_stream_is_a_fault_and_never_an_empty_list() {
    let ground = Ground::of(1).await;
    let bus = ground.open_known().await;
    let rev = done(&bus, "k", "v").await;
    ground.delete_stream().await;
    let list = bus.list(Bucket::Record, &Key::everything()).await;
    assert!(matches!(list, Err(Fault::Unreachable(_))), "{list:?}");
    let got = bus.get(Bucket::Record, &Key::of(&["k"])).await;
    assert!(matches!(got, Err(Fault::Unreachable(_))), "{got:?}");
    let wrote = put(&bus, "k", Expect::At(rev), "w").await;
    assert!(matches!(wrote, Err(Fault::Unreachable(_))), "{wrote:?}");
    assert!(!bus.health().await.readable);
    let opened = ground.open_in(ground.folder.path()).await;
    let fault = opened.err().map(|fault| fault.to_string());
    assert!(
        fault
            .as_ref()
            .is_some_and(|t| t.contains("mesh bus bootstrap")),
        "{fault:?}"
    );
    // Opening made nothing. What bootstrap makes is another store, and the open bus sees that.
    assert_eq!(ground.bootstrap().await, Ok(vec![ground.state()]));
    changed(&bus).await;
    let opened = ground.open().await;
    assert_eq!(opened.found, Found::Replaced(Replaced::MadeAgain));
    assert!(opened.bus.epoch() > bus.epoch());
    let old = put(&opened.bus, "k", Expect::At(rev), "w").await;
    assert_eq!(old, Ok(Put::Conflict), "a revision was used across epochs");
    let new = done(&opened.bus, "k", "w").await;
    assert!(new.seq > rev.seq, "a number was given out twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o38_a_bucket_deleted_and_made_again_by_hand_is_heard_and_seen() {
    let ground = Ground::of(1).await;
    let bus = ground.open_known().await;
    let mut watch = bus.watch(Bucket::Record, &Key::everything()).await;
    let watch = watch.as_mut().expect("watch");
    let mut revs = Vec::new();
    for n in 0..20 {
        revs.push(done(&bus, &format!("k{n}"), "v").await);
    }
    rings(&mut **watch, "k19").await;
    let mut admin = ground.cluster.admin(0).await.expect("admin");
    let info = format!("$JS.API.STREAM.INFO.{}", ground.state());
    let info = admin.json(&info, "").await.expect("info");
    let mut config = info["config"].clone();
    config["first_seq"] = 1.into();
    ground.delete_stream().await;
    let make = format!("$JS.API.STREAM.CREATE.{}", ground.state());
    let made = admin.json(&make, &config.to_string()).await.expect("made");
    assert!(made.get("error").is_none(), "{made}");
    for n in 0..20 {
        let subject = format!("$KV.mesh_{}.record.k{n}", ground.mesh);
        admin.json(&subject, "changed").await.expect("write");
    }
    // Whoever watches is told to look anew, and whoever looks is told that it is another store.
    let heard = tokio::time::timeout(PATIENCE, async {
        while watch.next().await != mesh_sdk::bus::Rung::Gap {}
    });
    heard.await.expect("a gap");
    changed(&bus).await;
    let wrote = put(&bus, "k0", Expect::At(revs[0]), "w").await;
    assert_eq!(wrote, Err(Fault::EpochChanged));
    drop(bus);
    let opened = ground.open().await;
    assert_eq!(opened.found, Found::Replaced(Replaced::Wiped));
    assert_eq!(opened.bus.installation(), "inst1");
    for (n, rev) in revs.iter().enumerate() {
        let key = format!("k{n}");
        assert_eq!(value(&opened.bus, &key).await.as_deref(), Some("changed"));
        let old = put(&opened.bus, &key, Expect::At(*rev), "w").await;
        assert_eq!(old, Ok(Put::Conflict));
    }
    assert!(opened.bus.epoch() > revs[0].epoch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b7_a_write_into_a_stream_made_again_is_never_done() {
    let ground = Ground::of(1).await;
    let bus = ground.open_known().await;
    done(&bus, "k", "v").await;
    let mut admin = ground.cluster.admin(0).await.expect("admin");
    let info = format!("$JS.API.STREAM.INFO.{}", ground.state());
    let mut config = admin.json(&info, "").await.expect("info")["config"].clone();
    config["first_seq"] = 1.into();
    ground.delete_stream().await;
    let make = format!("$JS.API.STREAM.CREATE.{}", ground.state());
    admin.json(&make, &config.to_string()).await.expect("made");
    let wrote = put(&bus, "new", Expect::Absent, "v").await;
    assert_eq!(wrote, Err(Fault::EpochChanged));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("folder");
    for entry in fs::read_dir(from).expect("read") {
        let entry = entry.expect("entry");
        let there = to.join(entry.file_name());
        if entry.file_type().expect("type").is_dir() {
            copy(&entry.path(), &there);
        } else {
            fs::copy(entry.path(), there).expect("copy");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_an_older_copy_put_back_is_seen_by_the_open_bus_and_by_the_next() {
    let mut ground = Ground::of(1).await;
    let bus = ground.open_known().await;
    done(&bus, "k", "old").await;
    ground.cluster.terminate(0).await.expect("end");
    let kept = tempfile::tempdir().expect("folder");
    copy(&ground.cluster.store(0), kept.path());
    ground.cluster.start_again(0).await.expect("start");
    crate::ground::done_in_the_end(&bus, "k", "new").await;
    let newest = done(&bus, "later", "x").await;
    ground.cluster.terminate(0).await.expect("end");
    fs::remove_dir_all(ground.cluster.store(0)).expect("remove");
    copy(kept.path(), &ground.cluster.store(0));
    ground.cluster.start_again(0).await.expect("start");
    // Reads prove nothing old as new, and the guard comes to the verdict without any write.
    let read = bus.get(Bucket::Record, &Key::of(&["later"])).await;
    assert!(read.is_err(), "{read:?}");
    changed(&bus).await;
    drop(bus);
    let opened = ground.open().await;
    assert!(
        matches!(opened.found, Found::Replaced(Replaced::Older { .. })),
        "{:?}",
        opened.found
    );
    assert_eq!(value(&opened.bus, "k").await.as_deref(), Some("old"));
    let old = put(&opened.bus, "k", Expect::At(newest), "y").await;
    assert_eq!(old, Ok(Put::Conflict), "a revision was used across epochs");
    assert_eq!(opened.bus.epoch().0, newest.epoch.0 + 1);
}
