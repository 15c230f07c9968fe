//! The loop: looks at everything that runs for consumers of this host, restarts what needs it, looks again, and keeps
//! what it found.

mod delivered;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mesh_sdk::bus::{Bus, Key};
use mesh_sdk::clock::Clock;
use mesh_sdk::condition::ConditionType;
use mesh_sdk::decide::{Summary, backoff};
use mesh_sdk::event::EventKind;
use mesh_sdk::harness::declared::Declared;
use mesh_sdk::harness::skeleton::Loop;
use mesh_sdk::harness::{PassReport, StoreFault};
use mesh_sdk::scrub::Scrubber;
use mesh_sdk::{ConsumerName, Secret, Time};

use super::decide::{self, Asked, Found, Stands, Step, Terms, Todo};
use super::engine::Engine;
use super::facts;
use super::order::{Order, Thing};
use super::record::{Record, Why};
use crate::owner::{Owner, Pass};
use crate::store::{self, Kept, Stored};
use delivered::{Brought, brought};

/// After a restart it is looked again so soon, for so long as it is not seen well.
const SOON: Duration = Duration::from_secs(5);
const WATCHED: Duration = Duration::from_secs(60);
/// The first wait for credentials that were not brought yet.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// What the loop is made of.
#[derive(Clone)]
pub struct Parts {
    /// Its name on the bus: `host/HOST`.
    pub name: String,
    /// The host, in keys.
    pub host: String,
    /// Where it keeps what it knows, and reads what delivery brought.
    pub bus: Arc<dyn Bus>,
    /// What runs things here.
    pub engine: Arc<dyn Engine>,
    /// The clock.
    pub clock: Clock,
    /// Hides secrets.
    pub scrubber: Arc<Scrubber>,
    /// The installation's key of digests.
    pub key: Secret,
    /// How often it looks.
    pub period: Duration,
    /// So long it waits for more reasons, so that one restart does for all.
    pub window: Duration,
}

/// What it is told.
#[derive(Debug)]
pub enum Told {
    /// What the manifest asks for, whole; its generation.
    Orders(Vec<Order>, u64),
    /// Somebody asks for a pass; the number of the request.
    Pass(u64),
}

/// Something that is not as asked.
#[derive(Debug, Clone)]
pub struct Looked {
    /// Whose.
    pub consumer: ConsumerName,
    /// What.
    pub thing: String,
    /// What will become of it.
    pub is: Is,
}

/// What will become of it, and why.
#[derive(Debug, Clone)]
pub enum Is {
    /// It will be made, in the place of the one that is there.
    ToMake(String),
    /// The one that is there will be started.
    ToStart(String),
    /// It cannot be, or it cannot be told.
    Amiss(String),
}

impl Kept for Record {
    const CLASS: &'static str = "host";

    fn leaves(&mut self) -> Option<(ConsumerName, String)> {
        if std::mem::replace(&mut self.retired, true) {
            return None;
        }
        self.why = None;
        self.pending = None;
        Some((self.consumer.clone(), self.thing.clone()))
    }
}

/// Every record of every host, for who shows them.
pub async fn read_all(bus: &dyn Bus) -> Result<Vec<Record>, StoreFault> {
    store::read_all(bus).await
}

/// What runs for consumers on one host.
pub struct Host {
    parts: Parts,
    owner: Owner,
    orders: Vec<Order>,
    kept: BTreeMap<Key, Stored<Record>>,
    /// So many passes in a row somebody waited for credentials.
    waited: u32,
}

impl Host {
    /// Opens it. Reads the bus; writes nothing.
    pub async fn open(parts: Parts) -> Result<Self, StoreFault> {
        let names = (parts.name.as_str(), parts.host.as_str());
        let owner = Owner::open((&parts.bus, parts.clock), names, Self::declared()).await?;
        Ok(Self {
            owner,
            orders: Vec::new(),
            kept: store::load(parts.bus.as_ref(), &parts.host).await?,
            waited: 0,
            parts,
        })
    }

