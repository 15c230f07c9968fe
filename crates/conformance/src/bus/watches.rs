//! Watches: every change is followed by a ring (B-7).

use std::collections::BTreeSet;
use std::time::Duration;

use mesh_sdk::bus::{Bucket, Expect, Key, Rung, Watch, Write};

use super::{Stop, Store, check, done};

/// A ring that takes longer is taken for a missing one.
const PATIENCE: Duration = Duration::from_secs(10);
/// So long one listens for a ring that must not come.
const QUIET: Duration = Duration::from_millis(700);

/// Listens until each of these keys rang, or a gap was told.
async fn hears(watch: &mut dyn Watch, mut missing: BTreeSet<Key>) -> Result<(), Stop> {
    while !missing.is_empty() {
        match tokio::time::timeout(PATIENCE, watch.next()).await {
            Ok(Rung::Changed(key)) => {
                missing.remove(&key);
            }
            Ok(Rung::Gap) => return Ok(()),
            Err(_) => {
                return Err(Stop::Failed(format!(
                    "no ring for {} keys, {:?} first",
                    missing.len(),
                    missing.first()
                )));
            }
        }
    }
    Ok(())
}

fn keys(count: usize) -> Vec<Key> {
    let key = |n: usize| Key::of(&["cache", &format!("{n:05}")]);
    (0..count).map(key).collect()
}

fn batch(keys: &[Key]) -> Vec<Write> {
    let write = |key: &Key| Write {
        key: key.clone(),
        expect: Expect::Absent,
        value: b"x".to_vec(),
    };
    keys.iter().map(write).collect()
}

pub(super) async fn b7_a_watch_rings_for_every_change(store: &mut dyn Store) -> Result<(), Stop> {
    let bus = store.bus();
    let prefix = Key::of(&["cache"]);
    let mut all = bus.watch(Bucket::Record, &Key::everything()).await?;
    let mut some = bus.watch(Bucket::Record, &prefix).await?;
    let keys = keys(50);
    for key in &keys[..20] {
        let rev = done(&*bus, Bucket::Record, key, Expect::Absent, "one").await?;
        done(&*bus, Bucket::Record, key, Expect::At(rev), "two").await?;
    }
    bus.put_each(Bucket::Record, batch(&keys[20..])).await?;
    let wanted: BTreeSet<Key> = keys.into_iter().collect();
    hears(&mut *all, wanted.clone()).await?;
    hears(&mut *some, wanted).await
}

pub(super) async fn b7_a_watch_rings_for_a_second_handles_changes(
    store: &mut dyn Store,
) -> Result<(), Stop> {
    let (bus, second) = (store.bus(), store.second().await.map_err(Stop::Skipped)?);
    let mut watch = bus.watch(Bucket::Record, &Key::of(&["cache"])).await?;
    for key in &keys(5) {
        done(&*second, Bucket::Record, key, Expect::Absent, "x").await?;
        hears(&mut *watch, BTreeSet::from([key.clone()])).await?;
    }
    // Many at once, and one of our own in between.
    let own = Key::of(&["cache", "own"]);
    let many = keys(3000).split_off(5);
    second
        .put_each(Bucket::Record, batch(&many[..1500]))
        .await?;
    done(&*bus, Bucket::Record, &own, Expect::Absent, "x").await?;
    second
        .put_each(Bucket::Record, batch(&many[1500..]))
        .await?;
    let wanted = many.into_iter().chain([own]).collect();
    hears(&mut *watch, wanted).await
}

pub(super) async fn b7_a_watch_rings_for_nothing_else(store: &mut dyn Store) -> Result<(), Stop> {
    let bus = store.bus();
    let mut watch = bus.watch(Bucket::Record, &Key::of(&["cache"])).await?;
    let elsewhere = [
        (Bucket::Record, Key::of(&["cache2", "web"])),
        (Bucket::Record, Key::of(&["cache-b"])),
        (Bucket::Condition, Key::of(&["cache", "web"])),
    ];
    for (bucket, key) in &elsewhere {
        done(&*bus, *bucket, key, Expect::Absent, "x").await?;
    }
    let stale = Write {
        expect: Expect::Absent,
        key: Key::of(&["cache2", "web"]),
        value: b"y".to_vec(),
    };
    bus.put_if(Bucket::Record, stale).await?;
    let rung = tokio::time::timeout(QUIET, watch.next()).await;
    // A gap costs a look and harms nothing; a key that did not change is a lie.
    check!(
        matches!(rung, Err(_) | Ok(Rung::Gap)),
        "it rang {rung:?} for what it does not watch"
    );
    Ok(())
}

pub(super) async fn b7_a_watch_that_lags_is_told_of_a_gap_or_of_all(
    store: &mut dyn Store,
) -> Result<(), Stop> {
    let bus = store.bus();
    let mut watch = bus.watch(Bucket::Record, &Key::everything()).await?;
    let keys = keys(1500);
    // Nobody listens while this is written, in more commits than a store will queue.
    let mut tasks = tokio::task::JoinSet::new();
    for key in keys.clone() {
        let bus = store.bus();
        tasks.spawn(async move { done(&*bus, Bucket::Record, &key, Expect::Absent, "x").await });
        if tasks.len() >= 8 {
            let ended = tasks.join_next().await;
            check!(
                matches!(ended, Some(Ok(Ok(_)))),
                "a write ended with {ended:?}"
            );
        }
    }
    while let Some(ended) = tasks.join_next().await {
        check!(matches!(ended, Ok(Ok(_))), "a write ended with {ended:?}");
    }
    hears(&mut *watch, keys.into_iter().collect()).await?;
    // It goes on after that.
    let after = Key::of(&["after"]);
    done(&*bus, Bucket::Record, &after, Expect::Absent, "x").await?;
    hears(&mut *watch, BTreeSet::from([after])).await
}

pub(super) async fn b7_a_watch_opened_before_a_write_never_misses_it(
    store: &mut dyn Store,
) -> Result<(), Stop> {
    let bus = store.bus();
    for key in keys(100) {
        let mut watch = bus.watch(Bucket::Record, &key).await?;
        let (rung, put) = tokio::join!(
            hears(&mut *watch, BTreeSet::from([key.clone()])),
            done(&*bus, Bucket::Record, &key, Expect::Absent, "x"),
        );
        put?;
        rung?;
    }
    Ok(())
}
