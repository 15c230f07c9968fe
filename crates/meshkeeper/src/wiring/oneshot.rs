//! One full pass of everything by this process: `apply`, and the look of `plan`.

use std::sync::{Arc, RwLock};

use mesh_loops::delivery::Looked;
use mesh_sdk::bus::{Bus, Fault};
use mesh_sdk::clock::Clock;
use mesh_sdk::condition::ConditionType;
use mesh_sdk::decide::{Settings, Slot, Step, Summary};
use mesh_sdk::harness::{Mint, MintFault, PassReport, ProviderWish, StoreFault};
use mesh_sdk::scrub::Scrubber;
use mesh_sdk::{ConsumerName, Login, Marker, ProviderName, Secret, Wish};
use tokio_util::sync::CancellationToken;

use super::delivery;
use super::fleet::{self, Common, OpenFault};
use super::host;
use super::installation::{Holder, Installation, InstallationFault};
use super::owner::WishOwner;
use super::publish;
use super::rotation::rotating;
use super::seat::Seat;
use super::secrets::SecretsFault;
use super::shapes::Closed;
use super::wish::{Builder, Built};
use super::words::{self, Said};
use crate::manifest::{Machine, Manifest, Provider};

/// Why a pass could not be made at all.
#[derive(Debug, thiserror::Error)]
pub enum RunFault {
    /// The data folder.
    #[error(transparent)]
    Installation(#[from] InstallationFault),
    /// The secret store or the versions.
    #[error(transparent)]
    Secrets(#[from] SecretsFault),
    /// The bus.
    #[error(transparent)]
    Bus(#[from] Fault),
    /// A loop's store.
    #[error(transparent)]
    Store(#[from] StoreFault),
}

/// What one pass of everything came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Each loop's pass.
    pub passes: Vec<PassReport>,
    /// Providers that have no loop, and why.
    pub without_loop: Vec<(ProviderName, Closed)>,
    /// Passes that could not be kept.
    pub faults: Vec<String>,
}

impl Outcome {
    /// What the pass of another loop came to; `None`: it has nothing to look after.
    fn came_to(&mut self, whose: &str, pass: Result<Option<PassReport>, StoreFault>) {
        match pass {
            Ok(report) => self.passes.extend(report),
            Err(fault) => self.faults.push(format!("{whose}: {fault}")),
        }
    }
}

/// Makes one pass of everything on an open installation (H-24). The wish is put in force first. `me`: where
/// other hosts may have loops on the same bus. Then each provider's lease is taken for the pass, and whoever
/// has one is asked for it. Then what is to be delivered on this host is brought where it belongs, and what runs here is
/// restarted if that takes it.
pub async fn apply(
    installation: &Installation,
    manifest: Manifest,
    clock: Clock,
    scrubber: Arc<Scrubber>,
    (me, this_host): (Option<Holder>, &str),
    stop: CancellationToken,
) -> Result<Outcome, RunFault> {
    let bus = installation.bus.as_ref();
    let said = words::read(bus).await?;
    let no_key = Secret::new([]);
    let builder = Builder {
        secrets: Some(&installation.secrets),
        fallback_key: &no_key,
        source: &Machine,
        may_write: true,
        replaced: installation.replaced.is_some(),
        adoptions: words::adoptions(&said),
        host: this_host,
    };
    let mut built = builder.build(&manifest).await?;
    let host = me.as_ref().map(|me| me.host.as_str());
    let mut generation = publish::put(bus, &mut built, host, clock.now()).await?;
    let manifest = Arc::new(RwLock::new(Arc::new(manifest)));
    let common = Common::of(
        installation,
        Arc::clone(&manifest),
        clock,
        Arc::clone(&scrubber),
        Vec::new(),
    );
    let (told, pass_asked) = (|| delivery::said(&said), said.pass());
    let current = read_lock(&manifest);
    let mut pass = Pass {
        common,
        manifest: Arc::clone(&manifest),
        built,
        said: said.clone(),
        stop,
        outcome: Outcome::default(),
    };
    // Each step of a rotation is a wish of its own; so many are a whole one, and a few more.
    for step in 0..STEPS {
        match &me {
            None => {
                pass.of(current.providers.values(), |this, _| this.common.clone())
                    .await?
            }
            Some(me) => pass.leased(installation, &current, me).await?,
        }
        let with = (clock, Arc::clone(&scrubber));
        let delivered = delivery::one_pass(
            installation,
            &manifest,
            with,
            (this_host, generation),
            told(),
        );
        pass.outcome.came_to("delivery", delivered.await);
        let rotated = rotating::one_pass(installation, &manifest, clock, pass_asked).await;
        let moved = matches!(&rotated, Ok(Some((_, true))));
        // It asks no server: where it makes no step and nothing failed there is nothing to tell of its pass.
        let tells = |one: &(PassReport, bool)| one.1 || one.0.summary.failed > 0;
        let rotated = rotated.map(|one| one.filter(tells).map(|(report, _)| report));
        pass.outcome.came_to("rotation", rotated);
        if !moved || pass.is_stopping() || step + 1 == STEPS {
            break;
        }
        pass.built = builder.build(&current).await?;
        generation = publish::put(bus, &mut pass.built, host, clock.now()).await?;
        // What was true before the step is not told.
        pass.outcome = Outcome::default();
    }
    let (mut outcome, built) = (pass.outcome, pass.built);
    let (with, to) = ((clock, scrubber), (this_host, generation));
    let hosted = host::one_pass(installation, &manifest, with, to, pass_asked).await;
    outcome.came_to("host", hosted);
    fleet::publish_providers(bus, &current, &outcome.without_loop).await?;
    outcome.passes.sort_by(|a, b| a.name.cmp(&b.name));
    let mut owner = WishOwner::open(bus).await?;
    let facts = owner.facts(
        &built,
        &outcome.without_loop,
        installation.replaced.as_deref(),
        &current,
    );
    owner.look(bus, clock.now(), generation, facts).await?;
    WishOwner::retire(bus, clock.now(), generation, &current, None).await?;
    if outcome.faults.is_empty() && outcome.without_loop.is_empty() {
        installation.replacement_told().await?;
    }
    Ok(outcome)
}

/// So many wishes in a row one process puts in force.
const STEPS: u32 = 8;

/// A pass that is being made.
pub(super) struct Pass {
    pub(super) common: Common,
    pub(super) manifest: Arc<RwLock<Arc<Manifest>>>,
    built: Built,
    said: Said,
    stop: CancellationToken,
    pub(super) outcome: Outcome,
}

impl Pass {
    /// Makes the pass of some providers, all at the same time.
    pub(super) async fn of<'p>(
        &mut self,
        providers: impl Iterator<Item = &'p Provider>,
        common: impl Fn(&Self, &ProviderName) -> Common,
    ) -> Result<(), RunFault> {
        let mut seats = Vec::new();
        for provider in providers {
            let (common, outcome) = (common(self, &provider.name), &mut self.outcome);
            seats.extend(open(&common, provider, &self.built, &self.stop, outcome).await?);
        }
        let mut running = tokio::task::JoinSet::new();
        for mut seat in seats {
            seat.set_wish(wish_of(&self.built, &seat.provider));
            seat.hear_words(&self.said);
            seat.inner.core_mut().hint();
            running.spawn(async move { seat.whole_pass().await });
        }
        while let Some(ended) = running.join_next().await {
            let faults = &mut self.outcome.faults;
            match ended {
                Ok(Ok(report)) => self.outcome.passes.push(report),
                Ok(Err(fault)) => faults.push(fault.to_string()),
                Err(_) => faults.push("a loop broke off".to_owned()),
            }
        }
        Ok(())
    }
    /// Whether it was told to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }
}

/// The manifest cannot be used: the last good wish stays in force, and a condition says so.
pub async fn unreadable(
    installation: &Installation,
    clock: Clock,
    why: &str,
) -> Result<(), RunFault> {
    let bus = installation.bus.as_ref();
    let generation = publish::head(bus).await?.generation;
    let mut owner = WishOwner::open(bus).await?;
    owner
        .look_unreadable(bus, clock.now(), generation, why)
        .await?;
    Ok(())
}

/// The manifest that is in force.
pub fn read_lock(manifest: &Arc<RwLock<Arc<Manifest>>>) -> Arc<Manifest> {
    match manifest.read() {
        Ok(current) => Arc::clone(&current),
        Err(poisoned) => Arc::clone(&poisoned.into_inner()),
    }
}

async fn open_all(
    common: &Common,
    manifest: &Manifest,
    built: &Built,
    stop: &CancellationToken,
    outcome: &mut Outcome,
) -> Result<Vec<Seat>, RunFault> {
    let mut seats = Vec::new();
    for provider in manifest.providers.values() {
        seats.extend(open(common, provider, built, stop, outcome).await?);
    }
    Ok(seats)
}

/// Opens a provider's loops, or notes why it has none.
async fn open(
    common: &Common,
    provider: &Provider,
    built: &Built,
    stop: &CancellationToken,
    outcome: &mut Outcome,
) -> Result<Vec<Seat>, RunFault> {
    let none = ProviderWish::default();
    let wish = built.wishes.get(&provider.name).unwrap_or(&none);
    match common.open(provider, &Machine, wish, stop).await {
        Ok(opened) => return Ok(opened),
        Err(fault) => match (fault.closed(), fault) {
            (Some(closed), _) => {
                let name = provider.name.clone();
                outcome.without_loop.push((name, closed));
            }
            (None, OpenFault::Store(fault)) => return Err(fault.into()),
            (None, _) => {}
        },
    }
    Ok(Vec::new())
}

fn wish_of(built: &Built, provider: &ProviderName) -> ProviderWish {
    built.wishes.get(provider).cloned().unwrap_or_default()
}

/// What `plan` shows of one loop.
pub struct Planned {
    /// The provider, with its node.
    pub label: String,
    /// What would be done, by consumer.
    pub steps: Vec<(Slot, Step)>,
    /// Whose logins are leaving.
    pub leaving: Vec<Slot>,
    /// Whom of those a person's word could let go.
    pub going: Vec<(ConsumerName, Login)>,
    /// Why none of them goes without a person's word, if none does.
    pub held: Option<String>,
    /// The times of a removal's steps.
    pub times: Settings,
    /// What stays on the backend when a login goes.
    pub keeps: &'static str,
    /// Consumers that could not be asked, and why.
    pub unknown: Vec<(ConsumerName, String)>,
    /// Consumers that wait for a person: taken, secret lost, braked.
    pub waiting: Vec<Slot>,
    /// In numbers.
    pub summary: Summary,
    /// The server did not answer.
    pub down: bool,
}

/// A plan: what `apply` would do now. Nothing was written anywhere.
#[derive(Default)]
pub struct Plan {
    /// Each loop's part.
    pub loops: Vec<Planned>,
    /// Providers that have no loop, and why.
    pub without_loop: Vec<(ProviderName, Closed)>,
    /// Places on this host that would be written, or cannot be.
    pub deliveries: Vec<Looked>,
    /// What on this host would be made or started, or cannot be.
    pub hosted: Vec<mesh_loops::host::Looked>,
    /// Who would get another password, and why.
    pub rotations: Vec<(ProviderName, ConsumerName, String)>,
    /// What is amiss in the wish.
    pub built: Built,
}

/// Refuses to mint: a plan makes nothing.
struct NoMint;

#[async_trait::async_trait]
impl Mint for NoMint {
    async fn mint(&self, _: &ProviderName, _: &ConsumerName) -> Result<Arc<Wish>, MintFault> {
        Err(MintFault::NotNow("a plan makes no password".to_owned()))
    }
}

/// Looks at everything and says what `apply` would do; writes nothing, and makes no folder.
pub async fn plan(
    installation: Option<&Installation>,
    manifest: Manifest,
    (clock, this_host): (Clock, &str),
    scrubber: Arc<Scrubber>,
    stop: CancellationToken,
) -> Result<Plan, RunFault> {
    let with = (clock, Arc::clone(&scrubber));
    let nothing: Arc<dyn Bus> = Arc::new(super::nothing::NoBus);
    let bus = installation.map_or(nothing, |i| Arc::clone(&i.bus));
    let said = words::read(bus.as_ref()).await?;
    let no_key = Secret::from("a plan without an installation");
    let builder = Builder {
        secrets: installation.map(|i| i.secrets.as_ref()),
        fallback_key: &no_key,
        source: &Machine,
        may_write: false,
        replaced: installation.is_some_and(|i| i.replaced.is_some()),
        adoptions: words::adoptions(&said),
        host: this_host,
    };
    let mut plan = Plan {
        built: builder.build(&manifest).await?,
        ..Plan::default()
    };
    let mesh = manifest.mesh.clone();
    let marker: Arc<dyn Fn(&ProviderName) -> Marker + Send + Sync> = match installation {
        Some(installation) => installation.marker(),
        None => Arc::new(move |p| Marker::new(mesh.clone(), "none", p.clone(), no_key.clone())),
    };
    let seed = installation.map_or(0, Installation::seed);
    let mint: Arc<dyn Mint> = Arc::new(NoMint);
    let common = Common {
        bus,
        marker,
        mint,
        clock,
        scrubber,
        observers: Vec::new(),
        seed,
        tally: Arc::default(),
        fence: None,
        replaced: installation.is_some_and(|i| i.replaced.is_some()),
    };
    let mut outcome = Outcome::default();
    let seats = open_all(&common, &manifest, &plan.built, &stop, &mut outcome).await?;
    plan.without_loop = outcome.without_loop;
    let mut looking = tokio::task::JoinSet::new();
    for mut seat in seats {
        seat.set_wish(wish_of(&plan.built, &seat.provider));
        seat.hear_words(&said);
        let keeps = manifest.providers.get(&seat.provider);
        let keeps = keeps.map_or("", |provider| provider.kind.descriptor.keeps);
        looking.spawn(async move { planned(seat, keeps).await });
    }
    while let Some(ended) = looking.join_next().await {
        if let Ok(part) = ended {
            plan.loops.push(part);
        }
    }
    plan.loops.sort_by(|a, b| a.label.cmp(&b.label));
    plan.hosted = match installation {
        Some(installation) => {
            host::look_only(installation, &manifest, with.clone(), this_host).await?
        }
        None => host::all_new(&manifest, this_host),
    };
    plan.deliveries = match installation {
        Some(installation) => {
            let manifest = Arc::new(RwLock::new(Arc::new(manifest)));
            plan.rotations =
                rotating::look_only(installation, Arc::clone(&manifest), with.0).await?;
            delivery::look_only(installation, manifest, with, this_host).await?
        }
        // Nobody has any credentials yet.
        None => delivery::all_new(&manifest, this_host),
    };
    Ok(plan)
}

async fn planned(mut seat: Seat, keeps: &'static str) -> Planned {
    seat.weigh().await;
    let looked = seat.inner.look_only().await;
    let core = seat.inner.core();
    let slots = core.slots();
    let unknown = slots
        .iter()
        .filter(|s| s.wanted.is_some() && !s.consumer.is_canary());
    let unknown = unknown.filter_map(|s| {
        s.record
            .unknown
            .as_ref()
            .map(|u| (s.consumer.clone(), u.why.to_string()))
    });
    let waiting = slots.iter().filter(|s| {
        use mesh_sdk::decide::State;
        s.wanted.is_some() && matches!(s.state(), State::Refused | State::Braked)
    });
    Planned {
        label: seat.inner.label().to_owned(),
        steps: looked
            .steps
            .iter()
            .map(|(i, step)| (slots[*i].clone(), *step))
            .collect(),
        leaving: slots
            .iter()
            .filter(|s| s.record.leaves())
            .cloned()
            .collect(),
        going: core
            .leavers()
            .filter(|one| one.may_be_let_go(core.is_unguarded()))
            .map(|one| (one.consumer.clone(), one.login.clone()))
            .collect(),
        held: looked
            .facts
            .into_iter()
            .find(|fact| fact.kind == ConditionType::RemovalHeld)
            .map(|fact| fact.message),
        times: core.settings().clone(),
        keeps,
        unknown: unknown.collect(),
        waiting: waiting.cloned().collect(),
        summary: looked.summary,
        down: core.is_down(),
    }
}
