//! The world of the lease: three hosts, one value on a bus, and everything that may go wrong. What a host
//! decides, it asks of [`mesh_bus::claim::rules`].
//!
//! Ages take the place of times, and ranks that of revisions, so that the histories have no end and the
//! states do.

use std::time::Duration;

use mesh_bus::claim::rules::{self, Candidate, Seen, Stored, Tenure};
use mesh_bus::claim::{Holder, SILENT};
use mesh_sdk::bus::{Epoch, Rev};

/// Hosts.
pub(crate) const HOSTS: usize = 3;
/// So many beats may be without an outcome: more do not fit before the deadline.
const OPEN: usize = 5;
/// A rule gets its ages as times before this moment.
pub(crate) const NOW: Duration = Duration::from_secs(1000);

/// What is done wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planted {
    /// Nothing.
    Nothing,
    /// A candidate takes what was silent for 15 s.
    Hasty,
    /// A write without an outcome counts as done.
    UnknownIsDone,
    /// A holder goes by what it noticed, and not by the time.
    NoDeadline,
    /// A write whatever is there.
    NoCompare,
    /// A beat that is found on reading back counts from the last time it was sent.
    CountsFromTheLastSend,
    /// Fences do not grow.
    SameFence,
}

/// A value of the lease; the holder is the host's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Value {
    pub(crate) holder: Option<u8>,
    pub(crate) fence: u8,
    pub(crate) beat: u8,
}

/// The lease as it lies on the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct There {
    pub(crate) seq: u8,
    pub(crate) value: Value,
    /// How long ago its writer sent it, on the writer's clock. No host knows it.
    pub(crate) sent: u8,
}

/// A write that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Flight {
    pub(crate) expect: Option<u8>,
    pub(crate) value: Value,
    pub(crate) age: u8,
    pub(crate) fast: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct Asking {
    pub(crate) watched: Option<(u8, u8)>,
    unknown: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Holding {
    pub(crate) fence: u8,
    pub(crate) beat: u8,
    pub(crate) rev: u8,
    pub(crate) sure: u8,
    pub(crate) last: u8,
    pub(crate) open: [Option<(u8, u8)>; OPEN],
}

/// What a host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Mode {
    Down,
    Asks(Asking),
    /// Its write is under way.
    Takes(Asking, Flight),
    /// It must read back.
    TakesBack(Asking, Flight),
    Holds(Holding),
    Beats(Holding, Flight),
    BeatsBack(Holding, Flight),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Host {
    pub(crate) fast: bool,
    /// It opened the bus before that was replaced.
    pub(crate) before: bool,
    /// It never runs: a world of fewer hosts.
    pub(crate) out: bool,
    /// It stands still: a process that was stopped, or a machine.
    pub(crate) paused: bool,
    /// It looked or beat since the last tick.
    pub(crate) acted: bool,
    pub(crate) mode: Mode,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) there: Option<There>,
    /// What was there before: for reads that come late, and for a restore.
    pub(crate) older: Option<Option<There>>,
    pub(crate) seq: u8,
    pub(crate) hosts: [Host; HOSTS],
    /// A write whose sender waits no more.
    pub(crate) late: Option<Flight>,
    pub(crate) replaced: bool,
    /// So many faults may still happen.
    pub(crate) faults: u8,
    /// A fence was written that is lower than the one before.
    pub(crate) fell: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    Now,
    Older,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Tick,
    Start(usize),
    Crash(usize),
    Pauses(usize),
    Resumes(usize),
    Look(usize, Read),
    /// The write arrives, and so does its answer.
    Lands(usize),
    /// The write arrives; its answer does not.
    LandsUnheard(usize),
    /// No answer; the write never arrives.
    Lost(usize),
    /// No answer; the write arrives later.
    Delayed(usize),
    LandsLate,
    ReadsBack(usize, Read),
    Beats(usize),
    GivesBack(usize),
    CutOff(usize),
    Replaced,
    NoticesReplaced(usize),
}

impl Act {
    /// Not on a good day, when each host does at each tick what is due.
    pub(crate) fn is_fault(self) -> bool {
        matches!(
            self,
            Act::Crash(_)
                | Act::Pauses(_)
                | Act::GivesBack(_)
                | Act::Look(_, Read::Older)
                | Act::LandsUnheard(_)
                | Act::Lost(_)
                | Act::Delayed(_)
                | Act::ReadsBack(_, Read::Older)
                | Act::Replaced
        )
    }
}

fn holder(host: u8) -> Holder {
    Holder {
        host: format!("h{host}"),
        start: String::new(),
        runner: String::new(),
    }
}
pub(crate) fn rev(seq: u8) -> Rev {
    let (epoch, seq) = (Epoch(1), u64::from(seq));
    Rev { epoch, seq }
}
pub(crate) fn small(n: u64) -> u8 {
    u8::try_from(n).expect("small")
}
pub(crate) fn at(age: u8) -> Duration {
    NOW - Duration::from_secs(u64::from(age))
}
fn age(time: Duration) -> u8 {
    small((NOW - time).as_secs())
}
pub(crate) fn stored(value: Value) -> Stored {
    Stored {
        holder: value.holder.map(holder),
        fence: value.fence.into(),
        beat: value.beat.into(),
    }
}
pub(crate) fn seen(there: There) -> Seen {
    Seen {
        rev: rev(there.seq),
        stored: stored(there.value),
    }
}
pub(crate) fn cap(age: u8, most: Duration) -> u8 {
    age.min(small(most.as_secs()))
}

