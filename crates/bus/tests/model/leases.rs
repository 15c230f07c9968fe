//! What always holds of the lease, what sometimes happens, and which planted faults are found.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::lease::{Act, HOSTS, Mode, Planted, World};

struct Lease {
    planted: Planted,
    /// Which clocks run fast.
    clocks: Vec<[bool; HOSTS]>,
    hosts: usize,
    /// So many faults happen in one history.
    faults: u8,
}

impl Model for Lease {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let (hosts, faults) = (self.hosts, self.faults);
        self.clocks
            .iter()
            .map(|fast| World::new(*fast, hosts, faults))
            .collect()
    }
    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        world.acts(acts);
    }
    fn next_state(&self, world: &World, act: Act) -> Option<World> {
        world.after(act, self.planted)
    }
    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one acts", |model: &Lease, world: &World| {
                world.replaced || acting(model, world) <= 1
            }),
            Property::always(
                "nobody acts past its deadline",
                |model: &Lease, world: &World| world.replaced || in_time(model, world),
            ),
            // Of a bus that was put back revisions come twice, and a late beat may meet its own number.
            Property::always("fences do not fall", |_, world: &World| {
                world.replaced || !world.fell
            }),
            Property::always("a fence has one holder", |_, world: &World| {
                world.replaced || fences_differ(world)
            }),
            Property::sometimes("another took over", |_, world: &World| {
                holders(world) > 1 && !world.replaced
            }),
            Property::sometimes(
                "who was paused comes back",
                |model: &Lease, world: &World| {
                    let paused = |host: &super::lease::Host| {
                        let holding = host.holding();
                        holding.is_some() && !host.may_act(model.planted)
                    };
                    acting(model, world) == 1 && world.hosts.iter().any(paused)
                },
            ),
            Property::sometimes("a race is lost", |_, world: &World| {
                let seq = world.there.map(|there| there.seq);
                let loses = |mode| matches!(mode, Mode::Takes(_, flight) if flight.expect != seq);
                world.hosts.iter().any(|host| loses(host.mode))
            }),
            Property::sometimes("an unknown write is there", |_, world: &World| {
                let there = world.there.map(|there| there.value);
                let finds = |mode| matches!(mode, Mode::TakesBack(_, f) | Mode::BeatsBack(_, f) if Some(f.value) == there);
                world.hosts.iter().any(|host| finds(host.mode))
            }),
            Property::sometimes(
                "a write arrives after the next one was sent",
                |_, world: &World| {
                    let seq = world.there.map(|there| there.seq);
                    let overtakes = |mode, late: super::lease::Flight| matches!(mode, Mode::Beats(_, f) if f.value.fence == late.value.fence && f.value.holder == late.value.holder);
                    world.late.is_some_and(|late| {
                        late.expect == seq
                            && world.hosts.iter().any(|host| overtakes(host.mode, late))
                    })
                },
            ),
            // No lease excludes for sure: what is safe rests on other rules.
            Property::sometimes("after a restore two act", |model: &Lease, world: &World| {
                world.replaced && acting(model, world) > 1
            }),
        ]
    }
}

fn acting(model: &Lease, world: &World) -> usize {
    let acts = |host: &&super::lease::Host| host.may_act(model.planted);
    world.hosts.iter().filter(acts).count()
}
fn holders(world: &World) -> usize {
    let holds = |host: &&super::lease::Host| host.holding().is_some();
    world.hosts.iter().filter(holds).count()
}

/// Whoever may act wrote the newest value, and sent it less than its deadline ago; or a write of its own
/// that has the same fence.
fn in_time(model: &Lease, world: &World) -> bool {
    let hosts = world.hosts.iter().zip(0u8..);
    let mut acting = hosts.filter(|(host, _)| host.may_act(model.planted));
    acting.all(|(host, n)| {
        let (Some(holding), Some(there)) = (host.holding(), world.there) else {
            return false;
        };
        let own = there.value.holder == Some(n) && there.value.fence == holding.fence;
        // Nobody knows a time after the one at which the newest write was really sent.
        own && holding.sure >= there.sent && there.sent < 20
    })
}

fn fences_differ(world: &World) -> bool {
    let fences = world.hosts.iter().filter_map(|host| host.holding());
    let mut fences: Vec<u8> = fences.map(|holding| holding.fence).collect();
    let all = fences.len();
    fences.sort_unstable();
    fences.dedup();
    fences.len() == all
}

const CLOCKS: [[bool; HOSTS]; 4] = [
    [false, false, false],
    [false, false, true],
    [false, true, true],
    [true, true, true],
];

/// Three hosts and one fault, two hosts and two faults. `MESH_MODEL_FAULTS` adds to both: that takes
/// minutes and gigabytes.
#[test]
fn b4_in_every_history_one_acts_in_its_time_and_fences_grow() {
    let more = super::more_faults();
    for (hosts, faults) in [(3, 1 + more), (2, 2 + more)] {
        let model = Lease {
            planted: Planted::Nothing,
            clocks: CLOCKS.to_vec(),
            hosts,
            faults,
        };
        let began = Instant::now();
        let checked = model.checker().threads(2).spawn_bfs().join();
        let what = format!("lease, {hosts} hosts, faults up to {faults}");
        super::told(&what, &checked, began);
        checked.assert_properties();
    }
}

#[test]
fn b4_planted_faults_of_the_lease_are_found() {
    for (planted, found) in [
        (Planted::Hasty, "one acts"),
        (Planted::UnknownIsDone, "nobody acts past its deadline"),
        (Planted::NoDeadline, "one acts"),
        (Planted::NoCompare, "one acts"),
        (
            Planted::CountsFromTheLastSend,
            "nobody acts past its deadline",
        ),
        (Planted::SameFence, "a fence has one holder"),
    ] {
        let model = Lease {
            planted,
            clocks: CLOCKS.to_vec(),
            hosts: HOSTS,
            faults: 1,
        };
        let checker = model.checker().threads(2);
        let checker = checker.finish_when(HasDiscoveries::AnyOf([found].into()));
        let began = Instant::now();
        let checked = checker.spawn_bfs().join();
        let path = checked.discovery(found);
        let path = path.unwrap_or_else(|| panic!("{planted:?} breaks nothing"));
        super::told(&format!("{planted:?}"), &checked, began);
        println!("{:?}", path.into_actions());
    }
}
