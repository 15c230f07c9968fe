//! One provisioner's decisions: what it is made of, and what others may read of it.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::listed::{Doubt, Strangers};
use super::record::{Last, Record, Unknown};
use super::settings::Settings;
use super::slot::{Happening, Slot, Why};
use crate::adapter::{Capabilities, Server};
use crate::condition::Fact;
use crate::name::{ConsumerName, Login};
use crate::time::Time;

/// What is stored of a provisioner beside its consumers' records.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServerRecord {
    /// The lasting identity of the server that is known here (H-20).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Another identity that answered under this address and waits for a person's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_to: Option<String>,
    /// The run that was seen last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Counts the runs; a consumer's record says under which it was held.
    #[serde(default)]
    pub run_no: u32,
    /// Since when the server does not answer, so that successive processes wait as one (H-24).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Unknown>,
    /// When a pass ended on which everyone answered whose record has no younger word of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pass: Option<Time>,
    /// Bulk calls that hung, one after the other (H-9).
    #[serde(default, skip_serializing_if = "super::record::is_zero")]
    pub bulk_timeouts: u32,
    /// The first one that was not asked because the asking ended: the next process begins there (H-9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_from: Option<ConsumerName>,
    /// When logins were switched off without a person's approval, within the last hour.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent_removals: Vec<Time>,
    /// Since when, and why, its logins cannot be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_fails: Option<Box<Unknown>>,
    /// Since when, and why, it does not tell who is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses_fail: Option<Box<Unknown>>,
    /// Logins on the server that are not ours, by its last list.
    #[serde(default, skip_serializing_if = "Strangers::are_none")]
    pub strangers: Strangers,
}

/// What a harness had stored when its process started (H-24).
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// The provisioner's own record.
    pub server: ServerRecord,
    /// The consumers' records.
    pub records: Vec<(ConsumerName, Record)>,
}

/// How a pass asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// All with one call (H-16).
    Bulk,
    /// One by one.
    Single,
}

/// Whom a pass asks, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassPlan {
    /// How.
    pub mode: Mode,
    /// The slots to ask for; those who waited longest first (H-9).
    pub ask: Vec<usize>,
    /// The server's logins are to be listed before [`Core::steps`]: it is its time, something is
    /// leaving, or a password may have to be minted (H-22).
    pub list: bool,
}

/// What a pass came to, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Asked for.
    pub asked: usize,
    /// Held.
    pub held: usize,
    /// Lost.
    pub lost: usize,
    /// Could not be told.
    pub unknown: usize,
    /// Planned and not asked, because the asking ended (H-9).
    pub not_asked: usize,
    /// Applied with success.
    pub applied: usize,
    /// Effects that failed.
    pub failed: usize,
    /// Not asked for three passes in a row, while others were (B-8).
    #[serde(default, skip_serializing_if = "super::record::is_nobody")]
    pub starved: usize,
}

/// The end of a pass.
#[derive(Debug, Clone)]
pub struct PassEnd {
    /// When the next pass is due.
    pub next_at: Time,
    /// The adapter rested with answers missing: the next pass asks for those (H-16).
    pub rests: bool,
    /// What the loop found and cannot fix.
    pub facts: Vec<Fact>,
    /// What happened, by slot.
    pub happenings: Vec<(usize, Happening)>,
    /// In numbers.
    pub summary: Summary,
}

