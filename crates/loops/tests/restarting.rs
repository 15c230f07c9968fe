//! Random histories on a feigned engine: never two restarts for one reason, and in the end what runs is what is asked.

#![allow(clippy::expect_used, reason = "helpers of tests fail loudly")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mesh_loops::delivery::record::Version;
use mesh_loops::host::decide::{Credentials, Found, Image, Seen, Stands, Step};
use mesh_loops::host::engine::{Engine, Look, With};
use mesh_loops::host::order::{Container, Order, Restart, Thing};
use mesh_loops::host::record::State;
use mesh_loops::host::{Host, Parts, read_all};
use mesh_sdk::clock::Clock;
use mesh_sdk::scrub::Scrubber;
use mesh_sdk::testing::{MemoryBus, Trace};
use mesh_sdk::{Secret, Time};
use proptest::prelude::*;

use brought::{Held, PERIOD, env_file, order, web};

mod brought;

const WINDOW: Duration = Duration::from_secs(10);

/// What the engine has.
#[derive(Debug, Clone, PartialEq)]
struct One {
    id: u32,
    asked: String,
    image: u32,
    credentials: Option<Version>,
    by_hand: bool,
    runs: bool,
}

#[derive(Debug, Default)]
struct World {
    one: Option<One>,
    image: u32,
    ids: u32,
    down: bool,
    /// The next steps end early: before anything, or with the old one gone.
    cut: Option<Cut>,
    /// The app ends as soon as it runs.
    crashes: bool,
    restarts: Vec<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Cut {
    Before,
    Between,
    Unstarted,
    Untold,
}

#[derive(Default)]
struct Feigned(Mutex<World>);

impl Feigned {
    fn with<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        change(&mut self.0.lock().expect("lock"))
    }
}

fn digest(order: &Order) -> String {
    let Thing::Container(container) = &order.thing else {
        panic!("a container");
    };
    container.digest(&Secret::from("key"))
}

#[async_trait]
impl Engine for Feigned {
    async fn look(&self, _: &Order, _: With<'_>) -> Look {
        self.with(|world| {
            let found = match (&world.one, world.down) {
                (_, true) => Found::Unknown("it is down".to_owned()),
                (None, _) => Found::Absent,
                (Some(one), _) => Found::There(Seen {
                    id: one.id.to_string(),
                    asked: Some(one.asked.clone()),
                    image: Some(one.image.to_string()),
                    credentials: one.credentials.clone(),
                    by_hand: if one.by_hand {
                        vec!["command"]
                    } else {
                        Vec::new()
                    },
                    stands: match one.runs {
                        true => Stands::Running,
                        false => Stands::Stopped("exited".to_owned()),
                    },
                }),
            };
            let (name, id) = ("app".to_owned(), world.image.to_string());
            Look {
                image: Image::Here { name, id },
                found,
            }
        })
    }
    async fn act(&self, order: &Order, step: Step, with: With<'_>) -> Result<(), String> {
        let Credentials::There { version, .. } = with.credentials else {
            panic!("nothing is made without its credentials");
        };
        self.with(|world| {
            let why = &with.record.begun;
            assert!(!why.is_empty(), "a restart without a reason");
            if world.down {
                return Err("it is down".to_owned());
            }
            let cut = world.cut.take();
            if cut == Some(Cut::Before) {
                return Err("cut off".to_owned());
            }
            let new = One {
                id: world.ids,
                asked: digest(order),
                image: world.image,
                credentials: Some(version.clone()),
                by_hand: false,
                runs: true,
            };
            if let Some(old) = &world.one {
                let same = One {
                    id: old.id,
                    ..new.clone()
                };
                assert_ne!(*old, same, "two restarts for one reason: {why:?}");
                for (differs, word) in [
                    (old.asked != new.asked, "manifest asks"),
                    (old.image != new.image, "image changed"),
                    (old.credentials != new.credentials, "credentials of cache"),
                ] {
                    let told = why.iter().any(|one| one.contains(word));
                    assert!(!differs || told, "{word} is not among {why:?}");
                }
            }
            match step {
                Step::Start => {
                    let old = world.one.as_mut().expect("one to start");
                    assert!(!old.runs, "what runs is started: {why:?}");
                    old.runs = !world.crashes;
                }
                Step::Make => {
                    world.one = None;
                    if cut == Some(Cut::Between) {
                        return Err("cut off".to_owned());
                    }
                    world.ids += 1;
                    let runs = !world.crashes && cut != Some(Cut::Unstarted);
                    world.one = Some(One { runs, ..new });
                    if cut == Some(Cut::Unstarted) {
                        return Err("cut off".to_owned());
                    }
                }
            }
            world.restarts.push(why.clone());
            match cut {
                Some(_) => Err("cut off".to_owned()),
                None => Ok(()),
            }
        })
    }
}

struct Scene {
    bus: Arc<MemoryBus>,
    engine: Arc<Feigned>,
    held: Arc<Held>,
    folder: tempfile::TempDir,
    clock: Clock,
    wish: u32,
    host: Option<Host>,
}

