//! The bus of one machine: one SQLite file in the data folder, no server.
//!
//! - **A `Done` is on the disk** (B-9): the log is synced with every commit. What waits shares one.
//! - **Callers never block**: a thread of its own writes; reads run beside it, each in one transaction.
//! - **A store that was wiped or put back is seen** (B-6): see [`Replaced`].
//! - **Another process may read** while this one writes, and makes nothing: [`EmbeddedBus::open_read_only`].

mod engine;
mod highwater;
mod peek;
mod rows;
mod schema;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use mesh_sdk::bus::{
    Bucket, Bus, Entry, Epoch, Fault, Health, Key, LogLine, Put, Rev, Snapshot, Watch, Write,
};
use mesh_sdk::clock::Clock;
use rusqlite::Connection;
use tokio::sync::{broadcast, oneshot};

use crate::files::{self, Identity};
use crate::sqlite::{self, OpenFault, Reads, Trouble};
use crate::watch;
use crate::worker::Worker;
use engine::{Counts, Engine, Gauge, Job};
use schema::SCHEMA;

pub use highwater::{Replaced, remind};
pub use peek::Glimpse;

/// The store's file in the data folder.
pub const FILE: &str = "mesh.db";
/// The longest value, and the longest line of history, in bytes.
pub const LIMIT: usize = 1 << 20;

/// What opening needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The installation's id if the store is made now. A store that is there keeps its own.
    pub installation: String,
    /// Dates the history.
    pub clock: Clock,
}

/// What a store was found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It was made now; nothing was ever here.
    Created,
    /// The one that was used last.
    Known,
    /// Not that one: it has a new epoch, and this is why. Told at every opening until
    /// [`EmbeddedBus::replacement_told`].
    Replaced(Replaced),
}

/// An open store.
pub struct Opened {
    /// The bus.
    pub bus: EmbeddedBus,
    /// What it was found to be.
    pub found: Found,
}

/// The bus in one file. Dropping it finishes what was begun.
pub struct EmbeddedBus {
    reads: Arc<Reads>,
    writer: Option<Writer>,
    installation: String,
    epoch: Epoch,
}

struct Writer {
    worker: Worker<Job>,
    changes: broadcast::Sender<Arc<watch::Change>>,
    gauge: Arc<Gauge>,
}

impl EmbeddedBus {
    /// Opens the store of a data folder for reading and writing, making both if they are missing.
    ///
    /// Blocks for a few syncs. Errors: another schema, damage, no room, no right; the store is then as
    /// it was, and never begun anew.
    pub fn open(folder: &Path, settings: &Settings) -> Result<Opened, Fault> {
        files::make_folder(folder).map_err(|e| io_fault(&e))?;
        let file = folder.join(FILE);
        let mut conn = sqlite::open_writer(&file, SCHEMA).map_err(open_fault)?;
        let (meta, made) = schema::settle(&mut conn, folder, &settings.installation)?;
        let identity = Identity::of(&file).map_err(|e| io_fault(&e))?;
        let found = match meta.replaced {
            Some(why) => Found::Replaced(why),
            None if made => Found::Created,
            None => Found::Known,
        };
        let floor = match highwater::read(folder).map_err(|e| io_fault(&e))? {
            highwater::Seen::Mark(mark) => mark.reserved,
            _ => 0,
        };
        let gauge = Arc::new(Gauge::default());
        gauge.seq.store(meta.seq, Ordering::Relaxed);
        gauge.writable.store(true, Ordering::Relaxed);
        let changes = broadcast::channel(watch::BEHIND).0;
        let reads = Arc::new(Reads::beside(&file, identity));
        let engine = Engine {
            conn,
            folder: folder.to_owned(),
            file,
            identity,
            installation: meta.installation.clone(),
            epoch: Epoch(meta.epoch),
            clock: settings.clock,
            changes: changes.clone(),
            gauge: Arc::clone(&gauge),
            counts: Counts::starting_at(meta.seq, floor),
        };
        let worker = Worker::start("mesh-bus", engine).map_err(|e| io_fault(&e))?;
        let bus = EmbeddedBus {
            reads,
            writer: Some(Writer {
                worker,
                changes,
                gauge,
            }),
            installation: meta.installation,
            epoch: Epoch(meta.epoch),
        };
        Ok(Opened { bus, found })
    }

    /// The installation's id.
    pub fn installation(&self) -> &str {
        &self.installation
    }
    /// The epoch that was opened.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
    /// Notes that [`Found::Replaced`] was told where people see it, and all that follows from it is done.
    pub async fn replacement_told(&self) -> Result<(), Fault> {
        let (reply, answer) = oneshot::channel();
        let told = self.ask(Job::Told { reply }, answer).await?;
        told.ok_or_else(stopped)
    }

    /// Hands a job to the writer and waits for its answer; `None` if the writer stopped over it.
    async fn ask<T>(
        &self,
        job: Job,
        answer: oneshot::Receiver<Result<T, Fault>>,
    ) -> Result<Option<T>, Fault> {
        let writer = self
            .writer
            .as_ref()
            .ok_or_else(|| Fault::Full("it was opened for reading only".to_owned()))?;
        if !writer.worker.send(job) {
            return Err(stopped());
        }
        answer.await.ok().transpose()
    }

