//! B-6, B-7: a store that was wiped, put back or exchanged is seen, and gets a new epoch.

use std::fs;
use std::path::Path;

use mesh_bus::embedded::{EmbeddedBus, FILE, Found, Glimpse, Replaced};
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put};

use crate::{done, open, open_known, put, settings, value};

async fn used(folder: &Path, writes: usize) -> u64 {
    let bus = open(folder).bus;
    for n in 0..writes {
        done(&bus, &format!("k{n}"), "x").await;
    }
    bus.epoch().0
}

#[tokio::test]
async fn b6_a_new_store_is_created_once_and_known_afterwards() {
    let folder = tempfile::tempdir().expect("folder");
    let data = folder.path().join("data");
    let opened = open(&data);
    assert_eq!(opened.found, Found::Created);
    assert_eq!(opened.bus.installation(), "inst1");
    let epoch = opened.bus.epoch();
    drop(opened);
    let bus = open_known(&data);
    assert_eq!((bus.installation(), bus.epoch()), ("inst1", epoch));
}

#[tokio::test]
async fn b6_a_wiped_store_keeps_the_installation_and_has_a_new_epoch_until_that_was_told() {
    let folder = tempfile::tempdir().expect("folder");
    let before = used(folder.path(), 3).await;
    fs::remove_file(folder.path().join(FILE)).expect("wipe");
    assert!(matches!(
        EmbeddedBus::open_read_only(folder.path()),
        Ok(Glimpse::Wiped)
    ));
    let mut other = settings();
    other.installation = "inst2".to_owned();
    for _ in 0..3 {
        // Also after a crash between opening and telling.
        let opened = EmbeddedBus::open(folder.path(), &other).expect("open");
        assert_eq!(opened.found, Found::Replaced(Replaced::Wiped));
        assert_eq!(opened.bus.installation(), "inst1");
        assert_eq!(opened.bus.epoch().0, before + 1);
    }
    open(folder.path())
        .bus
        .replacement_told()
        .await
        .expect("told");
    assert_eq!(open_known(folder.path()).epoch().0, before + 1);
}

#[tokio::test]
async fn b6_a_wiped_store_is_seen_after_its_very_first_write_and_none() {
    for writes in [0, 1] {
        let folder = tempfile::tempdir().expect("folder");
        used(folder.path(), writes).await;
        fs::write(folder.path().join(FILE), b"").expect("wipe");
        assert_eq!(open(folder.path()).found, Found::Replaced(Replaced::Wiped));
    }
}

#[tokio::test]
async fn b6_an_older_copy_is_seen_and_its_revisions_are_of_another_epoch() {
    let folder = tempfile::tempdir().expect("folder");
    let before = used(folder.path(), 3).await;
    let copy = fs::read(folder.path().join(FILE)).expect("copy");
    let newest = {
        let bus = open_known(folder.path());
        done(&bus, "later", "x").await
    };
    fs::write(folder.path().join(FILE), copy).expect("put back");
    let Ok(Glimpse::Open(seen)) = EmbeddedBus::open_read_only(folder.path()) else {
        panic!("it is there");
    };
    assert!(matches!(
        seen.found,
        Found::Replaced(Replaced::Older { .. })
    ));
    drop(seen);
    let opened = open(folder.path());
    let Found::Replaced(Replaced::Older { seq, reached }) = opened.found else {
        panic!("found {:?}", opened.found);
    };
    assert!(
        seq < reached && reached == newest.seq,
        "{seq} {reached} {newest:?}"
    );
    assert_eq!(opened.bus.epoch().0, before + 1);
    assert_eq!(value(&opened.bus, "k1").await.as_deref(), Some("x"));
    assert_eq!(value(&opened.bus, "later").await, None);
    let old = put(&opened.bus, "k1", Expect::At(newest), "y").await;
    assert_eq!(old, Ok(Put::Conflict), "a revision was used across epochs");
}

#[tokio::test]
async fn b6_an_older_copy_after_a_kill_is_seen_or_gives_out_no_revision_twice() {
    let folder = tempfile::tempdir().expect("folder");
    used(folder.path(), 3).await;
    let bus = open_known(folder.path());
    let copy: Vec<_> = crate::contents(folder.path());
    let mut newest = 0;
    for n in 0..30 {
        newest = done(&bus, "later", &n.to_string()).await.seq;
    }
    // As a kill leaves it: the mark was not moved by closing.
    let mark = fs::read(folder.path().join("epoch.json")).expect("mark");
    drop(bus);
    for (name, bytes) in copy {
        fs::write(folder.path().join(name), bytes).expect("put back");
    }
    fs::write(folder.path().join("epoch.json"), mark).expect("mark");
    let opened = open(folder.path());
    let rev = done(&opened.bus, "next", "x").await;
    let fresh = rev.seq > newest || opened.found != Found::Known;
    assert!(fresh, "{rev:?} after {newest}");
}

