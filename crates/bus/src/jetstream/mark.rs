//! The mark in the data folder: what tells a bus that was wiped, made anew or restored from the one that
//! this folder used last.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use serde::{Deserialize, Serialize};

use crate::files;

/// The mark's file. Not the embedded store's: a folder may have used both.
pub(super) const FILE: &str = "nats-epoch.json";

/// What the bus says of itself, in a value of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meta {
    /// The installation that it belongs to.
    pub(super) installation: String,
    /// Its epoch.
    pub(super) epoch: u64,
    /// Which layout.
    pub(super) schema: u32,
}

/// The mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// The installation.
    pub(super) installation: String,
    /// The newest epoch that this folder saw.
    pub(super) epoch: u64,
    /// When the stream was made, as its server says.
    pub(super) created: String,
    /// The bus surely held this revision.
    pub(super) reached: u64,
    /// Why the bus is not the one that was used last, until that was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) replaced: Option<Replaced>,
}

/// What lies where the mark should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// The mark.
    Mark(Mark),
    /// Nothing.
    Missing,
    /// Something that is no mark.
    Damaged,
}

/// Where it lies.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// Reads it. Errors: it is there and cannot be read.
pub(super) fn read(folder: &Path) -> io::Result<Seen> {
    match fs::read(path(folder)) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).map_or(Seen::Damaged, Seen::Mark)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Seen::Missing),
        Err(error) => Err(error),
    }
}

/// The installation that a data folder used a bus on NATS for last, if it ever did.
pub fn installation_of(folder: &Path) -> io::Result<Option<String>> {
    Ok(match read(folder)? {
        Seen::Mark(mark) => Some(mark.installation),
        Seen::Missing | Seen::Damaged => None,
    })
}

/// Writes it, synced.
pub(super) fn write(folder: &Path, mark: &Mark) -> io::Result<()> {
    let bytes = serde_json::to_vec(mark).map_err(io::Error::other)?;
    files::write_whole(&path(folder), &bytes)
}

/// Why a bus is not the one that a data folder used last.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replaced {
    /// Its stream was deleted and made again.
    MadeAgain,
    /// It holds nothing, not even what it is.
    Wiped,
    /// An older copy was restored: it ends before what it had surely reached.
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
        /// The newest that this folder saw.
        newest: u64,
    },
    /// Somebody else saw it replaced and began this epoch.
    NewerEpoch {
        /// Its epoch.
        epoch: u64,
        /// The one that this folder used.
        before: u64,
    },
    /// This folder never used it, so whether it is the newest state cannot be told.
    NoMark,
    /// The mark cannot be understood, so neither can that.
    DamagedMark,
}

impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Replaced::MadeAgain => write!(f, "the bus's stream was deleted and made again"),
            Replaced::Wiped => write!(f, "the bus was emptied"),
            Replaced::Older { seq, reached } => write!(
                f,
                "an older copy of the bus was restored: it ends at revision {seq}, and {reached} had been reached"
            ),
            Replaced::OlderEpoch { epoch, newest } => write!(
                f,
                "an older copy of the bus was restored: it is of epoch {epoch}, and {newest} had been reached"
            ),
            Replaced::NewerEpoch { epoch, before } => write!(
                f,
                "the bus was replaced meanwhile: it is of epoch {epoch}, and this data folder used {before}"
            ),
            Replaced::NoMark => write!(
                f,
                "this data folder did not use this bus before ({FILE} is missing), so whether it is the newest state cannot be told"
            ),
            Replaced::DamagedMark => write!(
                f,
                "{FILE} is damaged, so whether the bus is in its newest state cannot be told"
            ),
        }
    }
}

/// What was found, and what is to be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    /// What the bus must say of itself now.
    pub(super) meta: Meta,
    /// Whether that differs from what it says.
    pub(super) redate: bool,
    /// Why it is not the bus that was used last.
    pub(super) replaced: Option<Replaced>,
}

/// Which stream it is, and how far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream<'s> {
    pub(super) created: &'s str,
    pub(super) last_seq: u64,
}

