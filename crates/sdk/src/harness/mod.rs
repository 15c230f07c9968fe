//! The driver: carries out what the core decides, with deadlines, bounded concurrency and a store.
//!
//! [`skeleton`] is the shape of every loop; [`Provisioner`] is the loop around one adapter and one
//! server. It decides nothing: who is asked, what is applied and when the next pass is due come from
//! [`crate::decide`].

mod act;
mod ask;
pub mod beat;
mod call;
pub mod declared;
mod observe;
mod pass;
mod shelf;
pub mod skeleton;
mod store;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::adapter::Fence;
use crate::bus::{Bus, Rev};
use crate::clock::Clock;
use crate::decide::conditions::Ledger;
use crate::decide::{Core, SecretState, Settings, State, WholeWish};
use crate::event::Event;
use crate::handle::{AdapterHandle, Asked};
use crate::mark::Marker;
use crate::name::{ConsumerName, ProviderName};
use crate::provision::Wish;
use crate::time::Time;

pub use self::beat::{Beat, Pulse, PulseRef};
pub use self::observe::Observation;
pub use self::pass::{Looked, PassReport};
pub use self::store::{LoopRecord, StoreFault, read_records};

/// How much a harness does at once on one backend.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Single calls in flight at once.
    pub concurrency: usize,
    /// Consumers in one bulk `create`. A mass heal is spread over batches of so many, each with its
    /// intents, its look again, and a look for the stop before it (H-20).
    pub batch: usize,
    /// No single command of ours may block the server longer (H-16).
    pub block_budget: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            concurrency: 8,
            batch: 2_000,
            block_budget: Duration::from_millis(50),
        }
    }
}

/// Makes passwords (H-22). The program's wiring implements it on vault and bus.
#[async_trait]
pub trait Mint: Send + Sync + 'static {
    /// Makes a password for a consumer, seals it, has it on the disk, and makes it the version by
    /// compare-and-set; a lost race answers the winner's. Returns the wish with the password in it.
    async fn mint(
        &self,
        provider: &ProviderName,
        consumer: &ConsumerName,
    ) -> Result<Arc<Wish>, MintFault>;

    /// The same for many, with as few writes as the stores allow: one outcome for each, in order. `None`:
    /// this mint makes them one by one.
    async fn mint_all(
        &self,
        _provider: &ProviderName,
        _consumers: &[ConsumerName],
    ) -> Option<Minted> {
        None
    }
}

/// What minting for many came to, one for each.
pub type Minted = Vec<Result<Arc<Wish>, MintFault>>;

/// Why no password was minted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MintFault {
    /// There is a version and it cannot be had: a person must act (H-22).
    #[error("{0}")]
    Lost(String),
    /// The stores could not be used now; it is tried on the next pass.
    #[error("{0}")]
    NotNow(String),
}

/// Takes every known secret out of a text (S-2).
pub type Scrub = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Hears of every pass; metrics hang here.
pub trait Observer: Send + Sync + 'static {
    /// A loop was opened; its pulse tells how far it is.
    fn opened(&self, _name: &str, _pulse: &Pulse) {}
    /// A pass ended.
    fn passed(&self, report: &PassReport);
    /// A pass saw these otherwise than the one before (B-10).
    fn changed(&self, _name: &str, _seen: &[Observation]) {}
}

/// What a provisioner is made with.
pub struct Parts {
    /// The provider.
    pub provider: ProviderName,
    /// The node, where the provider has several (H-21): `host:port`.
    pub node: Option<String>,
    /// The adapter for this server.
    pub adapter: AdapterHandle,
    /// Makes and reads marks.
    pub marker: Marker,
    /// Times and numbers.
    pub settings: Settings,
    /// How much at once.
    pub limits: Limits,
    /// The bus.
    pub bus: Arc<dyn Bus>,
    /// Mints passwords.
    pub mint: Arc<dyn Mint>,
    /// The clock.
    pub clock: Clock,
    /// Scrubs texts.
    pub scrub: Scrub,
    /// Hears of passes.
    pub observers: Vec<Arc<dyn Observer>>,
    /// Cancelled when the process is to stop: no new step starts.
    pub stop: CancellationToken,
}

/// The wish for one provider with everything that calls need.
#[derive(Debug, Clone, Default)]
pub struct ProviderWish {
    /// For decisions.
    pub whole: WholeWish,
    /// For calls: the same consumers.
    pub wishes: HashMap<ConsumerName, Arc<Wish>>,
}

/// The reconcile loop around one adapter and one server.
pub struct Provisioner {
    parts: Parts,
    name: String,
    label: String,
    core: Core,
    wishes: Vec<Option<Arc<Wish>>>,
    ledger: Ledger,
    // The stored records: their revisions, by slot and for the retired; what is not stored yet.
    revs: Vec<Option<Rev>>,
    asleep: HashMap<ConsumerName, Rev>,
    revs_stale: bool,
    owed: BTreeSet<usize>,
    // What else is stored.
    shelf: shelf::Shelf,
    beat: store::Beat,
    unwritten: Vec<Event>,
    store_hangs: AtomicBool,
    requested: u64,
    answered_request: u64,
    // This pass: events that the core does not tell.
    told: Vec<Event>,
    // The next pass: who goes first, because this one left them over.
    behind: HashSet<usize>,
    bulk_create_timeouts: u32,
    // The lease under which it writes, and whether it was told that a later holder wrote.
    fence: Option<Fence>,
    outdone: bool,
    // How it gets on, for who shares the process.
    pulse: Pulse,
    // How each stood after the pass before, for what is told of changed looks.
    stood: Vec<State>,
}

