//! The high-water mark beside the store: what tells a wiped or older store from the one that was here.
//!
//! It names two edges. The store has surely `reached` the lower one: it was committed when the mark was
//! written. It never gives out a revision above `reserved`, so no revision is ever used for two things,
//! even when an older copy put back goes unnoticed. The mark is written for a block of revisions at a
//! time, and only under the store's write lock, so that processes cannot undo each other's.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use mesh_sdk::bus::{Epoch, Fault};
use serde::{Deserialize, Serialize};

use super::io_fault;

use crate::files;

/// The mark's file.
const FILE: &str = "epoch.json";
/// So many revisions are reserved ahead.
const BLOCK: u64 = 10_000;

/// The mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HighWater {
    /// The installation that uses this folder.
    pub(super) installation: String,
    /// The newest epoch.
    pub(super) epoch: u64,
    /// The store surely holds this revision or a newer one.
    pub(super) reached: u64,
    /// No newer revision than this was ever given out.
    pub(super) reserved: u64,
}

/// What lies where the mark should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// The mark.
    Mark(HighWater),
    /// Nothing.
    Missing,
    /// Something that is no mark.
    Damaged,
}

/// Where the mark of a folder lies.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// Reads the mark. Errors: it is there and cannot be read.
pub(super) fn read(folder: &Path) -> io::Result<Seen> {
    let bytes = match fs::read(path(folder)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Seen::Missing),
        Err(error) => return Err(error),
    };
    Ok(match serde_json::from_slice(&bytes) {
        Ok(mark) => Seen::Mark(mark),
        Err(_) => Seen::Damaged,
    })
}

/// Writes the mark, synced.
pub(super) fn write(folder: &Path, mark: &HighWater) -> io::Result<()> {
    let bytes = serde_json::to_vec(mark).map_err(io::Error::other)?;
    files::write_whole(&path(folder), &bytes)
}

/// Says that this installation used the folder, if neither a store nor a mark lies there: the store that is
/// begun next is then one that was wiped, and nobody counts as new on it (B-6, H-22). Its last epoch is not
/// known.
pub fn remind(folder: &Path, installation: &str) -> Result<(), Fault> {
    let missing = matches!(read(folder).map_err(|e| io_fault(&e))?, Seen::Missing);
    if !missing || folder.join(super::FILE).exists() {
        return Ok(());
    }
    let mark = HighWater {
        installation: installation.to_owned(),
        epoch: 1,
        reached: 1,
        reserved: 1,
    };
    write(folder, &mark).map_err(|e| io_fault(&e))
}

/// What the high-water mark must say before a commit.
pub(super) struct Edge<'a> {
    /// The installation.
    pub(super) installation: &'a str,
    /// The epoch of the store.
    pub(super) epoch: Epoch,
    /// What it holds now.
    pub(super) reached: u64,
    /// The newest revision that the commit may give out.
    pub(super) wanted: u64,
}

impl Edge<'_> {
    /// Reads the mark anew, since other processes move it too, and writes it if it does not cover what
    /// is wanted or if it is `due`. Answers whether it was written.
    pub(super) fn keep(&self, folder: &Path, due: bool) -> Result<bool, Fault> {
        let seen = read(folder).map_err(|e| io_fault(&e))?;
        let reserved = match seen {
            Seen::Mark(mark) if mark.epoch == self.epoch.0 && mark.reserved >= self.wanted => {
                if !due || mark.reached >= self.reached {
                    return Ok(false);
                }
                mark.reserved
            }
            _ => self.wanted.saturating_add(BLOCK),
        };
        let mark = HighWater {
            installation: self.installation.to_owned(),
            epoch: self.epoch.0,
            reached: self.reached,
            reserved,
        };
        write(folder, &mark).map_err(|e| io_fault(&e))?;
        Ok(true)
    }
}

/// Why a store was given a new epoch when it was opened.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replaced {
    /// The file was gone or empty, although it had been in use.
    Wiped,
    /// An older copy was put back: it ends before what it had surely reached.
    Older {
        /// Its newest revision.
        seq: u64,
        /// What it had reached.
        reached: u64,
    },
    /// It is a copy from before an earlier replacement.
    OlderEpoch {
        /// Its epoch.
        epoch: u64,
        /// The newest epoch of this folder.
        newest: u64,
    },
    /// The file comes from another installation.
    OtherInstallation {
        /// The one that this folder was used by.
        before: String,
        /// The one in the file.
        now: String,
    },
    /// The high-water mark is gone, so whether this is the newest state cannot be told.
    NoMark,
    /// The high-water mark cannot be understood, so neither can that.
    DamagedMark,
}

impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Replaced::Wiped => write!(f, "the store was gone; a new one was begun"),
            Replaced::Older { seq, reached } => write!(
                f,
                "an older copy of the store was put back: it ends at revision {seq}, and {reached} had been reached"
            ),
            Replaced::OlderEpoch { epoch, newest } => write!(
                f,
                "an older copy of the store was put back: it is of epoch {epoch}, and {newest} had been reached"
            ),
            Replaced::OtherInstallation { before, now } => write!(
                f,
                "the store is that of installation {now}, and this folder was used by {before}"
            ),
            Replaced::NoMark => write!(
                f,
                "{FILE} is missing beside the store, so whether it is the newest state cannot be told"
            ),
            Replaced::DamagedMark => write!(
                f,
                "{FILE} beside the store is damaged, so whether it is the newest state cannot be told"
            ),
        }
    }
}
