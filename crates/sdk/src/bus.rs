//! The contract of the bus: where loops keep shared state and talk.
//!
//! Small on purpose, so that an embedded store and NATS JetStream keep the same promises: what one of
//! them cannot keep is not here. There is no delete: no state is told by a key that is missing (B-5);
//! `retired`, `cleared` and `released` are values.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// The buckets. A closed list, so that every store makes the same ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bucket {
    /// The last good wish, whole: per provider which consumers with which logins; no secret.
    Wish,
    /// What a harness remembers having applied, and its looks.
    Record,
    /// Which secret version is the current one of a provision, as a reference and a fingerprint (H-22).
    Version,
    /// Conditions.
    Condition,
    /// What people said: acknowledgements, silences, pauses, approvals, requests for a pass.
    Word,
    /// Loops and their beats.
    Loop,
    /// The installation itself: id, epoch, schema.
    Meta,
}

impl Bucket {
    /// Every bucket.
    pub const ALL: [Bucket; 7] = [
        Bucket::Wish,
        Bucket::Record,
        Bucket::Version,
        Bucket::Condition,
        Bucket::Word,
        Bucket::Loop,
        Bucket::Meta,
    ];
    /// Its name in keys and subjects.
    pub const fn as_str(self) -> &'static str {
        match self {
            Bucket::Wish => "wish",
            Bucket::Record => "record",
            Bucket::Version => "version",
            Bucket::Condition => "condition",
            Bucket::Word => "word",
            Bucket::Loop => "loop",
            Bucket::Meta => "meta",
        }
    }
}

/// A key: tokens joined by dots. Each token holds only `a-z`, `0-9`, `_`, `-`; other text is encoded by
/// [`Key::of`], so that a dot in a name cannot move a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// A key of tokens. A token with other characters, empty, or in need of telling apart is written as
    /// `x-` and its hexadecimal bytes.
    pub fn of(tokens: &[&str]) -> Self {
        let plain = |t: &str| {
            !t.is_empty()
                && !t.starts_with("x-")
                && t.bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
        };
        let encode = |t: &&str| {
            if plain(t) {
                (*t).to_owned()
            } else {
                t.bytes()
                    .fold(String::from("x-"), |text, b| text + &format!("{b:02x}"))
            }
        };
        Self(tokens.iter().map(encode).collect::<Vec<_>>().join("."))
    }
    /// The key's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// A key as a store gave it back.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }
    /// Whether this key is `prefix` itself or lies below it.
    pub fn is_under(&self, prefix: &Key) -> bool {
        prefix.0.is_empty()
            || self.0 == prefix.0
            || self
                .0
                .strip_prefix(&prefix.0)
                .is_some_and(|rest| rest.starts_with('.'))
    }
    /// The prefix of everything.
    pub fn everything() -> Self {
        Self(String::new())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One life of a bus. It changes when the store was replaced, wiped or restored by the words for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// A revision: of one epoch, growing with every write of any key. Two revisions of different epochs
/// cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rev {
    /// The epoch that it belongs to.
    pub epoch: Epoch,
    /// The number within it.
    pub seq: u64,
}

/// A value with its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: Key,
    /// Its revision.
    pub rev: Rev,
    /// The bytes.
    pub value: Vec<u8>,
}

/// What a write expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// No value.
    Absent,
    /// The value of this revision.
    At(Rev),
}

/// The three outcomes of a write (B-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It is on the disk, with this revision.
    Done(Rev),
    /// Something else is there; nothing was written.
    Conflict,
    /// It may or may not have happened. Read it back before anything that depends on it.
    Unknown,
}

/// One write of a batch.
#[derive(Debug, Clone)]
pub struct Write {
    /// Where.
    pub key: Key,
    /// What it expects there.
    pub expect: Expect,
    /// The new bytes.
    pub value: Vec<u8>,
}

/// A whole list. What is written while it is made may be in it or not, key by key.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Everything up to this revision that was done before the list was asked for is in it; nothing in it
    /// is newer.
    pub at: Rev,
    /// Every entry under the prefix, by key.
    pub entries: Vec<Entry>,
}

/// One line of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Its number, growing.
    pub seq: u64,
    /// The subject: dotted tokens like a key's.
    pub subject: String,
    /// The text, JSON, without secrets.
    pub value: String,
}

