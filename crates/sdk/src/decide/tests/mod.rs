//! Tests of the core: each rule by its number, on a rig that reads like the rule.

mod applying;
mod asking;
mod braking;
mod guarding;
mod handing;
mod owning;
mod removing;
mod retiring;
mod reverse;
mod seats;
mod shape;
mod telling;

use std::collections::HashMap;
use std::time::Duration;

use super::{
    Core, Departure, Happening, Mode, PassPlan, Record, SecretState, ServerRecord, Settings, Slot,
    State, Step, Stored, Summary, Wanted, WholeWish,
};
use crate::adapter::{Capabilities, Listed, Server, Use};
use crate::answer::{Answer, Difference, Held, Lost, MarkSeen, Proof};
use crate::condition::{ConditionType, Fact};
use crate::error::{Class, Error};
use crate::name::{ConsumerName, Login};
use crate::provision::Digest;
use crate::time::Time;

/// What one pass did.
#[derive(Debug)]
struct Did {
    plan: PassPlan,
    asked: Vec<String>,
    steps: Vec<(String, Step)>,
    facts: Vec<Fact>,
    happenings: Vec<(String, Happening)>,
    dirty: Vec<String>,
    server_dirty: bool,
    summary: Summary,
    next_at: Time,
}

impl Did {
    fn creates(&self) -> Vec<&str> {
        let creates = self.steps.iter();
        let creates = creates.filter(|(_, step)| matches!(step, Step::Create(_)));
        creates.map(|(name, _)| name.as_str()).collect()
    }
    fn kinds(&self) -> Vec<ConditionType> {
        let mut kinds: Vec<ConditionType> = self.facts.iter().map(|f| f.kind).collect();
        kinds.sort_unstable();
        kinds
    }
    fn fact(&self, kind: ConditionType) -> &Fact {
        let mut facts = self.facts.iter().filter(|f| f.kind == kind);
        match (facts.next(), facts.next()) {
            (Some(one), None) => one,
            _ => panic!("not one {kind} in {:?}", self.facts),
        }
    }
    fn happened(&self, what: &Happening) -> bool {
        self.happenings.iter().any(|(_, h)| h == what)
    }
}

