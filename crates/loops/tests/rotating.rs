//! Rotation over days with crashes, lost acknowledgements, and a bus that is wiped or put back, by seed.

#![allow(clippy::expect_used, reason = "helpers of tests fail loudly")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mesh_loops::rotation::decide::{Asks, Backend, Begin, Make, Said, Seen};
use mesh_loops::rotation::journal::{Held, Journal, Seat, Step, Way};
use mesh_loops::rotation::keeper::{Asker, Parts, Rotation, Source, SourceFault};
use mesh_loops::rotation::store::{All, Journals, Of};
use mesh_sdk::bus::{Bucket, Bus, Key};
use mesh_sdk::clock::Clock;
use mesh_sdk::testing::{MemoryBus, Trace};
use mesh_sdk::vault::SecretId;
use mesh_sdk::{ConsumerName, ProviderName, Time};

/// What a server and an app would be: which passwords let in, and with which one the app comes.
#[derive(Default)]
struct World {
    valid: BTreeSet<String>,
    /// Every password that ever let in.
    ever: BTreeSet<String>,
    app: String,
    app_turn: u64,
    sealed: u32,
    /// The process dies after the next password is sealed.
    dies: bool,
    word: Option<Time>,
}

#[derive(Clone)]
struct Facts(Arc<Mutex<World>>);

fn of() -> Of {
    let names = (ProviderName::new("cache"), ConsumerName::new("web"));
    (names.0.expect("name"), names.1.expect("name"))
}

fn held(id: &str) -> Held {
    Held {
        seat: Seat::First,
        place: of().1,
        id: SecretId(id.to_owned()),
        copy: None,
    }
}

/// What a journal asks a server for.
fn asked(journal: Option<&Journal>) -> BTreeSet<String> {
    let Some(journal) = journal else {
        return BTreeSet::from(["0".to_owned()]);
    };
    let current = journal
        .current
        .as_ref()
        .map_or("0", |held| held.id.0.as_str());
    let beside = journal.beside().map(|held| held.id.0.clone());
    beside.into_iter().chain([current.to_owned()]).collect()
}

#[async_trait]
impl Source for Facts {
    async fn askers(&self, _: &All) -> Result<Vec<Asker>, SourceFault> {
        let word = self.0.lock().expect("lock").word;
        let begin = word.map(|at| Begin {
            at,
            due: at,
            reason: String::new(),
        });
        Ok(vec![Asker {
            of: of(),
            asks: Asks {
                way: Way::TwoPasswords,
                enabled: true,
                every: None,
                grace: None,
                given: false,
                cannot: None,
            },
            said: Said { begin, about: None },
            paused: None,
        }])
    }
    async fn seen(&self, _: &Asker, journal: &Journal) -> Result<Seen, SourceFault> {
        let world = self.0.lock().expect("lock");
        let is = world.valid == asked(Some(journal));
        let behind = world.app_turn < journal.turn;
        Ok(Seen {
            backend: match is {
                true => Backend::AsAsked,
                false => Backend::NotYet("not applied".to_owned()),
            },
            given: false,
            lost: false,
            outstanding: behind
                .then(|| ("the app".to_owned(), String::new()))
                .into_iter()
                .collect(),
            delivered: true,
            paused: None,
        })
    }
    async fn current(&self, _: &Of) -> Result<Option<Held>, SourceFault> {
        Ok(Some(held("0")))
    }
    async fn seal(&self, _: &Of, _: Make) -> Result<Held, SourceFault> {
        let mut world = self.0.lock().expect("lock");
        world.sealed += 1;
        if std::mem::take(&mut world.dies) {
            return Err(SourceFault::NotNow("killed".to_owned()));
        }
        Ok(held(&world.sealed.to_string()))
    }
    async fn discard(&self, _: &Of, _: &Held) {}
    fn changed(&self) {}
}

struct Scene {
    bus: Arc<MemoryBus>,
    folder: tempfile::TempDir,
    journals: Arc<Journals>,
    facts: Facts,
    clock: Clock,
    running: Rotation,
    older: Option<Vec<u8>>,
}

async fn open(
    bus: &Arc<MemoryBus>,
    journals: &Arc<Journals>,
    facts: &Facts,
    clock: Clock,
) -> Rotation {
    let parts = Parts {
        bus: Arc::clone(bus) as Arc<dyn Bus>,
        journals: Arc::clone(journals),
        source: Arc::new(facts.clone()),
        clock,
        period: Duration::from_secs(60),
    };
    Rotation::open(parts).await.expect("open")
}

