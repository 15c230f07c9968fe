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
    /// Grows with each beat.
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
    me: Holder,
    patience: Duration,
    /// The holder's revision that was seen first, and when.
    watched: Option<(Rev, Duration)>,
    /// Writes without an outcome.
    unknown: u32,
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
    /// It read the lease at `now`.
    pub fn saw(&mut self, found: Option<&Seen>, now: Duration) -> Step {
        let Some(Seen { rev, stored }) = found else {
            return self.take(Expect::Absent, 1);
        };
        let next = stored.fence + 1;
        match (&stored.holder, self.watched) {
            (None, _) => self.take(Expect::At(*rev), next),
            (Some(holder), Some((before, _))) if before != *rev => Step::Refused(holder.clone()),
            (Some(_), Some((_, since))) if now.saturating_sub(since) >= self.patience => {
                self.take(Expect::At(*rev), next)
            }
            (Some(_), Some(_)) => Step::Wait,
            (Some(_), None) => {
                self.watched = Some((*rev, now));
                Step::Wait
            }
        }
    }
    fn take(&self, expect: Expect, fence: u64) -> Step {
        let holder = Some(self.me.clone());
        let stored = Stored {
            holder,
            fence,
            beat: 0,
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
    stored: Stored,
    /// Its revision.
    rev: Rev,
    /// When the last write that is surely there was sent.
    sure: Duration,
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
            stored,
            rev,
            sure: sent,
        }
    }
    /// How many held it before, and one.
    pub fn fence(&self) -> u64 {
        self.stored.fence
    }
    /// When the last write that is surely there was sent.
    pub fn sure(&self) -> Duration {
        self.sure
    }
    /// The moment from which nothing is begun.
    pub fn deadline(&self) -> Duration {
        self.sure + STOP_AFTER
    }
    /// The next beat.
    pub fn next(&self) -> Attempt {
        let beat = self.stored.beat + 1;
        let stored = Stored {
            beat,
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
    /// The beat `sent`, sent at `when`, was answered.
    pub fn wrote(&mut self, sent: &Stored, when: Duration, put: Put) -> Beaten {
        match put {
            Put::Done(rev) => self.is_there(sent, rev, when),
            // It may be an earlier beat of ours, whose outcome was not known.
            Put::Conflict | Put::Unknown => Beaten::ReadBack,
        }
    }
    /// The beat `sent`, sent at `when`, was read back.
    pub fn read_back(&mut self, sent: &Stored, when: Duration, found: Option<&Seen>) -> Beaten {
        let Some(Seen { rev, stored }) = found else {
            return Beaten::Lost(Loss::Taken);
        };
        if stored.holder != self.stored.holder || stored.fence != self.stored.fence {
            return Beaten::Lost(Loss::Taken);
        }
        if stored.beat == sent.beat {
            return self.is_there(sent, *rev, when);
        }
        // Ours, and this beat is not there: the next one is sent from here.
        (self.rev, self.stored) = (*rev, stored.clone());
        Beaten::Unsure
    }
    fn is_there(&mut self, sent: &Stored, rev: Rev, when: Duration) -> Beaten {
        (self.rev, self.stored, self.sure) = (rev, sent.clone(), when);
        Beaten::Sure
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
