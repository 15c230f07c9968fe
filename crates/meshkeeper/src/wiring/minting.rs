//! Making passwords, many with few writes: sealed on the disk first, then the version in force (H-22).

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, RwLock};

use async_trait::async_trait;
use mesh_bus::mint::{self, Naming};
use mesh_bus::vault::Opened;
use mesh_sdk::bus::{Bucket, Expect, Fault, Key, Put, Write};
use mesh_sdk::harness::{Mint, MintFault, Minted};
use mesh_sdk::vault::{SecretId, Vault, VaultFault};
use mesh_sdk::{ConsumerName, ProviderName, Secret, Wish};

use super::reading;
use super::secrets::{Known, Secrets, SecretsFault, Stored, missing, unsealed};
use super::shapes::{Standing, VersionEntry, WishEntry};
use crate::manifest::Manifest;

pub(super) type Outcome = Result<Secret, MintFault>;

fn not_now(why: impl std::fmt::Display) -> MintFault {
    MintFault::NotNow(why.to_string())
}

impl Secrets {
    /// New passwords for consumers that no store knows, one outcome for each. Where another process was
    /// faster, its password counts. A secret without a version (the store was wiped, or a crash came
    /// between the two) is used and not made twice (B-6).
    pub(super) async fn mint_many(
        &self,
        provider: &ProviderName,
        consumers: &[ConsumerName],
    ) -> Vec<Outcome> {
        let all_fail = |fault: MintFault| consumers.iter().map(|_| Err(fault.clone())).collect();
        let versions = match self.versions_of(provider, consumers).await {
            Ok(versions) => versions,
            Err(fault) => return all_fail(not_now(fault)),
        };
        let nameless = consumers.iter().filter(|c| !versions.contains_key(*c));
        let nameless: Vec<ConsumerName> = nameless.cloned().collect();
        let kept = match self.vault.newest_of(provider, &nameless).await {
            Ok(kept) => kept,
            Err(fault) => return all_fail(not_now(fault)),
        };
        let mut naming: Vec<(ConsumerName, SecretId, Secret)> = Vec::new();
        let mut new: Vec<(ConsumerName, Secret)> = Vec::new();
        let mut failed: HashMap<ConsumerName, MintFault> = HashMap::new();
        for (consumer, kept) in nameless.into_iter().zip(kept) {
            match self.kept_or_new(provider, &consumer, kept).await {
                Ok((Some(id), secret)) => naming.push((consumer, id, secret)),
                Ok((None, secret)) => new.push((consumer, secret)),
                Err(fault) => drop(failed.insert(consumer, fault)),
            }
        }
        match self.seal_many(provider, new).await {
            Ok(sealed) => naming.extend(sealed),
            Err(fault) => return all_fail(not_now(fault)),
        }
        if let Err(fault) = self.name_new(provider, &naming).await {
            return all_fail(not_now(fault));
        }
        let versions = match self.versions_of(provider, consumers).await {
            Ok(versions) => versions,
            Err(fault) => return all_fail(not_now(fault)),
        };
        let named = consumers.iter().filter_map(|consumer| {
            let stored = versions.get(consumer)?;
            Some((consumer.clone(), stored.id.clone()))
        });
        let named: Vec<(ConsumerName, SecretId)> = named.collect();
        let mut opened = match self.vault.open_these(provider, &named).await {
            Ok(opened) => opened.into_iter(),
            Err(fault) => return all_fail(not_now(fault)),
        };
        let outcome = |consumer: &ConsumerName| {
            let stored = versions.get(consumer);
            let secret = stored.and_then(|_| opened.next());
            match (failed.remove(consumer), stored, secret) {
                (Some(fault), ..) => Err(fault),
                (None, Some(stored), Some(secret)) => {
                    self.opened(provider, consumer, (stored, secret))
                }
                _ => Err(not_now("the version is not there after it was written")),
            }
        };
        consumers.iter().map(outcome).collect()
    }

