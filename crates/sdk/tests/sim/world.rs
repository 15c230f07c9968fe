//! The driver on virtual time: processes, stores and people around the core, and what befalls them.

mod lists;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use mesh_sdk::adapter::{Capabilities, Listed};
use mesh_sdk::condition::{ConditionId, ConditionType, Fact, Reason};
use mesh_sdk::decide::conditions::{Change, Kept, Ledger};
use mesh_sdk::decide::{
    Core, Mode, Record, SecretState, ServerRecord, Settings, Step, Stored, Wanted, WholeWish,
};
use mesh_sdk::provision::Digest;
use mesh_sdk::{Answer, Class, ConsumerName, Error, Login, Time};

use crate::backend::{Backend, CANARY, Mark, Want, named};
use crate::check::{Broken, Checker, Heard};
use crate::rng::Rng;

/// A driver that leaves out one thing that it owes the core, so that the judge can be seen to judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sloppy {
    /// Releases everybody before each pass.
    EndsTheBrake,
    /// Asks on after a time-out.
    AsksOn,
    /// Tells a failed look as a loss.
    UnknownIsLost,
    /// Tells every login that is there as one whose password fits.
    EveryPasswordFits,
    /// Forgets each password that was minted, and each list.
    ForgetsSecrets,
    /// Approves every removal by itself.
    ApprovesRemovals,
    /// Approves every server by itself.
    ApprovesServers,
    /// Does not tell the core of pauses.
    IgnoresPauses,
    /// Takes an entry that cannot be read for one that is gone, for the rest of the wish's life.
    DropsKeptEntries,
    /// Always asks in the order of the names, whatever the plan says.
    IgnoresTheOrder,
    /// Does everything twice.
    AppliesTwice,
    /// Adds our own login to every list.
    ForgesTheCanary,
    /// Tells the last good list again where the server gives none.
    RepeatsTheList,
    /// Tells a wish that could be read in part as a whole one.
    HidesTheBrokenWish,
    /// Does not say what others ask for on the same server.
    ForgetsTheOthers,
    /// Retires every login that was superseded.
    RetiresAtWill,
    /// Does without our own login, and approves what then waits.
    ApprovesUnproven,
    /// Hears of no use.
    HearsNoUse,
    /// Tells no facts.
    TellsNothing,
    /// Calls every subject good.
    SeesOnlyGood,
}

/// What is on the disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    /// The provisioner's own record, as text.
    pub(crate) server: String,
    /// The consumers' records, as text.
    pub(crate) records: BTreeMap<String, String>,
    /// The conditions, as text.
    pub(crate) conditions: String,
}

/// One simulated installation.
pub(crate) struct World {
    /// Chance.
    pub(crate) rng: Rng,
    /// The settings.
    pub(crate) settings: Settings,
    /// What the adapter can do.
    pub(crate) caps: Capabilities,
    /// The server has a lasting identity.
    pub(crate) has_identity: bool,
    /// The backend.
    pub(crate) back: Backend,
    /// The identity that a person knows of.
    pub(crate) approved_identity: Option<u64>,
    /// The secret store.
    pub(crate) vault: BTreeMap<String, u32>,
    /// The secret store cannot be read.
    pub(crate) vault_closed: bool,
    /// The manifest.
    pub(crate) manifest: BTreeMap<String, Want>,
    /// Entries that are refused or unreadable now.
    pub(crate) refused: BTreeSet<String>,
    /// The wish cannot be read at all.
    pub(crate) wish_unreadable: bool,
    /// Part of the wish cannot be read, and nobody knows whom it names.
    pub(crate) wish_partial: bool,
    /// Logins that others ask for on this server.
    pub(crate) elsewhere: BTreeSet<String>,
    /// The manifest wants our own login.
    pub(crate) canary: bool,
    /// Pauses.
    pub(crate) paused_until: Option<Time>,
    /// Pauses by consumer.
    pub(crate) pauses: BTreeMap<String, Time>,
    /// The decisions.
    pub(crate) core: Core,
    /// What is stored.
    pub(crate) disk: Disk,
    /// What was stored earlier.
    pub(crate) older: Vec<Disk>,
    /// The conditions.
    pub(crate) ledger: Ledger,
    /// The clock that the core is told.
    pub(crate) now: Time,
    /// When the core wants its next pass.
    pub(crate) next_at: Time,
    /// The judge.
    pub(crate) judge: Checker,
    /// What happened, if somebody wants to read it.
    pub(crate) trace: Option<Vec<String>>,
    /// A driver that is broken on purpose.
    pub(crate) sloppy: Option<Sloppy>,
    /// The process dies at the so-many-th effect from now.
    pub(crate) dies_at: Option<u64>,
    /// The next number for a password.
    pub(crate) passwords: u32,
    generation: u64,
    forgotten: BTreeSet<String>,
    last_list: Option<Vec<Listed>>,
    /// The wish that was read last.
    in_force: BTreeMap<String, Want>,
    /// Logins with an intent on the disk (H-23): they may be ours.
    intended: BTreeSet<String>,
}

