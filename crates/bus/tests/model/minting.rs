//! Minting and recording for one consumer, by three hosts that all act whenever they like: what is safe
//! here rests on no lease. What a host decides, it asks of [`mesh_bus::mint`].

use std::time::Instant;

use mesh_bus::mint::{Fate, Naming, fate, naming};
use mesh_sdk::bus::{Epoch, Put, Rev};
use stateright::{Checker, HasDiscoveries, Model, Property};

const HOSTS: usize = 3;
/// So many faults happen in one history.
const FAULTS: u8 = 3;
const DONE: Put = Put::Done(Rev {
    epoch: Epoch(1),
    seq: 1,
});

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// A write without an outcome counts as done.
    UnknownIsDone,
    /// A write whatever is there.
    NoCompare,
    /// A sealed password is used before it is named.
    UsesUnnamed,
    /// The effect comes before the intent.
    NoIntent,
}

/// How far a host is. Passwords are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum At {
    Rest,
    /// Nobody knows a password: is there a login?
    Looks,
    /// There is none.
    Makes,
    /// The write that names it is under way.
    Names(u8),
    /// It must be read back.
    ReadsBack(u8, bool),
    /// It is in force: the intent comes next.
    Wants(u8),
    /// The effect comes next.
    Intends(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Host {
    sealed: Option<u8>,
    at: At,
    /// It opened the bus before that was replaced.
    before: bool,
    /// It knows that the bus was replaced: nothing is made in this run.
    told: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    version: Option<u8>,
    intent: Option<u8>,
    backend: Option<u8>,
    hosts: [Host; HOSTS],
    /// A write whose sender waits no more, and an effect.
    late: Option<u8>,
    late_effect: Option<u8>,
    /// So many faults may still happen.
    faults: u8,
    replaced: bool,
    /// The password that was in use first, and whether another was.
    used: Option<u8>,
    two: bool,
    /// Somebody lost the race, or a password.
    race: bool,
    lost: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Lands,
    Unheard,
    Lost,
    Delayed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Reads the version: as it is, or as it was before.
    Begins(usize, bool),
    Looks(usize),
    Makes(usize, bool),
    Names(usize, Way),
    ReadsBack(usize, bool),
    Intends(usize, Way),
    Effects(usize, Way),
    Crashes(usize),
    LandsLate,
    TakesEffectLate,
    Replaced,
    Notices(usize),
}

impl Act {
    fn is_fault(self) -> bool {
        match self {
            Act::Begins(_, now) | Act::Makes(_, now) | Act::ReadsBack(_, now) => !now,
            Act::Names(_, way) | Act::Intends(_, way) | Act::Effects(_, way) => way != Way::Lands,
            Act::Crashes(_) | Act::Replaced => true,
            Act::Looks(_) | Act::LandsLate | Act::TakesEffectLate | Act::Notices(_) => false,
        }
    }
}

struct Minting(Planted);

impl Model for Minting {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let host = Host {
            sealed: None,
            at: At::Rest,
            before: false,
            told: false,
        };
        vec![World {
            version: None,
            intent: None,
            backend: None,
            hosts: [host; HOSTS],
            late: None,
            late_effect: None,
            faults: FAULTS + super::more_faults(),
            replaced: false,
            used: None,
            two: false,
            race: false,
            lost: false,
        }]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        const WAYS: [Way; 4] = [Way::Lands, Way::Unheard, Way::Lost, Way::Delayed];
        for (n, host) in world.hosts.iter().enumerate() {
            if host.before {
                acts.push(Act::Notices(n));
            }
            if host.at != At::Rest || host.told {
                acts.push(Act::Crashes(n));
            }
            match host.at {
                At::Rest => acts.extend([Act::Begins(n, true), Act::Begins(n, false)]),
                At::Looks => acts.push(Act::Looks(n)),
                At::Makes => acts.extend([Act::Makes(n, true), Act::Makes(n, false)]),
                At::Names(_) => acts.extend(WAYS.map(|way| Act::Names(n, way))),
                At::ReadsBack(..) => {
                    acts.extend([Act::ReadsBack(n, true), Act::ReadsBack(n, false)]);
                }
                At::Wants(_) => acts.extend(WAYS[..3].iter().map(|way| Act::Intends(n, *way))),
                At::Intends(_) => acts.extend(WAYS.map(|way| Act::Effects(n, way))),
            }
        }
        acts.extend(world.late.map(|_| Act::LandsLate));
        acts.extend(world.late_effect.map(|_| Act::TakesEffectLate));
        if !world.replaced && (world.version.is_some() || world.intent.is_some()) {
            acts.push(Act::Replaced);
        }
        if world.faults == 0 {
            acts.retain(|act| !act.is_fault());
        }
    }

    fn next_state(&self, world: &World, act: Act) -> Option<World> {
        let mut next = world.clone();
        next.faults -= u8::from(act.is_fault());
        next.does(act, self.0)?;
        next.settle();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one password is in use", |_, w: &World| {
                !w.two || w.replaced
            }),
            Property::always("what the backend holds was intended", |_, w: &World| {
                w.replaced || w.backend.is_none() || w.intent == w.backend
            }),
            Property::always("a version is sealed somewhere", |_, w: &World| {
                let sealed = |version| w.hosts.iter().any(|host| host.sealed == Some(version));
                w.replaced || w.version.is_none_or(sealed)
            }),
            Property::sometimes("a race is lost", |_, w: &World| w.race),
            Property::sometimes("an unknown write is there", |_, w: &World| {
                let there = |at| matches!(at, At::ReadsBack(own, false) if w.version == Some(own));
                w.hosts.iter().any(|host| there(host.at))
            }),
            Property::sometimes("a write arrives late", |_, w: &World| {
                w.late.is_some() && w.version.is_none()
            }),
            Property::sometimes("a password is lost and not made again", |_, w: &World| {
                w.lost
            }),
        ]
    }
}

