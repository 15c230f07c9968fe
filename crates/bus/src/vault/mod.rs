//! The sealed secret store: passwords at rest, apart from the bus (S-3, S-7).
//!
//! `installation.key` holds 32 random bytes; `secrets.db` holds one envelope per secret. The key is
//! made once, when nothing was sealed yet, and never again by itself: without it, opening says
//! [`VaultFault::KeyLost`]. The same key gives those of the marks and of the record's digests.

mod copies;
mod envelope;
mod key;
mod many;
mod store;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use mesh_sdk::name::{ConsumerName, ProviderName};
use mesh_sdk::secret::Secret;
use mesh_sdk::vault::{SecretId, Vault, VaultFault};
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

use crate::files::Identity;
use crate::sqlite::{self, OpenFault, Reads, Trouble};
use crate::worker::Worker;
use crate::{files, mint};
use envelope::Place;
use key::Keys;
use store::{Job, Row, Writer, fault, sql_fault};

pub use key::{KEY_FILE, KeySource};
pub use many::Opened;

/// The store's file in the data folder.
pub const FILE: &str = "secrets.db";

/// So many secrets are read at once.
const PART: usize = 4_096;

/// The sealed secrets of one installation. Dropping it finishes what was begun.
pub struct SealedVault {
    keys: Arc<Keys>,
    reads: Arc<Reads>,
    writer: Option<Worker<Job>>,
    installation: Option<String>,
}

/// One secret out of many.
#[derive(Debug)]
pub struct Kept {
    /// Whose it is.
    pub consumer: ConsumerName,
    /// Its id.
    pub id: SecretId,
    /// The secret, or why this one does not open.
    pub secret: Result<Secret, VaultFault>,
}

impl SealedVault {
    /// Opens the secret store of a data folder, making folder, store and key if none of them was ever
    /// there.
    ///
    /// Blocks for a few syncs. Errors: [`VaultFault::KeyLost`] if the key is gone; `Unusable` if it is
    /// another installation's or no key at all.
    pub fn open(folder: &Path, source: &KeySource) -> Result<Self, VaultFault> {
        files::make_folder(folder).map_err(|e| fault(sqlite::file_trouble(&e)))?;
        let (file, key_path) = (folder.join(FILE), source.path(folder));
        let mut conn = sqlite::open_writer(&file, store::SCHEMA).map_err(open_fault)?;
        let keys = settle(&mut conn, &key_path, source.may_make())?;
        let installation = store::installation(&conn).map_err(|e| sql_fault(&e))?;
        let io = |e| fault(sqlite::file_trouble(&e));
        let identity = Identity::of(&file).map_err(io)?;
        let reads = Arc::new(Reads::beside(&file, identity));
        let writer = Writer {
            conn,
            file,
            identity,
            logged: 0,
        };
        let worker = Worker::start("mesh-vault", writer).map_err(io)?;
        Ok(Self {
            keys: Arc::new(keys),
            reads,
            writer: Some(worker),
            installation,
        })
    }