impl Asking {
    pub(crate) fn real(self, me: usize, planted: Planted) -> Candidate {
        let mut real = Candidate::new(holder(small(me as u64)), SILENT);
        if planted == Planted::Hasty {
            real.patience = Duration::from_secs(15);
        }
        real.watched = self.watched.map(|(seq, since)| (rev(seq), at(since)));
        real.unknown = self.unknown.into();
        real
    }
    pub(crate) fn of(real: &Candidate) -> Self {
        let watched = real.watched;
        Self {
            watched: watched.map(|(rev, since)| (small(rev.seq), age(since))),
            unknown: small(real.unknown.into()),
        }
    }
}

impl Holding {
    pub(crate) fn real(self, me: usize) -> Tenure {
        let value = Value {
            holder: Some(small(me as u64)),
            fence: self.fence,
            beat: self.beat,
        };
        let mut real = Tenure::new(stored(value), rev(self.rev), at(self.sure));
        real.last = self.last.into();
        let open = self.open.into_iter().flatten();
        real.open = open.map(|(beat, sent)| (beat.into(), at(sent))).collect();
        real
    }
    pub(crate) fn of(real: &Tenure) -> Self {
        let mut open = [None; OPEN];
        for (place, (beat, sent)) in open.iter_mut().zip(&real.open) {
            *place = Some((small(*beat), age(*sent)));
        }
        assert!(real.open.len() <= OPEN, "{real:?}");
        Self {
            fence: small(real.stored.fence),
            beat: small(real.stored.beat),
            rev: small(real.rev.seq),
            sure: age(real.sure),
            last: small(real.last),
            open,
        }
    }
    fn may_act(self, planted: Planted) -> bool {
        planted == Planted::NoDeadline || rules::may_act(at(self.sure), NOW)
    }
}

impl Host {
    pub(crate) fn holding(&self) -> Option<Holding> {
        match self.mode {
            Mode::Holds(holding) | Mode::Beats(holding, _) | Mode::BeatsBack(holding, _) => {
                Some(holding)
            }
            _ => None,
        }
    }
    pub(crate) fn may_act(&self, planted: Planted) -> bool {
        self.holding()
            .is_some_and(|holding| holding.may_act(planted))
    }
    /// Whether nothing is due before time passes.
    fn has_done(&self) -> bool {
        match self.mode {
            Mode::Down => true,
            Mode::Asks(_) | Mode::Holds(_) => self.acted || self.paused,
            _ => self.paused,
        }
    }
    pub(crate) fn stops(&mut self) {
        (self.mode, self.before, self.paused) = (Mode::Down, false, false);
    }
    pub(crate) fn flight(&self) -> Option<Flight> {
        match self.mode {
            Mode::Takes(_, flight) | Mode::Beats(_, flight) => Some(flight),
            _ => None,
        }
    }
}

impl World {
    pub(crate) fn new(fast: [bool; HOSTS], hosts: usize, faults: u8) -> Self {
        let host = |fast| Host {
            fast,
            before: false,
            out: false,
            paused: false,
            acted: false,
            mode: Mode::Asks(Asking::default()),
        };
        let mut all = fast.map(host);
        for host in all.iter_mut().skip(hosts) {
            (host.out, host.mode) = (true, Mode::Down);
        }
        Self {
            there: None,
            older: None,
            seq: 0,
            hosts: all,
            late: None,
            replaced: false,
            faults,
            fell: false,
        }
    }

    /// What can happen now.
    pub(crate) fn acts(&self, acts: &mut Vec<Act>) {
        if self.hosts.iter().all(Host::has_done) {
            acts.push(Act::Tick);
        }
        let reads: &[Read] = match self.older {
            Some(_) => &[Read::Now, Read::Older],
            None => &[Read::Now],
        };
        for (n, host) in self.hosts.iter().enumerate() {
            if host.mode == Mode::Down {
                if !host.out {
                    acts.push(Act::Start(n));
                }
                continue;
            }
            acts.push(Act::Crash(n));
            if host.paused {
                acts.push(Act::Resumes(n));
                continue;
            }
            acts.push(Act::Pauses(n));
            match host.mode {
                Mode::Asks(_) if !host.acted => {
                    acts.extend(reads.iter().map(|read| Act::Look(n, *read)));
                }
                Mode::Takes(..) | Mode::Beats(..) => {
                    acts.extend([Act::Lands(n), Act::LandsUnheard(n), Act::Lost(n)]);
                    if self.late.is_none() {
                        acts.push(Act::Delayed(n));
                    }
                }
                Mode::TakesBack(..) | Mode::BeatsBack(..) => {
                    acts.extend(reads.iter().map(|read| Act::ReadsBack(n, *read)));
                }
                Mode::Holds(_) if !host.acted => acts.extend([Act::Beats(n), Act::GivesBack(n)]),
                Mode::Down | Mode::Asks(_) | Mode::Holds(_) => {}
            }
            if host.before {
                acts.push(Act::NoticesReplaced(n));
            }
            let waits = matches!(host.mode, Mode::Beats(..) | Mode::BeatsBack(..));
            if waits && !host.may_act(Planted::Nothing) {
                acts.push(Act::CutOff(n));
            }
        }
        if self.late.is_some() {
            acts.push(Act::LandsLate);
        }
        if !self.replaced && self.older.is_some() {
            acts.push(Act::Replaced);
        }
        if self.faults == 0 {
            acts.retain(|act| !act.is_fault());
        }
    }
}
