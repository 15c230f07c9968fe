//! Whose data it is, by the manifest and by the store.

use std::collections::HashSet;

use mesh_sdk::bus::{Bucket, Key};
use mesh_sdk::harness::{LoopRecord, read_records};
use mesh_sdk::{ConsumerName, ProviderName, Secret};
use serde_json::Value;

use super::super::online::store_fault;
use super::super::servers::known_here;
use crate::errors::Fault;
use crate::manifest::{Manifest, Needed, Provider};
use crate::status::{self, time_text};
use crate::wiring;
use crate::wiring::installation::Installation;
use crate::wiring::publish;
use crate::wiring::shapes::Standing;

/// Refuses what any wish on this server names, and what a manifest cannot tell that is not whole.
pub(super) fn nobody_asks_for_it(
    manifest: &Manifest,
    provider: &Provider,
    data: &str,
) -> Result<(), Fault> {
    if !manifest.is_whole() {
        return Err(Fault::failed(
            format!(
                "the manifest has entries that cannot be read, and any of them may ask for `{}`",
                data.escape_debug()
            ),
            "`mesh check` shows them; nothing was asked or deleted",
        ));
    }
    let kind = &provider.kind;
    if !kind.descriptor.capabilities.purge {
        return Err(Fault::failed(
            format!("the kind {} deletes no data", kind.descriptor.kind),
            format!("what stays when a login goes: {}", kind.descriptor.keeps),
        ));
    }
    let key = Secret::from("purge");
    let here: HashSet<&ProviderName> = manifest.beside(provider).map(|one| &one.name).collect();
    let wishes = manifest.provisions.iter();
    let asking = wishes.filter(|needed| {
        let own = || kind.kind.data_of(&needed.wish(None, &key));
        here.contains(&needed.provider)
            && (own().iter().any(|name| name == data) || is_named(needed, data))
    });
    let asking: Vec<String> = asking.map(|needed| needed.consumer.to_string()).collect();
    if asking.is_empty() {
        return Ok(());
    }
    Err(Fault::failed(
        format!(
            "the manifest asks for `{}` for {}",
            data.escape_debug(),
            asking.join(", ")
        ),
        "take that out of the manifest first, and wait until the login is dropped",
    ))
}

/// Whether values speak of data that is not theirs: who only reads a database names it, too.
fn is_named(needed: &Needed, data: &str) -> bool {
    fn holds(value: &Value, data: &str) -> bool {
        match value {
            Value::String(text) => text == data,
            Value::Array(list) => list.iter().any(|one| holds(one, data)),
            Value::Object(table) => table.values().any(|one| holds(one, data)),
            _ => false,
        }
    }
    let values: Result<Value, _> = serde_json::from_slice(&needed.values.canonical);
    // What cannot be read may name anything.
    values.map_or(true, |values| holds(&values, data))
}

/// Nothing says that it was ever a consumer's.
pub(super) fn unknown(provider: &Provider, data: &str) -> Fault {
    let shown = data.escape_debug();
    Fault::failed(
        format!(
            "nothing here says that `{shown}` on {} was ever a consumer's",
            provider.name
        ),
        "what Meshkeeper did not serve it does not delete: do it on the server by hand",
    )
}

/// The consumers whose data it was, none of whom can come back to it, or is still served: what the
/// manifest asks for no more may not have been taken in yet.
///
/// A login in its grace is enabled again when its consumer comes back, and would find its data gone. What
/// data it used is known from the wish that it had; where it is not known, it may be this.
pub(super) async fn left_by(
    installation: &Installation,
    manifest: &Manifest,
    provider: &Provider,
    data: &str,
) -> Result<Vec<ConsumerName>, Fault> {
    let bus = installation.bus.as_ref();
    let known = known_here(installation, provider).await?;
    let wishes = publish::entries(bus).await.map_err(store_fault)?;
    let mut was_for: Vec<ConsumerName> = Vec::new();
    for entry in &known {
        for (_, wish) in wishes.values() {
            let names = wish.data.iter().flatten().any(|name| name == data);
            if wish.provider != entry.provider || !names {
                continue;
            }
            let asked = wiring::needed(manifest, &wish.provider, &wish.consumer).is_some();
            if wish.standing != Standing::Retired && !asked {
                return Err(Fault::failed(
                    format!("{} is served on {} still", wish.consumer, wish.provider),
                    "`mesh apply`, or a running daemon, takes in that it is asked for no more",
                ));
            }
            if !was_for.contains(&wish.consumer) {
                was_for.push(wish.consumer.clone());
            }
        }
    }
    if was_for.is_empty() {
        return Err(unknown(provider, data));
    }
    was_for.sort();
    for entry in &known {
        let times = entry.removal_times();
        for label in status::labels_of(std::slice::from_ref(entry), &entry.provider) {
            for (consumer, record) in read_records(bus, &label).await.map_err(store_fault)? {
                // A retired login comes back to nothing: its consumer has another one.
                let mut leavers = record.leavers(&consumer);
                let Some(one) = leavers.find(|one| !one.departure.retired) else {
                    continue;
                };
                let key = Key::of(&[entry.provider.as_str(), consumer.as_str()]);
                let noted = wishes.get(&key).and_then(|(_, wish)| wish.data.as_ref());
                if noted.is_some_and(|names| !names.iter().any(|name| name == data)) {
                    continue;
                }
                let message = format!(
                    "{consumer} is leaving {label}, and until its login `{}` is dropped it may come \
                     back to its data (not before {})",
                    one.login.as_str().escape_debug(),
                    time_text(one.departure.until(&times)),
                );
                return Err(Fault::failed(
                    message,
                    "`mesh status` shows how far that is; purge when the login is dropped",
                ));
            }
        }
    }
    Ok(was_for)
}

/// The identity under which each of a provider's servers is known.
pub(super) async fn identities(
    installation: &Installation,
    provider: &Provider,
) -> Result<Vec<Option<String>>, Fault> {
    let bus = installation.bus.as_ref();
    let all = status::providers(bus).await.map_err(store_fault)?;
    let known = all.iter().find(|entry| entry.provider == provider.name);
    let mut identities = Vec::with_capacity(provider.nodes.len());
    for node in &provider.nodes {
        let place = known.and_then(|entry| {
            let address = node.settings.address();
            entry.addresses.iter().position(|a| *a == address)
        });
        let name = place.and_then(|i| known.and_then(|entry| entry.loops.get(i)));
        let Some(name) = name else {
            identities.push(None);
            continue;
        };
        let entry = bus.get(Bucket::Loop, &Key::of(&[name])).await;
        let entry = entry.map_err(store_fault)?;
        let record: Option<LoopRecord> = entry.and_then(|e| serde_json::from_slice(&e.value).ok());
        identities.push(record.and_then(|record| record.server.identity));
    }
    Ok(identities)
}