#[tokio::test]
async fn b6_a_store_of_another_installation_is_seen() {
    let (ours, theirs) = (
        tempfile::tempdir().expect("a"),
        tempfile::tempdir().expect("b"),
    );
    used(ours.path(), 2).await;
    let mut other = settings();
    other.installation = "inst2".to_owned();
    drop(EmbeddedBus::open(theirs.path(), &other).expect("open"));
    fs::copy(theirs.path().join(FILE), ours.path().join(FILE)).expect("exchange");
    let found = open(ours.path()).found;
    let why = Replaced::OtherInstallation {
        before: "inst1".to_owned(),
        now: "inst2".to_owned(),
    };
    assert_eq!(found, Found::Replaced(why));
}

#[tokio::test]
async fn b6_a_store_without_its_mark_cannot_be_trusted_to_be_the_newest() {
    for (mark, why) in [(None, Replaced::NoMark), (Some("{"), Replaced::DamagedMark)] {
        let folder = tempfile::tempdir().expect("folder");
        let before = used(folder.path(), 2).await;
        let path = folder.path().join("epoch.json");
        match mark {
            None => fs::remove_file(&path).expect("remove"),
            Some(text) => fs::write(&path, text).expect("damage"),
        }
        let opened = open(folder.path());
        assert_eq!(opened.found, Found::Replaced(why));
        assert_eq!(opened.bus.epoch().0, before + 1);
        assert_eq!(
            value(&opened.bus, "k1").await.as_deref(),
            Some("x"),
            "the data stays"
        );
    }
}

#[tokio::test]
async fn b6_a_copy_from_before_an_earlier_replacement_is_seen() {
    let folder = tempfile::tempdir().expect("folder");
    used(folder.path(), 2).await;
    let copy = fs::read(folder.path().join(FILE)).expect("copy");
    fs::remove_file(folder.path().join(FILE)).expect("wipe");
    {
        let bus = open(folder.path()).bus;
        bus.replacement_told().await.expect("told");
    }
    fs::write(folder.path().join(FILE), copy).expect("put back");
    let opened = open(folder.path());
    assert!(
        matches!(
            opened.found,
            Found::Replaced(Replaced::OlderEpoch {
                epoch: 1,
                newest: 2
            })
        ),
        "{:?}",
        opened.found
    );
    assert_eq!(opened.bus.epoch().0, 3);
}

#[tokio::test]
async fn b7_a_store_that_is_exchanged_under_a_running_program_is_seen() {
    let folder = tempfile::tempdir().expect("folder");
    used(folder.path(), 3).await;
    let copy = fs::read(folder.path().join(FILE)).expect("copy");
    let bus = open_known(folder.path());
    done(&bus, "later", "x").await;
    fs::write(folder.path().join("new"), copy).expect("copy");
    fs::rename(folder.path().join("new"), folder.path().join(FILE)).expect("exchange");
    assert_eq!(
        put(&bus, "lost", Expect::Absent, "x").await,
        Err(Fault::EpochChanged)
    );
    let read = bus.get(Bucket::Record, &Key::of(&["k1"])).await;
    assert_eq!(read, Err(Fault::EpochChanged));
    assert!(!bus.health().await.readable);
    fs::remove_file(folder.path().join(FILE)).expect("wipe");
    assert_eq!(
        put(&bus, "lost", Expect::Absent, "x").await,
        Err(Fault::EpochChanged)
    );
}

#[tokio::test]
async fn b2_a_store_of_a_newer_program_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("folder");
    used(folder.path(), 1).await;
    let path = folder.path().join(FILE);
    let raise = rusqlite::Connection::open(&path).expect("open");
    raise
        .pragma_update(None, "user_version", 99)
        .expect("raise");
    raise.close().expect("close");
    let before = crate::contents(folder.path());
    let newer = Fault::Newer {
        found: 99,
        known: 1,
    };
    let opened = EmbeddedBus::open(folder.path(), &settings()).map(|opened| opened.found);
    assert_eq!(opened, Err(newer.clone()));
    assert!(matches!(EmbeddedBus::open_read_only(folder.path()), Err(fault) if fault == newer));
    assert_eq!(crate::contents(folder.path()), before);
}

#[tokio::test]
async fn s3_folder_and_files_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("folder");
    let data = folder.path().join("data");
    let opened = open(&data);
    done(&opened.bus, "k", "v").await;
    let mode = |path: &Path| fs::metadata(path).expect("meta").permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    for (name, _) in crate::contents(&data) {
        assert_eq!(mode(&data.join(&name)), 0o600, "{name}");
    }
}
