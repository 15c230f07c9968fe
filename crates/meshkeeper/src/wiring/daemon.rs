//! `mesh up`: all loops until it is told to stop; the manifest and people's words as they come.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use mesh_loops::rotation::keeper::Told;
use mesh_sdk::bus::{Bucket, Key};
use mesh_sdk::clock::Clock;
use mesh_sdk::decide::backoff;
use mesh_sdk::harness::{Observer, ProviderWish};
use mesh_sdk::scrub::Scrubber;
use mesh_sdk::{ConsumerName, ProviderName, Secret};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::delivery::Delivering;
use super::fleet::{self, Common, OpenFault};
use super::host::Hosting;
use super::installation::Installation;
use super::oneshot::{RunFault, read_lock};
use super::owner::WishOwner;
use super::publish;
use super::rotation::rotating::Rotating;
use super::running::Running;
use super::seat::Seat;
use super::shapes::Closed;
use super::sharing::{News, Sharing};
use super::wish::{Builder, Built};
use super::words::{self, Said};
use crate::manifest::{Machine, Manifest, Provider};

mod shared;

use shared::Shared;

/// The longest time between two readings of the manifest, so that a wish is confirmed.
const REREAD: Duration = Duration::from_secs(600);
/// The shortest, while something leaves quickly.
const REREAD_MIN: Duration = Duration::from_secs(1);
/// After a wish in which somebody had no password yet: with the password it is another one.
const AFTER_NEW: Duration = Duration::from_secs(5);
/// A provider whose admin password could not be read, or a wish that the store did not take, is tried again
/// this often.
const RETRY: Duration = Duration::from_secs(30);

/// What reaches the daemon from outside.
pub enum Outside {
    /// The manifest was read again and can be used.
    Manifest(Arc<Manifest>),
    /// It cannot be used; why.
    Unreadable(String),
}

/// Asks for the manifest to be read again.
pub type Reread = Box<dyn Fn() + Send + Sync>;

/// A running daemon.
pub struct Daemon {
    installation: Arc<Installation>,
    common: Common,
    manifest: Arc<RwLock<Arc<Manifest>>>,
    clock: Clock,
    scrubber: Arc<Scrubber>,
    delivering: Delivering,
    hosting: Hosting,
    /// While this process puts the wish in force.
    rotating: Rotating,
    loops: BTreeMap<ProviderName, Seats>,
    without_loop: Vec<(ProviderName, Closed)>,
    /// Of providers whose loops do not run yet.
    wishes: BTreeMap<ProviderName, ProviderWish>,
    /// Where other hosts may have the loops.
    shared: Option<Shared>,
    /// While this process puts the wish in force.
    owner: Option<WishOwner>,
    generation: u64,
    /// The newest request for a pass, and whether the manifest is read again before it is handed on.
    asked: u64,
    reading_first: bool,
    /// The newest wish could not be put in force: the store failed.
    behind: bool,
    /// So many wishes in a row had somebody without a password.
    with_new: u32,
    stop: CancellationToken,
    source_key: Secret,
    adoptions: HashMap<(ProviderName, ConsumerName), bool>,
}

struct Seats {
    running: Vec<Running<Seat>>,
    made_of: fleet::MadeOf,
    /// Ends a pass where it stands; else a loop that is stopped ends its pass.
    stop: CancellationToken,
}

impl Seats {
    async fn stop(self) {
        for running in self.running {
            running.stop().await;
        }
        self.stop.cancel();
    }
}

impl Daemon {
    /// Puts the wish in force and starts a loop for each server; or, where other hosts share them, those that
    /// are this host's, as they come.
    pub async fn start(
        installation: Arc<Installation>,
        manifest: Arc<Manifest>,
        clock: Clock,
        (scrubber, observers): (Arc<Scrubber>, Vec<Arc<dyn Observer>>),
        (sharing, host): (Option<Sharing>, String),
        stop: CancellationToken,
    ) -> Result<Self, RunFault> {
        let manifest = Arc::new(RwLock::new(manifest));
        let common = Common::of(
            &installation,
            Arc::clone(&manifest),
            clock,
            Arc::clone(&scrubber),
            observers,
        );
        let source_key = installation.secrets.digest_key().clone();
        let bus = installation.bus.as_ref();
        let (shared, owner) = match sharing {
            Some(sharing) => (Some(Shared::open(bus, sharing).await?), None),
            None => (None, Some(WishOwner::open(bus).await?)),
        };
        let mut daemon = Self {
            shared,
            owner,
            installation,
            common,
            clock,
            scrubber,
            delivering: Delivering::on(host.clone()),
            hosting: Hosting::on(host),
            rotating: Rotating::default(),
            loops: BTreeMap::new(),
            without_loop: Vec::new(),
            wishes: BTreeMap::new(),
            generation: 0,
            asked: 0,
            reading_first: false,
            behind: false,
            with_new: 0,
            stop,
            source_key,
            adoptions: HashMap::new(),
            manifest,
        };
        let current = read_lock(&daemon.manifest);
        daemon.take_wish(&current).await?;
        if daemon.shared.is_none() {
            daemon.installation.replacement_told().await?;
        }
        Ok(daemon)
    }

