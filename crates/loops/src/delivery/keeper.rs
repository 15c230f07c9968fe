//! The loop: looks at every place, writes and tells what is needed, looks again, and keeps what it found.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mesh_sdk::bus::{Bus, Fault, Key};
use mesh_sdk::clock::Clock;
use mesh_sdk::condition::ConditionType;
use mesh_sdk::decide::{Summary, backoff};
use mesh_sdk::event::EventKind;
use mesh_sdk::harness::beat::Beating;
use mesh_sdk::harness::declared::Declared;
use mesh_sdk::harness::skeleton::Loop;
use mesh_sdk::harness::{PassReport, Pulse, StoreFault};
use mesh_sdk::scrub::Scrubber;
use mesh_sdk::{ConsumerName, ProviderName, Secret, Time};

use super::decide::{self, Asked, Found, Shows, Step, Terms};
use super::facts;
use super::hook;
use super::order::{Has, Made, Order, Target};
use super::place::Place;
use super::record::{Record, Version, Why};
use crate::owner::{Owner, Pass};
use crate::store::{self, Kept, Stored};

/// A program that takes credentials on its standard input has so long.
const HAND_OVER: Duration = Duration::from_secs(30);

/// In a pass something is finished within so long, hooks aside.
const BOUND: Duration = Duration::from_secs(90);
/// Every hook is given up at its deadline. If nothing was finished for so many of the longest, nothing will be.
const DEADLINES: u32 = 3;

/// The first wait for credentials that are not applied yet.
const SOON: Duration = Duration::from_secs(1);

/// Tells what consumers have on providers.
#[async_trait]
pub trait Source: Send + Sync {
    /// Of these consumers on one provider. Errors: nothing can be told, and nothing is changed.
    async fn of(
        &self,
        provider: &ProviderName,
        consumers: &BTreeSet<ConsumerName>,
    ) -> Result<HashMap<ConsumerName, Has>, Fault>;
}

/// What the loop is made of.
#[derive(Clone)]
pub struct Parts {
    /// Its name on the bus: `delivery/HOST`.
    pub name: String,
    /// The host whose places it keeps, in keys.
    pub host: String,
    /// Where it keeps what it knows.
    pub bus: Arc<dyn Bus>,
    /// What there is to deliver.
    pub source: Arc<dyn Source>,
    /// The clock.
    pub clock: Clock,
    /// Hides secrets.
    pub scrubber: Arc<Scrubber>,
    /// The installation's key of digests.
    pub key: Secret,
    /// How often it looks.
    pub period: Duration,
}

/// What it is told.
#[derive(Debug)]
pub enum Told {
    /// What the manifest asks for, whole; its generation.
    Orders(Vec<Order>, u64),
    /// Somebody asks for a pass; the number of the request.
    Pass(u64),
    /// A person says that a consumer has taken a version up.
    Taken(ConsumerName, Version),
}

/// A place that is not as asked.
#[derive(Debug, Clone)]
pub struct Looked {
    /// Whose.
    pub consumer: ConsumerName,
    /// Which.
    pub place: String,
    /// What will become of it.
    pub is: Is,
}

/// What will become of a place, and why.
#[derive(Debug, Clone)]
pub enum Is {
    /// It will be written.
    ToWrite(String),
    /// It cannot be, or it cannot be told.
    Amiss(String),
}

impl Kept for Record {
    const CLASS: &'static str = "delivery";

    fn leaves(&mut self) -> Option<(ConsumerName, String)> {
        if std::mem::replace(&mut self.retired, true) {
            return None;
        }
        self.why = None;
        Some((self.consumer.clone(), self.place.clone()))
    }
}

/// Every record of every host, for who shows them.
pub async fn read_all(bus: &dyn Bus) -> Result<Vec<Record>, StoreFault> {
    store::read_all(bus).await
}

/// Delivery on one host.
pub struct Delivery {
    parts: Parts,
    owner: Owner,
    orders: Vec<Order>,
    kept: BTreeMap<Key, Stored<Record>>,
    /// So many passes in a row somebody waited.
    waited: u32,
    pulse: Pulse,
    /// It makes pass after pass, and not a single one.
    goes_on: bool,
}

impl Delivery {
    /// Opens it. Reads the bus; writes nothing.
    pub async fn open(parts: Parts) -> Result<Self, StoreFault> {
        let names = (parts.name.as_str(), parts.host.as_str());
        let owner = Owner::open((&parts.bus, parts.clock), names, Self::declared()).await?;
        Ok(Self {
            owner,
            orders: Vec::new(),
            kept: store::load(parts.bus.as_ref(), &parts.host).await?,
            waited: 0,
            pulse: Pulse::default(),
            goes_on: false,
            parts,
        })
    }

