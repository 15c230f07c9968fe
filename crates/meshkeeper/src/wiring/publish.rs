//! The wish on the bus: what `status` and others read, and what tells one wish from another.

use std::collections::{HashMap, HashSet};

use mesh_sdk::Time;
use mesh_sdk::bus::{Bucket, Bus, Entry, Expect, Fault, Key, Put, Rev, Write};

use super::shapes::{Standing, WishEntry, WishHead};
use super::wish::Built;

/// Puts a built wish on the bus and answers its generation: the head, and every entry that differs.
/// Entries that are asked for no more become `retired`, never deleted (B-5).
///
/// `host`: whose manifest it is, where several hosts share the bus.
pub async fn put(
    bus: &dyn Bus,
    built: &mut Built,
    host: Option<&str>,
    now: Time,
) -> Result<u64, Fault> {
    let (key, stored) = (head_key(), bus.get(Bucket::Meta, &head_key()).await?);
    let mut head = head_of(stored.as_ref())?;
    let changed = head.digest != built.fingerprint;
    if changed || built.partial {
        let before = entries(bus).await?;
        if built.partial {
            keep_unnamed(built, &before);
        }
        publish_entries(bus, built, before).await?;
    }
    if changed {
        head.generation += 1;
        head.digest.clone_from(&built.fingerprint);
    }
    head.read_at = now;
    head.mesh.clone_from(&built.mesh);
    head.asked.clone_from(&built.asked);
    head.host = host.map(str::to_owned);
    if !built.partial {
        head.delivers.clear();
    }
    head.delivers.extend(built.delivers.iter().cloned());
    let write = Write {
        key,
        expect: stored.map_or(Expect::Absent, |entry| Expect::At(entry.rev)),
        value: json(&head)?,
    };
    settled(bus, Bucket::Meta, vec![write]).await?;
    for wish in built.wishes.values_mut() {
        wish.whole.generation = head.generation;
    }
    Ok(head.generation)
}

/// Follows the wish that another host put in force: answers its generation if what was built asks for the
/// same, and `None` if it is another one. Writes nothing.
pub async fn follow(bus: &dyn Bus, built: &mut Built) -> Result<Option<u64>, Fault> {
    let head = head(bus).await?;
    if head.asked != built.asked {
        return Ok(None);
    }
    if built.partial {
        keep_unnamed(built, &entries(bus).await?);
    }
    for wish in built.wishes.values_mut() {
        wish.whole.generation = head.generation;
    }
    Ok(Some(head.generation))
}

/// Where the head of the wish lies, in `meta`.
pub fn head_key() -> Key {
    Key::of(&["wish"])
}

fn head_of(stored: Option<&Entry>) -> Result<WishHead, Fault> {
    let Some(entry) = stored else {
        return Ok(WishHead::default());
    };
    serde_json::from_slice(&entry.value)
        .map_err(|error| Fault::Corrupt(format!("the wish's head: {error}")))
}

/// The head of the wish that is in force.
pub async fn head(bus: &dyn Bus) -> Result<WishHead, Fault> {
    head_of(bus.get(Bucket::Meta, &head_key()).await?.as_ref())
}

/// Writes, and reads unknown outcomes back (B-5). A conflict is an error: one process puts the
/// wish in force, and nobody else writes these.
async fn settled(bus: &dyn Bus, bucket: Bucket, writes: Vec<Write>) -> Result<(), Fault> {
    let outcomes = bus.put_each(bucket, writes.clone()).await?;
    for (write, outcome) in writes.iter().zip(outcomes) {
        if matches!(outcome, Put::Done(_)) {
            continue;
        }
        let found = bus.get(bucket, &write.key).await?;
        if found.is_none_or(|entry| entry.value != write.value) {
            let key = &write.key;
            return Err(Fault::Unreachable(format!(
                "{key} could not be written; it is tried again"
            )));
        }
    }
    Ok(())
}

/// Every wish on the bus, with its revision.
pub async fn entries(bus: &dyn Bus) -> Result<HashMap<Key, (Rev, WishEntry)>, Fault> {
    let snapshot = bus.list(Bucket::Wish, &Key::everything()).await?;
    let parsed = snapshot.entries.into_iter().map(|found| {
        let entry: WishEntry = serde_json::from_slice(&found.value)
            .map_err(|error| Fault::Corrupt(format!("wish {}: {error}", found.key)))?;
        Ok((found.key, (found.rev, entry)))
    });
    parsed.collect()
}

/// A manifest with refused entries names nobody who leaves: who was asked for before is kept.
fn keep_unnamed(built: &mut Built, stored: &HashMap<Key, (Rev, WishEntry)>) {
    let named: HashSet<Key> = built.entries.iter().map(WishEntry::key).collect();
    for (key, (_, old)) in stored {
        if old.standing != Standing::Retired
            && !named.contains(key)
            && let Some(wish) = built.wishes.get_mut(&old.provider)
        {
            wish.whole.kept.push(old.consumer.clone());
        }
    }
}

async fn publish_entries(
    bus: &dyn Bus,
    built: &Built,
    mut stored: HashMap<Key, (Rev, WishEntry)>,
) -> Result<(), Fault> {
    let mut writes = Vec::new();
    for entry in &built.entries {
        let key = entry.key();
        let (expect, value) = match stored.remove(&key) {
            None => (Expect::Absent, json(entry)?),
            Some((rev, old)) if old == *entry || rev.seq > built.read_at => continue,
            Some((rev, old)) => {
                let entry = entry.clone().remembering(&old);
                if entry == old {
                    continue;
                }
                (Expect::At(rev), json(&entry)?)
            }
        };
        writes.push(Write { key, expect, value });
    }
    for (key, (rev, old)) in stored {
        if old.standing != Standing::Retired && !built.partial {
            let gone = WishEntry {
                standing: Standing::Retired,
                why: None,
                ..old
            };
            writes.push(Write {
                key,
                expect: Expect::At(rev),
                value: json(&gone)?,
            });
        }
    }
    if writes.is_empty() {
        return Ok(());
    }
    // One that was written meanwhile knows more than this.
    let outcomes = bus.put_each(Bucket::Wish, writes).await?;
    if outcomes.contains(&Put::Unknown) {
        return Err(Fault::Unreachable(
            "the store did not say whether it took the wish".to_owned(),
        ));
    }
    Ok(())
}

fn json<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, Fault> {
    serde_json::to_vec(value).map_err(|error| Fault::Corrupt(error.to_string()))
}
