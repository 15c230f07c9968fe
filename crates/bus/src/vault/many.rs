//! Many secrets of one provider with one read.

use std::sync::Arc;

use mesh_sdk::name::{ConsumerName, ProviderName};
use mesh_sdk::secret::Secret;
use mesh_sdk::vault::{SecretId, VaultFault};

use super::envelope::{self, Place};
use super::store::{self, fault};
use super::{PART, SealedVault};

/// What opening one came to, as [`mesh_sdk::vault::Vault::open`] answers it.
pub type Opened = Result<Option<Secret>, VaultFault>;

impl SealedVault {
    /// The newest id that each of these has, in the same order.
    pub async fn newest_of(
        &self,
        provider: &ProviderName,
        consumers: &[ConsumerName],
    ) -> Result<Vec<Option<SecretId>>, VaultFault> {
        let mut newest = Vec::with_capacity(consumers.len());
        for part in consumers.chunks(PART) {
            let (provider, part) = (provider.clone(), part.to_vec());
            let found = self.read(move |reads| {
                let ids = reads.read(|conn| {
                    let one = |consumer: &ConsumerName| {
                        let ids = store::ids(conn, provider.as_str(), consumer.as_str())?;
                        Ok(ids.into_iter().next().map(SecretId))
                    };
                    part.iter().map(one).collect::<rusqlite::Result<Vec<_>>>()
                });
                let none = || vec![None; part.len()];
                Ok(ids.map_err(fault)?.unwrap_or_else(none))
            });
            newest.extend(found.await?);
        }
        Ok(newest)
    }

    /// Opens these, in the same order. One that does not open stops no other; an error means that the
    /// store itself cannot be read.
    pub async fn open_these(
        &self,
        provider: &ProviderName,
        which: &[(ConsumerName, SecretId)],
    ) -> Result<Vec<Opened>, VaultFault> {
        let mut opened = Vec::with_capacity(which.len());
        for part in which.chunks(PART) {
            let (keys, provider, part) = (Arc::clone(&self.keys), provider.clone(), part.to_vec());
            let found = self.read(move |reads| {
                let sealed = reads.read(|conn| {
                    let one = |(consumer, id): &(ConsumerName, SecretId)| {
                        store::envelope(conn, provider.as_str(), consumer.as_str(), &id.0)
                    };
                    part.iter().map(one).collect::<rusqlite::Result<Vec<_>>>()
                });
                let none = || part.iter().map(|_| None).collect();
                let sealed = sealed.map_err(fault)?.unwrap_or_else(none);
                let open = |((consumer, id), bytes): (&(ConsumerName, SecretId), Option<_>)| {
                    let place = Place {
                        provider: &provider,
                        consumer,
                        id,
                    };
                    bytes
                        .map(|bytes| envelope::open(&keys, place, bytes))
                        .transpose()
                };
                Ok(part.iter().zip(sealed).map(open).collect::<Vec<_>>())
            });
            opened.extend(found.await?);
        }
        Ok(opened)
    }
}
