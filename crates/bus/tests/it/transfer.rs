//! Moving an installation: whole or not at all, and again changes nothing.

use mesh_bus::claim::{Answer, Ask, Holder, Lease, take};
use mesh_bus::transfer::{Moved, TransferFault, export, import};
use mesh_sdk::ProviderName;
use mesh_sdk::bus::{Bucket, Bus, Expect, Key, Put, Write};
use std::sync::Arc;

use crate::open;

async fn filled() -> (
    tempfile::TempDir,
    Arc<mesh_bus::EmbeddedBus>,
    Vec<u8>,
    Moved,
) {
    let folder = tempfile::tempdir().expect("folder");
    let bus = Arc::new(open(folder.path()).bus);
    for bucket in Bucket::ALL {
        let writes = (0..1500).map(|n| Write {
            key: Key::of(&["cache", &n.to_string()]),
            expect: Expect::Absent,
            value: match n {
                0 => vec![0, 159, 255],
                1 => Vec::new(),
                _ => format!("{{\"of\":\"{} {n}\"}}", bucket.as_str()).into_bytes(),
            },
        });
        let puts = bus.put_each(bucket, writes.collect()).await.expect("put");
        assert!(puts.iter().all(|put| matches!(put, Put::Done(_))));
    }
    let me = Holder {
        host: "here".to_owned(),
        start: "1".to_owned(),
        runner: "up".to_owned(),
    };
    let cache = Lease::Provider(ProviderName::new("cache").expect("name"));
    for lease in [Lease::Installation, cache] {
        let claim = take(
            Arc::clone(&bus) as Arc<dyn Bus>,
            Ask::new(lease, me.clone()),
        )
        .await;
        assert!(matches!(claim, Ok(Answer::Mine(_))));
    }
    let line = |n: u32| (Key::of(&["adv", &n.to_string()]), format!("line {n}"));
    bus.append((0..20).map(line).collect())
        .await
        .expect("append");
    let mut file = Vec::new();
    let moved = export(&*bus, "inst1", &mut file).await.expect("export");
    (folder, bus, file, moved)
}

async fn all(bus: &dyn Bus) -> Vec<(Bucket, Key, Vec<u8>)> {
    let mut all = Vec::new();
    for bucket in Bucket::ALL {
        let list = bus.list(bucket, &Key::everything()).await.expect("list");
        all.extend(list.entries.into_iter().map(|e| (bucket, e.key, e.value)));
    }
    all
}

#[tokio::test]
async fn b9_what_is_exported_is_imported_whole_and_again_changes_nothing() {
    let (_folder, bus, file, moved) = filled().await;
    assert_eq!((moved.values, moved.lines), (7 * 1500, 20));
    let there = tempfile::tempdir().expect("folder");
    let new = open(there.path()).bus;
    for _ in 0..2 {
        let imported = import(&new, "inst1", &mut file.as_slice()).await;
        assert_eq!(imported.expect("import"), moved);
    }
    let mut old = all(&*bus).await;
    // A lease belongs to the bus on which it lies.
    old.retain(|(_, key, _)| !Lease::is_at(key));
    assert!(all(&new).await == old, "something differs");
    let lines = |lines: Vec<mesh_sdk::bus::LogLine>| -> Vec<(String, String)> {
        let lines = lines.into_iter();
        lines.map(|line| (line.subject, line.value)).collect()
    };
    let before = bus.history(&Key::everything(), 0, 100).await.expect("old");
    let after = new.history(&Key::everything(), 0, 100).await.expect("new");
    assert_eq!(lines(after), lines(before));
    let mut again = Vec::new();
    export(&new, "inst1", &mut again).await.expect("export");
    assert!(again == file, "the way back gives another file");
}

#[tokio::test]
async fn r8_a_file_that_was_cut_off_or_is_anothers_writes_nothing() {
    let (_folder, _bus, file, _) = filled().await;
    let there = tempfile::tempdir().expect("folder");
    let new = open(there.path()).bus;
    let text = String::from_utf8(file.clone()).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    let without_end = lines[..lines.len() - 1].join("\n");
    let shorter = [&lines[..5], &lines[6..]].concat().join("\n");
    for cut in [without_end, shorter, String::new()] {
        let refused = import(&new, "inst1", &mut cut.as_bytes()).await;
        assert!(matches!(refused, Err(TransferFault::CutOff)), "{refused:?}");
    }
    let half = &text[..text.len() / 2];
    let refused = import(&new, "inst1", &mut half.as_bytes()).await;
    assert!(
        matches!(refused, Err(TransferFault::Line { .. })),
        "{refused:?}"
    );
    let refused = import(&new, "inst2", &mut file.as_slice()).await;
    assert!(
        matches!(refused, Err(TransferFault::Installation { .. })),
        "{refused:?}"
    );
    assert!(all(&new).await.is_empty());
}

#[tokio::test]
async fn r9_an_import_overwrites_nothing() {
    let (_folder, _bus, file, _) = filled().await;
    let there = tempfile::tempdir().expect("folder");
    let new = open(there.path()).bus;
    let key = Key::of(&["cache", "7"]);
    let write = Write {
        key: key.clone(),
        expect: Expect::Absent,
        value: b"mine".to_vec(),
    };
    let put = new.put_if(Bucket::Version, write).await;
    assert!(matches!(put, Ok(Put::Done(_))));
    let refused = import(&new, "inst1", &mut file.as_slice()).await;
    assert!(
        matches!(refused, Err(TransferFault::Differs { count: 1, .. })),
        "{refused:?}"
    );
    let entry = new.get(Bucket::Version, &key).await.expect("get");
    assert_eq!(entry.map(|e| e.value), Some(b"mine".to_vec()));
}
