//! Time, and what makes worlds alike that differ in nothing that a rule looks at.

use std::collections::{BTreeMap, BTreeSet};

use mesh_bus::claim::{SILENT, STOP_AFTER};

use super::lease::{Asking, Flight, HOSTS, Holding, Host, Mode, There, World, cap};

/// Seconds that pass on a slow clock and on one that is 1.8 times as fast.
const TICK: [u8; 2] = [5, 9];

fn step(fast: bool) -> u8 {
    TICK[usize::from(fast)]
}

impl Flight {
    fn ages(&mut self) {
        self.age = cap(self.age + step(self.fast), STOP_AFTER);
    }
}

impl Holding {
    fn ages(&mut self, by: u8) {
        self.sure = cap(self.sure + by, STOP_AFTER);
        for (_, sent) in self.open.iter_mut().flatten() {
            *sent = cap(*sent + by, STOP_AFTER);
        }
    }
}

impl Asking {
    fn ages(&mut self, by: u8) {
        if let Some((_, since)) = &mut self.watched {
            *since = cap(*since + by, SILENT);
        }
    }
}

impl World {
    /// Five seconds pass, or nine.
    pub(crate) fn tick(&mut self) {
        let fast = self.hosts.map(|host| host.fast);
        let older = self.older.as_mut().and_then(Option::as_mut);
        for there in self.there.iter_mut().chain(older) {
            if let Some(holder) = there.value.holder {
                let by = step(fast[usize::from(holder)]);
                there.sent = cap(there.sent + by, STOP_AFTER);
            }
        }
        self.late.iter_mut().for_each(Flight::ages);
        for host in &mut self.hosts {
            let by = step(host.fast);
            host.acted = false;
            match &mut host.mode {
                Mode::Down => {}
                Mode::Asks(asking) => asking.ages(by),
                Mode::Takes(asking, flight) | Mode::TakesBack(asking, flight) => {
                    asking.ages(by);
                    flight.ages();
                }
                Mode::Holds(holding) => holding.ages(by),
                Mode::Beats(holding, flight) | Mode::BeatsBack(holding, flight) => {
                    holding.ages(by);
                    flight.ages();
                }
            }
        }
    }

    /// Hosts in one order, revisions by rank, fences and beats from the lowest one in use.
    pub(crate) fn settle(&mut self) {
        self.order();
        let mut revs = BTreeSet::from([self.seq]);
        self.each_rev(&mut |rev| {
            revs.insert(*rev);
        });
        let revs = close(&revs);
        self.seq = revs[&self.seq];
        self.each_rev(&mut |rev| *rev = revs[rev]);
        let mut fences: BTreeMap<u8, BTreeSet<u8>> = BTreeMap::new();
        self.each_beat(&mut |fence, beat| {
            fences.entry(*fence).or_default().insert(*beat);
        });
        let all = close(&fences.keys().copied().collect());
        let beats: BTreeMap<u8, _> = fences.iter().map(|(f, beats)| (*f, close(beats))).collect();
        self.each_beat(&mut |fence, beat| (*fence, *beat) = (all[fence], beats[fence][beat]));
    }

    /// Hosts with clocks alike are alike.
    fn order(&mut self) {
        let mut places: [usize; HOSTS] = std::array::from_fn(|n| n);
        let key = |n: &usize| {
            let host = self.hosts[*n];
            let by = |value: Option<There>| {
                value.is_some_and(|there| there.value.holder == u8::try_from(*n).ok())
            };
            (
                host.fast,
                blank(host),
                by(self.there),
                by(self.older.flatten()),
            )
        };
        places.sort_by_key(key);
        let moved = |holder: u8| {
            let place = places.iter().position(|n| *n == usize::from(holder));
            place.and_then(|place| u8::try_from(place).ok())
        };
        self.hosts = places.map(|n| self.hosts[n]);
        let rename = |holder: &mut Option<u8>| *holder = holder.and_then(moved);
        let older = self.older.as_mut().and_then(Option::as_mut);
        for there in self.there.iter_mut().chain(older) {
            rename(&mut there.value.holder);
        }
        self.late
            .iter_mut()
            .for_each(|f| rename(&mut f.value.holder));
        for (n, host) in self.hosts.iter_mut().enumerate() {
            if let Some(flight) = host.sent_mut() {
                flight.value.holder = u8::try_from(n).ok();
            }
        }
    }

    fn each_rev(&mut self, what: &mut dyn FnMut(&mut u8)) {
        let older = self.older.as_mut().and_then(Option::as_mut);
        for there in self.there.iter_mut().chain(older) {
            what(&mut there.seq);
        }
        self.late
            .iter_mut()
            .for_each(|f| f.expect.iter_mut().for_each(&mut *what));
        for host in &mut self.hosts {
            match &mut host.mode {
                Mode::Down => {}
                Mode::Asks(asking) | Mode::Takes(asking, _) | Mode::TakesBack(asking, _) => {
                    asking.watched.iter_mut().for_each(|(rev, _)| what(rev));
                }
                Mode::Holds(held) | Mode::Beats(held, _) | Mode::BeatsBack(held, _) => {
                    what(&mut held.rev);
                }
            }
            if let Some(flight) = host.sent_mut() {
                flight.expect.iter_mut().for_each(&mut *what);
            }
        }
    }

    fn each_beat(&mut self, what: &mut dyn FnMut(&mut u8, &mut u8)) {
        let older = self.older.as_mut().and_then(Option::as_mut);
        for there in self.there.iter_mut().chain(older) {
            what(&mut there.value.fence, &mut there.value.beat);
        }
        if let Some(late) = &mut self.late {
            what(&mut late.value.fence, &mut late.value.beat);
        }
        for host in &mut self.hosts {
            if let Some(flight) = host.sent_mut() {
                what(&mut flight.value.fence, &mut flight.value.beat);
            }
            if let Mode::Holds(held) | Mode::Beats(held, _) | Mode::BeatsBack(held, _) =
                &mut host.mode
            {
                let open = held.open.iter_mut().flatten().map(|(beat, _)| beat);
                for beat in open.chain([&mut held.last]) {
                    let mut fence = held.fence;
                    what(&mut fence, beat);
                }
                what(&mut held.fence, &mut held.beat);
            }
        }
    }
}

impl Host {
    fn sent_mut(&mut self) -> Option<&mut Flight> {
        match &mut self.mode {
            Mode::Takes(_, flight)
            | Mode::TakesBack(_, flight)
            | Mode::Beats(_, flight)
            | Mode::BeatsBack(_, flight) => Some(flight),
            Mode::Down | Mode::Asks(_) | Mode::Holds(_) => None,
        }
    }
}

/// A host without its number.
fn blank(mut host: Host) -> Host {
    if let Some(flight) = host.sent_mut() {
        flight.value.holder = None;
    }
    host
}

/// Numbers from one on in the same order: those that follow one another do so still, and all others leave
/// room for one between them. No rule can tell the difference.
fn close(numbers: &BTreeSet<u8>) -> BTreeMap<u8, u8> {
    let mut closed = BTreeMap::new();
    let mut before: Option<(u8, u8)> = None;
    for number in numbers {
        let place = before.map_or(1, |(was, at)| at + (number - was).min(2));
        closed.insert(*number, place);
        before = Some((*number, place));
    }
    closed
}
