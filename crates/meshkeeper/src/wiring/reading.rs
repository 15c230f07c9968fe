//! Reading entries whose keys are known: many with few reads, and one consumer's records node by node.

use std::collections::{BTreeSet, HashMap};

use mesh_sdk::ConsumerName;
use mesh_sdk::bus::{Bucket, Bus, Entry, Fault, Key};
use mesh_sdk::decide::Record;
use mesh_sdk::harness::Provisioner;

use crate::manifest::Provider;

/// Up to so many are read one by one.
const FEW: usize = 64;
/// So many are read at once.
const PART: usize = 4_096;

/// The entries that these keys, all under a prefix, have. Many are read in parts from the first key to the last, so that keys
/// which lie close together, as those of one batch do, cost no more than what lies between them.
pub(super) async fn entries_of(
    bus: &dyn Bus,
    (bucket, prefix): (Bucket, &Key),
    keys: &BTreeSet<Key>,
) -> Result<HashMap<Key, Entry>, Fault> {
    let mut found = HashMap::with_capacity(keys.len());
    let mut singly: Vec<&Key> = keys.iter().collect();
    if keys.len() > FEW {
        // The first one is read by itself: a part is of what comes after a key.
        singly.truncate(1);
    }
    for key in singly {
        found.extend(
            bus.get(bucket, key)
                .await?
                .map(|entry| (key.clone(), entry)),
        );
    }
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
        return Ok(found);
    };
    let mut after = (keys.len() > FEW).then(|| first.clone());
    while let Some(from) = after.take() {
        let part = bus.list_part(bucket, prefix, Some(&from), PART).await?;
        let part = part.entries;
        if part.len() >= PART {
            after = part.last().map(|entry| entry.key.clone());
            after = after.filter(|reached| reached < last);
        }
        let wanted = part.into_iter().filter(|entry| keys.contains(&entry.key));
        found.extend(wanted.map(|entry| (entry.key.clone(), entry)));
    }
    Ok(found)
}

/// What the provisioners of a provider remember of one consumer, by the node's name; nothing where they remember
/// nothing that can be read.
pub(super) async fn records_of(
    bus: &dyn Bus,
    provider: &Provider,
    consumer: &ConsumerName,
) -> Result<Vec<(String, Option<Record>)>, Fault> {
    let several = provider.nodes.len() > 1;
    let mut all = Vec::with_capacity(provider.nodes.len());
    for node in &provider.nodes {
        let label = Provisioner::label_of(&provider.name, several.then_some(&*node.name));
        let key = Key::of(&[&label, consumer.as_str()]);
        let entry = bus.get(Bucket::Record, &key).await?;
        let record = entry.and_then(|entry| serde_json::from_slice(&entry.value).ok());
        all.push((node.name.clone(), record));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    //! What is read in parts is what is read one by one.
    use mesh_bus::embedded::{EmbeddedBus, Settings};
    use mesh_sdk::bus::{Expect, Write};
    use mesh_sdk::clock::Clock;

    use super::*;

    #[tokio::test]
    async fn h16_many_entries_are_read_in_parts_and_none_is_missed() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = Settings {
            installation: "i1".to_owned(),
            clock: Clock::system(),
        };
        let bus = EmbeddedBus::open(folder.path(), &settings)
            .expect("a store")
            .bus;
        let key = |n: usize| Key::of(&["it", &format!("app-{n:05}")]);
        let write = |key: Key| Write {
            value: key.as_str().as_bytes().to_vec(),
            key,
            expect: Expect::Absent,
        };
        // Every key but each seventh; and what lies beside them.
        let there = (0..2 * PART + 10).filter(|n| n % 7 != 3);
        let mut writes: Vec<Write> = there.map(|n| write(key(n))).collect();
        writes.push(write(Key::of(&["it-too", "app-00001"])));
        bus.put_each(Bucket::Wish, writes).await.expect("written");
        let read = async |keys: BTreeSet<Key>| {
            let prefix = Key::of(&["it"]);
            let found = entries_of(&bus, (Bucket::Wish, &prefix), &keys);
            let found = found.await.expect("read");
            for (key, entry) in &found {
                assert_eq!(entry.key, *key);
                assert_eq!(entry.value, key.as_str().as_bytes());
            }
            let mut found: Vec<Key> = found.into_keys().collect();
            found.sort();
            found
        };
        let ranges = [
            0..0,
            0..3,
            2..5,
            10..10 + FEW,
            10..11 + FEW,
            0..2 * PART + 20,
            3..PART + 4,
        ];
        for range in ranges {
            let keys: BTreeSet<Key> = range.clone().map(key).collect();
            let wanted = range.clone().filter(|n| n % 7 != 3 && *n < 2 * PART + 10);
            let wanted: Vec<Key> = wanted.map(key).collect();
            assert_eq!(read(keys).await, wanted, "{range:?}");
        }
        // Far from each other.
        let few: BTreeSet<Key> = (0..100).map(|n| key(n * 70)).collect();
        let wanted = (0..100).map(|n| n * 70).filter(|n| n % 7 != 3);
        assert_eq!(read(few).await, wanted.map(key).collect::<Vec<_>>());
    }
}
