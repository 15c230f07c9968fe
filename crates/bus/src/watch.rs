//! Doorbells: what a store tells those that watch, in one process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mesh_sdk::bus::{Bucket, Key, Rung, Watch};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// How often other processes' writes are looked for, while somebody watches.
pub(crate) const LOOK: Duration = Duration::from_millis(250);
/// A watcher that is further behind than so many changes lists anew.
pub(crate) const BEHIND: usize = 256;
/// More keys than this in one commit are told as a gap: listing anew is no dearer, and what a slow
/// watcher keeps waiting stays small.
pub(crate) const MOST: usize = 1000;

/// What one commit changed.
#[derive(Debug)]
pub(crate) enum Change {
    /// These keys.
    Keys(Vec<(Bucket, Key)>),
    /// Too much to tell, or not known, in these buckets.
    Gap(Vec<Bucket>),
}

impl Change {
    /// Of these keys, told as a gap if they are many.
    pub(crate) fn of(keys: Vec<(Bucket, Key)>) -> Self {
        if keys.len() <= MOST {
            return Change::Keys(keys);
        }
        let holds = |bucket: &Bucket| keys.iter().any(|(of, _)| of == bucket);
        Change::Gap(Bucket::ALL.into_iter().filter(holds).collect())
    }
    /// Anything anywhere.
    pub(crate) fn anything() -> Self {
        Change::Gap(Bucket::ALL.to_vec())
    }
    /// Whether nothing changed.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Change::Keys(keys) if keys.is_empty())
    }
}

/// A watch on one prefix.
pub(crate) struct PrefixWatch {
    bucket: Bucket,
    prefix: Key,
    changes: Receiver<Arc<Change>>,
    /// The commit that is being told, and how far.
    telling: Option<(Arc<Change>, usize)>,
    closed: bool,
}

impl PrefixWatch {
    pub(crate) fn new(bucket: Bucket, prefix: Key, changes: Receiver<Arc<Change>>) -> Self {
        Self {
            bucket,
            prefix,
            changes,
            telling: None,
            closed: false,
        }
    }
    /// The next ring out of the commit that is being told.
    fn rung(&mut self) -> Option<Rung> {
        let (change, told) = self.telling.as_mut()?;
        let keys = match change.as_ref() {
            Change::Keys(keys) => keys,
            Change::Gap(buckets) => {
                let ours = buckets.contains(&self.bucket);
                self.telling = None;
                return ours.then_some(Rung::Gap);
            }
        };
        while let Some((bucket, key)) = keys.get(*told) {
            *told += 1;
            if *bucket == self.bucket && key.is_under(&self.prefix) {
                return Some(Rung::Changed(key.clone()));
            }
        }
        self.telling = None;
        None
    }
}

#[async_trait]
impl Watch for PrefixWatch {
    async fn next(&mut self) -> Rung {
        loop {
            if let Some(rung) = self.rung() {
                return rung;
            }
            match self.changes.recv().await {
                Ok(change) => self.telling = Some((change, 0)),
                Err(RecvError::Lagged(_)) => return Rung::Gap,
                Err(RecvError::Closed) if self.closed => std::future::pending().await,
                Err(RecvError::Closed) => {
                    self.closed = true;
                    return Rung::Gap;
                }
            }
        }
    }
}