/// What one pass did, as far as the end of a run needs it.
#[derive(Debug, Default)]
pub(crate) struct PassLog {
    /// Steps.
    pub(crate) steps: usize,
    /// Records that had to be stored.
    pub(crate) dirty: usize,
    /// Facts.
    pub(crate) facts: Vec<Fact>,
    /// The process died.
    pub(crate) died: bool,
}

impl World {
    /// A fresh installation; its character follows from the generator.
    pub(crate) fn new(seed: u64, sloppy: Option<Sloppy>, traced: bool) -> Self {
        let mut rng = Rng::new(seed);
        let holds = rng.percent(85);
        let mut caps = Capabilities::none();
        caps.server = rng.percent(80);
        caps.holds = holds;
        caps.holds_all = holds && rng.percent(50);
        caps.disable = rng.percent(70);
        caps.list = rng.percent(75);
        caps.uses = rng.percent(50);
        let settings = Settings {
            remove_after: Duration::from_secs(60 * (2 + rng.below(9))),
            grace: Duration::from_secs(60 * (20 + rng.below(60))),
            list_every: Duration::from_secs(60 * (2 + rng.below(9))),
            seed: rng.draw(),
            ..Settings::default()
        };
        let now = Time::from_millis(1_700_000_000_000);
        let core = Core::new(settings.clone(), caps, Stored::default(), now);
        let mut world = Self {
            has_identity: caps.server && rng.percent(50),
            rng,
            settings,
            caps,
            back: Backend::default(),
            approved_identity: None,
            vault: BTreeMap::new(),
            vault_closed: false,
            manifest: BTreeMap::new(),
            refused: BTreeSet::new(),
            wish_unreadable: false,
            wish_partial: false,
            elsewhere: BTreeSet::new(),
            canary: true,
            paused_until: None,
            pauses: BTreeMap::new(),
            core,
            disk: Disk::default(),
            older: Vec::new(),
            ledger: Ledger::new("provisioner/sim", Vec::new()),
            now,
            next_at: now,
            judge: Checker::default(),
            trace: traced.then(Vec::new),
            sloppy,
            dies_at: None,
            passwords: 100,
            generation: 0,
            forgotten: BTreeSet::new(),
            last_list: None,
            in_force: BTreeMap::new(),
            intended: BTreeSet::new(),
        };
        let caps = world.caps;
        world.note(|| format!("capabilities {caps:?}"));
        world.canary = world.rng.percent(85);
        // Everybody of whom a mark may tell.
        for i in 0..9 {
            world.judge.meet(&format!("c{i}"));
        }
        for i in 0..3 {
            world.judge.meet(&format!("g{i}"));
        }
        let count = 2 + world.rng.below(6);
        for i in 0..count {
            world.wish_for_new(&format!("c{i}"));
        }
        world.read_wish();
        world
    }