    /// What it declares of itself.
    pub fn declared() -> Declared {
        use ConditionType as T;
        let raises = [
            T::DeliveryFailed,
            T::DeliveryOutstanding,
            T::DeliveryContested,
            T::Refused,
        ];
        Declared {
            class: "delivery",
            compares_against: "what lies in each file and folder; of a program, what it was handed",
            repairs: "content, mode and owner, by the ordinary write; the reload hook is run again",
            may_take_away: "nothing: what is asked for no more is left where it lies",
            blind_spots: "what a consumer holds in its memory; what a program did with what it was handed",
            raises: raises.iter().map(|t| t.as_str()).collect(),
            period: "60 s; a changed password or manifest starts a pass at once",
        }
    }

    /// How far it is, for whoever watches it (B-8).
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Everything that it knows, for whoever shows it.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.kept.values().map(|stored| &stored.record)
    }

    /// What is asked for from now on.
    pub fn set_orders(&mut self, orders: Vec<Order>, generation: u64) {
        self.orders = orders;
        self.owner.generation = generation;
    }

    /// Looks at every place and says what is not as asked; writes nothing. A place that waits for its
    /// credentials, too, will be written.
    pub async fn look_only(&self) -> Result<Vec<Looked>, StoreFault> {
        let (has, none) = (self.ask().await?, HashMap::new());
        let mut all = Vec::new();
        for order in &self.orders {
            let made = order.make(has.get(&order.consumer).unwrap_or(&none), &self.parts.key);
            let place = order.target.to_string();
            let key = store::key::<Record>(&self.parts.host, &order.consumer, &place);
            let written = self
                .kept
                .get(&key)
                .and_then(|stored| stored.record.written.as_ref());
            let is = match (&made.asked, look(order, &made)) {
                (Asked::Waits(why), _) => Is::ToWrite(format!("once there are credentials: {why}")),
                (Asked::Refused(why), _) => Is::Amiss(why.clone()),
                (Asked::Nothing, _) => continue,
                (_, Found::Unknown(why)) => Is::Amiss(why),
                (_, Found::Same) => continue,
                (Asked::Ready(version), Found::Blind)
                    if written.is_some_and(|written| written.version == *version) =>
                {
                    continue;
                }
                (_, Found::Absent | Found::Blind) => Is::ToWrite("new".to_owned()),
                (_, Found::Loose) => Is::ToWrite("its mode or owner is another".to_owned()),
                (_, Found::Other) => Is::ToWrite("it holds something else".to_owned()),
            };
            all.push(Looked {
                consumer: order.consumer.clone(),
                place,
                is,
            });
        }
        Ok(all)
    }

    /// One pass. While it takes long, it beats.
    pub async fn one_pass(&mut self) -> Result<PassReport, StoreFault> {
        let beating = Beating {
            bus: Arc::clone(&self.parts.bus),
            name: self.parts.name.clone(),
            pulse: self.pulse.clone(),
            clock: self.parts.clock,
        };
        self.pulse.begins(self.parts.clock.now(), self.bound());
        beating.during(self.whole_pass()).await
    }

    async fn whole_pass(&mut self) -> Result<PassReport, StoreFault> {
        let began = self.parts.clock.now();
        let has = self.ask().await?;
        let mut summary = Summary::default();
        let orders = std::mem::take(&mut self.orders);
        for order in &orders {
            self.pulse.step(self.parts.clock.now(), "looks at places");
            self.keep(order, &has, &mut summary).await;
        }
        self.orders = orders;
        self.retire();
        self.pulse.step(self.parts.clock.now(), "stores");
        self.finish(began, summary).await
    }

    /// In a pass something is finished within so long.
    fn bound(&self) -> Duration {
        let hooks = self.orders.iter().filter_map(|order| order.hook.as_ref());
        let longest = hooks.map(|(_, deadline)| *deadline).max();
        longest.map_or(BOUND, |longest| BOUND.max(longest * DEADLINES))
    }

    /// Asks once for each provider that anybody needs.
    async fn ask(&self) -> Result<HashMap<ConsumerName, HashMap<ProviderName, Has>>, StoreFault> {
        let mut askers: BTreeMap<&ProviderName, BTreeSet<ConsumerName>> = BTreeMap::new();
        for order in &self.orders {
            for provider in &order.providers {
                askers
                    .entry(provider)
                    .or_default()
                    .insert(order.consumer.clone());
            }
        }
        let mut all: HashMap<ConsumerName, HashMap<ProviderName, Has>> = HashMap::new();
        for (provider, consumers) in askers {
            for (consumer, has) in self.parts.source.of(provider, &consumers).await? {
                all.entry(consumer)
                    .or_default()
                    .insert(provider.clone(), has);
            }
        }
        Ok(all)
    }

    /// Looks at one place and does what it takes. A failure of one stops no other (H-3).
    async fn keep(
        &mut self,
        order: &Order,
        has: &HashMap<ConsumerName, HashMap<ProviderName, Has>>,
        summary: &mut Summary,
    ) {
        let place = order.target.to_string();
        let key = store::key::<Record>(&self.parts.host, &order.consumer, &place);
        let mut stored = self.kept.remove(&key).unwrap_or_else(|| {
            let host = self.parts.host.clone();
            Stored::new(Record::new(order.consumer.clone(), host, place))
        });
        let none = HashMap::new();
        let has = has.get(&order.consumer).unwrap_or(&none);
        let made = order.make(has, &self.parts.key);
        let turns = matches!(made.asked, Asked::Ready(_)).then(|| order.turns(has));
        let mut one = One {
            order,
            made,
            terms: order.terms(self.parts.period),
            scrubber: &self.parts.scrubber,
            events: Vec::new(),
        };
        one.pass(&mut stored.record, self.parts.clock, summary)
            .await;
        if let Some(turns) = turns {
            stored.record.turns = turns;
        }
        let events = one.events;
        stored.record.made_of(&one.made.asked, one.made.of);
        for (kind, detail) in events {
            self.tell(kind, &order.consumer, detail);
        }
        self.kept.insert(key, stored);
    }

    fn tell(&mut self, kind: EventKind, consumer: &ConsumerName, detail: String) {
        self.owner.tell(kind, (Record::CLASS, consumer), detail);
    }

    /// Places that are asked for no more: what lies there stays, and is said (law 3).
    fn retire(&mut self) {
        let host = &self.parts.host;
        let asked = self.orders.iter();
        let asked: BTreeSet<Key> = asked
            .map(|order| store::key::<Record>(host, &order.consumer, &order.target.to_string()))
            .collect();
        for (consumer, place) in store::left(&mut self.kept, &asked) {
            let detail = format!("{place}: asked for no more, and left as it is");
            self.tell(EventKind::Leaving, &consumer, detail);
        }
    }

    /// Until the next pass: soon, and later and later, while credentials are still being applied.
    fn wait(&mut self) -> Duration {
        let mut of = self.records().filter(|record| !record.retired);
        let waits = of.any(|record| matches!(record.why, Some(Why::Waits(_))));
        drop(of);
        self.waited = if waits {
            self.waited.saturating_add(1)
        } else {
            0
        };
        match self.waited.checked_sub(1) {
            Some(times) => backoff(SOON, times, self.parts.period),
            None => self.parts.period,
        }
    }

    async fn finish(&mut self, began: Time, summary: Summary) -> Result<PassReport, StoreFault> {
        store::save(self.parts.bus.as_ref(), &mut self.kept).await?;
        let now = self.parts.clock.now();
        let found = facts::of(self.records(), now);
        let unseen = facts::unseen(self.records());
        let pass = Pass {
            began,
            summary,
            next_at: now + self.wait(),
            goes_on: self.goes_on,
        };
        self.owner
            .ends(pass, found, |subject| unseen.contains(subject))
            .await
    }
}