    /// The versions of these.
    async fn versions_of(
        &self,
        provider: &ProviderName,
        consumers: &[ConsumerName],
    ) -> Result<HashMap<ConsumerName, Stored>, SecretsFault> {
        let key = |consumer: &ConsumerName| Key::of(&[provider.as_str(), consumer.as_str()]);
        let keys: BTreeSet<Key> = consumers.iter().map(key).collect();
        let place = (Bucket::Version, &Key::of(&[provider.as_str()]));
        let entries = reading::entries_of(self.bus.as_ref(), place, &keys).await?;
        let mut found = HashMap::with_capacity(entries.len());
        for consumer in consumers {
            if let Some(entry) = entries.get(&key(consumer)) {
                let version: VersionEntry = serde_json::from_slice(&entry.value)
                    .map_err(|error| Fault::Corrupt(format!("version {}: {error}", entry.key)))?;
                found.insert(consumer.clone(), Stored::of(version, entry.rev));
            }
        }
        Ok(found)
    }

    /// A secret that is there without a version, with its id; or a new one.
    async fn kept_or_new(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        kept: Option<SecretId>,
    ) -> Result<(Option<SecretId>, Secret), MintFault> {
        // Whoever has a version does not come here.
        match mint::naming(None, kept) {
            Naming::InForce(id) | Naming::Name(id) => {
                let opened = self.vault.open(provider, consumer, &id).await;
                let secret = self.shown(opened)?;
                Ok((Some(id), secret))
            }
            Naming::Make => {
                let secret = mint::password(mint::os_random).map_err(not_now)?;
                Ok((None, secret))
            }
        }
    }

    /// Seals many with one synced write. From here on they are known to the scrubber.
    pub(super) async fn seal_many(
        &self,
        provider: &ProviderName,
        new: Vec<(ConsumerName, Secret)>,
    ) -> Result<Vec<(ConsumerName, SecretId, Secret)>, VaultFault> {
        if new.is_empty() {
            return Ok(Vec::new());
        }
        new.iter().for_each(|(_, secret)| self.hide(secret));
        let ids = self.vault.keep_many(provider, new.clone()).await?;
        let sealed = new.into_iter().zip(ids);
        Ok(sealed.map(|((c, secret), id)| (c, id, secret)).collect())
    }

    /// Makes sealed secrets the versions where there are none. A loser is thrown away.
    pub(super) async fn name_new(
        &self,
        provider: &ProviderName,
        naming: &[(ConsumerName, SecretId, Secret)],
    ) -> Result<(), SecretsFault> {
        if naming.is_empty() {
            return Ok(());
        }
        let mut writes = Vec::with_capacity(naming.len());
        for (consumer, id, secret) in naming {
            let write = self.version_write(provider, consumer, (id, secret), Expect::Absent);
            writes.push(write.await?);
        }
        let puts = self.bus.put_each(Bucket::Version, writes).await?;
        for ((consumer, id, _), put) in naming.iter().zip(puts) {
            let found = match put {
                Put::Done(_) => None,
                Put::Conflict | Put::Unknown => self.version(provider, consumer).await?,
            };
            let found = found.map(|stored| stored.id);
            if mint::fate(id, put, found.as_ref()) == mint::Fate::Lost {
                self.vault.discard(provider, consumer, id).await?;
            }
        }
        Ok(())
    }

    /// The version in force; that of another host from its sealed copy.
    fn opened(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        (stored, opened): (&Stored, Opened),
    ) -> Outcome {
        match opened {
            Ok(None) => match self.open_copy(provider, consumer, stored) {
                Known::Version(secret) => Ok(secret),
                Known::Missing(why) => Err(MintFault::Lost(why)),
                Known::Nothing => Err(MintFault::Lost(missing())),
            },
            opened => self.shown(opened),
        }
    }
    fn shown(&self, opened: Opened) -> Outcome {
        match opened {
            Ok(Some(secret)) => {
                self.hide(&secret);
                Ok(secret)
            }
            Ok(None) => Err(MintFault::Lost(missing())),
            Err(VaultFault::Sealed { .. }) => Err(MintFault::Lost(unsealed())),
            Err(fault) => Err(not_now(fault)),
        }
    }
}

/// Mints for the provisioners, and keeps the wish on the bus in step with what was minted.
pub struct Minter {
    /// The stores.
    pub secrets: Arc<Secrets>,
    /// The manifest in force.
    pub manifest: Arc<RwLock<Arc<Manifest>>>,
    /// Nothing is minted: the data folder's bus was replaced in this run (H-22).
    pub replaced: bool,
}