impl World {
    /// Hosts are alike, and so are passwords but for which is which.
    fn settle(&mut self) {
        self.hosts.sort_unstable();
        let mut ids = Vec::new();
        self.each(&mut |id| {
            if !ids.contains(id) {
                ids.push(*id);
            }
        });
        let place = |id: u8| ids.iter().position(|known| *known == id);
        self.each(&mut |id| {
            *id = place(*id)
                .and_then(|n| u8::try_from(n).ok())
                .map_or(0, |n| n + 1)
        });
        self.hosts.sort_unstable();
    }
    fn each(&mut self, what: &mut dyn FnMut(&mut u8)) {
        let known = [&mut self.used, &mut self.version, &mut self.intent];
        let known =
            known
                .into_iter()
                .chain([&mut self.backend, &mut self.late, &mut self.late_effect]);
        known.flatten().for_each(&mut *what);
        for host in &mut self.hosts {
            host.sealed.iter_mut().for_each(&mut *what);
            match &mut host.at {
                At::Names(id) | At::ReadsBack(id, _) | At::Wants(id) | At::Intends(id) => what(id),
                At::Rest | At::Looks | At::Makes => {}
            }
        }
    }

    fn names(&mut self, own: u8, planted: Planted) -> Put {
        if self.version.is_some() && planted != Planted::NoCompare {
            return Put::Conflict;
        }
        self.version = Some(own);
        DONE
    }
    /// From here on it is in use.
    fn uses(&mut self, n: usize, id: u8) {
        self.two |= self.used.is_some_and(|used| used != id);
        self.used.get_or_insert(id);
        self.hosts[n].at = At::Wants(id);
    }
    fn outcome(&mut self, n: usize, found: Option<u8>) {
        match found {
            Some(id) => self.uses(n, id),
            None => self.hosts[n].at = At::Rest,
        }
    }

