//! The embedded store as others use it: the bus suite, what becomes of it in a crash, on a full disk, when
//! it is replaced; and the secret store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod child;
mod claim;
mod crash;
mod epoch;
mod full;
mod parts;
mod readonly;
mod secrets;
mod suite;
mod transfer;

use std::path::Path;

use mesh_bus::embedded::{EmbeddedBus, Found, Opened, Settings};
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put, Rev, Write};
use mesh_sdk::clock::Clock;

fn settings() -> Settings {
    Settings {
        installation: "inst1".to_owned(),
        clock: Clock::system(),
    }
}

fn open(folder: &Path) -> Opened {
    EmbeddedBus::open(folder, &settings()).expect("the store opens")
}

/// Opens a store that is expected to be the one that was there.
fn open_known(folder: &Path) -> EmbeddedBus {
    let opened = open(folder);
    assert_eq!(opened.found, Found::Known);
    opened.bus
}

async fn put(bus: &EmbeddedBus, key: &str, expect: Expect, value: &str) -> Result<Put, Fault> {
    let write = Write {
        key: Key::of(&[key]),
        expect,
        value: value.as_bytes().to_vec(),
    };
    bus.put_if(Bucket::Record, write).await
}

async fn done(bus: &EmbeddedBus, key: &str, value: &str) -> Rev {
    let now = bus
        .get(Bucket::Record, &Key::of(&[key]))
        .await
        .expect("get");
    let expect = now.map_or(Expect::Absent, |entry| Expect::At(entry.rev));
    match put(bus, key, expect, value).await {
        Ok(Put::Done(rev)) => rev,
        other => panic!("writing {key} gave {other:?}"),
    }
}

async fn value(bus: &EmbeddedBus, key: &str) -> Option<String> {
    let entry = bus
        .get(Bucket::Record, &Key::of(&[key]))
        .await
        .expect("get");
    entry.map(|entry| String::from_utf8(entry.value).expect("text"))
}

/// Names and contents of everything in a folder.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("folder")
        .map(|entry| {
            let entry = entry.expect("entry");
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).expect("file"))
        })
        .collect();
    files.sort();
    files
}