/// How often a wish that somebody else writes at the same time is written again.
const TRIES: usize = 5;

impl Minter {
    async fn all(&self, provider: &ProviderName, consumers: &[ConsumerName]) -> Minted {
        if self.replaced {
            let why =
                "the store was replaced since it was used last; nothing is minted in this run";
            return consumers.iter().map(|_| Err(not_now(why))).collect();
        }
        let secrets = self.secrets.mint_many(provider, consumers).await;
        let manifest = super::oneshot::read_lock(&self.manifest);
        let wishes = consumers.iter().zip(secrets).map(|(consumer, secret)| {
            let needed = super::needed(&manifest, provider, consumer);
            let needed = needed.ok_or_else(|| not_now("it left the manifest meanwhile"))?;
            Ok(Arc::new(
                needed.wish(Some(secret?), self.secrets.digest_key()),
            ))
        });
        let wishes: Minted = wishes.collect();
        let kind = manifest.providers.get(provider).map(|known| &known.kind);
        let made = wishes.iter().flatten().map(|wish| WishEntry {
            data: kind.and_then(|kind| kind.data_of(wish)),
            ..entry(provider, wish)
        });
        let made: Vec<WishEntry> = made.collect();
        match self.publish(provider, &made).await {
            Ok(()) => wishes,
            Err(fault) => wishes
                .into_iter()
                .map(|wish| wish.and_then(|_| Err(not_now(&fault))))
                .collect(),
        }
    }

    /// Puts the wishes with their passwords on the bus, whoever else writes them meanwhile.
    async fn publish(&self, provider: &ProviderName, made: &[WishEntry]) -> Result<(), Fault> {
        let bus = &self.secrets.bus;
        let mut open: Vec<WishEntry> = made.to_vec();
        for _ in 0..TRIES {
            let mut writes = Vec::with_capacity(open.len());
            let mut written = Vec::with_capacity(open.len());
            let keys: BTreeSet<Key> = open.iter().map(WishEntry::key).collect();
            let place = (Bucket::Wish, &Key::of(&[provider.as_str()]));
            let mut known = reading::entries_of(bus.as_ref(), place, &keys).await?;
            for entry in open {
                let current = known.remove(&entry.key());
                let read = |e: &mesh_sdk::bus::Entry| serde_json::from_slice(&e.value).ok();
                let before: Option<WishEntry> = current.as_ref().and_then(read);
                let entry = match &before {
                    Some(before) => entry.remembering(before),
                    None => entry,
                };
                if before.as_ref() == Some(&entry) {
                    continue;
                }
                writes.push(Write {
                    key: entry.key(),
                    expect: current.map_or(Expect::Absent, |e| Expect::At(e.rev)),
                    value: serde_json::to_vec(&entry).map_err(|e| Fault::Corrupt(e.to_string()))?,
                });
                written.push(entry);
            }
            if writes.is_empty() {
                return Ok(());
            }
            let puts = bus.put_each(Bucket::Wish, writes).await?;
            let undone = written.into_iter().zip(puts);
            let undone = undone.filter(|(_, put)| !matches!(put, Put::Done(_)));
            open = undone.map(|(entry, _)| entry).collect();
        }
        match open.first() {
            None => Ok(()),
            Some(entry) => {
                let key = entry.key();
                Err(Fault::Unreachable(format!("{key} could not be written")))
            }
        }
    }
}

fn entry(provider: &ProviderName, wish: &Wish) -> WishEntry {
    WishEntry {
        consumer: wish.consumer().clone(),
        provider: provider.clone(),
        login: Some(wish.login().clone()),
        standing: Standing::Wanted,
        digest: Some(wish.digest()),
        enabled: wish.enabled(),
        adopt: wish.adopt(),
        why: None,
        data: None,
    }
}

#[async_trait]
impl Mint for Minter {
    async fn mint(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
    ) -> Result<Arc<Wish>, MintFault> {
        let mut all = self.all(provider, std::slice::from_ref(consumer)).await;
        all.pop()
            .unwrap_or_else(|| Err(not_now("nothing was made")))
    }
    async fn mint_all(
        &self,
        provider: &ProviderName,
        consumers: &[ConsumerName],
    ) -> Option<Minted> {
        Some(self.all(provider, consumers).await)
    }
}
