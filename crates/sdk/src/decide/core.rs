//! One provisioner's decisions: the wish, the slots, and a pass from its beginning to its end.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::brake::chance;
use super::depart::Approval;
use super::settings::Settings;
use super::slot::{Happening, Last, Record, SecretState, Slot, Step, WholeWish, Why};
use crate::adapter::{Capabilities, Server};
use crate::answer::Answer;
use crate::condition::Fact;
use crate::error::{Class, Error};
use crate::name::{ConsumerName, Login};
use crate::provision::Digest;
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
    /// When the last whole pass ended: every held consumer without a word of its own was asked then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pass: Option<Time>,
    /// When logins were switched off without a person's approval, within the last hour.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent_removals: Vec<Time>,
    /// The wish had consumers once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wished_before: bool,
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
    /// Something is leaving: the server's logins are to be listed too.
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
}

/// The end of a pass.
#[derive(Debug, Clone)]
pub struct PassEnd {
    /// When the next pass is due.
    pub next_at: Time,
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
    pub(super) seen: Option<Server>,
    pub(super) generation: u64,
    /// No server answers since then (C-6: one condition for the backend).
    pub(super) down: Option<(Time, Error)>,
    pub(super) paused_until: Option<Time>,
    pub(super) approval: Option<Approval>,
    pub(super) others_removed: usize,
    pub(super) asking_ended: bool,
    pub(super) happenings: Vec<(usize, Happening)>,
    pub(super) summary: Summary,
    pub(super) todo: Vec<usize>,
    pub(super) listed_at: Option<Time>,
    passes: u32,
    pass_at: Time,
    planned: HashSet<usize>,
    all_due: bool,
    bulk_timeouts: u32,
    server_dirty: bool,
    due: Vec<Time>,
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
            seen: None,
            generation: 0,
            down: None,
            paused_until: None,
            approval: None,
            others_removed: 0,
            asking_ended: false,
            happenings: Vec::new(),
            summary: Summary::default(),
            todo: Vec::new(),
            listed_at: None,
            passes: 0,
            pass_at: now,
            planned: HashSet::new(),
            all_due: false,
            bulk_timeouts: 0,
            server_dirty: false,
            due: Vec::new(),
        };
        core.server
            .recent_removals
            .iter_mut()
            .for_each(|at| *at = at.not_after(now));
        for (consumer, mut record) in stored.records {
            record.clamp(now, &core.settings);
            core.add(consumer, record, now);
        }
        core
    }

    fn add(&mut self, consumer: ConsumerName, record: Record, now: Time) -> usize {
        let i = self.slots.len();
        self.index.insert(consumer.clone(), i);
        self.slots.push(Slot::new(consumer, record));
        self.due.push(now);
        i
    }

    /// The slots, for `status`; an index here is a slot everywhere.
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
        self.settings = settings;
    }
    /// The generation of the wish in force.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Puts a wish in force that was read whole. The same one again confirms it.
    ///
    /// A changed provision ends its brake and delays (H-3, H-11). A consumer that is asked for no more
    /// begins to leave; nothing is taken away here.
    pub fn set_wish(&mut self, wish: WholeWish, now: Time) {
        self.generation = wish.generation;
        let kept: HashSet<&ConsumerName> = wish.kept.iter().collect();
        let mut named: HashSet<usize> = HashSet::with_capacity(wish.wanted.len());
        let empty = wish.wanted.is_empty() && kept.is_empty();
        for wanted in wish.wanted {
            let i = match self.index.get(&wanted.consumer) {
                Some(i) => *i,
                None => self.add(
                    wanted.consumer.clone(),
                    Record::new(wanted.login.clone()),
                    now,
                ),
            };
            named.insert(i);
            self.want(i, wanted, now);
        }
        for i in 0..self.slots.len() {
            if !named.contains(&i) && !kept.contains(&self.slots[i].consumer) {
                self.unwanted(i, now);
            }
        }
        if !empty && !self.server.wished_before {
            self.server.wished_before = true;
            self.server_dirty = true;
        }
    }

    fn want(&mut self, i: usize, wanted: super::Wanted, now: Time) {
        let slot = &mut self.slots[i];
        let fresh = slot.wanted.is_none();
        if slot.wanted.as_ref() == Some(&wanted) {
            return;
        }
        if slot.record.departure.take().is_some() {
            slot.record.release();
            slot.dirty = true;
            self.happenings.push((i, Happening::CameBack));
        }
        let slot = &mut self.slots[i];
        if slot.record.login != wanted.login
            && let Some(old) = Self::supersede(slot, &wanted.login)
        {
            self.happenings.push((i, Happening::Superseded(old)));
        }
        let slot = &mut self.slots[i];
        let changed = slot
            .wanted
            .as_ref()
            .is_some_and(|w| w.digest != wanted.digest)
            || (fresh && slot.record.applied.is_some_and(|d| d != wanted.digest));
        let met_before = slot.record.taken.is_some_and(|d| d != wanted.digest);
        if changed || met_before {
            slot.record.release();
            slot.dirty = true;
        }
        if fresh && !self.caps.holds {
            slot.blind = Some(Why::Started);
        }
        if let (Some(before), SecretState::New) = (&slot.wanted, &wanted.secret)
            && let SecretState::Lost(why) = &before.secret
        {
            let why = why.clone();
            slot.wanted = Some(super::Wanted {
                secret: SecretState::Lost(why),
                ..wanted
            });
        } else {
            slot.wanted = Some(wanted);
        }
        self.due[i] = self.slots[i]
            .record
            .not_before
            .map_or(now, |at| at.max(now));
    }

    /// A changed login never removes the old one.
    fn supersede(slot: &mut Slot, login: &Login) -> Option<Login> {
        let old = slot.record.login.clone();
        let claimed = slot.record.claims(&old);
        let mut superseded = std::mem::take(&mut slot.record.superseded);
        superseded.retain(|l| l != login);
        if claimed {
            superseded.push(old.clone());
        }
        slot.record = Record {
            superseded,
            ..Record::new(login.clone())
        };
        slot.dirty = true;
        claimed.then_some(old)
    }

    /// A person's word for one consumer, or for all: brake, delays and "taken" end, and it is asked now.
    pub fn release(&mut self, consumer: Option<&ConsumerName>, now: Time) {
        for i in 0..self.slots.len() {
            let slot = &mut self.slots[i];
            if consumer.is_some_and(|c| *c != slot.consumer) {
                continue;
            }
            slot.record.release();
            slot.dirty = true;
            if !self.caps.holds && slot.wanted.is_some() {
                slot.blind = Some(Why::Word);
            }
            self.due[i] = now;
        }
    }
    /// Pauses as people said them: for the provider, and for consumers (H-25). Replaces all earlier ones.
    pub fn set_pauses(&mut self, provider: Option<Time>, consumers: &HashMap<ConsumerName, Time>) {
        self.paused_until = provider;
        for slot in &mut self.slots {
            slot.paused_until = consumers.get(&slot.consumer).copied();
        }
    }
    /// A person accepts the server that answers under the address now (H-20). What was known of
    /// consumers belongs to the other server: each is asked first, as without a record (H-2).
    pub fn approve_server(&mut self) {
        if let Some(identity) = self.server.changed_to.take() {
            self.server.identity = Some(identity);
            self.server_dirty = true;
            for slot in &mut self.slots {
                let superseded = std::mem::take(&mut slot.record.superseded);
                let departure = slot.record.departure.take();
                slot.record = Record {
                    superseded,
                    departure,
                    ..Record::new(slot.record.login.clone())
                };
                slot.dirty = true;
            }
        }
    }
    /// How many logins other provisioners of this mesh switched off within the last hour.
    pub fn set_others_removed(&mut self, removed: usize) {
        self.others_removed = removed;
    }
    /// Something hints that logins were lost, or a whole pass is wanted: everyone who is not braked or
    /// delayed is due (H-14). It changes nothing else.
    pub fn hint(&mut self) {
        self.all_due = true;
    }

    /// Begins a pass: whom to ask, and how.
    pub fn begin(&mut self, now: Time) -> PassPlan {
        self.passes = self.passes.wrapping_add(1);
        self.pass_at = now;
        self.asking_ended = false;
        self.summary = Summary::default();
        self.todo.clear();
        self.planned.clear();
        let slack = self.settings.verify_every / 10;
        let all = std::mem::take(&mut self.all_due);
        let mut ask = Vec::new();
        for (i, slot) in self.slots.iter_mut().enumerate() {
            slot.todo = None;
            let delayed = slot.record.not_before.is_some_and(|at| at > now);
            let due = self.due[i] <= now + slack || all;
            if slot.wanted.is_some() && due && !delayed {
                ask.push(i);
            }
        }
        if !self.caps.holds {
            self.blindly(&ask);
            ask.clear();
        }
        let mode = if self.caps.holds_all && self.bulk_timeouts < 2 {
            Mode::Bulk
        } else {
            Mode::Single
        };
        if mode == Mode::Single {
            self.bulk_timeouts = 0;
            ask.sort_by(|a, b| {
                let key = |i: usize| (self.slots[i].asked_at, &self.slots[i].consumer);
                key(*a).cmp(&key(*b))
            });
        }
        if let Some((_, error)) = self.down.clone() {
            self.asking_ended = true;
            ask.drain(..).for_each(|i| self.unknown(i, now, &error));
            self.todo.clear();
        }
        self.planned.extend(&ask);
        PassPlan {
            mode,
            list: self.down.is_none() && self.wants_list(now),
            ask,
        }
    }

    /// Adapters that cannot be asked are trusted from memory: only what is new, changed, or due once
    /// for a start, a restart or a word is created (H-10).
    fn blindly(&mut self, due: &[usize]) {
        for i in due {
            let slot = &mut self.slots[*i];
            let applied = slot.is_applied();
            let why = match (applied, slot.blind) {
                (true, None) => continue,
                (true, Some(why)) => why,
                (false, _) if slot.record.applied.is_none() => Why::New,
                (false, _) => Why::Changed,
            };
            let claimed = slot.record.claims(&slot.record.login.clone());
            match slot.wanted.as_mut().map(|w| &mut w.secret) {
                Some(SecretState::Ready) => slot.todo = Some(Step::Create(why)),
                Some(secret @ SecretState::New) if claimed => {
                    *secret = SecretState::Lost(no_version())
                }
                Some(SecretState::New) => slot.todo = Some(Step::Mint),
                _ => continue,
            }
            self.todo.push(*i);
        }
    }

    /// What the server said of itself, or that it did not answer; before [`Core::begin`]. After an
    /// error the pass asks nobody, and everyone who was due is unknown (H-7).
    pub fn server_seen(&mut self, now: Time, seen: Result<Server, Error>) {
        match seen {
            Err(error) => {
                let since = self.down.as_ref().map_or(now, |(since, _)| *since);
                self.down = Some((since, error));
            }
            Ok(server) => self.server_there(server),
        }
    }

    fn server_there(&mut self, server: Server) {
        self.down = None;
        if server.run.is_some() && server.run != self.server.run {
            if self.server.run.is_some() && !self.caps.holds {
                let wanted = self.slots.iter_mut().filter(|s| s.wanted.is_some());
                wanted.for_each(|s| s.blind = Some(Why::ServerRestarted));
            }
            self.server.run.clone_from(&server.run);
            self.server.run_no = self.server.run_no.wrapping_add(1);
            self.server_dirty = true;
            self.look_at_braked();
        }
        let known = self.server.identity.clone();
        match (&server.identity, known) {
            (Some(new), None) => {
                self.server.identity = Some(new.clone());
                self.server_dirty = true;
            }
            (Some(new), Some(old)) => {
                let changed_to = (*new != old).then(|| new.clone());
                self.server_dirty |= changed_to != self.server.changed_to;
                self.server.changed_to = changed_to;
            }
            (None, _) => {}
        }
        self.seen = Some(server);
    }

    /// A restart explains losses: the braked are looked at too. Their strikes stay.
    fn look_at_braked(&mut self) {
        for slot in self
            .slots
            .iter_mut()
            .filter(|s| s.record.is_braked() && s.record.taken.is_none())
        {
            slot.record.not_before = None;
            self.all_due = true;
        }
    }

    /// The answer for one that was asked (H-5 … H-9). An error is *unknown*; a timed-out one ends the
    /// asking: see [`Core::asking_ended`].
    pub fn answer(&mut self, i: usize, now: Time, answer: Result<Answer, Error>) {
        if !self.planned.remove(&i) {
            return;
        }
        self.summary.asked += 1;
        let slot = &mut self.slots[i];
        slot.asked_at = Some(self.pass_at);
        match answer {
            Ok(Answer::Held(held)) => self.held(i, now, held),
            Ok(Answer::Lost(lost)) => self.lost(i, now, *lost),
            Err(error) => {
                self.asking_ended |= error.class() == Class::TimedOut;
                self.unknown(i, now, &error);
            }
        }
    }

    /// The bulk call hung: whoever has no answer yet is not asked on this pass (H-9).
    pub fn bulk_timed_out(&mut self) {
        self.asking_ended = true;
        self.bulk_timeouts += 1;
    }
    /// Whether nobody else may be asked on this pass (H-9).
    pub fn asking_ended(&self) -> bool {
        self.asking_ended
    }
    /// Who was planned and has no answer yet.
    pub fn unanswered(&self) -> usize {
        self.planned.len()
    }

    /// What to do now, in this order. Each `Create` has its intent in the record: store
    /// [`Core::take_dirty`] before its effect (H-23).
    pub fn steps(&mut self, now: Time) -> Vec<(usize, Step)> {
        self.departures(now);
        if self.server.changed_to.is_some() {
            return Vec::new();
        }
        let read_only = self.seen.as_ref().and_then(|s| s.read_only.clone());
        let mut steps = Vec::new();
        for i in std::mem::take(&mut self.todo) {
            let slot = &mut self.slots[i];
            let paused = |until: Option<Time>| until.is_some_and(|at| at > now);
            let Some(step) = slot.todo else { continue };
            if paused(self.paused_until) || paused(slot.paused_until) {
                continue;
            }
            if let Some(why) = &read_only {
                let waits = format!("waits for a writable server: {why}");
                self.unknown(i, now, &Error::new(Class::ReadOnly, waits));
                continue;
            }
            if let (Step::Create(_), Some(wanted)) = (step, &slot.wanted) {
                slot.dirty |= slot.record.intent != Some(wanted.digest);
                slot.record.intent = Some(wanted.digest);
            }
            steps.push((i, step));
        }
        steps
    }

    /// A password was minted and kept (H-22): the wish is now complete, and `create` follows.
    pub fn secret_ready(&mut self, i: usize, digest: Digest) {
        if let Some(wanted) = &mut self.slots[i].wanted {
            wanted.secret = SecretState::Ready;
            wanted.digest = digest;
            self.slots[i].todo = Some(Step::Create(Why::New));
            self.todo.push(i);
        }
    }
    /// The password cannot be had: nothing is written (H-22, S-4).
    pub fn secret_lost(&mut self, i: usize, why: String) {
        if let Some(wanted) = &mut self.slots[i].wanted {
            wanted.secret = SecretState::Lost(why);
        }
    }

    /// Ends a pass.
    pub fn end(&mut self, now: Time) -> PassEnd {
        self.summary.not_asked = self.planned.len();
        let early = chance(self.settings.seed, "pass", self.passes);
        let period = self.settings.verify_every.mul_f64(1.0 - early / 10.0);
        let regular = self.pass_at + period;
        let whole = self.summary.not_asked == 0 && self.summary.unknown == 0 && self.down.is_none();
        let mut next_at = regular;
        for (i, slot) in self.slots.iter().enumerate() {
            if self.due[i] <= self.pass_at + self.settings.verify_every / 10 {
                self.due[i] = regular;
            }
            if let Some(at) = slot.record.not_before.filter(|at| *at > now) {
                self.due[i] = at;
            }
            if slot.wanted.is_some() {
                next_at = next_at.min(self.due[i]);
            }
        }
        if whole {
            self.server.last_pass = Some(now);
        }
        let facts = self.facts(now);
        let happenings = std::mem::take(&mut self.happenings);
        PassEnd {
            next_at: next_at.max(now),
            facts,
            happenings,
            summary: self.summary,
        }
    }

    /// The slots whose record differs from what is stored. Whoever takes them stores them.
    pub fn take_dirty(&mut self) -> Vec<usize> {
        let mut dirty = Vec::new();
        for (i, slot) in self.slots.iter_mut().enumerate() {
            if std::mem::take(&mut slot.dirty) {
                dirty.push(i);
            }
        }
        dirty
    }
    /// Whether the provisioner's own record differs from what is stored, but for the time of its pass.
    pub fn take_server_dirty(&mut self) -> bool {
        std::mem::take(&mut self.server_dirty)
    }
    pub(super) fn touch_server(&mut self) {
        self.server_dirty = true;
    }
    /// Whether a held answer is new, so that the record says since when.
    pub(super) fn since(last: &Last, now: Time) -> Time {
        match last {
            Last::Held { since, .. } => *since,
            _ => now,
        }
    }
}

pub(super) fn no_version() -> String {
    "the backend or the record knows this consumer, and no secret is stored for it".to_owned()
}
