//! Which password is whose: secret store and bus together (H-22, S-4, S-7).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use mesh_bus::vault::{Kept, SealedVault};
use mesh_loops::rotation::journal::Journal;
use mesh_loops::rotation::store::{JournalFault, Journals, Of};
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put, Rev, Write};
use mesh_sdk::mark::keyed;
use mesh_sdk::provision::Digest;
use mesh_sdk::scrub::Scrubber;
use mesh_sdk::vault::{SecretId, Vault, VaultFault};
use mesh_sdk::{ConsumerName, ProviderName, Secret};

use super::shapes::VersionEntry;

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

/// So many versions are read at once.
const PART: usize = 4_096;

/// A secret that the store holds: its id, and the secret or why it does not open.
type Found = (SecretId, Result<Secret, VaultFault>);

/// Secret store and bus, for one installation.
pub struct Secrets {
    pub(super) vault: Arc<SealedVault>,
    pub(super) bus: Arc<dyn Bus>,
    /// Whether other hosts need sealed copies of what is kept here.
    pub(super) beyond: Beyond,
    /// The journals of rotations, and their mirror in the data folder.
    pub(super) journals: Option<Arc<Journals>>,
    digest_key: Secret,
    scrubber: Arc<Scrubber>,
}

/// Whether the bus reaches beyond this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// It lies in the data folder.
    No,
    /// Other hosts use it, each with a secret store of its own.
    Yes,
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
    /// The journals of rotations.
    #[error(transparent)]
    Journal(#[from] JournalFault),
    /// Another process made a version at the same time.
    #[error("another process changed the password version of {0} at the same time; try again")]
    Contended(String),
}

/// A version as the bus names it.
pub(super) struct Stored {
    pub(super) id: SecretId,
    pub(super) rev: Rev,
    pub(super) fingerprint: Digest,
    /// The sealed copy beside it.
    pub(super) copy: Option<String>,
}