#[async_trait]
impl Loop for Delivery {
    type Word = Told;

    fn name(&self) -> &str {
        &self.parts.name
    }
    fn hear(&mut self, word: Told) -> bool {
        match word {
            Told::Orders(orders, generation) => self.set_orders(orders, generation),
            Told::Pass(number) => self.owner.asked_for(number),
            Told::Taken(consumer, version) => {
                let now = self.parts.clock.now();
                let of = self.kept.values_mut().map(|stored| &mut stored.record);
                for record in of.filter(|record| record.consumer == consumer) {
                    decide::acknowledged(&version, record, now);
                }
            }
        }
        true
    }
    fn hint(&mut self) {}
    async fn pass(&mut self) -> Result<PassReport, StoreFault> {
        self.goes_on = true;
        self.one_pass().await
    }
    fn rests_until(&mut self, next: Time) {
        let now = self.parts.clock.now();
        self.pulse.rests(now, next.since(now));
    }
}

/// One place on one pass.
struct One<'o> {
    order: &'o Order,
    made: Made,
    terms: Terms,
    scrubber: &'o Scrubber,
    events: Vec<(EventKind, String)>,
}

impl One<'_> {
    async fn pass(&mut self, record: &mut Record, clock: Clock, summary: &mut Summary) {
        let found = look(self.order, &self.made);
        self.hear_out(record, clock.now());
        count(&self.made.asked, &found, summary);
        let mut step = decide::step(&self.made.asked, &found, self.terms, record, clock.now());
        let Asked::Ready(version) = self.made.asked.clone() else {
            return;
        };
        while let Some(now) = step.take() {
            let outcome = match now {
                Step::Write => self.write(&found, &version, record, clock).await,
                Step::Tell => self.tell(&version, record, clock).await,
            };
            match outcome {
                Ok(()) => {
                    summary.applied += usize::from(now == Step::Write);
                    if now == Step::Write {
                        step = decide::tell(&version, self.terms, record, clock.now());
                    }
                }
                Err(why) => {
                    summary.failed += 1;
                    decide::failed(why, self.terms, record, clock.now());
                }
            }
        }
    }

    /// Reads what the consumer says that it has taken up.
    fn hear_out(&self, record: &mut Record, now: Time) {
        let Some(path) = &self.order.says else {
            return;
        };
        // One that says nothing, or nothing that can be read, has not said it.
        if let Ok(text) = std::fs::read_to_string(path) {
            decide::acknowledged(&Version(text.trim().to_owned()), record, now);
        }
    }

    async fn write(
        &mut self,
        found: &Found,
        version: &Version,
        record: &mut Record,
        clock: Clock,
    ) -> Result<(), Why> {
        let Some(content) = &self.made.content else {
            return Ok(());
        };
        let again = record
            .written
            .as_ref()
            .is_some_and(|w| w.version == *version);
        match &self.order.target {
            Target::Place(place) => self.write_place(place)?,
            Target::Program(words) => {
                let handed = hook::run(words, content.input(), HAND_OVER, self.scrubber).await;
                handed.map_err(|fault| Why::Unwritten(fault.to_string()))?;
            }
        }
        decide::written(version, self.terms, record, clock.now());
        let how = match found {
            _ if !again => format!("version {}", version.0),
            Found::Absent => format!("it was gone; version {} again", version.0),
            Found::Loose => "its mode or owner was another".to_owned(),
            _ => format!("it held something else; version {} again", version.0),
        };
        self.events
            .push((EventKind::Delivered, format!("{}: {how}", record.place)));
        Ok(())
    }

    fn write_place(&self, place: &Place) -> Result<(), Why> {
        let Some(content) = &self.made.content else {
            return Ok(());
        };
        let access = self.order.readers.access();
        let access = access.map_err(|fault| Why::Unwritten(fault.to_string()))?;
        let written = place.write(content, &access);
        written.map_err(|fault| Why::Unwritten(fault.to_string()))?;
        match place.look(content, &access) {
            Found::Same => Ok(()),
            _ => Err(Why::Unwritten(
                "it is not as it was written: something else writes there".to_owned(),
            )),
        }
    }

    async fn tell(
        &mut self,
        version: &Version,
        record: &mut Record,
        clock: Clock,
    ) -> Result<(), Why> {
        let Some((hook, deadline)) = &self.order.hook else {
            return Ok(());
        };
        let told = hook.tell(*deadline, self.scrubber).await;
        told.map_err(|fault| Why::Untold(fault.to_string()))?;
        decide::told(version, self.terms, record, clock.now());
        self.events.push((
            EventKind::Told,
            format!("{}: of version {}", record.place, version.0),
        ));
        Ok(())
    }
}

/// What lies at a place. Reads only.
fn look(order: &Order, made: &Made) -> Found {
    match (&order.target, &made.content) {
        (Target::Place(place), Some(content)) => match order.readers.access() {
            Ok(access) => place.look(content, &access),
            Err(fault) => Found::Unknown(fault.to_string()),
        },
        (Target::Program(_), Some(_)) => Found::Blind,
        (_, None) => Found::Unknown(String::new()),
    }
}

impl Order {
    fn terms(&self, period: Duration) -> Terms {
        Terms {
            hook: self.hook.is_some(),
            shows: match self.shows {
                Shows::Hook if self.hook.is_none() => Shows::Nothing,
                shows => shows,
            },
            period,
        }
    }
}

fn count(asked: &Asked, found: &Found, summary: &mut Summary) {
    summary.asked += 1;
    match (asked, found) {
        (Asked::Ready(_), Found::Same | Found::Blind) => summary.held += 1,
        (Asked::Ready(_), Found::Absent | Found::Loose | Found::Other) => summary.lost += 1,
        _ => summary.unknown += 1,
    }
}
