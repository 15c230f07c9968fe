//! What each act makes of the world; where a host decides, its rules do.

use mesh_bus::claim::rules::{self, Beaten, Candidate, Step, Taken, Tenure};
use mesh_sdk::bus::{Expect, Fault, Put};

use super::lease::{
    Act, Asking, Flight, Holding, Host, Mode, NOW, Planted, Read, There, Value, World, at, rev,
    seen, small, stored,
};

impl Host {
    /// After a beat that did not end it.
    fn goes_on(holding: &Tenure, planted: Planted) -> Mode {
        match holding.goes_on(NOW) {
            Err(_) if planted != Planted::NoDeadline => Mode::Asks(Asking::default()),
            _ => Mode::Holds(Holding::of(holding)),
        }
    }
    fn beaten(holding: &Tenure, beaten: Beaten, flight: Flight, planted: Planted) -> Mode {
        match beaten {
            Beaten::Sure | Beaten::Unsure => Self::goes_on(holding, planted),
            Beaten::ReadBack => Mode::BeatsBack(Holding::of(holding), flight),
            Beaten::Lost(_) => Mode::Asks(Asking::default()),
        }
    }
    fn taken(real: &Candidate, taken: Taken, flight: Flight) -> Mode {
        let asking = Asking::of(real);
        match taken {
            Taken::Mine(rev) => {
                let sent = stored(flight.value);
                Mode::Holds(Holding::of(&Tenure::new(sent, rev, at(flight.age))))
            }
            Taken::Not => Mode::Asks(asking),
            Taken::ReadBack => Mode::TakesBack(asking, flight),
            // It says so, and is asked again.
            Taken::GiveUp => Mode::Asks(Asking::default()),
        }
    }
}

impl World {
    /// The world after it, or nothing if it cannot happen.
    pub(crate) fn after(&self, act: Act, planted: Planted) -> Option<World> {
        let mut next = self.clone();
        next.faults -= u8::from(act.is_fault());
        match act {
            Act::Tick => next.tick(),
            Act::Start(n) => next.hosts[n].mode = Mode::Asks(Asking::default()),
            Act::Crash(n) => {
                if next.late.is_none() {
                    next.late = next.hosts[n].flight();
                }
                next.hosts[n].stops();
            }
            Act::Pauses(n) => next.hosts[n].paused = true,
            Act::Resumes(n) => next.hosts[n].paused = false,
            Act::Look(n, read) => next.look(n, self.read(read), planted),
            Act::Lands(n) => {
                let flight = next.hosts[n].flight()?;
                let put = next.write(flight, planted);
                next.answered(n, put, planted);
            }
            Act::LandsUnheard(n) => {
                let flight = next.hosts[n].flight()?;
                next.write(flight, planted);
                next.answered(n, Put::Unknown, planted);
            }
            Act::Lost(n) => next.answered(n, Put::Unknown, planted),
            Act::Delayed(n) => {
                next.late = next.hosts[n].flight();
                next.answered(n, Put::Unknown, planted);
            }
            Act::LandsLate => {
                let flight = next.late.take()?;
                next.write(flight, planted);
            }
            Act::ReadsBack(n, read) => next.reads_back(n, self.read(read), planted)?,
            Act::Beats(n) => next.beats(n)?,
            Act::GivesBack(n) => next.gives_back(n, planted)?,
            Act::CutOff(n) => {
                if next.late.is_none() {
                    next.late = next.hosts[n].flight();
                }
                let real = next.hosts[n].holding()?.real(n);
                next.hosts[n].mode = Host::goes_on(&real, planted);
            }
            Act::Replaced => {
                next.there = next.older.take()?;
                next.seq = next.there.map_or(0, |there| there.seq);
                next.replaced = true;
                for host in next.hosts.iter_mut().filter(|host| host.mode != Mode::Down) {
                    host.before = true;
                }
            }
            Act::NoticesReplaced(n) => {
                let host = &mut next.hosts[n];
                host.before = false;
                host.mode = match host.holding() {
                    Some(holding) => {
                        let real = holding.real(n);
                        let failed = real.failed(&Fault::EpochChanged);
                        let Beaten::Lost(_) = failed else {
                            return None;
                        };
                        Mode::Asks(Asking::default())
                    }
                    None => Mode::Asks(Asking::default()),
                };
            }
        }
        next.settle();
        Some(next)
    }

    fn read(&self, read: Read) -> Option<There> {
        match read {
            Read::Now => self.there,
            Read::Older => self.older.flatten(),
        }
    }