    /// Runs until it is told to stop; then every loop finishes its step. `news`: of the other hosts, where
    /// there are any.
    pub async fn run(
        mut self,
        mut outside: mpsc::Receiver<Outside>,
        reread: Reread,
        mut news: Option<mpsc::UnboundedReceiver<News>>,
    ) -> Result<(), RunFault> {
        let bus = Arc::clone(&self.installation.bus);
        let mut bell = bus.watch(Bucket::Word, &Key::everything()).await?;
        let mut head = bus.watch(Bucket::Meta, &publish::head_key()).await?;
        let stop = self.stop.clone();
        let turned = Arc::clone(&self.rotating.changed);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                told = shared::next(&mut news) => if self.hear_news(told).await.is_break() {
                    break;
                },
                message = outside.recv() => match message {
                    Some(message) => self.take(message).await,
                    None => break,
                },
                _ = bell.next() => self.hear_words(&reread).await,
                () = turned.notified() => self.turn().await,
                _ = head.next(), if self.shared.is_some() => self.hear_of_another_wish().await,
                () = tokio::time::sleep(self.patience()) => {
                    if self.words_waited_long_enough() {
                        self.hand_words_on().await;
                        continue;
                    }
                    self.retry_without_loop().await;
                    reread();
                }
            }
        }
        info!("stopping: every loop finishes its step");
        stop.cancel();
        self.rotating.stop().await;
        self.delivering.stop().await;
        self.hosting.stop().await;
        for (_, seats) in std::mem::take(&mut self.loops) {
            seats.stop().await;
        }
        if let Some(shared) = self.shared.take() {
            shared
                .leave(self.installation.bus.as_ref(), self.clock.now())
                .await;
        }
        Ok(())
    }

    /// The manifest that is in force, as it changes.
    pub fn manifest(&self) -> Arc<RwLock<Arc<Manifest>>> {
        Arc::clone(&self.manifest)
    }

    /// Until the next reading of the manifest.
    fn patience(&self) -> Duration {
        let manifest = read_lock(&self.manifest);
        let wanted = manifest
            .providers
            .values()
            .map(|p| p.timing.list_every.min(p.timing.remove_after));
        let usual = wanted.min().unwrap_or(REREAD).clamp(REREAD_MIN, REREAD);
        let waits = self
            .shared
            .as_ref()
            .map_or(usual, |shared| shared.patience(usual));
        match (self.with_new, self.without_loop.is_empty() && !self.behind) {
            (0, true) => waits,
            (0, false) => waits.min(RETRY),
            (n, _) => waits.min(backoff(AFTER_NEW, n - 1, REREAD)),
        }
    }

    async fn take(&mut self, message: Outside) {
        let outcome = match message {
            Outside::Manifest(manifest) => {
                if let Some(shared) = &mut self.shared {
                    shared.unreadable = None;
                }
                match self.manifest.write() {
                    Ok(mut current) => *current = Arc::clone(&manifest),
                    Err(poisoned) => *poisoned.into_inner() = Arc::clone(&manifest),
                }
                self.take_wish(&manifest).await
            }
            Outside::Unreadable(why) => self.keep_wish(&why).await,
        };
        self.behind = outcome.is_err();
        if let Err(fault) = outcome {
            error!("the wish could not be put in force; the last one stays: {fault}");
        }
        if self.reading_first && !self.words_wait_for_the_wish() {
            self.hand_words_on().await;
        }
    }

    /// The last good wish stays in force, and a condition says so.
    async fn keep_wish(&mut self, why: &str) -> Result<(), RunFault> {
        warn!("the manifest cannot be used; the last good wish stays in force: {why}");
        if let Some(shared) = &mut self.shared {
            shared.unreadable = Some(why.to_owned());
        }
        let (lead, now) = (self.lead(), self.clock.now());
        match (&mut self.owner, lead) {
            (Some(owner), Some(lead)) => {
                let bus = lead.bus.as_ref();
                Ok(owner
                    .look_unreadable(bus, now, self.generation, why)
                    .await?)
            }
            _ => self.keep_to_the_wish_in_force().await,
        }
    }

    /// The bus and the passwords as whoever puts the wish in force uses them, if this process does.
    fn lead(&self) -> Option<Arc<Installation>> {
        match &self.shared {
            None => Some(Arc::clone(&self.installation)),
            Some(shared) => shared.lead.clone(),
        }
    }

    async fn take_wish(&mut self, manifest: &Manifest) -> Result<(), RunFault> {
        let lead = self.lead();
        let view = lead.as_ref().unwrap_or(&self.installation);
        let said = words::read(view.bus.as_ref()).await?;
        let no_key = Secret::new([]);
        let builder = Builder {
            secrets: Some(&view.secrets),
            fallback_key: &no_key,
            source: &Machine,
            may_write: lead.is_some(),
            replaced: view.replaced.is_some(),
            adoptions: words::adoptions(&said),
            host: self.delivering.host(),
        };
        self.adoptions.clone_from(&builder.adoptions);
        let mut built = builder.build(manifest).await?;
        self.with_new = if built.has_new { self.with_new + 1 } else { 0 };
        let host = self.shared.as_ref().map(Shared::host);
        let generation = match &lead {
            Some(lead) => {
                let (bus, now) = (lead.bus.as_ref(), self.clock.now());
                publish::put(bus, &mut built, host, now).await?
            }
            None => match publish::follow(view.bus.as_ref(), &mut built).await? {
                Some(generation) => generation,
                None => return self.keep_to_the_wish_in_force().await,
            },
        };
        self.generation = generation;
        self.wishes = std::mem::take(&mut built.wishes);
        if let Some(shared) = &mut self.shared {
            shared.agreed(&built);
        }
        // They are on the bus now.
        built.entries = Vec::new();
        self.settle_loops(manifest).await?;
        for (name, seats) in &self.loops {
            // A loop that has just been started has its wish.
            let Some(mut wish) = self.wishes.remove(name) else {
                continue;
            };
            for (i, running) in seats.running.iter().enumerate() {
                let last = i + 1 == seats.running.len();
                let own = if last {
                    std::mem::take(&mut wish)
                } else {
                    wish.clone()
                };
                running.wish(own).await;
            }
        }
        self.deliver(&said).await?;
        if let Some(lead) = &lead {
            let (manifest, generation) = (&self.manifest, self.generation);
            let rotating = &mut self.rotating;
            rotating
                .take(lead, manifest, self.clock, generation)
                .await?;
        }
        self.look(&built, manifest).await
    }

    /// A rotation made a step: what is asked for is another now.
    async fn turn(&mut self) {
        let manifest = read_lock(&self.manifest);
        let outcome = self.take_wish(&manifest).await;
        self.behind |= outcome.is_err();
        if let Err(fault) = outcome {
            error!(
                "what a rotation asks for could not be put in force; it is tried again: {fault}"
            );
        }
    }

    /// What is to be delivered on this host may be another now, or have changed.
    async fn deliver(&mut self, said: &Said) -> Result<(), RunFault> {
        let with = (self.clock, Arc::clone(&self.scrubber));
        let (installation, manifest) = (&self.installation, &self.manifest);
        let delivering = &mut self.delivering;
        delivering
            .take(
                installation,
                manifest,
                with,
                (self.generation, &self.common.observers),
            )
            .await?;
        delivering.hear(said).await;
        let (with, manifest) = (
            (self.clock, Arc::clone(&self.scrubber)),
            read_lock(manifest),
        );
        let hosting = &mut self.hosting;
        hosting
            .take(installation, &manifest, with, self.generation)
            .await?;
        hosting.hear(said).await;
        Ok(())
    }

    async fn look(&mut self, built: &Built, manifest: &Manifest) -> Result<(), RunFault> {
        self.look_at_this_host(built).await?;
        let (Some(lead), Some(owner)) = (self.lead(), &mut self.owner) else {
            return Ok(());
        };
        let replaced = self.installation.replaced.as_deref();
        let facts = owner.facts(built, &self.without_loop, replaced, manifest);
        let (bus, now) = (lead.bus.as_ref(), self.clock.now());
        owner.look(bus, now, self.generation, facts).await?;
        let hosts = self.shared.as_ref().map(Shared::hosts);
        WishOwner::retire(bus, now, self.generation, manifest, hosts.as_ref()).await?;
        if self.shared.is_some() {
            self.installation.replacement_told().await?;
        }
        Ok(())
    }

    /// Loops of providers that changed are stopped and started anew; those that left are stopped, and
    /// what they hold is left. A provider that cannot be read keeps the loop it has (O-29).
    async fn settle_loops(&mut self, manifest: &Manifest) -> Result<(), RunFault> {
        self.stop_changed(manifest).await;
        self.start_missing(manifest).await
    }

    async fn stop_changed(&mut self, manifest: &Manifest) {
        let names: Vec<ProviderName> = self.loops.keys().cloned().collect();
        for name in names {
            let keep = match (manifest.providers.get(&name), self.loops.get(&name)) {
                (Some(new), Some(seats)) => seats.made_of.fits(new, &self.source_key, &Machine),
                (None, _) => !manifest.is_whole(),
                (_, None) => true,
            };
            if !keep && let Some(seats) = self.loops.remove(&name) {
                seats.stop().await;
            }
        }
    }

    async fn start_missing(&mut self, manifest: &Manifest) -> Result<(), RunFault> {
        self.without_loop.clear();
        if let Some(shared) = &mut self.shared {
            shared.cannot.clear();
        }
        for provider in manifest.providers.values() {
            if !self.loops.contains_key(&provider.name) {
                self.start_loops(provider).await?;
            }
        }
        self.say_what_it_can(manifest);
        match self.lead() {
            Some(lead) => {
                let bus = lead.bus.as_ref();
                Ok(fleet::publish_providers(bus, manifest, &self.without_loop).await?)
            }
            None => Ok(()),
        }
    }

    async fn start_loops(&mut self, provider: &Provider) -> Result<(), RunFault> {
        let Some(common) = self.common_of(provider) else {
            return Ok(());
        };
        let stop = self.stop.child_token();
        let made_of = fleet::MadeOf::of(provider, &self.source_key, &Machine);
        // Without its wish no loop starts: an empty one would let everybody go.
        let Some(wish) = self.wishes.get(&provider.name) else {
            return Ok(());
        };
        let opened = common.open(provider, &Machine, wish, &stop).await;
        let seats = match opened {
            Ok(seats) => seats,
            Err(fault) => {
                let closed = fault.closed();
                if let (None, OpenFault::Store(fault)) = (&closed, fault) {
                    return Err(fault.into());
                }
                if let Some(closed) = closed {
                    warn!("no loop for now: {}", closed.why);
                    self.is_closed(provider, closed);
                }
                return Ok(());
            }
        };
        let said = words::read(self.installation.bus.as_ref()).await?;
        self.asked = self.asked.max(said.pass());
        let mut running = Vec::with_capacity(seats.len());
        let mut wish = self.wishes.remove(&provider.name).unwrap_or_default();
        let last = seats.len().saturating_sub(1);
        for (i, mut seat) in seats.into_iter().enumerate() {
            seat.set_wish(if i == last {
                std::mem::take(&mut wish)
            } else {
                wish.clone()
            });
            seat.hear_words(&said);
            seat.inner.core_mut().hint();
            info!(provider = seat.inner.label(), "the loop starts");
            let every = provider.timing.verify_every;
            running.push(Running::provisioner(
                seat,
                self.clock,
                every,
                stop.child_token(),
            ));
        }
        self.end_with_the_lease(&provider.name, &stop);
        let seats = Seats {
            running,
            made_of,
            stop,
        };
        self.loops.insert(provider.name.clone(), seats);
        Ok(())
    }

    async fn retry_without_loop(&mut self) {
        let here = self.shared.as_ref();
        if self.without_loop.is_empty() && here.is_none_or(|shared| shared.cannot.is_empty()) {
            return;
        }
        let manifest = read_lock(&self.manifest);
        // Loops that run have taken their wishes with them: only a new wish stops and starts those.
        if let Err(fault) = self.start_missing(&manifest).await {
            error!("the loops could not be started: {fault}");
        }
    }

    /// People said something. Who asks for a pass means the manifest as it is now: it is read again
    /// before the loops hear of that.
    async fn hear_words(&mut self, reread: &Reread) {
        match words::read(self.installation.bus.as_ref()).await {
            Ok(said) => {
                if said.pass() > self.asked {
                    self.asked = said.pass();
                    self.reading_first = true;
                    if let Some(shared) = &mut self.shared {
                        shared.words_came();
                    }
                    reread();
                }
                self.tell_words(said).await;
            }
            Err(fault) => error!("what people said cannot be read: {fault}"),
        }
    }

    /// The manifest was read again.
    async fn hand_words_on(&mut self) {
        self.reading_first = false;
        match words::read(self.installation.bus.as_ref()).await {
            Ok(said) => self.tell_words(said).await,
            Err(fault) => error!("what people said cannot be read: {fault}"),
        }
    }

    async fn tell_words(&mut self, said: Said) {
        let adopting = words::adoptions(&said) != self.adoptions;
        let said = if self.reading_first {
            said.without_pass()
        } else {
            said
        };
        self.delivering.hear(&said).await;
        self.hosting.hear(&said).await;
        self.rotating.tell(Told::Look(self.generation)).await;
        self.rotating.tell(Told::Pass(said.pass())).await;
        let said = Arc::new(said);
        for running in self.loops.values().flat_map(|seats| &seats.running) {
            running.words(Arc::clone(&said)).await;
        }
        if adopting {
            let manifest = read_lock(&self.manifest);
            if let Err(fault) = self.take_wish(&manifest).await {
                error!("the wish could not be put in force: {fault}");
            }
        }
    }
}