/// Two providers with the same seed do not beat in step (H-4): FNV-1a of the label, into the seed.
fn seed_of(seed: u64, label: &str) -> u64 {
    let mix = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
    seed ^ label.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

impl Provisioner {
    /// The loop's name: `provisioner/cache`, or with the node behind an `@`.
    pub fn name_of(provider: &ProviderName, node: Option<&str>) -> String {
        format!("provisioner/{}", Self::label_of(provider, node))
    }
    /// The provider, with the node behind an `@` where there are several.
    pub fn label_of(provider: &ProviderName, node: Option<&str>) -> String {
        match node {
            Some(node) => format!("{provider}@{node}"),
            None => provider.to_string(),
        }
    }

    /// Opens the loop on what is stored (H-2, H-24). Reads only. Errors: the store cannot be read; then
    /// nothing may start, since an unread record is not an empty one.
    pub async fn open(parts: Parts) -> Result<Self, StoreFault> {
        Self::open_for(parts, &ProviderWish::default()).await
    }

    /// The same where the wish is known that will be put in force: what is stored shares its names.
    pub async fn open_for(mut parts: Parts, wish: &ProviderWish) -> Result<Self, StoreFault> {
        declared::declare(Self::declared());
        let name = Self::name_of(&parts.provider, parts.node.as_deref());
        let label = Self::label_of(&parts.provider, parts.node.as_deref());
        parts.settings.seed = seed_of(parts.settings.seed, &label);
        let loaded = store::load(&parts, wish, &name, &label).await?;
        let core = loaded.core;
        let pulse = Pulse::default();
        for observer in &parts.observers {
            observer.opened(&name, &pulse);
        }
        Ok(Self {
            wishes: vec![None; core.slots().len()],
            ledger: Ledger::new(&name, loaded.conditions),
            revs: loaded.revs,
            asleep: loaded.asleep,
            revs_stale: false,
            owed: BTreeSet::new(),
            shelf: loaded.shelf,
            beat: loaded.beat,
            unwritten: Vec::new(),
            store_hangs: AtomicBool::new(false),
            requested: loaded.answered_request,
            answered_request: loaded.answered_request,
            told: Vec::new(),
            behind: HashSet::new(),
            bulk_create_timeouts: 0,
            fence: None,
            outdone: false,
            pulse,
            stood: Vec::new(),
            parts,
            name,
            label,
            core,
        })
    }

    /// It writes under this lease from now on (B-4).
    pub fn set_fence(&mut self, fence: Option<Fence>) {
        self.fence = fence;
        self.outdone = false;
    }
    /// The loop's name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The provider and node, for people.
    pub fn label(&self) -> &str {
        &self.label
    }
    /// The decisions so far, to read.
    pub fn core(&self) -> &Core {
        &self.core
    }
    /// The decisions, for words that people say.
    pub fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }
    /// The conditions of this loop.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }
    /// Puts a whole wish in force, or confirms the one that is.
    pub fn set_wish(&mut self, wish: ProviderWish) {
        let now = self.parts.clock.now();
        let ProviderWish { mut whole, wishes } = wish;
        self.keep_minted(&mut whole);
        let kept: HashSet<ConsumerName> = whole.kept.iter().cloned().collect();
        self.core.set_wish(whole, now);
        self.wishes.resize(self.core.slots().len(), None);
        self.revs.resize(self.core.slots().len(), None);
        for (consumer, one) in wishes {
            let Some(i) = self.core.slot_of(&consumer) else {
                continue;
            };
            if let Some(rev) = self.asleep.remove(&consumer) {
                self.revs[i] = Some(rev);
            }
            if !kept.contains(&consumer) {
                self.wishes[i] = Some(one);
            }
        }
        for (i, slot) in self.core.slots().iter().enumerate() {
            if slot.wanted.is_none() {
                self.wishes[i] = None;
            }
        }
    }

    /// A wish that was read before a password was minted says that there is none yet. It is older than
    /// what is in force: such a consumer keeps the wish it has, until one that knows the password comes.
    fn keep_minted(&self, whole: &mut WholeWish) {
        if whole.wanted.iter().all(|w| w.secret != SecretState::New) {
            return;
        }
        let has_password = |consumer: &ConsumerName| {
            let slot = self.core.slot_of(consumer);
            let wish = slot.and_then(|i| self.wishes[i].as_ref());
            wish.is_some_and(|wish| wish.password().is_some())
        };
        let (kept, wanted) = std::mem::take(&mut whole.wanted)
            .into_iter()
            .partition(|w| w.secret == SecretState::New && has_password(&w.consumer));
        whole.wanted = wanted;
        let kept: Vec<crate::decide::Wanted> = kept;
        whole.kept.extend(kept.into_iter().map(|w| w.consumer));
    }

    /// A person asked for a pass by this number. The pass that answers it says so in the loop's record.
    /// Returns whether it is new.
    pub fn request(&mut self, number: u64) -> bool {
        let new = number > self.requested;
        if new {
            self.requested = number;
            self.core.hint();
        }
        new
    }
    /// How it gets on.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }
    /// It rests until then.
    pub fn rests_until(&self, next: Time) {
        let now = self.now();
        self.pulse.rests(now, next.since(now));
    }
    /// When the last whole pass ended, of this process or an earlier one.
    pub fn last_pass(&self) -> Option<Time> {
        self.core.server().last_pass
    }

    fn now(&self) -> Time {
        self.parts.clock.now()
    }
    fn asked(&self, i: usize) -> Option<Asked<'_>> {
        let adopted = self.core.slots()[i].record.adopted;
        self.wishes[i]
            .as_deref()
            .map(|wish| Asked { wish, adopted })
    }
}