impl Stored {
    pub(super) fn of(version: VersionEntry, rev: Rev) -> Self {
        Self {
            id: version.id,
            rev,
            fingerprint: version.fingerprint,
            copy: version.copy,
        }
    }
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
            beyond: Beyond::No,
            journals: None,
            digest_key,
            scrubber,
        }
    }
    /// The same, with a bus that reaches so far.
    #[must_use]
    pub fn going(mut self, beyond: Beyond) -> Self {
        self.beyond = beyond;
        self
    }
    /// The same, with the journals of rotations.
    #[must_use]
    pub fn rotating(mut self, journals: Journals) -> Self {
        self.journals = Some(Arc::new(journals));
        self
    }
    /// The same on another view of the bus.
    #[must_use]
    pub fn on(&self, bus: Arc<dyn Bus>) -> Self {
        Self {
            vault: Arc::clone(&self.vault),
            bus,
            beyond: self.beyond,
            journals: self.journals.clone(),
            digest_key: self.digest_key.clone(),
            scrubber: Arc::clone(&self.scrubber),
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
        let mut known = HashMap::with_capacity(versions.len());
        let keep = |one: Kept| {
            if let Ok(secret) = &one.secret {
                self.scrubber.add(secret.clone());
            }
            // Without a version the newest counts, and they come oldest first.
            let counts = versions
                .get(&one.consumer)
                .is_none_or(|stored| stored.id == one.id);
            if counts {
                known.insert(one.consumer, in_force(Some((one.id, one.secret))));
            }
        };
        self.vault.open_each(provider, keep).await?;
        let mut absent = Vec::new();
        for (consumer, stored) in versions {
            let Entry::Vacant(place) = known.entry(consumer) else {
                continue;
            };
            let opened = self.open_copy(provider, place.key(), &stored);
            if matches!(opened, Known::Version(_)) {
                absent.push((place.key().clone(), stored));
            }
            place.insert(opened);
        }
        self.keep_copies(provider, absent).await?;
        Ok(known)
    }

    pub(super) async fn versions(
        &self,
        provider: &ProviderName,
    ) -> Result<HashMap<ConsumerName, Stored>, SecretsFault> {
        let prefix = Key::of(&[provider.as_str()]);
        let mut versions = HashMap::new();
        let mut after: Option<Key> = None;
        loop {
            let bus = &self.bus;
            let part = bus.list_part(Bucket::Version, &prefix, after.as_ref(), PART);
            let part = part.await?.entries;
            let ends = part.len() < PART;
            after = part.last().map(|entry| entry.key.clone());
            for entry in part {
                let consumer = entry.key.as_str().rsplit('.').next();
                let consumer = consumer.and_then(|t| ConsumerName::new(t).ok());
                let version: VersionEntry = serde_json::from_slice(&entry.value)
                    .map_err(|error| Fault::Corrupt(format!("version {}: {error}", entry.key)))?;
                if let Some(consumer) = consumer {
                    versions.insert(consumer, Stored::of(version, entry.rev));
                }
            }
            if ends {
                return Ok(versions);
            }
        }
    }

    pub(super) async fn version(
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
        Ok(Some(Stored::of(version, entry.rev)))
    }

    /// Makes secrets that people gave the versions in force, unless they are already: all of a provider
    /// with two synced writes. Each is sealed on the disk before the compare-and-set.
    pub async fn take_given(
        &self,
        provider: &ProviderName,
        given: Vec<(ConsumerName, Secret)>,
    ) -> Result<(), SecretsFault> {
        if given.is_empty() {
            return Ok(());
        }
        let stored = self.versions(provider).await?;
        let sealed = self.seal_many(provider, given).await?;
        let mut writes = Vec::with_capacity(sealed.len());
        for (consumer, id, secret) in &sealed {
            let before = stored.get(consumer);
            let expect = before.map_or(Expect::Absent, |stored| Expect::At(stored.rev));
            let write = self.version_write(provider, consumer, (id, secret), expect);
            writes.push(write.await?);
        }
        let puts = self.bus.put_each(Bucket::Version, writes).await?;
        for ((consumer, id, _), put) in sealed.iter().zip(puts) {
            let found = match put {
                Put::Done(_) => continue,
                Put::Conflict | Put::Unknown => self.version(provider, consumer).await?,
            };
            if found.is_none_or(|stored| stored.id != *id) {
                self.vault.discard(provider, consumer, id).await?;
                return Err(SecretsFault::Contended(consumer.to_string()));
            }
        }
        Ok(())
    }

    /// The write that makes a sealed secret the version.
    pub(super) async fn version_write(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        (id, secret): (&SecretId, &Secret),
        expect: Expect,
    ) -> Result<Write, SecretsFault> {
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
            copy: self.copy_of(provider, consumer, id).await?,
        };
        Ok(Write {
            key: Key::of(&[provider.as_str(), consumer.as_str()]),
            expect,
            value: serde_json::to_vec(&entry).map_err(|e| Fault::Corrupt(e.to_string()))?,
        })
    }

    /// The password in force, for `mesh credentials` and deliveries.
    pub async fn current(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
    ) -> Result<Known, SecretsFault> {
        let of = (provider.clone(), consumer.clone());
        let journal = self.journal(&of).await?;
        self.current_by(journal.as_ref(), &of).await
    }

    /// The same, by a journal that was read before.
    pub(super) async fn current_by(
        &self,
        journal: Option<&Journal>,
        (provider, consumer): &Of,
    ) -> Result<Known, SecretsFault> {
        if let Some(held) = journal.and_then(|journal| journal.current.as_ref()) {
            return self.open_held(provider, held).await;
        }
        let stored = self.version(provider, consumer).await?;
        let id = match &stored {
            Some(stored) => Some(stored.id.clone()),
            None => self.vault.ids(provider, consumer).await?.into_iter().next(),
        };
        let Some(id) = id else {
            return Ok(Known::Nothing);
        };
        let opened = self.vault.open(provider, consumer, &id).await;
        Ok(match (opened, stored) {
            (Ok(Some(secret)), _) => in_force(Some((id, Ok(secret)))),
            (Ok(None), Some(stored)) => self.open_copy(provider, consumer, &stored),
            (Ok(None), None) => in_force(None),
            (Err(fault), _) => in_force(Some((id, Err(fault)))),
        })
    }
}

pub(super) fn missing() -> String {
    "its version is not in the secret store".to_owned()
}
pub(super) fn unsealed() -> String {
    "its secret does not open with this installation's key".to_owned()
}

fn in_force(found: Option<Found>) -> Known {
    match found {
        None => Known::Missing(missing()),
        Some((_, Ok(secret))) => Known::Version(secret),
        Some((_, Err(_))) => Known::Missing(unsealed()),
    }
}
