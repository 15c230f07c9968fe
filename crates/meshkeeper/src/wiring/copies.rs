//! Passwords on several hosts: sealed copies beside the versions on the bus (B-3, S-7).
//!
//! Each host has a secret store of its own, and all have the installation's key. A version on the bus carries
//! the secret as it lies in the store of who made it: sealed, bound to its place. Whoever needs it keeps a
//! copy of its own, so that losing one store, or the bus, loses nothing.

use std::collections::BTreeMap;

use mesh_sdk::bus::{Bucket, Expect, Fault, Key, Write};
use mesh_sdk::vault::{SecretId, Vault};
use mesh_sdk::{ConsumerName, ProviderName};

use super::secrets::{Beyond, Known, Secrets, SecretsFault, Stored, unsealed};
use super::shapes::VersionEntry;

impl Secrets {
    /// The copy to put beside a version; none where nobody else needs it.
    pub(super) async fn copy_of(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        id: &SecretId,
    ) -> Result<Option<String>, SecretsFault> {
        match self.beyond {
            Beyond::No => Ok(None),
            Beyond::Yes => Ok(self.vault.sealed(provider, consumer, id).await?),
        }
    }

    /// A version that this host's store does not hold, from its copy.
    pub(super) fn open_copy(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        stored: &Stored,
    ) -> Known {
        let Some(copy) = &stored.copy else {
            return Known::Missing(self.absent());
        };
        match self.vault.open_copy(provider, consumer, &stored.id, copy) {
            Ok(secret) => {
                self.hide(&secret);
                Known::Version(secret)
            }
            Err(_) => Known::Missing(unsealed()),
        }
    }
    fn absent(&self) -> String {
        match self.beyond {
            Beyond::No => super::secrets::missing(),
            Beyond::Yes => "its version is not in this host's secret store, and the bus has no sealed copy of it: the host that made it puts one there when it runs".to_owned(),
        }
    }

    /// Keeps copies of other hosts' secrets here, unless this process only reads.
    pub(super) async fn keep_copies(
        &self,
        provider: &ProviderName,
        absent: Vec<(ConsumerName, Stored)>,
    ) -> Result<usize, SecretsFault> {
        if absent.is_empty() || self.vault.reads_only() {
            return Ok(0);
        }
        let copies = absent.into_iter();
        let copies = copies.filter_map(|(consumer, s)| Some((consumer, s.id, s.copy?)));
        Ok(self.vault.keep_copies(provider, copies.collect()).await?)
    }

    /// Puts copies beside versions that have none: those of a store that was one machine's until now. And
    /// names the versions that this host alone knows, since the bus lost them: else a host without them
    /// that takes over finds nobody's password, and once the backend has lost the login too, makes another
    /// one (H-22). Who writes such a version meanwhile knows more.
    pub async fn share(&self, provider: &ProviderName) -> Result<(), SecretsFault> {
        if self.beyond == Beyond::No {
            return Ok(());
        }
        let mut writes = Vec::new();
        let versions = self.versions(provider).await?;
        for (consumer, id) in self.vault.newest(provider).await? {
            if versions.contains_key(&consumer) {
                continue;
            }
            // One that does not open is told as lost, and not handed on.
            if let Ok(Some(secret)) = self.vault.open(provider, &consumer, &id).await {
                let named = (&id, &secret);
                let write = self.version_write(provider, &consumer, named, Expect::Absent);
                writes.push(write.await?);
            }
        }
        for (consumer, stored) in versions {
            if stored.copy.is_some() {
                continue;
            }
            let copy = self.copy_of(provider, &consumer, &stored.id).await?;
            let entry = VersionEntry {
                id: stored.id,
                fingerprint: stored.fingerprint,
                copy,
            };
            if entry.copy.is_some() {
                writes.push(Write {
                    key: Key::of(&[provider.as_str(), consumer.as_str()]),
                    expect: Expect::At(stored.rev),
                    value: serde_json::to_vec(&entry).map_err(|e| Fault::Corrupt(e.to_string()))?,
                });
            }
        }
        if !writes.is_empty() {
            self.bus.put_each(Bucket::Version, writes).await?;
        }
        Ok(())
    }

    /// Keeps here every secret on the bus that this host lacks: what each of several hosts does, so
    /// that it can go on at once. Answers how many.
    pub async fn take_copies(&self) -> Result<usize, SecretsFault> {
        let everything = self.bus.list(Bucket::Version, &Key::everything()).await?;
        let mut absent: BTreeMap<ProviderName, Vec<(ConsumerName, Stored)>> = BTreeMap::new();
        for entry in everything.entries {
            let names = entry.key.as_str().split_once('.');
            let names = names.and_then(|(provider, consumer)| {
                let provider = ProviderName::new(provider).ok()?;
                Some((provider, ConsumerName::new(consumer).ok()?))
            });
            let Some((provider, consumer)) = names else {
                continue;
            };
            let version: VersionEntry = serde_json::from_slice(&entry.value)
                .map_err(|error| Fault::Corrupt(format!("version {}: {error}", entry.key)))?;
            let here = self.vault.sealed(&provider, &consumer, &version.id).await?;
            if here.is_none() {
                let stored = Stored::of(version, entry.rev);
                absent.entry(provider).or_default().push((consumer, stored));
            }
        }
        let mut kept = 0;
        for (provider, absent) in absent {
            kept += self.keep_copies(&provider, absent).await?;
        }
        Ok(kept)
    }
}
