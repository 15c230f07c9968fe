//! What an open bus knows of its store, and how it sees that this is no longer the store that it opened.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mesh_sdk::bus::{Bucket, Epoch, Fault, Key, Rev};

use super::api::{Api, StreamInfo, Trouble};
use super::mark::{self, Mark, Meta, Replaced, Seen};
use super::names::Names;

/// How often the guard looks.
pub(super) const GUARD: Duration = Duration::from_secs(5);
/// So many looks in a row must find the store behind before that is believed: a server that was cut off
/// may still answer for a while as if it led.
const BELIEVED: u64 = 3;

/// What an open bus knows.
pub(super) struct Seat {
    pub(super) api: Api,
    pub(super) names: Names,
    pub(super) meta: Meta,
    /// When the stream was made.
    pub(super) created: String,
    /// The longest value.
    pub(super) limit: usize,
    /// Where the mark lies; a bus that only reads has none.
    pub(super) folder: Option<PathBuf>,
    /// Why the bus was not the one that this folder used last, until that was told.
    pub(super) replaced: Mutex<Option<Replaced>>,
    /// The newest revision that was seen.
    high: AtomicU64,
    /// The store is another one now.
    gone: AtomicBool,
    /// The last write was taken.
    writable: AtomicBool,
    /// Looks in a row that found the store behind.
    behind: AtomicU64,
    /// The newest revision of what this process wrote, by a digest of bucket and key.
    own: Mutex<HashMap<u64, u64>>,
}

impl Seat {
    pub(super) fn new(api: Api, names: Names, meta: Meta, created: String, high: u64) -> Self {
        Self {
            api,
            names,
            meta,
            created,
            limit: 0,
            folder: None,
            replaced: Mutex::new(None),
            high: AtomicU64::new(high),
            gone: AtomicBool::new(false),
            writable: AtomicBool::new(true),
            behind: AtomicU64::new(0),
            own: Mutex::default(),
        }
    }
    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.meta.epoch)
    }
    pub(super) fn rev(&self, seq: u64) -> Rev {
        let epoch = self.epoch();
        Rev { epoch, seq }
    }
    /// The newest revision that was seen.
    pub(super) fn high(&self) -> u64 {
        self.high.load(Ordering::Acquire)
    }
    pub(super) fn saw(&self, seq: u64) {
        self.high.fetch_max(seq, Ordering::AcqRel);
    }
    pub(super) fn writable(&self) -> bool {
        self.writable.load(Ordering::Relaxed)
    }
    pub(super) fn set_writable(&self, yes: bool) {
        self.writable.store(yes, Ordering::Relaxed);
    }
    /// Errors if the store is known to be another one than was opened.
    pub(super) fn still(&self) -> Result<(), Fault> {
        if self.gone.load(Ordering::Acquire) {
            return Err(Fault::EpochChanged);
        }
        Ok(())
    }
    fn give_up(&self, why: &str) -> Fault {
        if !self.gone.swap(true, Ordering::AcqRel) {
            tracing::error!(target: "mesh_bus", "the bus was replaced while in use: {why}");
        }
        Fault::EpochChanged
    }

    /// Takes an acknowledged write, which was sent when `before` was the newest revision known. A number
    /// that is not newer was given out by another store: only one with a quorum gives any.
    pub(super) fn acknowledged(&self, before: u64, seq: u64) -> Result<(), Fault> {
        if seq <= before {
            return Err(self.give_up("a write was given a number that was given out before"));
        }
        self.saw(seq);
        self.set_writable(true);
        Ok(())
    }
    /// Remembers an own write of a key.
    pub(super) fn wrote(&self, bucket: Bucket, key: &Key, seq: u64) {
        if let Ok(mut own) = self.own.lock() {
            let newest = own.entry(digest(bucket, key)).or_default();
            *newest = seq.max(*newest);
        }
    }
    /// The newest revision that this process wrote of a key: what is read from now on may not be older.
    pub(super) fn newest_own(&self, bucket: Bucket, key: &Key) -> u64 {
        let own = self.own.lock().ok();
        let newest = own.and_then(|own| own.get(&digest(bucket, key)).copied());
        newest.unwrap_or(0)
    }

    /// Reads what the stream is, and sees to it that it is the one that was opened.
    pub(super) async fn look(&self) -> Result<StreamInfo, Fault> {
        self.still()?;
        let before = self.high();
        let info = self.api.info(&self.names.state).await;
        let info = info.map_err(Trouble::fault)?;
        self.judge(before, &info)?;
        Ok(info)
    }
    /// Judges what the stream is said to be, asked for when `before` was the newest revision known.
    pub(super) fn judge(&self, before: u64, info: &StreamInfo) -> Result<(), Fault> {
        if info.created != self.created {
            return Err(self.give_up("its stream was deleted and made again"));
        }
        if info.state.last_seq < before {
            let text = "a server answered from an older state of the bus: it lags behind, or it was restored";
            return Err(Fault::Unreachable(text.to_owned()));
        }
        if !info.has_majority() {
            let text = "the server that leads the bus has lost the majority of its copies";
            return Err(Fault::Unreachable(text.to_owned()));
        }
        self.saw(info.state.last_seq);
        Ok(())
    }

    /// Looks for ever whether the store is still the one that was opened, and moves the mark on.
    pub(super) async fn guard(&self) {
        let mut marked = 0;
        loop {
            tokio::time::sleep(GUARD).await;
            if self.still().is_err() {
                return;
            }
            self.guard_once().await;
            let high = self.high();
            if high > marked && self.keep_mark() {
                marked = high;
            }
        }
    }
    async fn guard_once(&self) {
        let before = self.high();
        let Ok(info) = self.api.info(&self.names.state).await else {
            return;
        };
        let behind = info.created == self.created && info.state.last_seq < before;
        if behind {
            if self.behind.fetch_add(1, Ordering::AcqRel) + 1 >= BELIEVED {
                self.give_up("it ends before a revision that was seen: an older copy was restored");
            }
            return;
        }
        self.behind.store(0, Ordering::Release);
        if self.judge(before, &info).is_err() {
            return;
        }
        let meta = super::read::meta(&self.api, &self.names).await;
        match meta {
            Ok(Some((meta, _))) if meta != self.meta => {
                self.give_up("it is of another epoch now");
            }
            _ => {}
        }
    }

    /// Writes the mark, unless this bus only reads or is another one now. Answers whether it is there.
    pub(super) fn keep_mark(&self) -> bool {
        let Some(folder) = &self.folder else {
            return true;
        };
        if self.still().is_err() {
            return false;
        }
        // Another process may use the same folder: the mark never goes back.
        let mut reached = self.high();
        if let Ok(Seen::Mark(there)) = mark::read(folder)
            && there.created == self.created
        {
            if there.epoch > self.meta.epoch {
                return true;
            }
            reached = reached.max(there.reached);
        }
        let replaced = self.replaced.lock().map(|why| why.clone());
        let mark = Mark {
            installation: self.meta.installation.clone(),
            epoch: self.meta.epoch,
            created: self.created.clone(),
            reached,
            replaced: replaced.unwrap_or_default(),
        };
        match mark::write(folder, &mark) {
            Ok(()) => true,
            Err(error) => {
                let path = mark::path(folder);
                tracing::warn!(target: "mesh_bus", path = %path.display(), "the mark of the bus cannot be written: {error}");
                false
            }
        }
    }
}

fn digest(bucket: Bucket, key: &Key) -> u64 {
    let mut hasher = DefaultHasher::new();
    (bucket, key).hash(&mut hasher);
    hasher.finish()
}
