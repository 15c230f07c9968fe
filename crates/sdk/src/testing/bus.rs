//! A bus in memory, with trouble on demand.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::{Trace, lock};
use crate::bus::{
    Bucket, Bus, Entry, Epoch, Expect, Fault, Health, Key, LogLine, Put, Rev, Rung, Snapshot,
    Watch, Write,
};

/// What goes wrong with a write.
#[derive(Debug, Clone)]
pub enum Trouble {
    /// The whole call fails, and nothing is written.
    Fail(Fault),
    /// The whole call fails, and yet everything was written.
    FailAfter(Fault),
    /// The write at this place of the batch meets something else.
    Conflict(usize),
    /// The write at this place is done, and its outcome is not known.
    UnknownDone(usize),
    /// The write at this place is not done, and its outcome is not known.
    UnknownLost(usize),
    /// It takes so long.
    Delay(Duration),
    /// It never returns.
    Hang,
}

/// A [`Bus`] in memory. Clones share the store, as two processes on one file would.
#[derive(Debug, Clone)]
pub struct MemoryBus {
    inner: Arc<Mutex<Inner>>,
    rings: broadcast::Sender<(Bucket, Key)>,
    trace: Trace,
}

#[derive(Debug)]
struct Inner {
    epoch: u64,
    seq: u64,
    entries: BTreeMap<(Bucket, Key), (Rev, Vec<u8>)>,
    lines: Vec<LogLine>,
    trouble: HashMap<Bucket, VecDeque<Trouble>>,
    full: Option<Fault>,
    unreadable: Option<Fault>,
    writes: HashMap<Bucket, usize>,
    calls: HashMap<Bucket, usize>,
}

impl Default for MemoryBus {
    fn default() -> Self {
        Self::new(Trace::default())
    }
}

impl MemoryBus {
    /// An empty one, whose writes lead through a trace.
    pub fn new(trace: Trace) -> Self {
        let inner = Inner {
            epoch: 1,
            seq: 0,
            entries: BTreeMap::new(),
            lines: Vec::new(),
            trouble: HashMap::new(),
            full: None,
            unreadable: None,
            writes: HashMap::new(),
            calls: HashMap::new(),
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
            rings: broadcast::channel(1024).0,
            trace,
        }
    }
    /// The next writing call on this bucket meets this trouble; several wait in turn.
    pub fn trouble(&self, bucket: Bucket, trouble: Trouble) {
        let mut inner = lock(&self.inner);
        inner.trouble.entry(bucket).or_default().push_back(trouble);
    }
    /// Every write fails so until it is set to `None`, the history's too.
    pub fn set_full(&self, fault: Option<Fault>) {
        lock(&self.inner).full = fault;
    }
    /// Every read fails so until it is set to `None`.
    pub fn set_unreadable(&self, fault: Option<Fault>) {
        lock(&self.inner).unreadable = fault;
    }
    /// Everything is gone, and it is another epoch (B-6).
    pub fn wipe(&self) {
        let mut inner = lock(&self.inner);
        inner.entries.clear();
        inner.lines.clear();
        inner.epoch += 1;
        inner.seq = 0;
    }
    /// Puts bytes there, whatever was there.
    pub fn put(&self, bucket: Bucket, key: Key, value: Vec<u8>) {
        lock(&self.inner).store(bucket, key, value);
    }
    /// Values written to a bucket so far.
    pub fn writes(&self, bucket: Bucket) -> usize {
        lock(&self.inner).writes.get(&bucket).copied().unwrap_or(0)
    }
    /// Writing calls on a bucket so far: each is one synced commit.
    pub fn commits(&self, bucket: Bucket) -> usize {
        lock(&self.inner).calls.get(&bucket).copied().unwrap_or(0)
    }
    /// The values of a bucket, parsed.
    pub fn values(&self, bucket: Bucket) -> Vec<serde_json::Value> {
        let inner = lock(&self.inner);
        let of_bucket = inner.entries.iter().filter(|((b, _), _)| *b == bucket);
        of_bucket
            .filter_map(|(_, (_, value))| serde_json::from_slice(value).ok())
            .collect()
    }
    /// The history, whole.
    pub fn lines(&self) -> Vec<LogLine> {
        lock(&self.inner).lines.clone()
    }

    async fn meet(&self, bucket: Bucket) -> Result<Option<Trouble>, Fault> {
        let trouble = {
            let mut inner = lock(&self.inner);
            *inner.calls.entry(bucket).or_default() += 1;
            if let Some(fault) = &inner.full {
                return Err(fault.clone());
            }
            inner.trouble.get_mut(&bucket).and_then(VecDeque::pop_front)
        };
        match trouble {
            Some(Trouble::Fail(fault)) => Err(fault),
            Some(Trouble::Delay(span)) => {
                tokio::time::sleep(span).await;
                Ok(None)
            }
            Some(Trouble::Hang) => std::future::pending().await,
            other => Ok(other),
        }
    }
    fn readable(&self) -> Result<(), Fault> {
        lock(&self.inner).unreadable.clone().map_or(Ok(()), Err)
    }
}

