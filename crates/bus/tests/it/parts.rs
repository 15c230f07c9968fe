//! A big list in parts: together they are the list, whatever their size.

use mesh_sdk::bus::{Bucket, Bus, Expect, Key, Put, Write};

use crate::open;

const KEYS: [&[&str]; 7] = [
    &["cache"],
    &["cache", "a"],
    &["cache", "a", "deep"],
    &["cache", "b"],
    &["cache-2", "a"],
    &["cache2", "a"],
    &["other"],
];

#[tokio::test]
async fn b5_the_parts_of_a_list_are_the_list() {
    let folder = tempfile::tempdir().expect("folder");
    let bus = open(folder.path()).bus;
    for key in KEYS {
        let write = Write {
            key: Key::of(key),
            expect: Expect::Absent,
            value: b"v".to_vec(),
        };
        let put = bus.put_if(Bucket::Record, write).await;
        assert!(matches!(put, Ok(Put::Done(_))), "{put:?}");
    }
    for prefix in [Key::everything(), Key::of(&["cache"]), Key::of(&["none"])] {
        let whole = bus.list(Bucket::Record, &prefix).await.expect("list");
        for most in 1..9 {
            let mut parts = Vec::new();
            loop {
                let after = parts.last().map(|entry: &mesh_sdk::bus::Entry| &entry.key);
                let part = bus.list_part(Bucket::Record, &prefix, after, most).await;
                let part = part.expect("part").entries;
                let ends = part.len() < most;
                parts.extend(part);
                if ends {
                    break;
                }
            }
            let keys = |all: &[mesh_sdk::bus::Entry]| -> Vec<(Key, Vec<u8>)> {
                let all = all.iter();
                all.map(|e| (e.key.clone(), e.value.clone())).collect()
            };
            assert_eq!(keys(&parts), keys(&whole.entries), "{prefix} by {most}");
        }
    }
}
