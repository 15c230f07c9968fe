//! Sealed copies: a secret as it lies in one host's store, for that of another with the same key (S-7).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mesh_sdk::name::{ConsumerName, ProviderName};
use mesh_sdk::secret::Secret;
use mesh_sdk::vault::{SecretId, VaultFault};
use tokio::sync::oneshot;

use super::envelope::{self, Place};
use super::store::{self, Job, Row, fault};
use super::{SealedVault, broken_off};

impl SealedVault {
    /// A secret as it lies here, sealed: for a copy in the store of another host with the same key (S-7).
    pub async fn sealed(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        id: &SecretId,
    ) -> Result<Option<String>, VaultFault> {
        let (provider, consumer, id) = (provider.clone(), consumer.clone(), id.clone());
        self.read(move |reads| {
            let bytes = reads
                .read(|conn| store::envelope(conn, provider.as_str(), consumer.as_str(), &id.0));
            let bytes = bytes.map_err(fault)?.flatten();
            Ok(bytes.map(|bytes| STANDARD.encode(bytes)))
        })
        .await
    }
    /// The newest secret of each consumer of a provider, by its id; none is opened.
    pub async fn newest(
        &self,
        provider: &ProviderName,
    ) -> Result<Vec<(ConsumerName, SecretId)>, VaultFault> {
        let provider = provider.clone();
        self.read(move |reads| {
            let rows = reads.read(|conn| store::newest(conn, provider.as_str()));
            let rows = rows.map_err(fault)?.unwrap_or_default().into_iter();
            let named = rows.filter_map(|(consumer, id)| {
                let consumer = ConsumerName::new(&consumer).ok()?;
                Some((consumer, SecretId(id)))
            });
            Ok(named.collect())
        })
        .await
    }
    /// Opens a sealed copy of another host's secret, and keeps nothing.
    pub fn open_copy(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        id: &SecretId,
        copy: &str,
    ) -> Result<Secret, VaultFault> {
        let place = Place {
            provider,
            consumer,
            id,
        };
        let bytes = STANDARD.decode(copy).map_err(|_| VaultFault::Sealed {
            provider: provider.clone(),
            consumer: consumer.clone(),
        })?;
        envelope::open(&self.keys, place, bytes)
    }
    /// Whether it was opened for reading only.
    pub fn reads_only(&self) -> bool {
        self.writer.is_none()
    }
    /// Keeps sealed copies of another host's secrets with one synced commit, and answers how many. What
    /// does not open at its place with this key is left out; what is here already is left as it is.
    pub async fn keep_copies(
        &self,
        provider: &ProviderName,
        copies: Vec<(ConsumerName, SecretId, String)>,
    ) -> Result<usize, VaultFault> {
        let (keys, owner) = (Arc::clone(&self.keys), provider.clone());
        let judging = tokio::task::spawn_blocking(move || {
            let provider = &owner;
            let rows = copies.into_iter().filter_map(|(consumer, id, copy)| {
                let place = Place {
                    provider,
                    consumer: &consumer,
                    id: &id,
                };
                let sealed = STANDARD.decode(copy).ok()?;
                envelope::open(&keys, place, sealed.clone()).ok()?;
                Some(Row {
                    provider: provider.to_string(),
                    consumer: consumer.to_string(),
                    id: id.0,
                    envelope: sealed,
                })
            });
            rows.collect::<Vec<_>>()
        });
        let rows = judging.await.map_err(|e| broken_off(&e))?;
        let count = rows.len();
        if count > 0 {
            let (reply, answer) = oneshot::channel();
            self.ask(Job::Keep { rows, reply }, answer).await?;
        }
        Ok(count)
    }
}
