//! Which password is whose: secret store and bus together (H-22, S-4, S-7).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, RwLock};

use async_trait::async_trait;
use mesh_bus::vault::SealedVault;
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put, Rev, Write};
use mesh_sdk::harness::{Mint, MintFault};
use mesh_sdk::mark::keyed;
use mesh_sdk::provision::Digest;
use mesh_sdk::scrub::Scrubber;
use mesh_sdk::vault::{SecretId, Vault, VaultFault};
use mesh_sdk::{ConsumerName, ProviderName, Secret, Wish};

use super::shapes::{Standing, VersionEntry, WishEntry};
use crate::manifest::Manifest;

/// How often a wish that somebody else writes at the same time is written again.
const TRIES: usize = 5;

/// What is known of one provision's password.
#[derive(Debug, Clone)]
pub enum Known {
    /// Nothing anywhere: it may be new.
    Nothing,
    /// This is the version in force.
    Version(Secret),
    /// The bus names a version that the secret store does not hold, or that does not open.
    Missing(String),
}

/// Secret store and bus, for one installation.
pub struct Secrets {
    vault: Arc<SealedVault>,
    bus: Arc<dyn Bus>,
    digest_key: Secret,
    scrubber: Arc<Scrubber>,
}

/// Why a password could not be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum SecretsFault {
    /// The secret store.
    #[error(transparent)]
    Vault(#[from] VaultFault),
    /// The bus.
    #[error(transparent)]
    Bus(#[from] Fault),
    /// Another process made a version at the same time.
    #[error("another process changed the password version of {0} at the same time; try again")]
    Contended(String),
}

struct Stored {
    id: SecretId,
    rev: Rev,
}

impl Secrets {
    /// Over an installation's stores. Every secret that is read or made becomes known to the scrubber.
    pub fn new(
        vault: Arc<SealedVault>,
        bus: Arc<dyn Bus>,
        digest_key: Secret,
        scrubber: Arc<Scrubber>,
    ) -> Self {
        Self {
            vault,
            bus,
            digest_key,
            scrubber,
        }
    }
    /// The key of digests.
    pub fn digest_key(&self) -> &Secret {
        &self.digest_key
    }
    /// The newest revision of the bus.
    pub(super) async fn bus_seq(&self) -> u64 {
        self.bus.health().await.seq
    }
    /// Makes a secret known to the scrubber.
    pub fn hide(&self, secret: &Secret) {
        self.scrubber.add(secret.clone());
    }

    /// Everything known about one provider's passwords, in two reads.
    pub async fn of_provider(
        &self,
        provider: &ProviderName,
    ) -> Result<HashMap<ConsumerName, Known>, SecretsFault> {
        let versions = self.versions(provider).await?;
        let mut kept: HashMap<ConsumerName, Vec<(SecretId, Result<Secret, VaultFault>)>> =
            HashMap::new();
        for one in self.vault.open_many(provider).await? {
            if let Ok(secret) = &one.secret {
                self.scrubber.add(secret.clone());
            }
            kept.entry(one.consumer)
                .or_default()
                .push((one.id, one.secret));
        }
        let mut known = HashMap::new();
        for (consumer, stored) in versions {
            let all = kept.remove(&consumer).unwrap_or_default();
            let found = all.into_iter().find(|(id, _)| *id == stored.id);
            known.insert(consumer, in_force(found));
        }
        for (consumer, mut oldest_first) in kept {
            known.insert(consumer, in_force(oldest_first.pop()));
        }
        Ok(known)
    }

    async fn versions(
        &self,
        provider: &ProviderName,
    ) -> Result<HashMap<ConsumerName, Stored>, SecretsFault> {
        let prefix = Key::of(&[provider.as_str()]);
        let snapshot = self.bus.list(Bucket::Version, &prefix).await?;
        let mut versions = HashMap::with_capacity(snapshot.entries.len());
        for entry in snapshot.entries {
            let consumer = entry
                .key
                .as_str()
                .rsplit('.')
                .next()
                .and_then(|t| ConsumerName::new(t).ok());
            let version: VersionEntry = serde_json::from_slice(&entry.value)
                .map_err(|error| Fault::Corrupt(format!("version {}: {error}", entry.key)))?;
            if let Some(consumer) = consumer {
                versions.insert(
                    consumer,
                    Stored {
                        id: version.id,
                        rev: entry.rev,
                    },
                );
            }
        }
        Ok(versions)
    }

    async fn version(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
    ) -> Result<Option<Stored>, SecretsFault> {
        let key = Key::of(&[provider.as_str(), consumer.as_str()]);
        let Some(entry) = self.bus.get(Bucket::Version, &key).await? else {
            return Ok(None);
        };
        let version: VersionEntry = serde_json::from_slice(&entry.value)
            .map_err(|error| Fault::Corrupt(format!("version {key}: {error}")))?;
        Ok(Some(Stored {
            id: version.id,
            rev: entry.rev,
        }))
    }

    /// Makes a secret that a person gave the version in force, unless it is already. It is sealed on the
    /// disk before the compare-and-set.
    pub async fn take_given(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        secret: &Secret,
    ) -> Result<(), SecretsFault> {
        let stored = self.version(provider, consumer).await?;
        if let Some(stored) = &stored {
            match self.vault.open(provider, consumer, &stored.id).await {
                Ok(Some(current)) if current == *secret => return Ok(()),
                Ok(_) | Err(VaultFault::Sealed { .. }) => {}
                Err(fault) => return Err(fault.into()),
            }
        }
        let expect = stored.map_or(Expect::Absent, |stored| Expect::At(stored.rev));
        match self.promote(provider, consumer, secret, expect).await? {
            Put::Done(_) => Ok(()),
            Put::Conflict | Put::Unknown => Err(SecretsFault::Contended(consumer.to_string())),
        }
    }

    /// Seals a secret, then makes it the version where the bus is as expected. A loser is thrown away.
    async fn promote(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        secret: &Secret,
        expect: Expect,
    ) -> Result<Put, SecretsFault> {
        let id = self.vault.keep(provider, consumer, secret).await?;
        self.scrubber.add(secret.clone());
        let put = self
            .name_version(provider, consumer, &id, secret, expect)
            .await?;
        if put == Put::Conflict {
            self.vault.discard(provider, consumer, &id).await?;
        }
        Ok(put)
    }

    async fn name_version(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        id: &SecretId,
        secret: &Secret,
        expect: Expect,
    ) -> Result<Put, SecretsFault> {
        let write = self.version_write(provider, consumer, id, secret, expect)?;
        Ok(self.bus.put_if(Bucket::Version, write).await?)
    }

    fn version_write(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        id: &SecretId,
        secret: &Secret,
        expect: Expect,
    ) -> Result<Write, Fault> {
        let parts: [&[u8]; 4] = [
            provider.as_str().as_bytes(),
            consumer.as_str().as_bytes(),
            id.0.as_bytes(),
            secret.expose(),
        ];
        let full = keyed(&self.digest_key, b"fingerprint", &parts);
        let mut short = [0; 16];
        short.copy_from_slice(&full[..16]);
        let entry = VersionEntry {
            id: id.clone(),
            fingerprint: Digest::from_bytes(short),
        };
        let value = serde_json::to_vec(&entry).map_err(|e| Fault::Corrupt(e.to_string()))?;
        let key = Key::of(&[provider.as_str(), consumer.as_str()]);
        Ok(Write { key, expect, value })
    }

    /// New passwords for those whom no store knows, by the steps of [`Self::mint`] with one write each:
    /// sealed on the disk, then the versions by compare-and-set. `None` for whoever is known already or
    /// lost a race: those are minted one by one.
    async fn mint_many(
        &self,
        provider: &ProviderName,
        consumers: &[ConsumerName],
    ) -> Result<Vec<Option<Secret>>, SecretsFault> {
        let versions = self.versions(provider).await?;
        let kept = self.vault.open_many(provider).await?;
        let kept: HashSet<ConsumerName> = kept.into_iter().map(|one| one.consumer).collect();
        let is_new =
            |consumer: &ConsumerName| !versions.contains_key(consumer) && !kept.contains(consumer);
        let mut minted = vec![None; consumers.len()];
        let mut new = Vec::new();
        for (i, consumer) in consumers.iter().enumerate().filter(|(_, c)| is_new(c)) {
            let secret = mesh_bus::mint::password(mesh_bus::mint::os_random)
                .map_err(|error| VaultFault::Unusable(error.to_string()))?;
            new.push((i, consumer.clone(), secret));
        }
        let sealing = new
            .iter()
            .map(|(_, consumer, secret)| (consumer.clone(), secret.clone()));
        let ids = self.vault.keep_many(provider, sealing.collect()).await?;
        let mut writes = Vec::with_capacity(new.len());
        for ((_, consumer, secret), id) in new.iter().zip(&ids) {
            self.scrubber.add(secret.clone());
            writes.push(self.version_write(provider, consumer, id, secret, Expect::Absent)?);
        }
        let puts = self.bus.put_each(Bucket::Version, writes).await?;
        for (((i, consumer, secret), id), put) in new.into_iter().zip(ids).zip(puts) {
            match put {
                Put::Done(_) => minted[i] = Some(secret),
                Put::Conflict => self.vault.discard(provider, &consumer, &id).await?,
                Put::Unknown => {}
            }
        }
        Ok(minted)
    }

    /// A new password for a consumer that no store knows; the winner's, if another process was faster.
    async fn mint(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
    ) -> Result<Secret, MintFault> {
        let not_now = |error: &dyn std::fmt::Display| MintFault::NotNow(error.to_string());
        let stored = self
            .version(provider, consumer)
            .await
            .map_err(|e| not_now(&e))?;
        if stored.is_none() {
            // A secret without a version: the store was wiped, or a crash came between the two. It is
            // used and not made twice (B-6).
            let kept = self
                .vault
                .ids(provider, consumer)
                .await
                .map_err(|e| not_now(&e))?;
            let put = if let Some(id) = kept.first() {
                let secret = self.opened(provider, consumer, id).await?;
                self.name_version(provider, consumer, id, &secret, Expect::Absent)
                    .await
            } else {
                let secret =
                    mesh_bus::mint::password(mesh_bus::mint::os_random).map_err(|e| not_now(&e))?;
                self.promote(provider, consumer, &secret, Expect::Absent)
                    .await
            };
            if put.map_err(|e| not_now(&e))? == Put::Unknown {
                return Err(MintFault::NotNow(
                    "the store did not say whether it kept the version".into(),
                ));
            }
        }
        let stored = self
            .version(provider, consumer)
            .await
            .map_err(|e| not_now(&e))?;
        let Some(stored) = stored else {
            return Err(MintFault::NotNow(
                "the version is not there after it was written".into(),
            ));
        };
        self.opened(provider, consumer, &stored.id).await
    }

    async fn opened(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        id: &SecretId,
    ) -> Result<Secret, MintFault> {
        match self.vault.open(provider, consumer, id).await {
            Ok(Some(secret)) => {
                self.scrubber.add(secret.clone());
                Ok(secret)
            }
            Ok(None) => Err(MintFault::Lost(missing())),
            Err(VaultFault::Sealed { .. }) => Err(MintFault::Lost(unsealed())),
            Err(fault) => Err(MintFault::NotNow(fault.to_string())),
        }
    }

    /// The version in force, for `mesh credentials`.
    pub async fn current(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
    ) -> Result<Known, SecretsFault> {
        let id = match self.version(provider, consumer).await? {
            Some(stored) => Some(stored.id),
            None => self.vault.ids(provider, consumer).await?.into_iter().next(),
        };
        let Some(id) = id else {
            return Ok(Known::Nothing);
        };
        let opened = self.vault.open(provider, consumer, &id).await;
        Ok(in_force(match opened {
            Ok(Some(secret)) => Some((id, Ok(secret))),
            Ok(None) => None,
            Err(fault) => Some((id, Err(fault))),
        }))
    }
}

fn missing() -> String {
    "its version is not in the secret store".to_owned()
}
fn unsealed() -> String {
    "its secret does not open with this installation's key".to_owned()
}

fn in_force(found: Option<(SecretId, Result<Secret, VaultFault>)>) -> Known {
    match found {
        None => Known::Missing(missing()),
        Some((_, Ok(secret))) => Known::Version(secret),
        Some((_, Err(_))) => Known::Missing(unsealed()),
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

impl Minter {
    /// The same provision with a password.
    fn wish(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        secret: Secret,
    ) -> Option<Wish> {
        let manifest = self.manifest.read().ok()?.clone();
        let needed = super::needed(&manifest, provider, consumer)?;
        Some(needed.wish(Some(secret), self.secrets.digest_key()))
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
        }
    }

    /// Puts many wishes that know their password on the bus in one write; answers which are there.
    async fn publish_many(
        &self,
        provider: &ProviderName,
        wishes: &[Option<Wish>],
    ) -> Result<Vec<bool>, Fault> {
        let bus = &self.secrets.bus;
        let stored = bus
            .list(Bucket::Wish, &Key::of(&[provider.as_str()]))
            .await?;
        let stored = stored
            .entries
            .into_iter()
            .map(|entry| (entry.key, entry.rev));
        let stored: HashMap<Key, Rev> = stored.collect();
        let mut there = vec![false; wishes.len()];
        let (mut writes, mut whose) = (Vec::new(), Vec::new());
        for (i, wish) in wishes.iter().enumerate() {
            let Some(wish) = wish else { continue };
            let entry = Self::entry(provider, wish);
            let key = entry.key();
            let expect = stored
                .get(&key)
                .map_or(Expect::Absent, |rev| Expect::At(*rev));
            let value = serde_json::to_vec(&entry).map_err(|e| Fault::Corrupt(e.to_string()))?;
            writes.push(Write { key, expect, value });
            whose.push(i);
        }
        let puts = bus.put_each(Bucket::Wish, writes).await?;
        for (i, put) in whose.into_iter().zip(puts) {
            there[i] = matches!(put, Put::Done(_));
        }
        Ok(there)
    }

    async fn publish(&self, provider: &ProviderName, wish: &Wish) -> Result<(), Fault> {
        let entry = Self::entry(provider, wish);
        let bus = &self.secrets.bus;
        let value = serde_json::to_vec(&entry).map_err(|e| Fault::Corrupt(e.to_string()))?;
        for _ in 0..TRIES {
            let current = bus.get(Bucket::Wish, &entry.key()).await?;
            if current.as_ref().is_some_and(|e| e.value == value) {
                return Ok(());
            }
            let write = Write {
                key: entry.key(),
                expect: current.map_or(Expect::Absent, |e| Expect::At(e.rev)),
                value: value.clone(),
            };
            if let Put::Done(_) = bus.put_if(Bucket::Wish, write).await? {
                return Ok(());
            }
        }
        Err(Fault::Unreachable(format!(
            "{} could not be written",
            entry.key()
        )))
    }
}

#[async_trait]
impl Mint for Minter {
    async fn mint(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
    ) -> Result<Arc<Wish>, MintFault> {
        if self.replaced {
            return Err(MintFault::NotNow(
                "the store was replaced since it was used last; nothing is minted in this run"
                    .into(),
            ));
        }
        let secret = self.secrets.mint(provider, consumer).await?;
        let gone = || MintFault::NotNow("it left the manifest meanwhile".into());
        let wish = self.wish(provider, consumer, secret).ok_or_else(gone)?;
        self.publish(provider, &wish)
            .await
            .map_err(|e| MintFault::NotNow(e.to_string()))?;
        Ok(Arc::new(wish))
    }

    async fn mint_many(
        &self,
        provider: &ProviderName,
        consumers: &[ConsumerName],
    ) -> Vec<Option<Result<Arc<Wish>, MintFault>>> {
        if self.replaced {
            return Vec::new();
        }
        // What fails here is tried, and told, one by one.
        let minted = self.secrets.mint_many(provider, consumers).await;
        let minted = minted.unwrap_or_default();
        let wishes = minted.into_iter().zip(consumers);
        let wishes = wishes.map(|(secret, consumer)| self.wish(provider, consumer, secret?));
        let wishes: Vec<Option<Wish>> = wishes.collect();
        let there = self.publish_many(provider, &wishes).await;
        let there = there.unwrap_or_default().into_iter();
        let published = wishes.into_iter().zip(there);
        let published = published.map(|(wish, there)| wish.filter(|_| there));
        published.map(|wish| Some(Ok(Arc::new(wish?)))).collect()
    }
}