    /// Runs a read on a thread where it may block, and sees to it that it is this store's.
    async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&Connection) -> rusqlite::Result<(Epoch, T)> + Send + 'static,
    ) -> Result<T, Fault> {
        let (reads, epoch) = (Arc::clone(&self.reads), self.epoch);
        let task = tokio::task::spawn_blocking(move || match reads.read(read).map_err(fault)? {
            Some((found, got)) if found == epoch => Ok(got),
            _ => Err(Fault::EpochChanged),
        });
        task.await
            .map_err(|e| Fault::Unreachable(format!("a read was broken off: {e}")))?
    }
    async fn head(&self) -> Result<Rev, Fault> {
        self.read(|conn| rows::head(conn).map(|head| (head.epoch, head)))
            .await
    }
}

impl Drop for EmbeddedBus {
    fn drop(&mut self) {
        // Before the writer's, so that the last connection is one that can tidy up.
        self.reads.close();
    }
}

fn stopped() -> Fault {
    Fault::Unreachable("its writer has stopped".to_owned())
}
fn small_enough(size: usize) -> Result<(), Fault> {
    if size > LIMIT {
        return Err(Fault::TooLarge { size, limit: LIMIT });
    }
    Ok(())
}

#[async_trait]
impl Bus for EmbeddedBus {
    async fn get(&self, bucket: Bucket, key: &Key) -> Result<Option<Entry>, Fault> {
        let key = key.clone();
        self.read(move |conn| rows::get(conn, bucket, &key)).await
    }
    async fn put_if(&self, bucket: Bucket, write: Write) -> Result<Put, Fault> {
        let outcomes = self.put_each(bucket, vec![write]).await?;
        outcomes
            .first()
            .copied()
            .ok_or_else(|| Fault::Unreachable("the writer gave no outcome".to_owned()))
    }
    async fn put_each(&self, bucket: Bucket, writes: Vec<Write>) -> Result<Vec<Put>, Fault> {
        for write in &writes {
            small_enough(write.value.len())?;
        }
        let (reply, answer) = oneshot::channel();
        let count = writes.len();
        let job = Job::Put {
            bucket,
            writes,
            reply,
        };
        let outcomes = self.ask(job, answer).await?;
        Ok(outcomes.unwrap_or_else(|| vec![Put::Unknown; count]))
    }
    async fn list(&self, bucket: Bucket, prefix: &Key) -> Result<Snapshot, Fault> {
        let prefix = prefix.clone();
        self.read(move |conn| {
            rows::list(conn, bucket, &prefix).map(|snapshot| (snapshot.at.epoch, snapshot))
        })
        .await
    }
    async fn list_part(
        &self,
        bucket: Bucket,
        prefix: &Key,
        after: Option<&Key>,
        most: usize,
    ) -> Result<Snapshot, Fault> {
        let (prefix, after) = (prefix.clone(), after.cloned());
        self.read(move |conn| {
            let part = rows::list_part(conn, bucket, &prefix, after.as_ref(), most);
            part.map(|snapshot| (snapshot.at.epoch, snapshot))
        })
        .await
    }
    async fn watch(&self, bucket: Bucket, prefix: &Key) -> Result<Box<dyn Watch>, Fault> {
        let Some(writer) = &self.writer else {
            let head = self.head().await?;
            let reads = Arc::clone(&self.reads);
            return Ok(Box::new(peek::PollingWatch::new(reads, head)));
        };
        let changes = writer.changes.subscribe();
        writer.worker.send(Job::Wake);
        Ok(Box::new(watch::PrefixWatch::new(
            bucket,
            prefix.clone(),
            changes,
        )))
    }
    async fn append(&self, lines: Vec<(Key, String)>) -> Result<(), Fault> {
        for (_, text) in &lines {
            small_enough(text.len())?;
        }
        let (reply, answer) = oneshot::channel();
        let added = self.ask(Job::Append { lines, reply }, answer).await?;
        added.ok_or_else(stopped)
    }
    async fn history(&self, prefix: &Key, after: u64, limit: usize) -> Result<Vec<LogLine>, Fault> {
        let prefix = prefix.clone();
        self.read(move |conn| {
            let tx = conn.unchecked_transaction()?;
            let lines = rows::history(&tx, &prefix, after, limit)?;
            Ok((rows::head(&tx)?.epoch, lines))
        })
        .await
    }
    async fn health(&self) -> Health {
        let head = self.head().await;
        let gauge = self.writer.as_ref().map(|writer| &writer.gauge);
        let known = gauge.map_or(0, |gauge| gauge.seq.load(Ordering::Relaxed));
        Health {
            readable: head.is_ok(),
            writable: head.is_ok() && gauge.is_some_and(|g| g.writable.load(Ordering::Relaxed)),
            epoch: self.epoch,
            seq: head.map_or(known, |head| head.seq),
        }
    }
}

fn fault(trouble: Trouble) -> Fault {
    match trouble {
        Trouble::Full(text) => Fault::Full(text),
        Trouble::Unreachable(text) => Fault::Unreachable(text),
        Trouble::Corrupt(text) => Fault::Corrupt(text),
        Trouble::Replaced => Fault::EpochChanged,
    }
}
fn sql_fault(error: &rusqlite::Error) -> Fault {
    fault(sqlite::trouble(error))
}
fn io_fault(error: &std::io::Error) -> Fault {
    fault(sqlite::file_trouble(error))
}
fn open_fault(error: OpenFault) -> Fault {
    match error {
        OpenFault::Trouble(trouble) => fault(trouble),
        OpenFault::Newer(found) => Fault::Newer {
            found,
            known: SCHEMA,
        },
    }
}
