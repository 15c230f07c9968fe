//! B-9: what was acknowledged is there after a kill, and what is damaged is told and never begun anew.

use std::fs;
use std::path::Path;

use mesh_bus::embedded::{EmbeddedBus, FILE, Found};
use mesh_sdk::bus::{Bucket, Bus, Fault, Key};

use crate::child::{next_word, writer};
use crate::{contents, done, open, open_known, settings, value};

/// Lets a child write until it has said so many words, kills it, and answers all that it said.
fn killed_after(folder: &Path, words: usize) -> Vec<(String, String, u64)> {
    let (mut child, mut out) = writer(folder, None);
    let mut said = Vec::new();
    while said.len() < words {
        said.push(next_word(&mut out).expect("the child goes on"));
    }
    child.kill().expect("kill");
    child.wait().expect("end");
    while let Some(word) = next_word(&mut out) {
        said.push(word);
    }
    said.iter()
        .map(|word| {
            let parts: Vec<&str> = word.split(' ').collect();
            assert!(matches!(parts[0], "done" | "batch"), "{word}");
            (
                parts[0].to_owned(),
                parts[1].to_owned(),
                parts[2].parse().expect("seq"),
            )
        })
        .collect()
}

#[tokio::test]
async fn b9_what_was_done_is_there_after_a_kill() {
    let folder = tempfile::tempdir().expect("folder");
    let mut newest = 0;
    for round in 0..8 {
        for (what, name, seq) in killed_after(folder.path(), 15 + 11 * round) {
            let bus = match open(folder.path()) {
                opened if round == 0 || opened.found == Found::Known => opened.bus,
                opened => panic!("found {:?}", opened.found),
            };
            if what == "done" {
                assert!(value(&bus, &name).await.is_some(), "{name} was done");
                newest = newest.max(seq);
            } else {
                let list = bus
                    .list(Bucket::Condition, &Key::of(&["batch", &name]))
                    .await;
                assert_eq!(list.expect("list").entries.len(), 50, "a batch is whole");
            }
        }
        let bus = open_known(folder.path());
        // A batch that was under way is there as a whole or not at all.
        let batches = bus.list(Bucket::Condition, &Key::everything()).await;
        assert_eq!(batches.expect("list").entries.len() % 50, 0);
        let rev = done(&bus, "after", &round.to_string()).await;
        assert!(rev.seq > newest, "a revision was given out twice");
        newest = rev.seq;
    }
}

async fn filled(folder: &Path) {
    let bus = open(folder).bus;
    for n in 0..200 {
        done(&bus, &format!("k{n}"), &"x".repeat(500)).await;
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("folder");
    for (name, bytes) in contents(from) {
        fs::write(to.join(name), bytes).expect("copy");
    }
}

#[tokio::test]
async fn b9_a_torn_copy_is_told_and_left_alone() {
    let base = tempfile::tempdir().expect("folder");
    let whole = base.path().join("whole");
    filled(&whole).await;
    let length = fs::metadata(whole.join(FILE)).expect("file").len();
    for part in 1..20 {
        let torn = base.path().join(format!("torn{part}"));
        copy(&whole, &torn);
        let file = fs::OpenOptions::new()
            .write(true)
            .open(torn.join(FILE))
            .expect("file");
        file.set_len(length * part / 20 + part).expect("tear");
        let before = fs::read(torn.join(FILE)).expect("file");
        let outcome = match EmbeddedBus::open(&torn, &settings()) {
            Err(fault) => Err(fault),
            Ok(opened) => opened.bus.list(Bucket::Record, &Key::everything()).await,
        };
        let fault = outcome.expect_err("a torn store cannot be whole");
        assert!(matches!(fault, Fault::Corrupt(_)), "{part}: {fault:?}");
        let after = fs::read(torn.join(FILE)).expect("file");
        assert_eq!(before.len(), after.len(), "a torn store was written to");
    }
}

#[tokio::test]
async fn b9_a_file_that_is_no_store_is_told_and_left_alone() {
    let folder = tempfile::tempdir().expect("folder");
    filled(folder.path()).await;
    let path = folder.path().join(FILE);
    fs::write(&path, "not a database, but somebody's notes".repeat(300)).expect("write");
    let before = contents(folder.path());
    let opened = EmbeddedBus::open(folder.path(), &settings()).map(|opened| opened.found);
    assert!(matches!(opened, Err(Fault::Corrupt(_))), "{opened:?}");
    assert_eq!(contents(folder.path()), before);
}

#[tokio::test]
async fn b9_a_log_that_was_torn_off_opens_to_an_earlier_commit() {
    let base = tempfile::tempdir().expect("folder");
    let live = base.path().join("live");
    let bus = open(&live).bus;
    for n in 0..50 {
        done(&bus, "counter", &n.to_string()).await;
    }
    // Copied while it is in use, as a kill leaves it.
    let log = format!("{FILE}-wal");
    let length = fs::metadata(live.join(&log)).expect("log").len();
    for part in 0..10 {
        let torn = base.path().join(format!("torn{part}"));
        copy(&live, &torn);
        fs::remove_file(torn.join(format!("{FILE}-shm"))).expect("index");
        let file = fs::OpenOptions::new()
            .write(true)
            .open(torn.join(&log))
            .expect("log");
        file.set_len(length * part / 10).expect("tear");
        let Ok(opened) = EmbeddedBus::open(&torn, &settings()) else {
            // Before the first commit there is nothing that could be opened.
            continue;
        };
        if let Some(text) = value(&opened.bus, "counter").await {
            assert!(text.parse::<u32>().expect("number") < 50);
        }
        done(&opened.bus, "goes on", "yes").await;
    }
}