/// One provisioner's decisions. See the [module](super) for the order of the calls.
#[derive(Debug, Clone)]
pub struct Core {
    pub(super) settings: Settings,
    pub(super) caps: Capabilities,
    pub(super) slots: Vec<Slot>,
    pub(super) index: HashMap<ConsumerName, usize>,
    pub(super) server: ServerRecord,
    pub(super) server_dirty: bool,
    /// What the server said of itself last.
    pub(super) seen: Option<Server>,
    /// The server did not answer at the last look (C-6: one condition for the backend).
    pub(super) down: bool,
    pub(super) generation: u64,
    /// A whole wish was read in this process; before that, and while part of it cannot be read, nothing
    /// is taken away.
    pub(super) wish_whole: bool,
    /// Whom the wish names although their entries cannot be used.
    pub(super) kept: HashSet<ConsumerName>,
    /// Logins of this server that other providers' wishes name.
    pub(super) elsewhere: HashSet<Login>,
    pub(super) pauses: HashMap<ConsumerName, Time>,
    pub(super) paused_until: Option<Time>,
    pub(super) others_removed: usize,
    /// The slots with a departure.
    pub(super) departing: BTreeSet<usize>,
    /// When the server's logins were listed whole, in this process.
    pub(super) listed_at: Option<Time>,
    /// So many more lists are read without waiting for their time.
    pub(super) relist: u8,
    pub(super) all_due: bool,
    /// When everyone who is not delayed is due again. Passes for a few do not move it.
    pub(super) regular_at: Time,
    pub(super) passes: u32,
    pub(super) pass: Pass,
    pub(super) happenings: Vec<(usize, Happening)>,
}

/// What belongs to one pass only.
#[derive(Debug, Clone, Default)]
pub(super) struct Pass {
    pub(super) at: Time,
    pub(super) regular: bool,
    /// Somebody is asked for who may need a password.
    pub(super) somebody_is_new: bool,
    /// Whoever is due waits in the order of the slots already.
    pub(super) in_order: bool,
    /// Whom it plans to ask, in order, and how many of them have no answer yet.
    pub(super) plan: Vec<usize>,
    pub(super) open: usize,
    pub(super) mode: Option<Mode>,
    pub(super) asking_ended: bool,
    /// The adapter rests: who has no answer is asked at once on the next pass.
    pub(super) rests: bool,
    pub(super) bulk_hung: bool,
    pub(super) todo: Vec<usize>,
    /// The server's logins were listed.
    pub(super) listed: bool,
    /// The list is whole, and has our own login in it if there is to be one.
    pub(super) list_proves: bool,
    /// Why it proves nothing.
    pub(super) doubt: Option<Doubt>,
    /// Of these it is known how they were used.
    pub(super) uses_asked: HashSet<(usize, Login)>,
    pub(super) departures_decided: bool,
    /// Removals that wait for a writable server.
    pub(super) withheld: usize,
    /// Whether our own login was asked for, and answered: it counts nowhere, and is evidence all the same.
    pub(super) own: (bool, bool),
    /// Losses that a restart explains.
    pub(super) explained: usize,
    /// Losses of what was applied before.
    pub(super) gone: usize,
    pub(super) summary: Summary,
}

impl Core {
    /// A core with what was stored. `now` bounds every stored stamp (O-37).
    pub fn new(settings: Settings, caps: Capabilities, stored: Stored, now: Time) -> Self {
        let mut core = Self {
            settings,
            caps,
            slots: Vec::with_capacity(stored.records.len()),
            index: HashMap::with_capacity(stored.records.len()),
            server: stored.server,
            server_dirty: false,
            seen: None,
            down: false,
            generation: 0,
            wish_whole: false,
            kept: HashSet::new(),
            elsewhere: HashSet::new(),
            pauses: HashMap::new(),
            paused_until: None,
            others_removed: 0,
            departing: BTreeSet::new(),
            listed_at: None,
            relist: 0,
            all_due: false,
            regular_at: now,
            passes: 0,
            pass: Pass {
                at: now,
                ..Pass::default()
            },
            happenings: Vec::new(),
        };
        let before = core.server.clone();
        core.server.clamp(now);
        core.server_dirty = core.server != before;
        for (consumer, record) in stored.records {
            core.load(consumer, record, now);
        }
        core
    }

    /// What the adapter can do, where it learns that only from what it first reaches. To be called
    /// before [`Core::begin`]. Who cannot be asked any more is created once, as at a start (H-10).
    pub fn set_capabilities(&mut self, caps: Capabilities) {
        if self.caps.holds != caps.holds {
            for slot in &mut self.slots {
                slot.blind = (!caps.holds).then_some(Why::Started);
            }
        }
        self.caps = caps;
    }

