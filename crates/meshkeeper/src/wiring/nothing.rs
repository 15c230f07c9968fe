//! A bus with nothing on it that takes nothing: for a plan before the first `apply`.

use async_trait::async_trait;
use mesh_sdk::bus::{
    Bucket, Bus, Entry, Epoch, Fault, Health, Key, LogLine, Put, Rev, Rung, Snapshot, Watch, Write,
};

/// Empty, and read-only.
pub struct NoBus;

struct Silence;

#[async_trait]
impl Watch for Silence {
    async fn next(&mut self) -> Rung {
        std::future::pending().await
    }
}

fn read_only() -> Fault {
    Fault::Unreachable("a plan writes nothing".to_owned())
}

#[async_trait]
impl Bus for NoBus {
    async fn get(&self, _: Bucket, _: &Key) -> Result<Option<Entry>, Fault> {
        Ok(None)
    }
    async fn put_if(&self, _: Bucket, _: Write) -> Result<Put, Fault> {
        Err(read_only())
    }
    async fn put_each(&self, _: Bucket, _: Vec<Write>) -> Result<Vec<Put>, Fault> {
        Err(read_only())
    }
    async fn list(&self, _: Bucket, _: &Key) -> Result<Snapshot, Fault> {
        Ok(Snapshot {
            at: Rev {
                epoch: Epoch(0),
                seq: 0,
            },
            entries: Vec::new(),
        })
    }
    async fn watch(&self, _: Bucket, _: &Key) -> Result<Box<dyn Watch>, Fault> {
        Ok(Box::new(Silence))
    }
    async fn append(&self, _: Vec<(Key, String)>) -> Result<(), Fault> {
        Err(read_only())
    }
    async fn history(&self, _: &Key, _: u64, _: usize) -> Result<Vec<LogLine>, Fault> {
        Ok(Vec::new())
    }
    async fn health(&self) -> Health {
        Health {
            readable: true,
            writable: false,
            epoch: Epoch(0),
            seq: 0,
        }
    }
}
