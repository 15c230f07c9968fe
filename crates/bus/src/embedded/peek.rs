//! The store from a process that only reads: `status` and `plan` beside a daemon, or without one.
//!
//! It makes no folder and no file and needs no right to write. While a writer runs, SQLite's own locks
//! and read marks in `mesh.db-shm` are touched, as by every reader. After a crash, when the log still
//! holds commits, SQLite builds that index anew if it may write it, and in memory if it may not. When
//! the store lies closed, nothing at all is touched.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use mesh_sdk::bus::{Epoch, Fault, Rev, Rung, Watch};

use super::highwater::{self, Seen};
use super::schema::{self, SCHEMA, Verdict};
use super::{EmbeddedBus, FILE, Found, Opened, fault, io_fault, rows};
use crate::sqlite::Reads;
use crate::watch::LOOK;

/// What a process that only reads finds.
pub enum Glimpse {
    /// No store was ever here.
    NotThere,
    /// There was one, and it is gone.
    Wiped,
    /// It is there. [`Found::Replaced`] if a writer would give it a new epoch.
    Open(Opened),
}

enum Shown {
    Empty,
    Newer(u32),
    Meta(schema::Meta),
}

impl EmbeddedBus {
    /// Opens the store of a data folder for reading only, and makes nothing.
    pub fn open_read_only(folder: &Path) -> Result<Glimpse, Fault> {
        let reads = Reads::Alone(folder.join(FILE));
        let shown = reads.read(|conn| {
            let found = crate::sqlite::schema_of(conn)?;
            Ok(if found > SCHEMA {
                Shown::Newer(found)
            } else {
                schema::read(conn)?.map_or(Shown::Empty, Shown::Meta)
            })
        });
        let meta = match shown.map_err(fault)? {
            Some(Shown::Newer(found)) => {
                return Err(Fault::Newer {
                    found,
                    known: SCHEMA,
                });
            }
            Some(Shown::Meta(meta)) => Some(meta),
            Some(Shown::Empty) | None => None,
        };
        let stored = meta.as_ref().map(|meta| Epoch(meta.epoch));
        let mark: Seen = highwater::read(folder).map_err(|e| io_fault(&e))?;
        let meta = match (schema::judge(meta, &mark, ""), stored) {
            (Verdict::Known(meta) | Verdict::Redate(meta), Some(_)) => meta,
            (Verdict::Begin(meta), _) if meta.replaced.is_none() => return Ok(Glimpse::NotThere),
            _ => return Ok(Glimpse::Wiped),
        };
        let bus = EmbeddedBus {
            reads: Arc::new(reads),
            writer: None,
            installation: meta.installation,
            // The epoch that the file has, not the one it would get.
            epoch: stored.unwrap_or(Epoch(meta.epoch)),
        };
        let found = meta.replaced.map_or(Found::Known, Found::Replaced);
        Ok(Glimpse::Open(Opened { bus, found }))
    }
}

/// A watch that looks by itself: any change anywhere is a gap.
pub(super) struct PollingWatch {
    reads: Arc<Reads>,
    seen: Option<Rev>,
}

impl PollingWatch {
    pub(super) fn new(reads: Arc<Reads>, seen: Rev) -> Self {
        let seen = Some(seen);
        Self { reads, seen }
    }
}

#[async_trait]
impl Watch for PollingWatch {
    async fn next(&mut self) -> Rung {
        loop {
            tokio::time::sleep(LOOK).await;
            let reads = Arc::clone(&self.reads);
            let look = tokio::task::spawn_blocking(move || reads.read(rows::head));
            let now = match look.await {
                Ok(Ok(now)) => now,
                // It cannot be read now: the next look tells.
                _ => continue,
            };
            if now != self.seen {
                self.seen = now;
                return Rung::Gap;
            }
        }
    }
}
