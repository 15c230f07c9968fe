//! A small world: a bus, a backend and a mint in memory, a wish, and the real runner.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::bus::Bus;
use mesh_sdk::clock::Clock;
use mesh_sdk::decide::{SecretState, Settings, State, Wanted, WholeWish};
use mesh_sdk::handle::AdapterHandle;
use mesh_sdk::harness::skeleton::{self, Message, Word, listen_for_hints};
use mesh_sdk::harness::{
    Limits, Mint, Observer, Parts, PassReport, ProviderWish, Provisioner, Scrub, StoreFault,
};
use mesh_sdk::provision::WishParts;
use mesh_sdk::testing::{FakeBackend, FakeMint, FakeValues, MemoryBus, Trace};
use mesh_sdk::{ConsumerName, Login, Marker, MeshId, ProviderName, Secret, Time, Wish};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// What the manifest asks for one consumer.
#[derive(Debug, Clone)]
pub(crate) struct Need {
    pub(crate) name: ConsumerName,
    /// None: it is to be minted.
    pub(crate) password: Option<String>,
    pub(crate) grants: String,
    pub(crate) enabled: bool,
}

impl Need {
    pub(crate) fn given(name: &str) -> Self {
        Self {
            name: ConsumerName::new(name).expect("name"),
            password: Some(format!("given-{name}")),
            grants: String::new(),
            enabled: true,
        }
    }
    pub(crate) fn minted(name: &str) -> Self {
        Self {
            password: None,
            ..Self::given(name)
        }
    }
}

fn key() -> Secret {
    Secret::from("the installation's key")
}

fn wish_of(need: &Need, password: Option<Secret>) -> Wish {
    let parts = WishParts {
        consumer: need.name.clone(),
        login: Login::from(&need.name),
        password,
        values: Arc::new(FakeValues {
            grants: need.grants.clone(),
        }),
        canonical_values: need.grants.clone().into_bytes(),
        enabled: need.enabled,
        adopt: false,
        exact: false,
        second: None,
        base: None,
        generated: false,
    };
    Wish::new(parts, &key())
}

pub(crate) struct World {
    pub(crate) trace: Trace,
    pub(crate) bus: MemoryBus,
    pub(crate) backend: FakeBackend,
    pub(crate) mint: FakeMint,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    pub(crate) needs: Vec<Need>,
    pub(crate) generation: u64,
    pub(crate) provider: String,
    /// Our own login is asked for, without which nothing is removed.
    pub(crate) canary: bool,
    pub(crate) scrub: Scrub,
    pub(crate) stop: CancellationToken,
}

impl World {
    /// These consumers, each with a password that the manifest gives.
    pub(crate) fn of(names: &[&str]) -> Self {
        Self::with(names.iter().map(|name| Need::given(name)).collect())
    }
    /// `n` consumers, `c0` and so on.
    pub(crate) fn many(n: usize) -> Self {
        Self::with((0..n).map(|i| Need::given(&format!("c{i}"))).collect())
    }
    pub(crate) fn with(needs: Vec<Need>) -> Self {
        let trace = Trace::default();
        let complete =
            |name: &ConsumerName, secret| wish_of(&Need::minted(name.as_str()), Some(secret));
        Self {
            bus: MemoryBus::new(trace.clone()),
            backend: FakeBackend::new(trace.clone()),
            mint: FakeMint::new(trace.clone(), complete),
            trace,
            clock: Clock::starting_at(Time::from_millis(1_700_000_000_000)),
            settings: Settings::default(),
            limits: Limits::default(),
            needs,
            generation: 1,
            provider: "cache".into(),
            canary: false,
            scrub: Arc::new(|text: &str| text.replace("planted", "***")),
            stop: CancellationToken::new(),
        }
    }
    /// The same world with a backend of other abilities.
    pub(crate) fn able(mut self, change: impl FnOnce(&mut mesh_sdk::Capabilities)) -> Self {
        self.backend = self.backend.with(change);
        self
    }
    /// With our own login on it.
    pub(crate) fn guarded(mut self) -> Self {
        self.canary = true;
        self
    }
    /// One by one only.
    pub(crate) fn singly(self) -> Self {
        self.able(|caps| (caps.holds_all, caps.create_all) = (false, false))
    }

