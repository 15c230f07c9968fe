//! What consumers have on providers: what is applied, and what a client needs to use it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, RwLock};

use async_trait::async_trait;
use mesh_loops::delivery::Source;
use mesh_loops::delivery::order::Has;
use mesh_loops::delivery::template;
use mesh_sdk::bus::{Bus, Fault};
use mesh_sdk::decide::Record;
use mesh_sdk::{ConsumerName, ProviderName, Secret};

use crate::manifest::{Manifest, Needed};
use crate::wiring::needed;
use crate::wiring::oneshot::read_lock;
use crate::wiring::reading::records_of;
use crate::wiring::rotation::seats::seat_of;
use crate::wiring::secrets::{Known, Secrets, SecretsFault};
use crate::wiring::services::{host_and_port, services, url};

/// What consumers have, by the records on the bus and the secret store of this host.
pub(super) struct Applied {
    pub(super) bus: Arc<dyn Bus>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) manifest: Arc<RwLock<Arc<Manifest>>>,
}

#[async_trait]
impl Source for Applied {
    async fn of(
        &self,
        provider: &ProviderName,
        consumers: &BTreeSet<ConsumerName>,
    ) -> Result<HashMap<ConsumerName, Has>, Fault> {
        let manifest = read_lock(&self.manifest);
        let mut all = HashMap::with_capacity(consumers.len());
        for consumer in consumers {
            let has = match needed(&manifest, provider, consumer) {
                Some(needed) => self.one(&manifest, needed).await?,
                None => Has::Nothing("the manifest's entry for it cannot be used".to_owned()),
            };
            all.insert(consumer.clone(), has);
        }
        Ok(all)
    }
}

impl Applied {
    async fn one(&self, manifest: &Manifest, needed: &Needed) -> Result<Has, Fault> {
        let nothing = |why: &str| Ok(Has::Nothing(why.to_owned()));
        let Some(provider) = manifest.providers.get(&needed.provider) else {
            return nothing("its provider cannot be used");
        };
        if !needed.enabled {
            return Ok(Has::SwitchedOff);
        }
        let of = (needed.provider.clone(), needed.consumer.clone());
        // Read once: a password never goes with the turn of the one that follows it.
        let journal = match self.secrets.journal(&of).await {
            Ok(journal) => journal,
            Err(SecretsFault::Bus(fault)) => return Err(fault),
            Err(fault) => return Ok(Has::Nothing(fault.to_string())),
        };
        let known = match self.secrets.current_by(journal.as_ref(), &of).await {
            Ok(known) => known,
            Err(SecretsFault::Bus(fault)) => return Err(fault),
            Err(fault) => {
                return Ok(Has::Nothing(format!(
                    "its password cannot be read: {fault}"
                )));
            }
        };
        let password = match known {
            Known::Version(password) => password,
            Known::Nothing => return nothing("it has no password yet"),
            Known::Missing(why) => {
                return Ok(Has::Nothing(format!("its password cannot be had: {why}")));
            }
        };
        let Some(text) = password.expose_str().map(str::to_owned) else {
            return nothing("its password is not UTF-8");
        };
        let turn = journal.as_ref().map_or(0, |journal| journal.turn);
        let seated = journal
            .as_ref()
            .map(|journal| seat_of(needed, journal.in_use()));
        let needed = seated.as_ref().unwrap_or(needed);
        let key = self.secrets.digest_key();
        // Alone, or beside another one that is valid, too: either way the server has it.
        let mut asked = needed.digests(Some(&password), None, key).to_vec();
        if let Some(held) = journal.as_ref().and_then(|journal| journal.other.as_ref())
            && let Ok(Known::Version(other)) = self.secrets.open_held(&needed.provider, held).await
        {
            asked.extend(needed.digests(Some(&password), Some(&other), key));
            asked.extend(needed.digests(Some(&other), Some(&password), key));
        }
        let records = records_of(self.bus.as_ref(), provider, &needed.consumer).await?;
        // What is being applied just now is not there yet, and what was applied before is not asked for.
        let is_there = |record: &Option<Record>| {
            let applied = record.as_ref().and_then(|record| record.applied);
            applied.is_some_and(|applied| asked.contains(&applied))
        };
        if !records.iter().all(|(_, record)| is_there(record)) {
            return nothing("it is not applied yet");
        }
        Ok(Has::Credentials(
            words(manifest, needed, &password, &text),
            turn,
        ))
    }
}

/// Everything that a client needs. Where a provider has several nodes, of the first.
fn words(
    manifest: &Manifest,
    needed: &Needed,
    password: &Secret,
    text: &str,
) -> BTreeMap<template::Word, Secret> {
    let login = needed.login.as_str();
    let mut words = BTreeMap::from([
        (template::Word::User, Secret::from(login)),
        (template::Word::Password, password.clone()),
    ]);
    let provider = manifest.providers.get(&needed.provider);
    let address =
        provider.and_then(|provider| services(manifest, provider, needed).into_iter().next());
    let Some(address) = address else {
        return words;
    };
    if let Some(url) = url(&address, login, text) {
        words.insert(template::Word::Url, Secret::from(url));
    }
    if let Some((host, port)) = host_and_port(&address.0) {
        words.insert(template::Word::Host, Secret::from(host));
        if let Some(port) = port {
            words.insert(template::Word::Port, Secret::from(port));
        }
    }
    if !address.1.is_empty() {
        words.insert(template::Word::Name, Secret::from(address.1));
    }
    words
}