/// A core on a virtual clock, with a backend that says what it is told to say. Unless told otherwise a
/// login is absent until `create`, and held afterwards.
struct Rig {
    core: Core,
    caps: Capabilities,
    now: Time,
    wish: WholeWish,
    looks: HashMap<String, Result<Answer, Error>>,
    creates: HashMap<String, Result<(), Error>>,
    after_create: HashMap<String, Result<Answer, Error>>,
    removes: Result<(), Error>,
    server: Result<Server, Error>,
    list: Result<Vec<Listed>, Error>,
    /// Every wish asks for our own login, and every list has it.
    guarded: bool,
    uses: Result<HashMap<String, Use>, Error>,
    mints: u32,
    disk: HashMap<ConsumerName, Record>,
    disk_server: ServerRecord,
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
fn minutes(minutes: u64) -> Duration {
    secs(60 * minutes)
}
const HOUR: Duration = Duration::from_secs(3600);

fn name(text: &str) -> ConsumerName {
    ConsumerName::new(text).expect("a name")
}
fn login(text: &str) -> Login {
    Login::new(text).expect("a login")
}
fn digest(version: u8) -> Digest {
    Digest::from_bytes([version; 16])
}
fn wanted(text: &str) -> Wanted {
    Wanted {
        consumer: name(text),
        login: login(text),
        digest: digest(1),
        enabled: true,
        adopt: false,
        secret: SecretState::Ready,
    }
}
fn canary() -> Wanted {
    Wanted {
        consumer: ConsumerName::canary(),
        login: login("mesh-canary-x"),
        enabled: false,
        ..wanted("canary")
    }
}
fn held() -> Result<Answer, Error> {
    Ok(Answer::held(Proof::Verifier))
}
fn lost(difference: Difference) -> Result<Answer, Error> {
    marked(difference, MarkSeen::Ours, false)
}
fn marked(difference: Difference, mark: MarkSeen, fits: bool) -> Result<Answer, Error> {
    Ok(Answer::Lost(Box::new(Lost {
        differences: difference.into(),
        detail: String::new(),
        mark,
        password_fits: fits,
    })))
}
fn failing<T>(class: Class) -> Result<T, Error> {
    Err(Error::new(class, "as told"))
}
fn asked_singly() -> Capabilities {
    Capabilities {
        server: true,
        holds: true,
        disable: true,
        list: true,
        ..Capabilities::none()
    }
}

impl Rig {
    fn with(caps: Capabilities, stored: Stored, now: Time) -> Self {
        let server = Server {
            run: Some("run1".into()),
            ..Server::default()
        };
        Self {
            core: Core::new(Settings::default(), caps, stored, now),
            caps,
            now,
            wish: WholeWish::default(),
            looks: HashMap::new(),
            creates: HashMap::new(),
            after_create: HashMap::new(),
            removes: Ok(()),
            server: Ok(server),
            list: Ok(Vec::new()),
            guarded: false,
            uses: Ok(HashMap::new()),
            mints: 0,
            disk: HashMap::new(),
            disk_server: ServerRecord::default(),
        }
    }
    /// These consumers, wished and not made yet.
    fn new(names: &[&str]) -> Self {
        Self::of(asked_singly(), names)
    }
    fn of(caps: Capabilities, names: &[&str]) -> Self {
        let mut rig = Self::with(caps, Stored::default(), Time::from_millis(1_000_000));
        rig.wish_for(names.iter().map(|n| wanted(n)).collect());
        rig
    }
    /// These consumers, applied, held, and at rest.
    fn held(names: &[&str]) -> Self {
        let mut rig = Self::new(names);
        rig.pass();
        rig.next();
        rig.again_changes_nothing();
        rig
    }
    /// The same, with our own login, so that a list proves something.
    fn guarded(names: &[&str]) -> Self {
        let mut rig = Self::with(
            asked_singly(),
            Stored::default(),
            Time::from_millis(1_000_000),
        );
        rig.guarded = true;
        rig.lists(&[]);
        rig.wish_for(names.iter().map(|n| wanted(n)).collect());
        rig.pass();
        rig.next();
        rig.again_changes_nothing();
        rig
    }
    fn wish_for(&mut self, wanted: Vec<Wanted>) {
        self.wish.wanted = wanted;
        let has_canary = self.wish.wanted.iter().any(|w| w.consumer.is_canary());
        if self.guarded && !has_canary {
            self.wish.wanted.push(canary());
        }
        self.wish.generation += 1;
        self.confirm_wish();
    }
    fn confirm_wish(&mut self) {
        self.core.set_wish(self.wish.clone(), self.now);
    }
    fn change(&mut self, consumer: &str, with: impl Fn(&mut Wanted)) {
        let mut all = self.wish.wanted.clone();
        let one = all.iter_mut().find(|w| w.consumer.as_str() == consumer);
        with(one.expect("it is wished"));
        self.wish_for(all);
    }
    fn says(&mut self, consumer: &str, answer: Result<Answer, Error>) {
        self.looks.insert(consumer.into(), answer);
    }
    fn create_says(&mut self, consumer: &str, outcome: Result<(), Error>) {
        self.creates.insert(consumer.into(), outcome);
    }
    /// What is seen after a `create` that succeeded; *lost* for one that helps nothing.
    fn after_create(&mut self, consumer: &str, answer: Result<Answer, Error>) {
        self.after_create.insert(consumer.into(), answer);
    }
    fn lists(&mut self, entries: &[(&str, MarkSeen)]) {
        let entries = entries.iter();
        let entries = entries.map(|(l, mark)| Listed::new(login(l), mark.clone(), true));
        let own = MarkSeen::OursFor(ConsumerName::canary());
        let own = Listed::new(canary().login, own, false);
        self.list = Ok(entries.chain(self.guarded.then_some(own)).collect());
    }
    fn lists_ours(&mut self, names: &[&str]) {
        let entries: Vec<(&str, MarkSeen)> = names
            .iter()
            .map(|n| (*n, MarkSeen::OursFor(name(n))))
            .collect();
        self.lists(&entries);
    }
    fn restarts(&mut self, run: &str) {
        self.server = Ok(Server {
            run: Some(run.into()),
            ..self.server.clone().unwrap_or_default()
        });
    }
    fn slot(&self, consumer: &str) -> &Slot {
        let i = self.core.slot_of(&name(consumer)).expect("a slot");
        &self.core.slots()[i]
    }
    fn record(&self, consumer: &str) -> &Record {
        &self.slot(consumer).record
    }
    fn departure(&self, consumer: &str) -> &Departure {
        let departure = self.record(consumer).departure.as_deref();
        departure.expect("it is leaving")
    }
    fn state(&self, consumer: &str) -> State {
        self.slot(consumer).state()
    }
    fn wait(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    /// A pass now.
    fn pass(&mut self) -> Did {
        let (plan, asked) = self.look();
        let mut steps = self.core.steps(self.now);
        for (i, step) in steps.clone() {
            if step == Step::Mint {
                self.mints += 1;
                self.core.secret_ready(i, digest(100));
            }
        }
        steps.extend(self.core.steps(self.now));
        for (i, step) in &steps {
            if *step != Step::Mint {
                self.act(*i, *step);
            }
        }
        let end = self.core.end(self.now);
        let named = |i: usize| self.core.slots()[i].consumer.to_string();
        let steps = steps.into_iter().map(|(i, s)| (named(i), s)).collect();
        let happenings = end.happenings.into_iter();
        let happenings = happenings.map(|(i, h)| (named(i), h)).collect();
        let dirty = self.store();
        let server_dirty = self.core.take_server_dirty();
        if server_dirty {
            self.disk_server = self.core.server().clone();
        }
        self.disk_is_true();
        Did {
            plan,
            asked,
            steps,
            facts: end.facts,
            happenings,
            dirty: dirty
                .into_iter()
                .map(|i| self.core.slots()[i].consumer.to_string())
                .collect(),
            server_dirty,
            summary: end.summary,
            next_at: end.next_at,
        }
    }
    fn look(&mut self) -> (PassPlan, Vec<String>) {
        if self.caps.server {
            self.core.server_seen(self.now, self.server.clone());
        }
        let plan = self.core.begin(self.now);
        if plan.list {
            let list = self.list.as_ref().map(Vec::as_slice);
            self.core.listed(self.now, list);
        }
        let mut asked = Vec::new();
        for i in &plan.ask {
            if self.core.asking_ended() {
                break;
            }
            let consumer = self.core.slots()[*i].consumer.to_string();
            let answer = self.answer_for(&consumer);
            let hung = matches!(&answer, Err(e) if e.class() == Class::TimedOut);
            if hung && plan.mode == Mode::Bulk {
                self.core.bulk_timed_out();
                break;
            }
            self.core.answer(*i, self.now, answer);
            asked.push(consumer);
        }
        self.ask_for_uses();
        (plan, asked)
    }
    fn ask_for_uses(&mut self) {
        let going = self.core.uses_to_ask(self.now);
        if going.is_empty() {
            return;
        }
        let uses = self.uses.clone().map(|uses| {
            let told = going.iter().map(|(_, login)| uses.get(login.as_str()));
            told.map(|used| used.cloned()).collect::<Vec<_>>()
        });
        self.core.used(self.now, &going, uses.as_deref());
    }
    fn answer_for(&self, consumer: &str) -> Result<Answer, Error> {
        let answer = self.looks.get(consumer).cloned();
        answer.unwrap_or_else(|| Ok(Answer::absent()))
    }
    fn act(&mut self, i: usize, step: Step) {
        let consumer = self.core.slots()[i].consumer.to_string();
        if step == Step::Disable || step == Step::Remove {
            let outcome = self.removes.clone();
            if let (Ok(()), Ok(list)) = (&outcome, &mut self.list) {
                let gone = self.core.slots()[i].going().clone();
                list.retain(|l| step == Step::Disable || l.login != gone);
                let off = list.iter_mut().filter(|l| l.login == gone);
                off.for_each(|l| l.enabled = false);
            }
            self.core.effect(i, self.now, outcome);
            return;
        }
        let outcome = self.creates.get(&consumer).cloned().unwrap_or(Ok(()));
        self.core.effect(i, self.now, outcome.clone());
        if outcome.is_ok() {
            let seen = self.after_create.get(&consumer).cloned();
            self.says(&consumer, seen.unwrap_or_else(held));
            if self.caps.holds {
                let again = self.answer_for(&consumer);
                self.core.looked_again(i, self.now, again);
            }
        }
    }

    /// Waits until a whole pass is due, and makes it.
    fn next(&mut self) -> Did {
        self.wait(minutes(1));
        self.pass()
    }
    /// Passes, a minute apart, for so long; those on which somebody was applied.
    fn minutes(&mut self, count: u64) -> Vec<u64> {
        let mut applied = Vec::new();
        for minute in 1..=count {
            if !self.next().creates().is_empty() {
                applied.push(minute);
            }
        }
        applied
    }
    /// The oracle of all oracles: one more pass gives no step and no record to be stored.
    fn again_changes_nothing(&mut self) {
        self.confirm_wish();
        let did = self.next();
        assert_eq!(did.steps, [], "again changes nothing");
        assert_eq!(did.dirty, Vec::<String>::new(), "nothing is written");
        assert!(!did.server_dirty, "nothing is written");
        assert_eq!(did.happenings, []);
    }
    /// Stores the records that differ from what is stored.
    fn store(&mut self) -> Vec<usize> {
        let dirty = self.core.take_dirty();
        for i in &dirty {
            let slot = &self.core.slots()[*i];
            self.disk.insert(slot.consumer.clone(), slot.record.clone());
        }
        dirty
    }
    /// What is stored is what is remembered, but for the words of a failure, the time of the last pass,
    /// and that nobody answers while the server is down.
    fn disk_is_true(&self) {
        let plain = |record: &Record, quiet: bool| {
            let mut record = record.clone();
            record.unknown = record.unknown.filter(|_| !quiet);
            if let Some(unknown) = &mut record.unknown {
                unknown.why = "".into();
            }
            record.departures_mut().for_each(|(_, d)| d.shown = None);
            record
        };
        for slot in self.core.slots() {
            let blank = Record::new(slot.record.login.clone());
            let stored = self.disk.get(&slot.consumer).unwrap_or(&blank);
            let quiet = slot.quiet;
            assert_eq!(plain(&slot.record, quiet), plain(stored, quiet));
        }
        let plain = |server: &ServerRecord| ServerRecord {
            last_pass: None,
            ..server.clone()
        };
        assert_eq!(plain(self.core.server()), plain(&self.disk_server));
    }
    /// The process ends, and another one begins with what was stored.
    fn restart(&mut self) {
        self.store();
        let slots = self.core.slots().iter();
        let records: Vec<(ConsumerName, Record)> = slots
            .filter_map(|s| Some((s.consumer.clone(), self.disk.get(&s.consumer)?.clone())))
            .collect();
        let text = serde_json::to_string(&(self.core.server(), &records)).expect("json");
        let (server, records) = serde_json::from_str(&text).expect("back");
        let stored = Stored { server, records };
        self.core = Core::new(self.core.settings().clone(), self.caps, stored, self.now);
    }
    /// The process ends, and another one begins with the same wish.
    fn restart_and_wish(&mut self) {
        self.restart();
        self.confirm_wish();
    }
}
