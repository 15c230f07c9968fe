//! The bus of a process that holds a lease, on the installation or a provider: it writes only while it surely
//! does.
//!
//! An intent is written before each effect (H-23), so whoever may not write here begins no effect: not
//! after the lease was lost, and not in the moment after a stop in which that was not noticed yet.

use std::sync::Arc;

use async_trait::async_trait;
use mesh_bus::claim::Claim;
use mesh_sdk::bus::{Bucket, Bus, Entry, Fault, Health, Key, LogLine, Put, Snapshot, Watch, Write};

/// A bus under a lease.
pub struct Claimed {
    /// The bus.
    pub bus: Arc<dyn Bus>,
    /// The lease.
    pub claim: Arc<Claim>,
}

impl Claimed {
    fn may_write(&self) -> Result<(), Fault> {
        if self.claim.may_act() {
            return Ok(());
        }
        let text = "this host could not hold its lease, and writes nothing more under it";
        Err(Fault::Unreachable(text.to_owned()))
    }
}

#[async_trait]
impl Bus for Claimed {
    async fn get(&self, bucket: Bucket, key: &Key) -> Result<Option<Entry>, Fault> {
        self.bus.get(bucket, key).await
    }
    async fn put_if(&self, bucket: Bucket, write: Write) -> Result<Put, Fault> {
        self.may_write()?;
        self.bus.put_if(bucket, write).await
    }
    async fn put_each(&self, bucket: Bucket, writes: Vec<Write>) -> Result<Vec<Put>, Fault> {
        self.may_write()?;
        self.bus.put_each(bucket, writes).await
    }
    async fn list(&self, bucket: Bucket, prefix: &Key) -> Result<Snapshot, Fault> {
        self.bus.list(bucket, prefix).await
    }
    async fn list_part(
        &self,
        bucket: Bucket,
        prefix: &Key,
        after: Option<&Key>,
        most: usize,
    ) -> Result<Snapshot, Fault> {
        self.bus.list_part(bucket, prefix, after, most).await
    }
    async fn watch(&self, bucket: Bucket, prefix: &Key) -> Result<Box<dyn Watch>, Fault> {
        self.bus.watch(bucket, prefix).await
    }
    async fn append(&self, lines: Vec<(Key, String)>) -> Result<(), Fault> {
        self.may_write()?;
        self.bus.append(lines).await
    }
    async fn history(&self, prefix: &Key, after: u64, limit: usize) -> Result<Vec<LogLine>, Fault> {
        self.bus.history(prefix, after, limit).await
    }
    async fn health(&self) -> Health {
        self.bus.health().await
    }
}
