//! Lists: whole, in order, and of the prefix that was asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh_sdk::bus::{Bucket, Expect, Key};

use super::{Stop, Store, check, done};

pub(super) async fn b2_a_list_is_whole_and_ordered(store: &mut dyn Store) -> Result<(), Stop> {
    let bus = store.bus();
    // Written in an order that is not the order of the names.
    for n in (0..500u32).map(|n| n * 7919 % 500) {
        let key = Key::of(&["cache", &format!("c{n}")]);
        done(&*bus, Bucket::Record, &key, Expect::Absent, &n.to_string()).await?;
    }
    for prefix in [Key::everything(), Key::of(&["cache"])] {
        let list = bus.list(Bucket::Record, &prefix).await?;
        check!(
            list.entries.len() == 500,
            "{} are listed",
            list.entries.len()
        );
        let ordered = list
            .entries
            .windows(2)
            .all(|pair| pair[0].key < pair[1].key);
        check!(ordered, "the list is not in order");
        for entry in &list.entries {
            let got = bus.get(Bucket::Record, &entry.key).await?;
            check!(
                got.as_ref() == Some(entry),
                "{} is listed otherwise than it is read",
                entry.key
            );
        }
    }
    Ok(())
}

pub(super) async fn b2_a_prefix_is_not_fooled_by_names(store: &mut dyn Store) -> Result<(), Stop> {
    let bus = store.bus();
    let keys = [
        Key::of(&["cache"]),
        Key::of(&["cache", "web"]),
        Key::of(&["cache", "web", "b"]),
        Key::of(&["cache", "web2"]),
        Key::of(&["cache", "web-b"]),
        Key::of(&["cache2"]),
        Key::of(&["cache2", "web"]),
        Key::of(&["cache-2", "web"]),
        Key::of(&["cache_2", "web"]),
        Key::of(&["cache.web"]),
        Key::of(&["cach", "e"]),
        Key::of(&["x-", "web"]),
        Key::of(&["%", "web"]),
        Key::of(&["_ache", "web"]),
    ];
    for key in &keys {
        done(&*bus, Bucket::Record, key, Expect::Absent, "x").await?;
    }
    let mut prefixes = keys.to_vec();
    prefixes.extend([Key::of(&["cac"]), Key::of(&["cach"]), Key::everything()]);
    for prefix in &prefixes {
        let mut wanted: Vec<&Key> = keys.iter().filter(|key| key.is_under(prefix)).collect();
        wanted.sort();
        let list = bus.list(Bucket::Record, prefix).await?;
        let listed: Vec<&Key> = list.entries.iter().map(|entry| &entry.key).collect();
        check!(listed == wanted, "under `{prefix}` it lists {listed:?}");
    }
    Ok(())
}

pub(super) async fn b2_names_of_any_text_keep_their_place(
    store: &mut dyn Store,
) -> Result<(), Stop> {
    let bus = store.bus();
    let names = [
        "", ".", "..", "*", ">", "%", "_", "'", "\"", "\\", "a b", "a.b", "a/b", "ü", "🦀", "A",
        "-", "\n", "x-61", "x-", "select", "null",
    ];
    for name in names {
        let key = Key::of(&["odd", name, "end"]);
        done(&*bus, Bucket::Record, &key, Expect::Absent, name).await?;
    }
    for name in names {
        let list = bus.list(Bucket::Record, &Key::of(&["odd", name])).await?;
        let values: Vec<&[u8]> = list.entries.iter().map(|e| e.value.as_slice()).collect();
        check!(
            values == [name.as_bytes()],
            "under {name:?} it lists {values:?}"
        );
    }
    let list = bus.list(Bucket::Record, &Key::of(&["odd"])).await?;
    check!(
        list.entries.len() == names.len(),
        "{} are listed",
        list.entries.len()
    );
    Ok(())
}

pub(super) async fn b2_a_list_says_when_it_was_true(store: &mut dyn Store) -> Result<(), Stop> {
    let bus = store.bus();
    let empty = bus.list(Bucket::Record, &Key::everything()).await?;
    check!(empty.entries.is_empty(), "a fresh store is not empty");
    let key = Key::of(&["one"]);
    let rev = done(&*bus, Bucket::Record, &key, Expect::Absent, "x").await?;
    check!(
        rev.seq > empty.at.seq,
        "a write is not newer than the list before it"
    );
    let list = bus.list(Bucket::Record, &Key::everything()).await?;
    check!(list.at.epoch == rev.epoch, "the list is of another epoch");
    check!(
        list.at.seq >= rev.seq,
        "the list claims to be older than what it holds"
    );
    let nothing = bus.list(Bucket::Record, &Key::of(&["two"])).await?;
    check!(
        nothing.entries.is_empty(),
        "nothing was asked for, something came"
    );
    Ok(())
}

pub(super) async fn b2_a_list_while_others_write_never_goes_back(
    store: &mut dyn Store,
) -> Result<(), Stop> {
    let bus = store.bus();
    let writing = Arc::clone(&bus);
    let writer = tokio::spawn(async move {
        let mut expects = vec![Expect::Absent; 10];
        for round in 0..50 {
            for (n, expect) in expects.iter_mut().enumerate() {
                let key = Key::of(&["moving", &n.to_string()]);
                let text = round.to_string();
                let rev = done(&*writing, Bucket::Record, &key, *expect, &text).await?;
                *expect = Expect::At(rev);
            }
        }
        Ok::<(), Stop>(())
    });
    let mut seen: BTreeMap<Key, u64> = BTreeMap::new();
    let mut newest = 0;
    while !writer.is_finished() {
        let list = bus.list(Bucket::Record, &Key::of(&["moving"])).await?;
        check!(list.at.seq >= newest, "a later list is older");
        newest = list.at.seq;
        check!(list.entries.len() >= seen.len(), "a key went away");
        for entry in list.entries {
            check!(entry.rev.seq <= newest, "an entry is newer than its list");
            let before = seen.insert(entry.key, entry.rev.seq).unwrap_or(0);
            check!(entry.rev.seq >= before, "an entry went back");
        }
        tokio::task::yield_now().await;
    }
    writer
        .await
        .map_err(|error| Stop::Failed(format!("the writer ended: {error}")))?
}