impl Scene {
    async fn new() -> Self {
        let bus = Arc::new(MemoryBus::new(Trace::default()));
        let folder = tempfile::tempdir().expect("folder");
        let journals = Arc::new(Journals::of(folder.path(), true));
        let start = BTreeSet::from(["0".to_owned()]);
        let facts = Facts(Arc::new(Mutex::new(World {
            valid: start.clone(),
            ever: start,
            app: "0".to_owned(),
            ..World::default()
        })));
        let clock = Clock::starting_at(Time::from_millis(1_800_000_000_000));
        let running = open(&bus, &journals, &facts, clock).await;
        Self {
            bus,
            folder,
            journals,
            facts,
            clock,
            running,
            older: None,
        }
    }
    fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.facts.0.lock().expect("lock")
    }
    async fn journal(&self) -> Option<Journal> {
        let all = self
            .journals
            .read(self.bus.as_ref())
            .await
            .expect("journals");
        all.get(&of()).cloned()
    }
    /// The process is killed, and another one follows: it knows what lies on the bus and in the folder.
    async fn restart(&mut self) {
        self.journals = Arc::new(Journals::of(self.folder.path(), true));
        self.running = open(&self.bus, &self.journals, &self.facts, self.clock).await;
    }
    async fn act(&mut self, what: u64) {
        match what {
            0..=3 => drop(self.running.one_pass().await),
            4 | 5 => {
                let journal = self.journal().await;
                let mut world = self.world();
                world.valid = asked(journal.as_ref());
                let valid = world.valid.clone();
                world.ever.extend(valid);
            }
            // The app takes up what lies there; now and then it does not say so.
            6 | 7 => {
                let Some(journal) = self.journal().await else {
                    return;
                };
                let mut world = self.world();
                if let Some(current) = &journal.current {
                    world.app = current.id.0.clone();
                    if what == 6 {
                        world.app_turn = journal.turn;
                    }
                }
            }
            8 => self.restart().await,
            9 => self.world().dies = true,
            10 => {
                let now = self.clock.now();
                self.world().word = Some(now);
            }
            11 => self.bus.wipe(),
            12 => {
                let found = self
                    .bus
                    .get(Bucket::Meta, &Journals::key(&of()))
                    .await
                    .expect("read");
                self.older = found.map(|entry| entry.value);
            }
            _ => match self.older.clone() {
                Some(older) => {
                    self.bus
                        .put(Bucket::Meta, Key::of(&["rotation", "cache", "web"]), older)
                }
                None => self.restart().await,
            },
        }
    }
    async fn holds(&self, seed: u64, op: u64) {
        let journal = self.journal().await;
        let world = self.world();
        assert!(
            world.valid.contains(&world.app),
            "seed {seed}, op {op}: the app comes with {} and only {:?} let in; {journal:?}",
            world.app,
            world.valid
        );
        assert!(
            world.valid.len() <= 2,
            "seed {seed}, op {op}: {:?}",
            world.valid
        );
        let number = journal.map_or(0, |journal| journal.number);
        let ever = u64::try_from(world.ever.len()).expect("number");
        assert!(
            ever <= number + 1,
            "seed {seed}, op {op}: {ever} passwords in {number} rotations"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn b6_h22_no_crash_and_no_restored_bus_mints_twice_or_takes_away_what_an_app_comes_with() {
    let mut finished = 0;
    for seed in 0..150u64 {
        let mut scene = Scene::new().await;
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for op in 0..120 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            scene.act(state % 14).await;
            scene.holds(seed, op).await;
            tokio::time::advance(Duration::from_secs(state % 90)).await;
        }
        scene.world().dies = false;
        // Undisturbed it comes to its end, and again changes nothing.
        for _ in 0..20 {
            for what in [0, 4, 6] {
                scene.act(what).await;
                scene.holds(seed, 999).await;
            }
        }
        let before = scene.journal().await;
        assert!(
            before.as_ref().is_none_or(|one| one.step == Step::Resting),
            "seed {seed}: {before:?}"
        );
        let one = scene.world().valid.clone();
        assert_eq!(
            (one.len(), &one),
            (1, &asked(before.as_ref())),
            "seed {seed}"
        );
        for what in [0, 4, 6, 0] {
            scene.act(what).await;
        }
        assert_eq!(scene.journal().await, before, "seed {seed}");
        finished += before.map_or(0, |journal| journal.number);
    }
    assert!(finished > 300, "only {finished} rotations were tried");
}