impl Scene {
    fn new() -> Self {
        Self {
            bus: Arc::new(MemoryBus::new(Trace::default())),
            engine: Arc::default(),
            held: Arc::default(),
            folder: tempfile::tempdir().expect("folder"),
            clock: Clock::starting_at(Time::from_millis(0)),
            wish: 0,
            host: None,
        }
    }
    async fn bring(&self, password: String) {
        self.held.set(&password);
        self.deliver().await;
    }
    async fn deliver(&self) {
        let mut delivery = brought::delivery(&self.bus, &self.held, self.clock).await;
        delivery.set_orders(vec![order(&self.path())], 1);
        delivery.one_pass().await.expect("pass");
    }
    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("web.env")
    }
    fn order(&self) -> Order {
        let container = Container {
            name: "web".to_owned(),
            engine: "/none".into(),
            image: "app".to_owned(),
            command: vec![self.wish.to_string()],
            env: BTreeMap::new(),
            env_files: BTreeSet::new(),
            mounts: Vec::new(),
            ports: Vec::new(),
            network: None,
            user: None,
            restart: Restart::No,
        };
        Order {
            consumer: web(),
            thing: Thing::Container(Box::new(container)),
            places: BTreeMap::from([(env_file(&self.path()).to_string(), None)]),
        }
    }
    async fn pass(&mut self) {
        let parts = Parts {
            name: "host/here".to_owned(),
            host: "here".to_owned(),
            bus: self.bus.clone(),
            engine: self.engine.clone(),
            clock: self.clock,
            scrubber: Arc::new(Scrubber::default()),
            key: Secret::from("key"),
            period: PERIOD,
            window: WINDOW,
        };
        let mut host = match self.host.take() {
            Some(host) => host,
            None => Host::open(parts).await.expect("open"),
        };
        host.set_orders(vec![self.order()], 1);
        host.one_pass().await.expect("pass");
        self.host = Some(host);
    }
    fn restarts(&self) -> usize {
        self.engine.with(|world| world.restarts.len())
    }
    /// Looks as often as the loop does, for so many minutes.
    async fn wait(&mut self, minutes: u32) {
        for _ in 0..minutes {
            self.pass().await;
            tokio::time::advance(PERIOD).await;
        }
    }
    async fn does(&mut self, event: &Event) {
        match event {
            Event::Wish(n) => self.wish = *n,
            Event::Image(n) => self.engine.with(|world| world.image = *n),
            Event::Password(n) => self.bring(format!("password-{n}")).await,
            Event::Gone => self.engine.with(|world| world.one = None),
            Event::Stopped => self.engine.with(|world| {
                world.one.iter_mut().for_each(|one| one.runs = false);
            }),
            Event::ByHand => self.engine.with(|world| {
                world.one.iter_mut().for_each(|one| one.by_hand = true);
            }),
            Event::Down(is) => self.engine.with(|world| world.down = *is),
            Event::Cut(how) => self.engine.with(|world| world.cut = Some(*how)),
            // What it had not written down yet is lost with it.
            Event::Killed => self.host = None,
            Event::Pass(seconds) => {
                self.pass().await;
                tokio::time::advance(Duration::from_secs(u64::from(*seconds))).await;
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Event {
    Wish(u32),
    Image(u32),
    Password(u32),
    Gone,
    Stopped,
    ByHand,
    Down(bool),
    Cut(Cut),
    Killed,
    Pass(u32),
}

fn event() -> impl Strategy<Value = Event> {
    let cut = prop_oneof![
        Just(Cut::Before),
        Just(Cut::Between),
        Just(Cut::Unstarted),
        Just(Cut::Untold)
    ];
    prop_oneof![
        8 => (1..90u32).prop_map(Event::Pass),
        1 => (0..3u32).prop_map(Event::Wish),
        1 => (0..3u32).prop_map(Event::Image),
        1 => (0..3u32).prop_map(Event::Password),
        1 => Just(Event::Gone),
        1 => Just(Event::Stopped),
        1 => Just(Event::ByHand),
        1 => proptest::bool::ANY.prop_map(Event::Down),
        2 => cut.prop_map(Event::Cut),
        1 => Just(Event::Killed),
    ]
}

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("runtime")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn law1_never_two_restarts_for_one_reason_and_what_is_asked_runs_in_the_end(
        events in proptest::collection::vec(event(), 1..60)
    ) {
        paused().block_on(async {
            let mut scene = Scene::new();
            scene.bring("password-0".to_owned()).await;
            for event in &events {
                scene.does(event).await;
            }
            scene.engine.with(|world| (world.down, world.cut) = (false, None));
            // The brake is at most an hour.
            scene.wait(130).await;
            let record = read_all(scene.bus.as_ref()).await.expect("read").remove(0);
            assert_eq!(record.state, State::Running, "{record:?}");
            assert!(record.begun.is_empty() && record.why.is_none(), "{record:?}");
            let (quiet, order) = (scene.restarts(), scene.order());
            scene.engine.with(|world| {
                let one = world.one.as_ref().expect("it is there");
                assert!(one.runs && !one.by_hand && one.image == world.image);
                assert_eq!(one.asked, digest(&order));
            });
            // Again changes nothing; also not for one that has lost its memory.
            scene.wait(5).await;
            scene.host = None;
            scene.bus.wipe();
            scene.deliver().await;
            scene.wait(5).await;
            assert_eq!(scene.restarts(), quiet);
        });
    }
}

#[tokio::test(start_paused = true)]
async fn h11_an_app_that_crashes_for_a_day_is_started_once_an_hour_and_told() {
    let mut scene = Scene::new();
    scene.bring("password-0".to_owned()).await;
    scene.engine.with(|world| world.crashes = true);
    scene.wait(24 * 60).await;
    assert!(scene.restarts() < 36, "{}", scene.restarts());
    let record = read_all(scene.bus.as_ref()).await.expect("read").remove(0);
    assert!(format!("{:?}", record.why).contains("Braked"), "{record:?}");
    // New credentials end the brake, and help.
    scene.engine.with(|world| world.crashes = false);
    scene.bring("password-1".to_owned()).await;
    scene.wait(2).await;
    let record = read_all(scene.bus.as_ref()).await.expect("read").remove(0);
    assert_eq!((record.state, record.why), (State::Running, None));
}
