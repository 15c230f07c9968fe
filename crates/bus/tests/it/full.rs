//! O-44: a full disk fails a write cleanly, and the last committed state opens afterwards.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use mesh_bus::embedded::{EmbeddedBus, FILE, Found};
use mesh_bus::vault::{KeySource, SealedVault};
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put};
use mesh_sdk::name::{ConsumerName, ProviderName};
use mesh_sdk::secret::Secret;
use mesh_sdk::vault::{Vault, VaultFault};

use crate::child::{next_word, writer};
use crate::{done, open, open_known, put, settings, value};

/// A small file system of its own; `None`, said aloud, where that is not allowed.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(kib: u32) -> Option<Self> {
        let folder = tempfile::tempdir().expect("folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"])
            .arg(folder.path())
            .status()
            .is_ok_and(|status| status.success());
        if !mounted {
            eprintln!(
                "SKIPPED: a small tmpfs cannot be mounted here; the limit on file sizes is tried alone"
            );
        }
        mounted.then_some(Self(folder))
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
    fn fill(&self) {
        let mut filler = fs::File::create(self.path().join("filler")).expect("filler");
        for size in [65536, 4096, 1] {
            while filler.write_all(&vec![0; size]).is_ok() {}
        }
    }
    fn free(&self) {
        fs::remove_file(self.path().join("filler")).expect("free");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// Writes until the store says that it is full; how many were done.
async fn until_full(bus: &EmbeddedBus) -> usize {
    for n in 0..5000 {
        match put(bus, &format!("n{n}"), Expect::Absent, &"v".repeat(2000)).await {
            Ok(Put::Done(_)) => {}
            Err(Fault::Full(_)) => return n,
            other => panic!("{other:?}"),
        }
    }
    panic!("it never gets full");
}

async fn count(bus: &EmbeddedBus) -> usize {
    let list = bus.list(Bucket::Record, &Key::everything()).await;
    list.expect("list").entries.len()
}

#[tokio::test]
async fn o44_a_full_disk_fails_cleanly_and_all_that_was_done_opens_again() {
    let Some(disk) = Small::mount(4096) else {
        return;
    };
    let data = disk.path().join("data");
    let bus = open(&data).bus;
    done(&bus, "first", "v").await;
    disk.fill();
    let done_before = until_full(&bus).await;
    assert!(!bus.health().await.writable);
    // Nothing of what was refused is there, and reading goes on.
    assert_eq!(value(&bus, &format!("n{done_before}")).await, None);
    assert_eq!(count(&bus).await, done_before + 1);
    drop(bus);
    // Opening on the full disk gives what was done, or says that it is full. It never begins anew.
    match EmbeddedBus::open(&data, &settings()) {
        Ok(opened) => {
            assert_eq!(opened.found, Found::Known);
            assert_eq!(count(&opened.bus).await, done_before + 1);
        }
        Err(fault) => assert!(matches!(fault, Fault::Full(_)), "{fault:?}"),
    }
    disk.free();
    let bus = open_known(&data);
    assert_eq!(count(&bus).await, done_before + 1);
    done(&bus, "goes on", "v").await;
    assert!(bus.health().await.writable);
}

#[tokio::test]
async fn o44_room_made_while_it_runs_is_used() {
    let Some(disk) = Small::mount(4096) else {
        return;
    };
    let bus = open(&disk.path().join("data")).bus;
    disk.fill();
    let done_before = until_full(&bus).await;
    disk.free();
    done(&bus, "goes on", "v").await;
    assert_eq!(count(&bus).await, done_before + 1);
}

#[tokio::test]
async fn o44_a_kill_on_a_full_disk_loses_nothing_that_was_done() {
    let Some(disk) = Small::mount(4096) else {
        return;
    };
    let data = disk.path().join("data");
    let (mut child, mut out) = writer(&data, None);
    next_word(&mut out).expect("the child writes");
    disk.fill();
    let mut names = Vec::new();
    while let Some(word) = next_word(&mut out) {
        match word.split(' ').collect::<Vec<_>>()[..] {
            ["done", name, _] => names.push(name.to_owned()),
            ["batch", ..] => {}
            ["full"] => break,
            _ => panic!("{word}"),
        }
    }
    child.kill().expect("kill");
    child.wait().expect("end");
    disk.free();
    let bus = open_known(&data);
    for name in names {
        assert!(value(&bus, &name).await.is_some(), "{name} was done");
    }
    done(&bus, "goes on", "v").await;
}

#[tokio::test]
async fn o44_a_limit_on_file_sizes_fails_cleanly_too() {
    let folder = tempfile::tempdir().expect("folder");
    // 512 KiB for each file.
    let (mut child, mut out) = writer(folder.path(), Some(1024));
    let mut names = Vec::new();
    let mut full = false;
    while let Some(word) = next_word(&mut out) {
        match word.split(' ').collect::<Vec<_>>()[..] {
            ["done", name, _] => names.push(name.to_owned()),
            ["batch", ..] => {}
            ["full"] => full = true,
            _ => panic!("{word}"),
        }
    }
    assert!(full, "the child met its limit");
    assert!(
        child.wait().expect("end").success(),
        "it did not end in a panic"
    );
    let length = fs::metadata(folder.path().join(FILE)).expect("file").len();
    assert!(length <= 512 << 10);
    let bus = open_known(folder.path());
    for name in names {
        assert!(value(&bus, &name).await.is_some(), "{name} was done");
    }
    done(&bus, "goes on", "v").await;
}

#[tokio::test]
async fn o44_o27_a_full_disk_keeps_no_new_secret_and_loses_no_old_one() {
    let Some(disk) = Small::mount(2048) else {
        return;
    };
    let data = disk.path().join("data");
    let (cache, web) = (
        ProviderName::new("cache").unwrap(),
        ConsumerName::new("web").unwrap(),
    );
    let vault = SealedVault::open(&data, &KeySource::Folder).expect("open");
    let secret = Secret::from("first-password");
    let mut ids = vec![vault.keep(&cache, &web, &secret).await.expect("keep")];
    disk.fill();
    let fault = loop {
        match vault
            .keep(&cache, &web, &Secret::from("x".repeat(4000)))
            .await
        {
            Ok(id) => ids.insert(0, id),
            Err(fault) => break fault,
        }
    };
    assert!(matches!(fault, VaultFault::Full(_)), "{fault:?}");
    assert_eq!(vault.ids(&cache, &web).await, Ok(ids.clone()));
    drop(vault);
    disk.free();
    let vault = SealedVault::open(&data, &KeySource::Folder).expect("open");
    assert_eq!(vault.ids(&cache, &web).await, Ok(ids.clone()));
    let first = ids.last().expect("one");
    assert_eq!(vault.open(&cache, &web, first).await, Ok(Some(secret)));
}