    fn does(&mut self, act: Act, planted: Planted) -> Option<()> {
        let read = |now: bool, version: Option<u8>| version.filter(|_| now);
        match act {
            Act::Begins(n, now) => {
                let host = self.hosts[n];
                (!host.before).then_some(())?;
                match naming(read(now, self.version), host.sealed) {
                    Naming::InForce(id) => self.uses(n, id),
                    Naming::Name(id) if planted == Planted::UsesUnnamed => self.uses(n, id),
                    Naming::Name(id) => self.hosts[n].at = At::Names(id),
                    Naming::Make if host.told => return None,
                    Naming::Make => self.hosts[n].at = At::Looks,
                }
            }
            Act::Looks(n) => {
                // A login without a password that anybody knows: nothing is made.
                self.lost |= self.backend.is_some();
                self.hosts[n].at = match self.backend {
                    Some(_) => At::Rest,
                    None => At::Makes,
                };
            }
            Act::Makes(n, now) => {
                let host = self.hosts[n];
                (!host.before).then_some(())?;
                match naming(read(now, self.version), host.sealed) {
                    Naming::InForce(id) => self.uses(n, id),
                    Naming::Name(id) => self.hosts[n].at = At::Names(id),
                    Naming::Make => {
                        let mut new = 1;
                        self.each(&mut |id| new = new.max(*id + 1));
                        self.hosts[n].sealed = Some(new);
                        self.hosts[n].at = At::Names(new);
                    }
                }
            }
            Act::Names(n, way) => self.named(n, way, planted)?,
            Act::ReadsBack(n, now) => {
                let At::ReadsBack(own, conflict) = self.hosts[n].at else {
                    return None;
                };
                let put = if conflict {
                    Put::Conflict
                } else {
                    Put::Unknown
                };
                let found = read(now, self.version);
                if fate(&own, put, found.as_ref()) == Fate::Lost {
                    self.hosts[n].sealed = None;
                    self.race = true;
                    // The winner's sealed copy is kept here.
                    self.hosts[n].sealed = found;
                }
                self.outcome(n, found);
            }
            Act::Intends(n, way) => {
                let At::Wants(id) = self.hosts[n].at else {
                    return None;
                };
                (!self.hosts[n].before).then_some(())?;
                if way != Way::Lost && planted != Planted::NoIntent {
                    self.intent = Some(id);
                }
                // Without a certain intent no effect is sent.
                self.hosts[n].at = match way {
                    Way::Lands => At::Intends(id),
                    _ => At::Rest,
                };
            }
            Act::Effects(n, way) => {
                let At::Intends(id) = self.hosts[n].at else {
                    return None;
                };
                match way {
                    Way::Lands | Way::Unheard => self.backend = Some(id),
                    Way::Lost => {}
                    Way::Delayed if self.late_effect.is_none() => self.late_effect = Some(id),
                    Way::Delayed => return None,
                }
                // Held or not: the next pass sees to it.
                self.hosts[n].at = At::Rest;
            }
            Act::Crashes(n) => {
                if let (At::Names(own), None) = (self.hosts[n].at, self.late) {
                    self.late = Some(own);
                }
                let host = &mut self.hosts[n];
                (host.at, host.told) = (At::Rest, host.before);
                host.before = false;
            }
            Act::LandsLate => {
                let own = self.late.take()?;
                self.names(own, planted);
            }
            Act::TakesEffectLate => self.backend = self.late_effect.take(),
            Act::Replaced => {
                (self.version, self.intent, self.replaced) = (None, None, true);
                for host in &mut self.hosts {
                    host.before = true;
                }
            }
            Act::Notices(n) => {
                let host = &mut self.hosts[n];
                (host.at, host.before, host.told) = (At::Rest, false, true);
            }
        }
        Some(())
    }

    fn named(&mut self, n: usize, way: Way, planted: Planted) -> Option<()> {
        let At::Names(own) = self.hosts[n].at else {
            return None;
        };
        let put = match way {
            Way::Lands => self.names(own, planted),
            Way::Unheard => {
                self.names(own, planted);
                Put::Unknown
            }
            Way::Lost => Put::Unknown,
            Way::Delayed if self.late.is_none() => {
                self.late = Some(own);
                Put::Unknown
            }
            Way::Delayed => return None,
        };
        let host = &mut self.hosts[n];
        if host.before {
            // The number in the answer was given out before.
            (host.at, host.before, host.told) = (At::Rest, false, true);
            return Some(());
        }
        let put = match put {
            Put::Unknown if planted == Planted::UnknownIsDone => DONE,
            put => put,
        };
        match put {
            Put::Done(_) => self.uses(n, own),
            Put::Conflict => self.hosts[n].at = At::ReadsBack(own, true),
            Put::Unknown => self.hosts[n].at = At::ReadsBack(own, false),
        }
        Some(())
    }
}

#[test]
fn h22_in_every_history_one_password_is_in_use_without_any_lease() {
    let began = Instant::now();
    let checked = Minting(Planted::Nothing)
        .checker()
        .threads(2)
        .spawn_bfs()
        .join();
    super::told("minting", &checked, began);
    checked.assert_properties();
}

#[test]
fn h22_planted_faults_of_minting_are_found() {
    for (planted, found) in [
        (Planted::UnknownIsDone, "one password is in use"),
        (Planted::NoCompare, "one password is in use"),
        (Planted::UsesUnnamed, "one password is in use"),
        (Planted::NoIntent, "what the backend holds was intended"),
    ] {
        let checker = Minting(planted).checker().threads(2);
        let checker = checker.finish_when(HasDiscoveries::AnyFailures);
        let checked = checker.spawn_bfs().join();
        let path = checked.discovery(found);
        let path = path.unwrap_or_else(|| panic!("{planted:?} breaks nothing"));
        println!("{planted:?}: {:?}", path.into_actions());
    }
}