    /// The wish as the program would make it now: a minted password is there once it is a version.
    pub(crate) fn wish(&self) -> ProviderWish {
        let mut wish = ProviderWish {
            whole: WholeWish {
                generation: self.generation,
                ..WholeWish::default()
            },
            ..ProviderWish::default()
        };
        let own = Need {
            name: ConsumerName::canary(),
            enabled: false,
            ..Need::given("own")
        };
        for need in self.needs.iter().chain(self.canary.then_some(&own)) {
            let password = need
                .password
                .clone()
                .or_else(|| self.mint.version(&need.name));
            let one = wish_of(need, password.map(Secret::from));
            let secret = match one.password() {
                Some(_) => SecretState::Ready,
                None => SecretState::New,
            };
            wish.whole.wanted.push(Wanted {
                consumer: need.name.clone(),
                login: one.login().clone(),
                digest: one.digest(),
                enabled: need.enabled,
                adopt: false,
                secret,
            });
            wish.wishes.insert(need.name.clone(), Arc::new(one));
        }
        wish
    }
    pub(crate) fn parts(&self) -> Parts {
        let provider = ProviderName::new(&self.provider).expect("provider");
        Parts {
            marker: Marker::new(
                MeshId::new("home").expect("mesh"),
                "i1",
                provider.clone(),
                key(),
            ),
            provider,
            node: None,
            adapter: self.adapter(),
            settings: self.settings.clone(),
            limits: self.limits,
            bus: Arc::new(self.bus.clone()) as Arc<dyn Bus>,
            mint: Arc::new(self.mint.clone()) as Arc<dyn Mint>,
            clock: self.clock,
            scrub: Arc::clone(&self.scrub),
            observers: Vec::new(),
            stop: self.stop.clone(),
        }
    }
    pub(crate) fn adapter(&self) -> AdapterHandle {
        Arc::new(self.backend.clone())
    }
    /// A new process: opened on what is stored, with the wish of now.
    pub(crate) async fn open(&self) -> Provisioner {
        let mut loop_ = Provisioner::open(self.parts()).await.expect("opens");
        loop_.set_wish(self.wish());
        loop_
    }
    /// One process that makes one pass.
    pub(crate) async fn apply(&self) -> Result<PassReport, StoreFault> {
        self.open().await.pass().await
    }
    /// A process that has made its first passes, with nothing left to do and the calls forgotten.
    pub(crate) async fn settled(&self) -> Provisioner {
        let mut loop_ = self.open().await;
        for _ in 0..3 {
            loop_.pass().await.expect("a pass");
            tokio::time::advance(MINUTE).await;
        }
        self.backend.forget_calls();
        loop_
    }
    /// Runs it with the real runner.
    pub(crate) async fn run(&self) -> Running {
        self.run_this(self.open().await)
    }
    pub(crate) fn run_this(&self, loop_: Provisioner) -> Running {
        let (door, inbox) = mpsc::channel(64);
        let (clock, longest) = (self.clock, self.settings.verify_every);
        let stop = self.stop.clone();
        let hints = listen_for_hints(self.adapter(), door.clone(), stop.clone());
        let task = tokio::spawn(skeleton::run(loop_, clock, longest, inbox, stop.clone()));
        Running {
            door,
            stop,
            task,
            hints: tokio::spawn(hints),
        }
    }
}

/// A loop that runs.
pub(crate) struct Running {
    pub(crate) door: mpsc::Sender<Message<Word>>,
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<Provisioner>,
    pub(crate) hints: JoinHandle<()>,
}

impl Running {
    /// Asks for a pass and waits for it.
    pub(crate) async fn pass(&self) -> Result<PassReport, StoreFault> {
        let (answer, done) = oneshot::channel();
        self.door.send(Message::Pass(answer)).await.expect("runs");
        done.await.expect("answers")
    }
    pub(crate) async fn stop(self) -> Provisioner {
        self.stop.cancel();
        self.hints.await.expect("the listener ends");
        self.task.await.expect("the loop ends")
    }
}

/// How a consumer stands.
pub(crate) fn state(loop_: &Provisioner, name: &str) -> State {
    let slot = slot(loop_, name);
    loop_.core().slots()[slot].state()
}
pub(crate) fn slot(loop_: &Provisioner, name: &str) -> usize {
    let name = ConsumerName::new(name).expect("name");
    loop_.core().slot_of(&name).expect("a slot")
}
/// How many stand how.
pub(crate) fn states(loop_: &Provisioner) -> HashMap<State, usize> {
    let wanted = loop_.core().slots().iter().filter(|s| s.wanted.is_some());
    wanted.fold(HashMap::new(), |mut all, slot| {
        *all.entry(slot.state()).or_default() += 1;
        all
    })
}
/// The conditions that stand: type and subject.
pub(crate) fn standing(loop_: &Provisioner) -> Vec<String> {
    let raised = loop_.ledger().kept().filter(|k| k.raised);
    raised
        .map(|k| format!("{} {}", k.condition.id.kind, k.condition.id.subject))
        .collect()
}

/// Keeps every report.
#[derive(Default)]
pub(crate) struct Reports(pub(crate) std::sync::Mutex<Vec<PassReport>>);

impl Observer for Reports {
    fn passed(&self, report: &PassReport) {
        self.0.lock().expect("reports").push(report.clone());
    }
}
