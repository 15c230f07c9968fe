//! What a candidate and a holder do, as pure functions: no clock, no store, nothing that waits.
//!
//! A time here is the time since some moment of the *own* process; it is never compared with anybody
//! else's.

use std::time::Duration;

use mesh_sdk::bus::{Expect, Fault, Put, Rev};
use serde::{Deserialize, Serialize};

use super::Holder;

/// How often the holder beats.
pub const BEAT: Duration = Duration::from_secs(5);
/// So long after the last beat that was surely written was sent, the holder stops.
pub const STOP_AFTER: Duration = Duration::from_secs(20);
/// A candidate that saw no beat for so long, or longer, takes the lease.
pub const SILENT: Duration = Duration::from_secs(45);
/// What each rank of a candidate adds to its patience, and the most that it adds.
const RANK: (Duration, u32) = (Duration::from_secs(2), 5);
/// So many writes without an outcome are not tried again by a candidate.
const UNKNOWN: u32 = 3;

/// How long a candidate waits that `rank` others are preferred to: [`SILENT`], and up to ten seconds more.
pub fn patience(rank: u32) -> Duration {
    SILENT + RANK.0 * rank.min(RANK.1)
}

/// Whether a holder may begin something at `now` whose last sure beat was sent at `sure`.
pub fn may_act(sure: Duration, now: Duration) -> bool {
    now < sure + STOP_AFTER
}

/// The value of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stored {
    /// None: it was given back.
    pub holder: Option<Holder>,
    /// Grows with each holder.
    pub fence: u64,
    /// Another with each write, and growing with each beat.
    pub beat: u64,
}

/// The value of a lease with its revision, as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Seen {
    /// Its revision.
    pub rev: Rev,
    /// The value.
    pub stored: Stored,
}

/// A write that a rule asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// What it expects.
    pub expect: Expect,
    /// The value.
    pub stored: Stored,
}

/// Who asks for a lease, and what it saw until now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// Who.
    pub me: Holder,
    /// So long a holder must be silent.
    pub patience: Duration,
    /// The holder's revision that was seen first, and when.
    pub watched: Option<(Rev, Duration)>,
    /// Writes without an outcome.
    pub unknown: u32,
}

/// What a candidate does on what it saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It looks again soon.
    Wait,
    /// Somebody beats: it is refused.
    Refused(Holder),
    /// It writes.
    Take(Attempt),
}

/// What a candidate's write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The lease is its own, from this revision.
    Mine(Rev),
    /// It is not there: the candidate looks anew.
    Not,
    /// Its outcome is not known: it must be read back (B-5).
    ReadBack,
    /// It is not there, and nobody says why: the candidate gives up.
    GiveUp,
}

impl Candidate {
    /// A candidate that saw nothing yet. Less patience than [`SILENT`] is not taken.
    pub fn new(me: Holder, patience: Duration) -> Self {
        Self {
            me,
            patience: patience.max(SILENT),
            watched: None,
            unknown: 0,
        }
    }
    /// It read the lease at `now`. What it writes gets `number`, which no other write of this process has:
    /// what is found later tells which try it came from.
    pub fn saw(&mut self, found: Option<&Seen>, now: Duration, number: u64) -> Step {
        let Some(Seen { rev, stored }) = found else {
            return self.take(Expect::Absent, 1, number);
        };
        let take = || self.take(Expect::At(*rev), stored.fence + 1, number);
        match (&stored.holder, self.watched) {
            (None, _) => take(),
            (Some(holder), Some((before, _))) if before != *rev => Step::Refused(holder.clone()),
            (Some(_), Some((_, since))) if now.saturating_sub(since) >= self.patience => take(),
            (Some(_), Some(_)) => Step::Wait,
            (Some(_), None) => {
                self.watched = Some((*rev, now));
                Step::Wait
            }
        }
    }
    fn take(&self, expect: Expect, fence: u64, number: u64) -> Step {
        let holder = Some(self.me.clone());
        let stored = Stored {
            holder,
            fence,
            beat: number,
        };
        Step::Take(Attempt { expect, stored })
    }
    /// Its write was answered.
    pub fn wrote(&mut self, put: Put) -> Taken {
        match put {
            Put::Done(rev) => Taken::Mine(rev),
            Put::Conflict => {
                self.watched = None;
                Taken::Not
            }
            Put::Unknown => Taken::ReadBack,
        }
    }
    /// It read back a write of `sent` whose outcome is not known.
    pub fn read_back(&mut self, sent: &Stored, found: Option<&Seen>) -> Taken {
        match found {
            Some(seen) if seen.stored == *sent => return Taken::Mine(seen.rev),
            _ => self.unknown += 1,
        }
        // A server that takes no writes of this login says nothing at all.
        if self.unknown >= UNKNOWN {
            return Taken::GiveUp;
        }
        Taken::Not
    }
}

