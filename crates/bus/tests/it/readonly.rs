//! `status` and `plan`: reading beside a daemon and without one, and making nothing.

use std::fs;
use std::path::Path;
use std::time::Duration;

use mesh_bus::embedded::{EmbeddedBus, Found, Glimpse};
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Rung};

use crate::child::{next_word, writer};
use crate::{contents, done, open, put, value};

fn glimpse(folder: &Path) -> EmbeddedBus {
    match EmbeddedBus::open_read_only(folder) {
        Ok(Glimpse::Open(opened)) => {
            assert_eq!(opened.found, Found::Known);
            opened.bus
        }
        Ok(_) => panic!("it is there"),
        Err(fault) => panic!("{fault}"),
    }
}

#[tokio::test]
async fn r8_a_store_that_is_not_there_is_said_so_and_nothing_is_made() {
    let folder = tempfile::tempdir().expect("folder");
    let data = folder.path().join("data");
    assert!(matches!(
        EmbeddedBus::open_read_only(&data),
        Ok(Glimpse::NotThere)
    ));
    assert!(!data.exists());
    fs::create_dir(&data).expect("folder");
    assert!(matches!(
        EmbeddedBus::open_read_only(&data),
        Ok(Glimpse::NotThere)
    ));
    assert_eq!(contents(&data), []);
}

#[tokio::test]
async fn b9_a_closed_store_is_read_without_a_trace() {
    let folder = tempfile::tempdir().expect("folder");
    done(&open(folder.path()).bus, "k", "v").await;
    let before = contents(folder.path());
    let bus = glimpse(folder.path());
    assert_eq!(value(&bus, "k").await.as_deref(), Some("v"));
    let list = bus
        .list(Bucket::Record, &Key::everything())
        .await
        .expect("list");
    assert_eq!(list.entries.len(), 1);
    bus.history(&Key::everything(), 0, 10)
        .await
        .expect("history");
    assert!(matches!(
        put(&bus, "k2", Expect::Absent, "v").await,
        Err(Fault::Full(_))
    ));
    let health = bus.health().await;
    assert!(health.readable && !health.writable);
    drop(bus);
    assert_eq!(contents(folder.path()), before);
}

#[tokio::test]
async fn b9_a_store_in_a_folder_with_odd_signs_is_read_too() {
    let base = tempfile::tempdir().expect("folder");
    let folder = base.path().join("100%25 a?b#c ü");
    done(&open(&folder).bus, "k", "v").await;
    assert_eq!(value(&glimpse(&folder), "k").await.as_deref(), Some("v"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b9_a_reader_beside_a_writing_process_sees_what_is_done() {
    let folder = tempfile::tempdir().expect("folder");
    let (mut child, mut out) = writer(folder.path(), None);
    next_word(&mut out).expect("the child writes");
    let bus = glimpse(folder.path());
    for _ in 0..100 {
        let word = next_word(&mut out).expect("the child goes on");
        if let ["done", name, _] = word.split(' ').collect::<Vec<_>>()[..] {
            assert!(value(&bus, name).await.is_some(), "{name}");
        }
    }
    child.kill().expect("kill");
    child.wait().expect("end");
    // The log that the killed one left is read as well.
    let list = bus
        .list(Bucket::Record, &Key::everything())
        .await
        .expect("list");
    let fresh = glimpse(folder.path())
        .list(Bucket::Record, &Key::everything())
        .await;
    assert_eq!(list.entries, fresh.expect("list").entries);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b9_a_reader_is_right_while_writers_come_and_go() {
    let folder = tempfile::tempdir().expect("folder");
    done(&open(folder.path()).bus, "counter", "0").await;
    let bus = glimpse(folder.path());
    let path = folder.path().to_owned();
    let writing = tokio::spawn(async move {
        for n in 1..60 {
            done(&open(&path).bus, "counter", &n.to_string()).await;
        }
    });
    let mut seen = 0;
    while !writing.is_finished() {
        let text = value(&bus, "counter").await.expect("it is there");
        let now: u32 = text.parse().expect("number");
        assert!(now >= seen, "{now} after {seen}");
        seen = now;
    }
    writing.await.expect("writer");
    assert_eq!(value(&bus, "counter").await.as_deref(), Some("59"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b7_a_read_only_watch_rings_for_a_writers_change() {
    let folder = tempfile::tempdir().expect("folder");
    let writer = open(folder.path()).bus;
    let bus = glimpse(folder.path());
    let mut watch = bus
        .watch(Bucket::Record, &Key::everything())
        .await
        .expect("watch");
    let quiet = tokio::time::timeout(Duration::from_millis(600), watch.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    done(&writer, "k", "v").await;
    let rung = tokio::time::timeout(Duration::from_secs(10), watch.next()).await;
    assert_eq!(rung.expect("it rings"), Rung::Gap);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b7_a_watch_rings_for_another_processs_changes() {
    let folder = tempfile::tempdir().expect("folder");
    let bus = open(folder.path()).bus;
    let mut watch = bus
        .watch(Bucket::Record, &Key::everything())
        .await
        .expect("watch");
    let (mut child, mut out) = writer(folder.path(), None);
    next_word(&mut out).expect("the child writes");
    for _ in 0..3 {
        let rung = tokio::time::timeout(Duration::from_secs(10), watch.next()).await;
        rung.expect("it rings");
    }
    child.kill().expect("kill");
    child.wait().expect("end");
    // What the other did and what this one does are in one order.
    let list = bus
        .list(Bucket::Record, &Key::everything())
        .await
        .expect("list");
    let rev = done(&bus, "own", "x").await;
    assert!(list.entries.iter().all(|entry| entry.rev.seq < rev.seq));
}