    /// Writes a line into the trace.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        let at = self.now.as_millis() / 1000 - 1_700_000_000;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{at:>7} s  {}", line()));
        }
    }
    fn is(&self, sloppy: Sloppy) -> bool {
        self.sloppy == Some(sloppy)
    }

    /// A consumer enters the manifest.
    pub(crate) fn wish_for_new(&mut self, consumer: &str) {
        let want = Want {
            consumer: consumer.to_owned(),
            login: consumer.to_owned(),
            password: None,
            grants: 1,
            enabled: true,
            adopt: self.rng.percent(10),
        };
        self.manifest.insert(consumer.to_owned(), want);
    }

    /// The want of a consumer with the password that the store has.
    pub(crate) fn want(&self, consumer: &str) -> Option<Want> {
        let mut want = self.manifest.get(consumer)?.clone();
        want.password = want
            .password
            .or_else(|| self.vault.get(consumer).copied())
            .filter(|_| !self.vault_closed);
        Some(want)
    }

    /// Reads the wish whole, unless it cannot be read.
    pub(crate) fn read_wish(&mut self) {
        if self.wish_unreadable {
            return;
        }
        self.generation += 1;
        let mut kept: Vec<String> = self.refused.iter().cloned().collect();
        kept.retain(|c| self.manifest.contains_key(c));
        let mut wanted = Vec::new();
        let mut seen = Vec::new();
        self.in_force.retain(|consumer, _| kept.contains(consumer));
        for consumer in self.manifest.keys().filter(|c| !kept.contains(c)) {
            let want = self.want(consumer).expect("it is in the manifest");
            self.in_force.insert(consumer.clone(), want.clone());
            let secret = match want.password {
                Some(_) if self.is(Sloppy::ForgetsSecrets) => self.sloppy_secret(consumer),
                Some(_) => SecretState::Ready,
                None if self.vault_closed => SecretState::Lost("the store is closed".into()),
                None => SecretState::New,
            };
            let digest = digest(&want);
            let entry = digest.1 ^ u64::from(want.adopt);
            seen.push((consumer.clone(), want.login.clone(), entry));
            wanted.push(Wanted {
                consumer: named(consumer),
                login: Login::new(&want.login).expect("a login"),
                digest: digest.0,
                enabled: want.enabled,
                adopt: want.adopt,
                secret,
            });
        }
        let canary = self.canary && self.caps.list;
        self.judge.lists = (self.caps.list, canary);
        self.judge.around(self.wish_partial, &self.elsewhere);
        self.judge.wish(self.now, &seen, &kept);
        if canary {
            let want = self.own_want();
            wanted.push(Wanted {
                consumer: ConsumerName::canary(),
                login: Login::new(CANARY).expect("a login"),
                digest: digest(&want).0,
                enabled: want.enabled,
                adopt: false,
                secret: SecretState::Ready,
            });
            self.in_force.insert(want.consumer.clone(), want);
        }
        if self.is(Sloppy::DropsKeptEntries) {
            kept.clear();
        }
        let wish = WholeWish {
            generation: self.generation,
            wanted,
            kept: kept.iter().map(|c| named(c)).collect(),
            partial: self.wish_partial && !self.is(Sloppy::HidesTheBrokenWish),
            elsewhere: match self.is(Sloppy::ForgetsTheOthers) {
                true => Vec::new(),
                false => {
                    let logins = self.elsewhere.iter();
                    logins.map(|l| Login::new(l).expect("a login")).collect()
                }
            },
        };
        self.core.set_wish(wish, self.now);
    }
    fn sloppy_secret(&self, consumer: &str) -> SecretState {
        if self.forgotten.contains(consumer) {
            SecretState::New
        } else {
            SecretState::Ready
        }
    }

    /// One pass.
    pub(crate) fn pass(&mut self) -> PassLog {
        if self.is(Sloppy::EndsTheBrake) {
            self.core.release(None, self.now);
        }
        if self.is(Sloppy::ApprovesServers) {
            self.core.approve_server();
        }
        if self.is(Sloppy::RetiresAtWill) {
            for (consumer, login) in self.superseded() {
                self.core.retire(&consumer, &login, self.now);
            }
        }
        if self.is(Sloppy::ApprovesRemovals)
            || self.is(Sloppy::ApprovesUnproven) && self.core.is_unguarded()
        {
            let leaving = self.core.leaving();
            self.core.approve_removals(leaving);
        }
        self.tell_pauses();
        if self.caps.server {
            let seen = self.back.server(self.has_identity);
            if seen.is_ok() && self.approved_identity.is_none() {
                self.approved_identity = Some(self.back.identity);
            }
            self.core.server_seen(self.now, seen);
        }
        self.judge.pass();
        let plan = self.core.begin(self.now);
        if plan.list {
            self.list();
        }
        self.ask(plan.mode, plan.ask);
        self.ask_for_uses();
        let mut log = PassLog::default();
        self.act(&mut log);
        if !log.died {
            self.end(&mut log);
        }
        log
    }

    fn tell_pauses(&mut self) {
        if self.is(Sloppy::IgnoresPauses) {
            return;
        }
        let pauses: HashMap<ConsumerName, Time> =
            self.pauses.iter().map(|(c, at)| (named(c), *at)).collect();
        self.core.set_pauses(self.paused_until, &pauses);
    }

    fn ask(&mut self, mode: Mode, mut ask: Vec<usize>) {
        if self.is(Sloppy::IgnoresTheOrder) {
            ask.sort_unstable();
        }
        let most = 3 * (self.manifest.len() + 4);
        let mut ended = false;
        for i in ask {
            let consumer = self.core.slots()[i].consumer.to_string();
            if ended && !self.is(Sloppy::AsksOn) {
                self.judge.in_vain(&consumer, most);
                if mode == Mode::Bulk {
                    let error = Error::new(Class::TimedOut, "the bulk look hung");
                    self.core.answer(i, self.now, Err(error));
                }
                continue;
            }
            let answer = self.look(i);
            let heard = match &answer {
                Ok(Answer::Held(_)) => Heard::Held,
                Ok(Answer::Lost(_)) => Heard::Lost,
                Err(error) if error.class() == Class::TimedOut => Heard::Hung,
                Err(_) => Heard::Unknown,
            };
            self.judge.heard(&consumer, heard);
            if heard != Heard::Held {
                self.note(|| match &answer {
                    Ok(Answer::Lost(lost)) => format!(
                        "look {consumer}: lost {:?}, mark {:?}, fits {}",
                        lost.differences, lost.mark, lost.password_fits
                    ),
                    answer => format!("look {consumer}: {answer:?}"),
                });
            }
            let answer = self.tell(answer);
            self.core.answer(i, self.now, answer);
            if heard == Heard::Hung && !ended {
                ended = true;
                if mode == Mode::Bulk {
                    self.core.bulk_timed_out();
                }
                assert!(
                    self.core.asking_ended() || self.sloppy.is_some(),
                    "a time-out ends the asking"
                );
            }
        }
    }
    fn look(&self, i: usize) -> Result<Answer, Error> {
        let slot = &self.core.slots()[i];
        match self.asked(slot.consumer.as_str()) {
            Some(want) => self.back.look(&want),
            None => Err(Error::new(Class::Bug, "asked for without a wish")),
        }
    }
    /// The want as the core has it: an entry that is refused keeps the one that it had.
    fn asked(&self, consumer: &str) -> Option<Want> {
        let mut want = self.in_force.get(consumer)?.clone();
        let stored = self.vault.get(consumer).copied();
        want.password = want.password.or(stored).filter(|_| !self.vault_closed);
        let i = self.core.slot_of(&named(consumer))?;
        let asked = self.core.slots()[i].wanted.as_ref()?;
        want.login = asked.login.as_str().to_owned();
        want.enabled = asked.enabled;
        if asked.secret == SecretState::New {
            want.password = None;
        }
        Some(want)
    }
    fn tell(&self, answer: Result<Answer, Error>) -> Result<Answer, Error> {
        match answer {
            Err(_) if self.is(Sloppy::UnknownIsLost) => Ok(Answer::absent()),
            Ok(Answer::Lost(mut lost)) if self.is(Sloppy::EveryPasswordFits) => {
                lost.password_fits = true;
                Ok(Answer::Lost(lost))
            }
            answer => answer,
        }
    }

    fn act(&mut self, log: &mut PassLog) {
        let mut acting = Vec::new();
        for (i, step) in self.core.steps(self.now) {
            if step == Step::Mint {
                self.mint(i);
            } else {
                acting.push((i, step));
            }
        }
        acting.extend(self.core.steps(self.now));
        log.steps = acting.len();
        if acting.is_empty() {
            return;
        }
        self.store();
        let creates = acting.iter().filter(|(_, s)| matches!(s, Step::Create(_)));
        let logins = creates.map(|(i, _)| self.core.slots()[*i].record.login.as_str().to_owned());
        self.intended.extend(logins);
        for (i, step) in acting {
            if let Some(left) = &mut self.dies_at {
                *left = left.saturating_sub(1);
            }
            if self.dies_at == Some(0) {
                let halfway = self.rng.percent(50);
                if halfway {
                    drop(self.effect(i, step));
                }
                self.note(|| format!("dies, after the effect: {halfway}"));
                self.dies_at = None;
                log.died = true;
                return;
            }
            let outcome = self.effect(i, step);
            let created = outcome.is_ok() && matches!(step, Step::Create(_));
            self.core.effect(i, self.now, outcome);
            if created && self.caps.holds {
                let again = self.look(i);
                self.core.looked_again(i, self.now, again);
            }
        }
    }

    fn mint(&mut self, i: usize) {
        let consumer = self.core.slots()[i].consumer.to_string();
        let has_one = self.vault.contains_key(&consumer);
        let ours = Mark::Ours(consumer.clone());
        let login = self.core.slots()[i].record.login.clone();
        let mut logins = self.back.accounts.iter();
        // Who is asked sees the login itself; only an honest list shows all.
        let lists = self.caps.list && self.back.list_lies.is_none();
        let seen = |l: &str| lists || self.caps.holds && l == login.as_str();
        let marked = logins.any(|(l, a)| a.mark == ours && seen(l));
        self.judge.mints(&consumer, has_one, marked);
        self.passwords += 1;
        let password = self.passwords;
        self.note(|| format!("mint {consumer}: {password}"));
        self.vault.insert(consumer.clone(), password);
        self.forgotten.insert(consumer.clone());
        let want = self.want(&consumer);
        match want.filter(|w| w.password.is_some()) {
            Some(want) => self.core.secret_ready(i, digest(&want).0),
            None => self.core.secret_lost(i, "the store is closed".into()),
        }
    }

    fn is_paused(&self, consumer: &str) -> bool {
        let running = |until: &Time| *until > self.now;
        self.paused_until.as_ref().is_some_and(running)
            || self.pauses.get(consumer).is_some_and(running)
    }

    fn effect(&mut self, i: usize, step: Step) -> Result<(), Error> {
        let slot = &self.core.slots()[i];
        let (consumer, login) = (slot.consumer.to_string(), slot.going().as_str().to_owned());
        let changed = self.has_identity
            && self
                .approved_identity
                .is_some_and(|known| known != self.back.identity);
        let paused = self.is_paused(&consumer);
        self.judge.writes(&consumer, paused, changed);
        let before = self.back.accounts.get(&login).cloned();
        let outcome = if let Step::Create(_) = step {
            self.create(&consumer, &login)
        } else {
            let drop = step == Step::Remove;
            let off = before.as_ref().is_some_and(|a| !a.enabled);
            let outcome = self.back.take_away(&consumer, &login, drop);
            if outcome.is_ok() && drop {
                let used = self
                    .back
                    .used
                    .get(&login)
                    .copied()
                    .filter(|_| self.caps.uses);
                let grace = self.settings.grace;
                self.judge.drops(&consumer, &login, self.now, grace, used);
            }
            if outcome.is_ok() && !off {
                let after = self.settings.remove_after;
                self.judge
                    .takes_away(&consumer, &login, self.now, after, before.as_ref());
            }
            outcome
        };
        self.note(|| format!("{step:?} {consumer}: {outcome:?}"));
        outcome
    }
    fn create(&mut self, consumer: &str, login: &str) -> Result<(), Error> {
        let Some(want) = self.asked(consumer) else {
            return Err(Error::new(Class::Bug, "created without a wish"));
        };
        let before = self.back.accounts.get(login).cloned();
        let ever = self.back.ever_ours.contains(login) || self.intended.contains(login);
        let outcome = self.back.create(&want, !self.caps.holds, ever);
        if matches!(&outcome, Err(e) if e.class() == Class::Exists) {
            self.intended.remove(login);
        }
        if before.as_ref() != self.back.accounts.get(login) {
            let fits = before.as_ref().map(|a| a.password) == want.password;
            self.judge
                .create_on(consumer, before.as_ref(), ever, fits, want.adopt);
        }
        let can_look = self.caps.holds;
        self.judge
            .created(consumer, self.now, outcome.is_ok(), can_look);
        if self.is(Sloppy::AppliesTwice) {
            drop(self.back.create(&want, !self.caps.holds, ever));
            self.judge
                .created(consumer, self.now, outcome.is_ok(), can_look);
        }
        self.judge.approval_ends(consumer, login);
        outcome
    }

    fn end(&mut self, log: &mut PassLog) {
        let end = self.core.end(self.now);
        self.next_at = end.next_at;
        log.facts = end.facts;
        if self.is(Sloppy::TellsNothing) {
            log.facts.clear();
        }
        for (i, happening) in &end.happenings {
            let consumer = self.core.slots()[*i].consumer.clone();
            self.note(|| format!("{consumer}: {happening:?}"));
        }
        log.dirty = self.store();
        self.judge_standing(&log.facts);
        self.look_at_conditions(log.facts.clone());
    }

    fn judge_standing(&mut self, facts: &[Fact]) {
        let told: BTreeSet<&str> = facts
            .iter()
            .filter(|f| f.kind != ConditionType::RemovalHeld)
            .map(|f| f.subject.as_str())
            .collect();
        let patience = Duration::from_secs(60 * (12 + 4 * self.manifest.len() as u64));
        for slot in self.core.slots().iter().filter(|s| s.wanted.is_some()) {
            let consumer = slot.consumer.as_str();
            let told = told.contains(consumer) || told.contains("");
            // Where nothing can be written our own login waits quietly: nothing is removed either.
            let waits = slot.consumer.is_canary() && self.back.read_only;
            let fine = waits || slot.state().is_fine();
            self.judge.stands(consumer, self.now, fine, told, patience);
        }
    }

    fn look_at_conditions(&mut self, facts: Vec<Fact>) {
        let (core, sloppy) = (&self.core, self.sloppy);
        let changes = self
            .ledger
            .look(self.now, self.generation, facts, |id: &ConditionId| {
                if sloppy == Some(Sloppy::SeesOnlyGood) {
                    return mesh_sdk::decide::conditions::Seen::Good;
                }
                let consumer = ConsumerName::new(&id.subject).ok();
                core.saw(id.kind, consumer.as_ref())
            });
        for change in changes {
            let Change::Cleared(condition) = &change else {
                continue;
            };
            let by_a_person = [
                ConditionType::Paused,
                ConditionType::RemovalStuck,
                ConditionType::OrphanInUse,
                ConditionType::SecretLost,
            ];
            let about_one = !condition.id.subject.is_empty();
            if about_one
                && condition.reason == Reason::SeenGone
                && !by_a_person.contains(&condition.id.kind)
            {
                let subject = condition.id.subject.clone();
                self.judge.cleared(&subject, self.caps.holds);
            }
        }
    }

    /// Stores what differs from what is stored; how many records that were.
    fn store(&mut self) -> usize {
        let dirty = self.core.take_dirty();
        for i in &dirty {
            let slot = &self.core.slots()[*i];
            let text = serde_json::to_string(&slot.record).expect("json");
            self.disk.records.insert(slot.consumer.to_string(), text);
        }
        let server_dirty = self.core.take_server_dirty();
        if self.older.len() < 10 && self.rng.percent(5) {
            self.store_the_rest();
            self.older.push(self.disk.clone());
        }
        dirty.len() + usize::from(server_dirty)
    }

    /// What a pass stores in any case; written when somebody is going to read it.
    fn store_the_rest(&mut self) {
        self.disk.server = serde_json::to_string(self.core.server()).expect("json");
        let kept: Vec<&Kept> = self.ledger.kept().collect();
        self.disk.conditions = serde_json::to_string(&kept).expect("json");
    }

    /// The process ends, and another one begins with what is on the disk, or with another disk.
    pub(crate) fn restart(&mut self, other: Option<Disk>, jump: i64) {
        self.store_the_rest();
        let records_lost = other.is_some();
        if records_lost {
            self.intended.clear();
        }
        self.disk = other.unwrap_or_else(|| std::mem::take(&mut self.disk));
        self.now = Time::from_millis(self.now.as_millis() + jump);
        self.next_at = self.now;
        self.judge.process(self.now, records_lost, jump < 0);
        let server: ServerRecord = serde_json::from_str(&self.disk.server).unwrap_or_default();
        let records = self.disk.records.iter().map(|(consumer, text)| {
            let record: Record = serde_json::from_str(text).expect("a record");
            (named(consumer), record)
        });
        let stored = Stored {
            server,
            records: records.collect(),
        };
        if jump != 0 {
            self.paused_until = None;
            self.pauses.clear();
        }
        let conditions = serde_json::from_str(&self.disk.conditions).unwrap_or_default();
        self.ledger = Ledger::new("provisioner/sim", conditions);
        self.core = Core::new(self.settings.clone(), self.caps, stored, self.now);
        if records_lost {
            self.core.store_replaced(self.now);
        }
        if self.core.server().identity.is_none() {
            self.approved_identity = None;
        }
        self.read_wish();
    }

    /// After all faults are over: everyone is held, and then nothing happens any more.
    pub(crate) fn expect_rest(&mut self, log: &PassLog) {
        for (what, words) in self.unrest(log) {
            self.judge.in_the_end(what, words);
        }
    }

    /// What is still not as it should be, after all faults are over.
    pub(crate) fn unrest(&self, log: &PassLog) -> Vec<(Broken, String)> {
        let mut found = Vec::new();
        let mut troubles = Vec::new();
        for (consumer, _) in self.manifest.clone() {
            let Some(want) = self.want(&consumer) else {
                continue;
            };
            let truth = self.back.truth(&want);
            let held = matches!(truth, Answer::Held(_));
            let state = self
                .core
                .slot_of(&named(&consumer))
                .map(|i| self.core.slots()[i].state());
            if !held || !state.is_some_and(|s| s.is_fine()) {
                troubles.push(format!("{consumer}: {truth:?}, shown as {state:?}"));
            }
        }
        if !troubles.is_empty() {
            found.push((Broken::NotConverged, troubles.join("; ")));
        }
        let facts: Vec<&Fact> = log
            .facts
            .iter()
            .filter(|f| f.kind != ConditionType::DisabledOnPurpose)
            .collect();
        let raised = self.ledger.kept().filter(|k| k.raised);
        let raised: Vec<&ConditionId> = raised
            .map(|k| &k.condition.id)
            .filter(|id| id.kind != ConditionType::DisabledOnPurpose)
            .collect();
        if log.steps + log.dirty + facts.len() + raised.len() > 0 {
            let words = format!(
                "{} steps, {} stored, facts {facts:?}, raised {raised:?}",
                log.steps, log.dirty
            );
            found.push((Broken::NotQuiet, words));
        }
        found
    }
    /// Whether anything is leaving still, or waits.
    pub(crate) fn is_busy(&self) -> bool {
        let mut slots = self.core.slots().iter();
        slots.any(|s| s.record.leaves() || s.record.not_before.is_some())
    }
}

/// The digest of a want, and the same as a number.
pub(crate) fn digest(want: &Want) -> (Digest, u64) {
    let text = format!(
        "{}/{:?}/{}/{}",
        want.login, want.password, want.grants, want.enabled
    );
    let number = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    });
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    (Digest::from_bytes(bytes), number)
}