/// Why the bus could not serve.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It cannot be reached or opened now.
    #[error("the bus cannot be reached: {0}")]
    Unreachable(String),
    /// It takes no more: disk full, quota.
    #[error("the bus cannot write: {0}")]
    Full(String),
    /// A value over the limit.
    #[error("the value is {size} bytes, and the bus takes {limit}")]
    TooLarge {
        /// Bytes given.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// What is stored there cannot be read.
    #[error("the bus is damaged: {0}")]
    Corrupt(String),
    /// The store is of another epoch than the one that this process opened.
    #[error("the bus was replaced while in use")]
    EpochChanged,
    /// The store was written by a newer program.
    #[error(
        "the bus has schema {found}, and this program knows up to {known}: use a newer program"
    )]
    Newer {
        /// Schema found.
        found: u32,
        /// Schema known.
        known: u32,
    },
}

/// A change that a watch tells of: a doorbell, not the truth (B-7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rung {
    /// This key changed, perhaps more than once.
    Changed(Key),
    /// Something may have been missed: list everything anew.
    Gap,
}

/// How the bus is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Reads work.
    pub readable: bool,
    /// Writes work.
    pub writable: bool,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its newest revision.
    pub seq: u64,
}

/// A watch: the next doorbell, for as long as it lives.
#[async_trait]
pub trait Watch: Send {
    /// Waits for the next ring. Every change after the watch was opened is followed by `Changed` or `Gap`.
    async fn next(&mut self) -> Rung;
}

/// The bus. Values are JSON without plain secrets (B-3); keys as [`Key`] says.
#[async_trait]
pub trait Bus: Send + Sync + 'static {
    /// The value of a key, at least as new as this process's own last `Done` on it.
    async fn get(&self, bucket: Bucket, key: &Key) -> Result<Option<Entry>, Fault>;
    /// Writes if the key is as expected. One winner per revision. `Done` means on the disk (B-9).
    async fn put_if(&self, bucket: Bucket, write: Write) -> Result<Put, Fault>;
    /// Independent writes, with one synced commit where the store can. One outcome for each, in order.
    /// An error means that each of them is unknown.
    async fn put_each(&self, bucket: Bucket, writes: Vec<Write>) -> Result<Vec<Put>, Fault>;
    /// Everything under a prefix: whole, or an error.
    async fn list(&self, bucket: Bucket, prefix: &Key) -> Result<Snapshot, Fault>;
    /// The next part of what [`Bus::list`] answers, by key: what comes after `after`, and about `most`
    /// entries of it. Fewer than that: there are no more. So that not all of a big list lies in memory at
    /// once; each part is true by itself, and others may write between two of them.
    async fn list_part(
        &self,
        bucket: Bucket,
        prefix: &Key,
        after: Option<&Key>,
        _most: usize,
    ) -> Result<Snapshot, Fault> {
        let mut whole = self.list(bucket, prefix).await?;
        if let Some(after) = after {
            whole.entries.retain(|entry| entry.key > *after);
        }
        Ok(whole)
    }
    /// Doorbells for a prefix.
    async fn watch(&self, bucket: Bucket, prefix: &Key) -> Result<Box<dyn Watch>, Fault>;
    /// Adds lines to the history, in order; at least once.
    async fn append(&self, lines: Vec<(Key, String)>) -> Result<(), Fault>;
    /// The newest `limit` lines under a subject prefix with a number above `after`, oldest first.
    async fn history(&self, prefix: &Key, after: u64, limit: usize) -> Result<Vec<LogLine>, Fault>;
    /// How it is. Never an error.
    async fn health(&self) -> Health;
}

#[cfg(test)]
mod tests {
    //! Keys cannot be moved by the names in them.
    use super::*;

    #[test]
    fn a_dot_in_a_name_does_not_move_a_token() {
        assert_eq!(Key::of(&["cache", "web"]).as_str(), "cache.web");
        assert_eq!(Key::of(&["cache", "a.b"]).as_str(), "cache.x-612e62");
        assert_ne!(Key::of(&["x-612e62"]), Key::of(&["a.b"]));
        assert_ne!(Key::of(&[""]), Key::everything());
        assert!(Key::of(&["cache", "web"]).is_under(&Key::of(&["cache"])));
        assert!(!Key::of(&["cache2", "web"]).is_under(&Key::of(&["cache"])));
        assert!(Key::of(&["cache"]).is_under(&Key::everything()));
    }
}