    /// Opens it for reading only, and makes nothing; `None` if neither key nor store is there.
    pub fn open_read_only(folder: &Path, source: &KeySource) -> Result<Option<Self>, VaultFault> {
        let key_path = source.path(folder);
        let reads = Reads::Alone(folder.join(FILE));
        let sealed_by = reads.read(|conn| {
            let schema = sqlite::schema_of(conn)?;
            if schema > store::SCHEMA {
                return Ok((schema, None, None));
            }
            Ok((schema, store::key_id(conn)?, store::installation(conn)?))
        });
        let (sealed_by, installation) = match sealed_by.map_err(fault)? {
            Some((schema, ..)) if schema > store::SCHEMA => {
                return Err(open_fault(OpenFault::Newer(schema)));
            }
            Some((_, id, installation)) => (id, installation),
            None => (None, None),
        };
        let Some(keys) = fitting(key::read(&key_path)?, sealed_by.as_deref(), &key_path)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            keys: Arc::new(keys),
            reads: Arc::new(reads),
            writer: None,
            installation,
        }))
    }

    /// The key of the marks that are left on backends.
    pub fn mark_key(&self) -> Secret {
        self.keys.mark().clone()
    }
    /// The key of the digests and fingerprints in records (H-1).
    pub fn digest_key(&self) -> Secret {
        self.keys.digest().clone()
    }

    /// Names the installation's key, and tells nothing of it.
    pub fn key_name(&self) -> String {
        let bytes = self.keys.id().iter();
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }

    /// The installation's id as it was kept here when the store was opened ([`Self::belong`]).
    pub fn installation(&self) -> Option<&str> {
        self.installation.as_deref()
    }

    /// Keeps the installation's id beside its secrets, so that a copy of key and store still says whose
    /// marks those on the backends are (H-18). Writes nothing where it is kept already.
    pub async fn belong(&self, installation: &str) -> Result<(), VaultFault> {
        if self.installation() == Some(installation) {
            return Ok(());
        }
        let (reply, answer) = oneshot::channel();
        let installation = installation.to_owned();
        self.ask(
            Job::Belong {
                installation,
                reply,
            },
            answer,
        )
        .await
    }

    /// Keeps many secrets with one synced commit, all or none; their ids in the same order.
    pub async fn keep_many(
        &self,
        provider: &ProviderName,
        secrets: Vec<(ConsumerName, Secret)>,
    ) -> Result<Vec<SecretId>, VaultFault> {
        let (keys, provider) = (Arc::clone(&self.keys), provider.clone());
        let sealing = tokio::task::spawn_blocking(move || {
            let seal = |(consumer, secret): &(ConsumerName, Secret)| {
                seal(&keys, &provider, consumer, secret)
            };
            secrets.iter().map(seal).collect::<Result<Vec<_>, _>>()
        });
        let rows = sealing.await.map_err(|e| broken_off(&e))??;
        let ids = rows.iter().map(|row| SecretId(row.id.clone())).collect();
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Keep { rows, reply }, answer).await?;
        Ok(ids)
    }

    /// Every secret of a provider, oldest first. One that does not open does not stop the others.
    pub async fn open_many(&self, provider: &ProviderName) -> Result<Vec<Kept>, VaultFault> {
        let mut all = Vec::new();
        self.open_each(provider, |kept| all.push(kept)).await?;
        Ok(all)
    }

    /// The same, handed over one by one, so that not all of them lie in memory beside what is made of
    /// them.
    pub async fn open_each(
        &self,
        provider: &ProviderName,
        mut each: impl FnMut(Kept),
    ) -> Result<(), VaultFault> {
        let mut after = 0;
        loop {
            let part = self.open_part(provider, after).await?;
            let Some((last, _)) = part.last() else {
                return Ok(());
            };
            after = *last;
            let ends = part.len() < PART;
            part.into_iter().for_each(|(_, kept)| each(kept));
            if ends {
                return Ok(());
            }
        }
    }

    async fn open_part(
        &self,
        provider: &ProviderName,
        after: i64,
    ) -> Result<Vec<(i64, Kept)>, VaultFault> {
        let (keys, provider) = (Arc::clone(&self.keys), provider.clone());
        self.read(move |reads| {
            let rows = reads.read(|conn| store::part_of(conn, provider.as_str(), after, PART));
            let rows = rows.map_err(fault)?.unwrap_or_default();
            rows.into_iter()
                .map(|(n, consumer, id, bytes)| {
                    open_row(&keys, &provider, consumer, id, bytes).map(|kept| (n, kept))
                })
                .collect()
        })
        .await
    }

    async fn ask(
        &self,
        job: Job,
        answer: oneshot::Receiver<Result<(), VaultFault>>,
    ) -> Result<(), VaultFault> {
        let writer = self
            .writer
            .as_ref()
            .ok_or_else(|| VaultFault::Unusable("it was opened for reading only".to_owned()))?;
        let gone = || VaultFault::Unusable("its writer has stopped".to_owned());
        if !writer.send(job) {
            return Err(gone());
        }
        answer.await.map_err(|_| gone())?
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reads) -> Result<T, VaultFault> + Send + 'static,
    ) -> Result<T, VaultFault> {
        let reads = Arc::clone(&self.reads);
        let task = tokio::task::spawn_blocking(move || read(&reads));
        task.await.map_err(|e| broken_off(&e))?
    }
}

impl Drop for SealedVault {
    fn drop(&mut self) {
        // Before the writer's, so that the last connection is one that can tidy up.
        self.reads.close();
    }
}

#[async_trait]
impl Vault for SealedVault {
    async fn keep(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        secret: &Secret,
    ) -> Result<SecretId, VaultFault> {
        let row = seal(&self.keys, provider, consumer, secret)?;
        let id = SecretId(row.id.clone());
        let (reply, answer) = oneshot::channel();
        let rows = vec![row];
        self.ask(Job::Keep { rows, reply }, answer).await?;
        Ok(id)
    }

    async fn open(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        id: &SecretId,
    ) -> Result<Option<Secret>, VaultFault> {
        let keys = Arc::clone(&self.keys);
        let (provider, consumer, id) = (provider.clone(), consumer.clone(), id.clone());
        self.read(move |reads| {
            let bytes = reads
                .read(|conn| store::envelope(conn, provider.as_str(), consumer.as_str(), &id.0));
            let Some(bytes) = bytes.map_err(fault)?.flatten() else {
                return Ok(None);
            };
            let place = Place {
                provider: &provider,
                consumer: &consumer,
                id: &id,
            };
            envelope::open(&keys, place, bytes).map(Some)
        })
        .await
    }

