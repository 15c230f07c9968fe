//! The contract of the secret store: sealed, apart from the bus, on this host (S-7).

use async_trait::async_trait;

use crate::name::{ConsumerName, ProviderName};
use crate::secret::Secret;

/// Names one stored secret: made when it is sealed, unique in an installation, no secret itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct SecretId(pub String);

/// Why a secret could not be read or kept. None of these ever means "no password" (S-4).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultFault {
    /// The store cannot be read or written.
    #[error("the secret store cannot be used: {0}")]
    Unusable(String),
    /// The disk is full or read-only: nothing was written.
    #[error("the secret store cannot write: {0}")]
    Full(String),
    /// The secret does not open with this installation's key.
    #[error("the secret of {consumer} on {provider} does not open with this installation's key")]
    Sealed {
        /// The provider.
        provider: ProviderName,
        /// The consumer.
        consumer: ConsumerName,
    },
    /// The key file is missing although sealed secrets are there (S-3).
    #[error("the key file {0} is missing although sealed secrets exist: put it back")]
    KeyLost(String),
}

/// Secrets of one installation, sealed at rest.
#[async_trait]
pub trait Vault: Send + Sync + 'static {
    /// Seals a secret and has it on the disk before it returns; answers its new id (H-22).
    async fn keep(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        secret: &Secret,
    ) -> Result<SecretId, VaultFault>;
    /// The secret of an id; `None` only if the store was read and does not hold it.
    async fn open(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        id: &SecretId,
    ) -> Result<Option<Secret>, VaultFault>;
    /// Every id kept for a provision, newest first: what tells a consumer that is new from one whose
    /// version was lost (H-22).
    async fn ids(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
    ) -> Result<Vec<SecretId>, VaultFault>;
    /// Throws away a candidate that lost its race. Never called for one that was a version.
    async fn discard(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        id: &SecretId,
    ) -> Result<(), VaultFault>;
}