/// Compares the bus with the mark. `None`: nothing was ever begun there, and this folder knows nothing.
///
/// Only what proves that numbers may have been given out twice begins a new epoch. A folder without a
/// mark does not: other hosts may be at work on the same bus.
pub(super) fn judge(meta: Option<&Meta>, mark: &Seen, stream: Stream<'_>) -> Option<Verdict> {
    let Some(meta) = meta else {
        let Seen::Mark(mark) = mark else { return None };
        let meta = Meta {
            installation: mark.installation.clone(),
            epoch: mark.epoch + 1,
            schema: super::SCHEMA,
        };
        return Some(Verdict {
            meta,
            redate: true,
            replaced: Some(Replaced::Wiped),
        });
    };
    let (why, redate) = difference(meta, mark, stream);
    let newest = match mark {
        Seen::Mark(mark) => mark.epoch.max(meta.epoch),
        _ => meta.epoch,
    };
    let told_before = match mark {
        Seen::Mark(mark) => mark.replaced.clone(),
        _ => None,
    };
    Some(Verdict {
        meta: Meta {
            epoch: if redate { newest + 1 } else { meta.epoch },
            ..meta.clone()
        },
        redate,
        replaced: why.or(told_before),
    })
}

fn difference(meta: &Meta, mark: &Seen, stream: Stream<'_>) -> (Option<Replaced>, bool) {
    let mark = match mark {
        Seen::Missing => return (Some(Replaced::NoMark), false),
        Seen::Damaged => return (Some(Replaced::DamagedMark), false),
        Seen::Mark(mark) => mark,
    };
    if meta.epoch > mark.epoch {
        if stream.created != mark.created {
            return (Some(Replaced::MadeAgain), false);
        }
        let (epoch, before) = (meta.epoch, mark.epoch);
        return (Some(Replaced::NewerEpoch { epoch, before }), false);
    }
    if meta.epoch < mark.epoch {
        let (epoch, newest) = (meta.epoch, mark.epoch);
        return (Some(Replaced::OlderEpoch { epoch, newest }), true);
    }
    if stream.created != mark.created {
        return (Some(Replaced::MadeAgain), true);
    }
    if stream.last_seq < mark.reached {
        let (seq, reached) = (stream.last_seq, mark.reached);
        return (Some(Replaced::Older { seq, reached }), true);
    }
    (None, false)
}

#[cfg(test)]
mod tests {
    //! B-6: every way in which a bus can be another one has its verdict.
    use super::*;

    fn meta(epoch: u64) -> Meta {
        Meta {
            installation: "inst1".to_owned(),
            epoch,
            schema: 1,
        }
    }
    fn mark(epoch: u64, reached: u64) -> Mark {
        Mark {
            installation: "inst1".to_owned(),
            epoch,
            created: "t1".to_owned(),
            reached,
            replaced: None,
        }
    }
    fn judged(meta: Option<Meta>, mark: Seen, created: &str, last_seq: u64) -> Option<Verdict> {
        judge(meta.as_ref(), &mark, Stream { created, last_seq })
    }

    #[test]
    fn b6_the_bus_that_was_used_last_is_known() {
        let verdict = judged(Some(meta(2)), Seen::Mark(mark(2, 10)), "t1", 10).expect("verdict");
        assert_eq!((verdict.redate, verdict.replaced), (false, None));
        assert_eq!(verdict.meta, meta(2));
    }

    #[test]
    fn b6_numbers_that_were_given_out_twice_begin_a_new_epoch() {
        let cases = [
            (judged(Some(meta(2)), Seen::Mark(mark(2, 11)), "t1", 10), 3),
            (judged(Some(meta(2)), Seen::Mark(mark(2, 10)), "t2", 10), 3),
            (judged(Some(meta(1)), Seen::Mark(mark(4, 10)), "t1", 99), 5),
            (judged(None, Seen::Mark(mark(4, 10)), "t2", 0), 5),
        ];
        for (verdict, epoch) in cases {
            let verdict = verdict.expect("verdict");
            assert!(verdict.redate && verdict.replaced.is_some(), "{verdict:?}");
            assert_eq!(verdict.meta.epoch, epoch);
        }
    }

    #[test]
    fn b6_what_cannot_be_told_is_said_and_disturbs_no_other_host() {
        for seen in [Seen::Missing, Seen::Damaged, Seen::Mark(mark(1, 0))] {
            let verdict = judged(Some(meta(2)), seen, "t1", 10).expect("verdict");
            assert!(!verdict.redate && verdict.replaced.is_some(), "{verdict:?}");
        }
        assert_eq!(judged(None, Seen::Missing, "t1", 0), None);
    }

    #[test]
    fn b6_a_verdict_comes_back_until_it_was_told() {
        let mut told = mark(2, 10);
        told.replaced = Some(Replaced::MadeAgain);
        let verdict = judged(Some(meta(2)), Seen::Mark(told), "t1", 10).expect("verdict");
        assert_eq!(verdict.replaced, Some(Replaced::MadeAgain));
        assert!(!verdict.redate);
    }
}
