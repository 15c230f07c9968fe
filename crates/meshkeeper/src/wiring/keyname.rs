//! Which key the hosts of an installation share: its name stands on the bus, and tells nothing of it.
//!
//! Marks on backends, digests in records and sealed copies are made with the installation's key. A host
//! with another one would read all of them as damaged, and write its own over them.

use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Write};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Named {
    name: String,
}

/// What came of comparing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreed {
    /// It is the same.
    Yes,
    /// None was named before: this one is from now on.
    Made,
    /// It is another one.
    No,
}

fn key() -> Key {
    Key::of(&["key"])
}

async fn named(bus: &dyn Bus) -> Result<Option<String>, Fault> {
    let Some(entry) = bus.get(Bucket::Meta, &key()).await? else {
        return Ok(None);
    };
    let named: Named = serde_json::from_slice(&entry.value)
        .map_err(|error| Fault::Corrupt(format!("the key's name: {error}")))?;
    Ok(Some(named.name))
}

/// Whether a key is that of the installation, as far as one is named. Writes nothing.
pub async fn fits(bus: &dyn Bus, name: &str) -> Result<bool, Fault> {
    Ok(named(bus).await?.is_none_or(|named| named == name))
}

/// Names the key where none is named, and else compares.
pub async fn agree(bus: &dyn Bus, name: &str) -> Result<Agreed, Fault> {
    if let Some(named) = named(bus).await? {
        return Ok(judged(&named, name));
    }
    let value = Named {
        name: name.to_owned(),
    };
    let write = Write {
        key: key(),
        expect: Expect::Absent,
        value: serde_json::to_vec(&value).map_err(|e| Fault::Corrupt(e.to_string()))?,
    };
    let put = bus.put_if(Bucket::Meta, write).await?;
    if matches!(put, mesh_sdk::bus::Put::Done(_)) {
        return Ok(Agreed::Made);
    }
    match named(bus).await? {
        Some(named) => Ok(judged(&named, name)),
        None => Err(Fault::Unreachable("the key could not be named".to_owned())),
    }
}

fn judged(named: &str, name: &str) -> Agreed {
    match named == name {
        true => Agreed::Yes,
        false => Agreed::No,
    }
}