    /// Takes in one more record that was stored, before the first wish. Stamps that were bounded are
    /// stored so: the next process must not bound them anew, or what waits
    /// for them would wait until the clock caught up (O-37).
    pub(crate) fn load(&mut self, consumer: ConsumerName, mut record: Record, now: Time) {
        let before = record.clone();
        record.clamp(now, &self.settings);
        let bounded = record != before;
        let answered_at = record.answered_before(&self.settings, self.server.last_pass);
        let leaves = record.leaves();
        let i = self.add(consumer, record);
        let blind = !self.caps.holds;
        let slot = &mut self.slots[i];
        slot.blind = blind.then_some(Why::Started);
        slot.stored = true;
        slot.dirty = bounded;
        slot.answered_at = answered_at.map(|at| at.not_after(now));
        if leaves {
            self.departing.insert(i);
        }
    }

    pub(super) fn add(&mut self, consumer: ConsumerName, record: Record) -> usize {
        let i = self.slots.len();
        self.index.insert(consumer.clone(), i);
        let mut slot = Slot::new(consumer, record);
        slot.paused_until = self.pauses.get(&slot.consumer).copied();
        self.slots.push(slot);
        i
    }

    /// The slots, for `status`; an index here is a slot everywhere. Those that are retired stand for
    /// nothing any more; one that was never stored may stand for another consumer after a later wish.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }
    /// The slot of a consumer.
    pub fn slot_of(&self, consumer: &ConsumerName) -> Option<usize> {
        self.index.get(consumer).copied()
    }
    /// The provisioner's own record.
    pub fn server(&self) -> &ServerRecord {
        &self.server
    }
    /// What the server said of itself last.
    pub fn server_facts(&self) -> Option<&Server> {
        self.seen.as_ref()
    }
    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
    /// New settings; they count from the next pass on.
    pub fn set_settings(&mut self, settings: Settings) {
        let sooner = settings.verify_every < self.settings.verify_every;
        self.all_due |= sooner;
        self.settings = settings;
    }
    /// The generation of the wish in force.
    pub fn generation(&self) -> u64 {
        self.generation
    }
    /// Whether the server did not answer at the last look.
    pub fn is_down(&self) -> bool {
        self.down
    }

    /// The slots whose record differs from what is stored. Whoever takes them stores them.
    pub fn take_dirty(&mut self) -> Vec<usize> {
        let mut dirty = Vec::new();
        for (i, slot) in self.slots.iter_mut().enumerate() {
            if std::mem::take(&mut slot.dirty) {
                slot.stored = true;
                slot.quiet = false;
                dirty.push(i);
            }
        }
        dirty
    }
    /// Whether the provisioner's own record differs from what is stored, but for the time of its pass.
    pub fn take_server_dirty(&mut self) -> bool {
        std::mem::take(&mut self.server_dirty)
    }
    /// Every record is to be stored again: what is stored is not what this core last wrote.
    pub fn all_dirty(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.dirty = true);
    }
}

impl ServerRecord {
    /// Stamps from the future count as now (O-37).
    fn clamp(&mut self, now: Time) {
        self.last_pass = self.last_pass.map(|at| at.not_after(now));
        self.recent_removals
            .iter_mut()
            .for_each(|at| *at = at.not_after(now));
        let fails = [&mut self.list_fails, &mut self.uses_fail];
        let fails = fails.into_iter().filter_map(|fails| fails.as_deref_mut());
        for unknown in fails.chain(&mut self.down) {
            unknown.since = unknown.since.not_after(now);
        }
    }
}

impl Record {
    /// When this consumer had answered for sure, by what is stored: a healthy pass writes no record, so
    /// that the time of the last pass stands for all that have no younger word of their own.
    fn answered_before(&self, settings: &Settings, last_pass: Option<Time>) -> Option<Time> {
        let own = match &self.last {
            Last::Never => return None,
            Last::Held { since, .. } => *since,
            Last::Lost { at, .. } => *at,
        };
        if let Some(unknown) = &self.unknown {
            return Some(unknown.since);
        }
        let waits = self.wait(settings);
        match self.not_before {
            Some(at) if !waits.is_zero() => Some((at - waits).max(own)),
            _ => Some(last_pass.map_or(own, |at| at.max(own))),
        }
    }
}