/// A lease that is held.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tenure {
    /// The value that was surely written last, or was found.
    pub stored: Stored,
    /// Its revision.
    pub rev: Rev,
    /// When the last write that is surely there was sent.
    pub sure: Duration,
    /// The number of the last beat that was sent. None is sent twice, so that whatever is found tells when
    /// it was sent.
    pub last: u64,
    /// Beats of unknown outcome, and when each was sent.
    pub open: Vec<(u64, Duration)>,
}

/// Why a holder stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Somebody else holds it, or the bus knows nothing of it.
    Taken,
    /// The bus was replaced.
    Replaced,
    /// No beat was surely written for [`STOP_AFTER`].
    Silent,
}

/// What a holder does after a beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beaten {
    /// The beat is there.
    Sure,
    /// Nothing is known of it: it goes on, and beats again.
    Unsure,
    /// It must be read back (B-5).
    ReadBack,
    /// It stops.
    Lost(Loss),
}

impl Tenure {
    /// Begins with a write that is there, and was sent at `sent`.
    pub fn new(stored: Stored, rev: Rev, sent: Duration) -> Self {
        Self {
            last: stored.beat,
            stored,
            rev,
            sure: sent,
            open: Vec::new(),
        }
    }
    /// How many held it before, and one.
    pub fn fence(&self) -> u64 {
        self.stored.fence
    }
    /// The moment from which nothing is begun.
    pub fn deadline(&self) -> Duration {
        self.sure + STOP_AFTER
    }
    /// The next beat, sent at `now`.
    pub fn next(&mut self, now: Duration) -> Attempt {
        self.last += 1;
        self.open.push((self.last, now));
        let stored = Stored {
            beat: self.last,
            ..self.stored.clone()
        };
        self.attempt(stored)
    }
    /// The write that lets the next one in at once.
    pub fn giving_back(&self) -> Attempt {
        let stored = Stored {
            holder: None,
            ..self.stored.clone()
        };
        self.attempt(stored)
    }
    fn attempt(&self, stored: Stored) -> Attempt {
        let expect = Expect::At(self.rev);
        Attempt { expect, stored }
    }
    /// The beat `sent` was answered.
    pub fn wrote(&mut self, sent: &Stored, put: Put) -> Beaten {
        match put {
            Put::Done(rev) => {
                self.is_there(sent, rev);
                Beaten::Sure
            }
            // It may be an earlier beat of ours, whose outcome was not known.
            Put::Conflict | Put::Unknown => Beaten::ReadBack,
        }
    }
    /// The beat `sent` was read back. Another of ours may be there instead, from an earlier try: it counts
    /// from when *it* was sent, not from when this one was.
    pub fn read_back(&mut self, sent: &Stored, found: Option<&Seen>) -> Beaten {
        let Some(Seen { rev, stored }) = found else {
            return Beaten::Lost(Loss::Taken);
        };
        if stored.holder != self.stored.holder || stored.fence != self.stored.fence {
            return Beaten::Lost(Loss::Taken);
        }
        // An older one comes from a read that lags behind.
        if stored.beat > self.stored.beat {
            self.is_there(stored, *rev);
        }
        match stored.beat == sent.beat {
            true => Beaten::Sure,
            false => Beaten::Unsure,
        }
    }
    fn is_there(&mut self, found: &Stored, rev: Rev) {
        (self.rev, self.stored) = (rev, found.clone());
        let sent = self.open.iter().find(|(beat, _)| *beat == found.beat);
        self.sure = sent.map_or(self.sure, |(_, sent)| *sent);
        self.open.retain(|(beat, _)| *beat > found.beat);
    }
    /// The bus did not serve.
    pub fn failed(&self, fault: &Fault) -> Beaten {
        match fault {
            Fault::EpochChanged => Beaten::Lost(Loss::Replaced),
            // Any other says nothing.
            _ => Beaten::Unsure,
        }
    }
    /// Whether it goes on at `now`, after a beat that is not surely there.
    pub fn goes_on(&self, now: Duration) -> Result<(), Loss> {
        match may_act(self.sure, now) {
            true => Ok(()),
            false => Err(Loss::Silent),
        }
    }
}