    async fn ids(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
    ) -> Result<Vec<SecretId>, VaultFault> {
        let (provider, consumer) = (provider.clone(), consumer.clone());
        self.read(move |reads| {
            let ids = reads.read(|conn| store::ids(conn, provider.as_str(), consumer.as_str()));
            let ids = ids.map_err(fault)?.unwrap_or_default();
            Ok(ids.into_iter().map(SecretId).collect())
        })
        .await
    }

    async fn discard(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
        id: &SecretId,
    ) -> Result<(), VaultFault> {
        let row = Row {
            provider: provider.to_string(),
            consumer: consumer.to_string(),
            id: id.0.clone(),
            envelope: Vec::new(),
        };
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Discard { row, reply }, answer).await
    }
}

/// Finds or makes the key, and the tables, under the store's write lock.
fn settle(conn: &mut Connection, key_path: &Path, may_make: bool) -> Result<Keys, VaultFault> {
    let tx = conn
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|e| sql_fault(&e))?;
    let sealed_by = store::key_id(&tx).map_err(|e| sql_fault(&e))?;
    let found = key::read(key_path)?;
    let keys = match fitting(found, sealed_by.as_deref(), key_path)? {
        Some(keys) => {
            if may_make {
                files::keep_private(key_path).map_err(|e| fault(sqlite::file_trouble(&e)))?;
            }
            keys
        }
        None if may_make => key::make(key_path)?,
        None => {
            let why = format!("the key file {} is missing", key_path.display());
            return Err(VaultFault::Unusable(why));
        }
    };
    if sealed_by.is_none() {
        store::begin(&tx, keys.id()).map_err(|e| sql_fault(&e))?;
        tx.commit().map_err(|e| sql_fault(&e))?;
    }
    Ok(keys)
}

/// The key that was found, if it is the one that the store is sealed by; `None` if there is neither.
fn fitting(
    found: Option<Keys>,
    sealed_by: Option<&[u8]>,
    path: &Path,
) -> Result<Option<Keys>, VaultFault> {
    match (found, sealed_by) {
        (None, Some(_)) => Err(VaultFault::KeyLost(path.display().to_string())),
        (Some(keys), Some(id)) if keys.id() != id => Err(VaultFault::Unusable(format!(
            "the key file {} holds another key than the one that sealed these secrets",
            path.display()
        ))),
        (found, _) => Ok(found),
    }
}

fn seal(
    keys: &Keys,
    provider: &ProviderName,
    consumer: &ConsumerName,
    secret: &Secret,
) -> Result<Row, VaultFault> {
    if secret.is_empty() {
        return Err(VaultFault::Unusable(
            "an empty secret is not a password".to_owned(),
        ));
    }
    let mut random = [0; 16];
    mint::os_random(&mut random)
        .map_err(|_| VaultFault::Unusable("the system gives no random bytes".to_owned()))?;
    let id = SecretId(format!("{:032x}", u128::from_be_bytes(random)));
    let place = Place {
        provider,
        consumer,
        id: &id,
    };
    let envelope = envelope::seal(keys, place, secret)?;
    Ok(Row {
        provider: provider.to_string(),
        consumer: consumer.to_string(),
        id: id.0,
        envelope,
    })
}

fn open_row(
    keys: &Keys,
    provider: &ProviderName,
    consumer: String,
    id: String,
    bytes: Vec<u8>,
) -> Result<Kept, VaultFault> {
    let damaged = || {
        fault(Trouble::Corrupt(
            "a consumer's name in it is none".to_owned(),
        ))
    };
    let consumer = ConsumerName::try_from(consumer).map_err(|_| damaged())?;
    let id = SecretId(id);
    let place = Place {
        provider,
        consumer: &consumer,
        id: &id,
    };
    let secret = envelope::open(keys, place, bytes);
    Ok(Kept {
        consumer,
        id,
        secret,
    })
}

fn open_fault(error: OpenFault) -> VaultFault {
    match error {
        OpenFault::Trouble(trouble) => fault(trouble),
        OpenFault::Newer(found) => VaultFault::Unusable(format!(
            "it has schema {found}, and this program knows up to {}: use a newer program",
            store::SCHEMA
        )),
    }
}

fn broken_off(error: &tokio::task::JoinError) -> VaultFault {
    VaultFault::Unusable(format!("an operation was broken off: {error}"))
}