    fn look(&mut self, n: usize, found: Option<There>, planted: Planted) {
        let values = [self.there, self.older.flatten()];
        let values = values.into_iter().flatten().map(|there| there.value);
        let beats = values
            .chain(self.late.map(|late| late.value))
            .map(|v| v.beat);
        let number = match planted {
            Planted::CountsFromTheLastSend => 0,
            _ => beats.max().map_or(0, |beat| u64::from(beat) + 1),
        };
        let host = &mut self.hosts[n];
        let Mode::Asks(asking) = host.mode else {
            return;
        };
        host.acted = true;
        let mut real = asking.real(n, planted);
        host.mode = match real.saw(found.map(seen).as_ref(), NOW, number) {
            Step::Wait => Mode::Asks(Asking::of(&real)),
            // It asks again.
            Step::Refused(_) => Mode::Asks(Asking::default()),
            Step::Take(attempt) => {
                let mut flight = flight(n, &attempt, host.fast);
                if planted == Planted::SameFence {
                    flight.value.fence = found.map_or(1, |there| there.value.fence);
                }
                Mode::Takes(Asking::of(&real), flight)
            }
        };
    }

    /// The compare-and-set.
    fn write(&mut self, flight: Flight, planted: Planted) -> Put {
        let there = self.there.map(|there| there.seq);
        if there != flight.expect && planted != Planted::NoCompare {
            return Put::Conflict;
        }
        self.fell |= self
            .there
            .is_some_and(|t| t.value.fence > flight.value.fence);
        self.older = Some(self.there);
        self.seq += 1;
        self.there = Some(There {
            seq: self.seq,
            value: flight.value,
            sent: flight.age,
        });
        Put::Done(rev(self.seq))
    }

    fn answered(&mut self, n: usize, put: Put, planted: Planted) {
        let put = match put {
            Put::Unknown if planted == Planted::UnknownIsDone => Put::Done(rev(self.seq)),
            put => put,
        };
        let host = &mut self.hosts[n];
        host.mode = match host.mode {
            Mode::Takes(asking, flight) => {
                let mut real = asking.real(n, planted);
                let taken = real.wrote(put);
                Host::taken(&real, taken, flight)
            }
            Mode::Beats(holding, flight) => {
                let mut real = holding.real(n);
                let beaten = real.wrote(&stored(flight.value), put);
                Host::beaten(&real, beaten, flight, planted)
            }
            mode => mode,
        };
    }

    fn reads_back(&mut self, n: usize, found: Option<There>, planted: Planted) -> Option<()> {
        let host = &mut self.hosts[n];
        host.mode = match host.mode {
            Mode::TakesBack(asking, flight) => {
                let mut real = asking.real(n, planted);
                let sent = stored(flight.value);
                let taken = real.read_back(&sent, found.map(seen).as_ref());
                Host::taken(&real, taken, flight)
            }
            Mode::BeatsBack(holding, flight) => {
                // Nothing older is read than the own last write that was done.
                if found.is_some_and(|there| there.seq < holding.rev) {
                    return None;
                }
                let mut real = holding.real(n);
                let before = real.sure;
                let sent = stored(flight.value);
                let beaten = real.read_back(&sent, found.map(seen).as_ref());
                if planted == Planted::CountsFromTheLastSend && real.sure != before {
                    real.sure = at(flight.age);
                }
                Host::beaten(&real, beaten, flight, planted)
            }
            _ => return None,
        };
        Some(())
    }

    fn beats(&mut self, n: usize) -> Option<()> {
        let host = &mut self.hosts[n];
        let Mode::Holds(holding) = host.mode else {
            return None;
        };
        let mut real = holding.real(n);
        let attempt = real.next(NOW);
        host.mode = Mode::Beats(Holding::of(&real), flight(n, &attempt, host.fast));
        host.acted = true;
        Some(())
    }

    fn gives_back(&mut self, n: usize, planted: Planted) -> Option<()> {
        let real = self.hosts[n].holding()?.real(n);
        let flight = flight(n, &real.giving_back(), self.hosts[n].fast);
        self.write(flight, planted);
        self.hosts[n].stops();
        Some(())
    }
}

fn flight(me: usize, attempt: &rules::Attempt, fast: bool) -> Flight {
    let stored = &attempt.stored;
    Flight {
        expect: match attempt.expect {
            Expect::Absent => None,
            Expect::At(rev) => Some(small(rev.seq)),
        },
        value: Value {
            holder: stored.holder.as_ref().map(|_| small(me as u64)),
            fence: small(stored.fence),
            beat: small(stored.beat),
        },
        age: 0,
        fast,
    }
}