impl Inner {
    fn store(&mut self, bucket: Bucket, key: Key, value: Vec<u8>) -> Rev {
        self.seq += 1;
        let rev = Rev {
            epoch: Epoch(self.epoch),
            seq: self.seq,
        };
        self.entries.insert((bucket, key), (rev, value));
        *self.writes.entry(bucket).or_default() += 1;
        rev
    }
    fn put_if(&mut self, bucket: Bucket, write: Write) -> Put {
        let there = self.entries.get(&(bucket, write.key.clone()));
        let as_expected = match (write.expect, there) {
            (Expect::Absent, None) => true,
            (Expect::At(rev), Some((found, _))) => rev == *found,
            _ => false,
        };
        if !as_expected {
            return Put::Conflict;
        }
        Put::Done(self.store(bucket, write.key, write.value))
    }
}

#[async_trait]
impl Bus for MemoryBus {
    async fn get(&self, bucket: Bucket, key: &Key) -> Result<Option<Entry>, Fault> {
        self.readable()?;
        let inner = lock(&self.inner);
        let found = inner.entries.get(&(bucket, key.clone()));
        Ok(found.map(|(rev, value)| Entry {
            key: key.clone(),
            rev: *rev,
            value: value.clone(),
        }))
    }
    async fn put_if(&self, bucket: Bucket, write: Write) -> Result<Put, Fault> {
        let puts = self.put_each(bucket, vec![write]).await?;
        Ok(puts.first().copied().unwrap_or(Put::Unknown))
    }
    async fn put_each(&self, bucket: Bucket, writes: Vec<Write>) -> Result<Vec<Put>, Fault> {
        let n = writes.len();
        self.trace
            .step(|| format!("bus: write {n} to {}", bucket.as_str()))
            .await;
        let trouble = self.meet(bucket).await?;
        let puts = {
            let mut inner = lock(&self.inner);
            let put = |(i, write): (usize, Write)| {
                let key = write.key.clone();
                let put = match trouble {
                    Some(Trouble::Conflict(at)) if at == i => Put::Conflict,
                    Some(Trouble::UnknownLost(at)) if at == i => Put::Unknown,
                    Some(Trouble::UnknownDone(at)) if at == i => {
                        inner.put_if(bucket, write);
                        Put::Unknown
                    }
                    _ => inner.put_if(bucket, write),
                };
                if matches!(put, Put::Done(_)) {
                    drop(self.rings.send((bucket, key)));
                }
                put
            };
            writes.into_iter().enumerate().map(put).collect()
        };
        self.trace
            .step(|| format!("bus: written {n} to {}", bucket.as_str()))
            .await;
        match trouble {
            Some(Trouble::FailAfter(fault)) => Err(fault),
            _ => Ok(puts),
        }
    }
    async fn list(&self, bucket: Bucket, prefix: &Key) -> Result<Snapshot, Fault> {
        self.readable()?;
        let inner = lock(&self.inner);
        let under = inner
            .entries
            .iter()
            .filter(|((b, key), _)| *b == bucket && key.is_under(prefix));
        let entries = under.map(|((_, key), (rev, value))| Entry {
            key: key.clone(),
            rev: *rev,
            value: value.clone(),
        });
        Ok(Snapshot {
            at: Rev {
                epoch: Epoch(inner.epoch),
                seq: inner.seq,
            },
            entries: entries.collect(),
        })
    }
    async fn watch(&self, bucket: Bucket, prefix: &Key) -> Result<Box<dyn Watch>, Fault> {
        self.readable()?;
        Ok(Box::new(MemoryWatch {
            rings: self.rings.subscribe(),
            bucket,
            prefix: prefix.clone(),
        }))
    }
    async fn append(&self, lines: Vec<(Key, String)>) -> Result<(), Fault> {
        self.trace.step(|| "bus: append".to_owned()).await;
        let mut inner = lock(&self.inner);
        if let Some(fault) = &inner.full {
            return Err(fault.clone());
        }
        for (subject, value) in lines {
            let seq = inner.lines.len() as u64 + 1;
            let subject = subject.as_str().to_owned();
            inner.lines.push(LogLine {
                seq,
                subject,
                value,
            });
        }
        Ok(())
    }
    async fn history(&self, prefix: &Key, after: u64, limit: usize) -> Result<Vec<LogLine>, Fault> {
        self.readable()?;
        let inner = lock(&self.inner);
        let matching = |line: &&LogLine| {
            line.seq > after && Key::from_stored(line.subject.clone()).is_under(prefix)
        };
        let mut newest: Vec<LogLine> = inner.lines.iter().rev().filter(matching).cloned().collect();
        newest.truncate(limit);
        newest.reverse();
        Ok(newest)
    }
    async fn health(&self) -> Health {
        let inner = lock(&self.inner);
        Health {
            readable: inner.unreadable.is_none(),
            writable: inner.full.is_none(),
            epoch: Epoch(inner.epoch),
            seq: inner.seq,
        }
    }
}

struct MemoryWatch {
    rings: broadcast::Receiver<(Bucket, Key)>,
    bucket: Bucket,
    prefix: Key,
}

#[async_trait]
impl Watch for MemoryWatch {
    async fn next(&mut self) -> Rung {
        loop {
            match self.rings.recv().await {
                Ok((bucket, key)) if bucket == self.bucket && key.is_under(&self.prefix) => {
                    return Rung::Changed(key);
                }
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return Rung::Gap,
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}