    /// What it declares of itself.
    pub fn declared() -> Declared {
        use ConditionType as T;
        let raises = [
            T::ContainerTaken,
            T::ImageMissing,
            T::RestartFailed,
            T::Unwell,
        ];
        Declared {
            class: "host",
            compares_against: "the containers and units that run for consumers on its host: their marks, what they were made of, and how they stand",
            repairs: "what is gone, stopped, changed by hand, or made of another image, declaration or version of credentials: made again or started, once for several reasons",
            may_take_away: "the container that a new one follows; no volume, and none without its mark",
            blind_spots: "what an app does with what it was given; parts of a container that the manifest does not ask for",
            raises: raises.iter().map(|t| t.as_str()).collect(),
            period: "60 s; delivered credentials or a changed manifest start a pass at once",
        }
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

    /// Looks at everything and says what is not as asked; writes nothing.
    pub async fn look_only(&self) -> Result<Vec<Looked>, StoreFault> {
        let delivered = crate::delivery::read_all(self.parts.bus.as_ref()).await?;
        let mut all = Vec::new();
        for order in &self.orders {
            let thing = order.thing.to_string();
            let key = self.key(order);
            let known = self.kept.get(&key).map(|stored| stored.record.clone());
            let mut record = known.unwrap_or_else(|| self.fresh(order));
            let brought = brought(order, &delivered, &self.parts);
            let (asked, found) = self.look(order, &brought, &record).await;
            // Whoever looks waits for nobody.
            record.brake.not_before = None;
            let terms = Terms {
                window: Duration::ZERO,
                period: self.parts.period,
            };
            let now = self.parts.clock.now();
            let todo = decide::step(&asked, &found, terms, &mut record, now);
            let is = match (todo, record.why) {
                (Some(todo), _) => {
                    let why = todo.reasons.join("; ");
                    match todo.step {
                        Step::Make => Is::ToMake(why),
                        Step::Start => Is::ToStart(why),
                    }
                }
                (None, Some(Why::Waits(what))) => {
                    Is::ToMake(format!("once there are credentials: {what}"))
                }
                (None, Some(Why::Soon(what))) => Is::ToMake(what),
                (None, Some(Why::Taken(why) | Why::NoImage(why) | Why::Failed(why))) => {
                    Is::Amiss(why)
                }
                (None, Some(Why::Braked(_) | Why::Unhealthy(_)) | None) => continue,
            };
            let consumer = order.consumer.clone();
            all.push(Looked {
                consumer,
                thing,
                is,
            });
        }
        Ok(all)
    }

    /// One pass.
    pub async fn one_pass(&mut self) -> Result<PassReport, StoreFault> {
        let began = self.parts.clock.now();
        let delivered = crate::delivery::read_all(self.parts.bus.as_ref()).await?;
        let mut summary = Summary::default();
        let orders = std::mem::take(&mut self.orders);
        let mut outcome = Ok(());
        for order in &orders {
            let brought = brought(order, &delivered, &self.parts);
            outcome = self.keep(order, &brought, &mut summary).await;
            if outcome.is_err() {
                break;
            }
        }
        self.orders = orders;
        outcome?;
        self.retire();
        self.finish(began, summary).await
    }

    fn key(&self, order: &Order) -> Key {
        let thing = order.thing.to_string();
        store::key::<Record>(&self.parts.host, &order.consumer, &thing)
    }
    fn fresh(&self, order: &Order) -> Record {
        let (consumer, host) = (order.consumer.clone(), self.parts.host.clone());
        Record::new(consumer, host, order.thing.to_string())
    }
    fn record(&mut self, order: &Order) -> &mut Record {
        let (key, fresh) = (self.key(order), self.fresh(order));
        let stored = self.kept.entry(key).or_insert_with(|| Stored::new(fresh));
        &mut stored.record
    }

    async fn look(&self, order: &Order, brought: &Brought, record: &Record) -> (Asked, Found) {
        let look = self.parts.engine.look(order, brought.with(record)).await;
        let digest = match &order.thing {
            Thing::Container(container) => Some(container.digest(&self.parts.key)),
            Thing::Unit(_) => None,
        };
        let asked = Asked {
            digest,
            image: look.image,
            credentials: brought.credentials.clone(),
        };
        (asked, look.found)
    }

    /// Looks at one thing and does what it takes. That one fails stops no other (H-3); a store that fails stops all,
    /// since what is begun is written down before it is done.
    async fn keep(
        &mut self,
        order: &Order,
        brought: &Brought,
        summary: &mut Summary,
    ) -> Result<(), StoreFault> {
        let known = self.record(order).clone();
        let (asked, found) = self.look(order, brought, &known).await;
        let (terms, now) = (self.terms(), self.parts.clock.now());
        let record = self.record(order);
        let todo = decide::step(&asked, &found, terms, record, now);
        let ended = known.recreated_at != record.recreated_at;
        let waits = record.pending.is_some() || matches!(record.why, Some(Why::Waits(_)));
        count(&found, todo.is_some() || waits, summary);
        if ended {
            let reasons = record.reasons.clone();
            self.restarted(order, "was restarted", &reasons);
        }
        match todo {
            Some(todo) => self.act(order, brought, &asked, todo, summary).await,
            None => Ok(()),
        }
    }

    async fn act(
        &mut self,
        order: &Order,
        brought: &Brought,
        asked: &Asked,
        todo: Todo,
        summary: &mut Summary,
    ) -> Result<(), StoreFault> {
        let record = self.record(order);
        record.begun.clone_from(&todo.reasons);
        let known = record.clone();
        let bus = Arc::clone(&self.parts.bus);
        store::save(bus.as_ref(), &mut self.kept).await?;
        let engine = Arc::clone(&self.parts.engine);
        let acted = engine.act(order, todo.step, brought.with(&known)).await;
        let acted = match acted {
            Ok(()) => match self.look(order, brought, &known).await.1 {
                Found::There(seen) => Ok(seen),
                Found::Unknown(why) => Err(why),
                Found::Absent | Found::Stranger(_) => {
                    Err("it is not there after it was made".to_owned())
                }
            },
            Err(why) => Err(why),
        };
        let (terms, now) = (self.terms(), self.parts.clock.now());
        match acted {
            Ok(seen) => {
                summary.applied += 1;
                decide::done(asked, &seen, terms, self.record(order), now);
                let did = match todo.step {
                    Step::Make => "made",
                    Step::Start => "started",
                };
                self.restarted(order, did, &todo.reasons);
            }
            Err(why) => {
                summary.failed += 1;
                let why = self.parts.scrubber.scrub(&why).into_owned();
                decide::failed(why, terms, self.record(order), now);
            }
        }
        Ok(())
    }

    fn restarted(&mut self, order: &Order, did: &str, reasons: &[String]) {
        let detail = format!("{} {did}: {}", order.thing, reasons.join("; "));
        self.tell(EventKind::Restarted, &order.consumer, detail);
    }

    fn terms(&self) -> Terms {
        Terms {
            window: self.parts.window,
            period: self.parts.period,
        }
    }

    fn tell(&mut self, kind: EventKind, consumer: &ConsumerName, detail: String) {
        self.owner.tell(kind, (Record::CLASS, consumer), detail);
    }

    /// Things that are asked for no more: they stay as they are, and that is said (law 3).
    fn retire(&mut self) {
        let asked: BTreeSet<Key> = self.orders.iter().map(|order| self.key(order)).collect();
        for (consumer, thing) in store::left(&mut self.kept, &asked) {
            let detail = format!("{thing}: asked for no more, and left as it is");
            self.tell(EventKind::Leaving, &consumer, detail);
        }
    }

    /// Until the next pass: when something is due, and soon while a restart is watched or credentials are waited for.
    fn wait(&mut self, now: Time) -> Duration {
        let (period, window) = (self.parts.period, self.parts.window);
        let (mut least, mut waits) = (period, false);
        for record in self.records().filter(|record| !record.retired) {
            let watched = |at: Time| record.brake.repaired && now.since(at) < WATCHED;
            if record.recreated_at.is_some_and(watched) {
                least = least.min(SOON);
            }
            if let Some(since) = record.pending {
                let due = (since + window).since(now);
                least = least.min(if due.is_zero() { SOON } else { due });
            }
            if let Some(at) = record.brake.not_before.filter(|at| *at > now) {
                least = least.min(at.since(now));
            }
            waits |= matches!(record.why, Some(Why::Waits(_)));
        }
        self.waited = if waits {
            self.waited.saturating_add(1)
        } else {
            0
        };
        match self.waited.checked_sub(1) {
            Some(times) => backoff(FIRST_WAIT, times, period).min(least),
            None => least,
        }
    }

    async fn finish(&mut self, began: Time, summary: Summary) -> Result<PassReport, StoreFault> {
        store::save(self.parts.bus.as_ref(), &mut self.kept).await?;
        let now = self.parts.clock.now();
        let found = facts::of(self.records());
        let unseen = facts::unseen(self.records());
        let pass = Pass {
            began,
            summary,
            next_at: now + self.wait(now),
            goes_on: true,
        };
        self.owner
            .ends(pass, found, |subject| unseen.contains(subject))
            .await
    }
}

#[async_trait]
impl Loop for Host {
    type Word = Told;

    fn name(&self) -> &str {
        &self.parts.name
    }
    fn hear(&mut self, word: Told) -> bool {
        match word {
            Told::Orders(orders, generation) => self.set_orders(orders, generation),
            Told::Pass(number) => self.owner.asked_for(number),
        }
        true
    }
    fn hint(&mut self) {}
    async fn pass(&mut self) -> Result<PassReport, StoreFault> {
        self.one_pass().await
    }
}

fn count(found: &Found, differs: bool, summary: &mut Summary) {
    summary.asked += 1;
    match found {
        Found::Unknown(_) | Found::Stranger(_) => summary.unknown += 1,
        Found::There(seen) if !differs && !matches!(seen.stands, Stands::Stopped(_)) => {
            summary.held += 1;
        }
        Found::There(_) | Found::Absent => summary.lost += 1,
    }
}
