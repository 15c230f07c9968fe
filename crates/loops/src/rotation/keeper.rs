//! The loop: looks at journals, servers' records, deliveries and people's words; makes the next step of each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mesh_sdk::bus::{Bus, Fault};
use mesh_sdk::clock::Clock;
use mesh_sdk::condition::{ConditionType, Fact};
use mesh_sdk::decide::{Summary, backoff};
use mesh_sdk::harness::declared::Declared;
use mesh_sdk::harness::skeleton::Loop;
use mesh_sdk::harness::{PassReport, StoreFault};
use tracing::warn;

use super::decide::{self, Asks, Make, Said, Seen};
use super::facts;
use super::journal::{Cause, Held, Journal, Step};
use super::store::{All, JournalFault, Journals, Of};
use crate::owner::{Owner, Pass};

/// Its name on the bus.
pub const NAME: &str = "rotation";
/// How often it looks while nothing is under way.
pub const PERIOD: Duration = Duration::from_secs(60);
/// The first wait while something is, doubling up to the longest.
const SOON: Duration = Duration::from_millis(500);
const LATER: Duration = Duration::from_secs(10);

/// Somebody who may get another password, or is just getting it.
#[derive(Debug, Clone)]
pub struct Asker {
    /// Whose.
    pub of: Of,
    /// What the manifest asks.
    pub asks: Asks,
    /// What people said.
    pub said: Said,
    /// Writes are paused until then.
    pub paused: Option<mesh_sdk::Time>,
}

/// Why a password could not be made, or the one in force not be told.
#[derive(Debug, thiserror::Error)]
pub enum SourceFault {
    /// The bus.
    #[error(transparent)]
    Bus(#[from] Fault),
    /// Not now; why.
    #[error("{0}")]
    NotNow(String),
}

/// What rotation needs to know of the rest of the mesh.
#[async_trait]
pub trait Source: Send + Sync {
    /// Whoever is to be looked at: those with a clock, a word, another given password, and those of `all` that
    /// are under way and still asked for.
    async fn askers(&self, all: &All) -> Result<Vec<Asker>, SourceFault>;
    /// What there is to see of one.
    async fn seen(&self, asker: &Asker, journal: &Journal) -> Result<Seen, SourceFault>;
    /// The password in force of one that has no journal that names it; `None` if it cannot be had.
    async fn current(&self, of: &Of) -> Result<Option<Held>, SourceFault>;
    /// Seals another password, on the disk before it returns (H-22).
    async fn seal(&self, of: &Of, make: Make) -> Result<Held, SourceFault>;
    /// Throws one away that lost its race: no journal ever named it.
    async fn discard(&self, of: &Of, held: &Held);
    /// Journals changed: what is asked for follows from them.
    fn changed(&self);
}

/// What the loop is made of.
#[derive(Clone)]
pub struct Parts {
    /// Where it keeps what it knows.
    pub bus: Arc<dyn Bus>,
    /// The journals.
    pub journals: Arc<Journals>,
    /// The rest of the mesh.
    pub source: Arc<dyn Source>,
    /// The clock.
    pub clock: Clock,
    /// How often it looks.
    pub period: Duration,
}

/// What it is told.
#[derive(Debug, Clone, Copy)]
pub enum Told {
    /// Something that it looks at changed: words, records, deliveries, the manifest; its generation.
    Look(u64),
    /// Something changed that matters only while a rotation is under way.
    Stir,
    /// Somebody asks for a pass; the number of the request.
    Pass(u64),
}

/// Rotation.
pub struct Rotation {
    parts: Parts,
    owner: Owner,
    under_way: usize,
    /// So many passes in a row nothing moved while something was under way.
    idle: u32,
}

impl Rotation {
    /// Opens it. Reads the bus; writes nothing.
    pub async fn open(parts: Parts) -> Result<Self, StoreFault> {
        let with = (&parts.bus, parts.clock);
        Ok(Self {
            owner: Owner::open(with, (NAME, NAME), Self::declared()).await?,
            under_way: 0,
            idle: 0,
            parts,
        })
    }

    /// What it declares of itself.
    pub fn declared() -> Declared {
        use ConditionType as T;
        let raises = [T::RotationWaits, T::RotationStuck];
        Declared {
            class: "rotation",
            compares_against: "its journals with what each server was seen to hold and each consumer to have taken up",
            repairs: "nothing: it asks for another password, and the provisioner applies, proves and heals it",
            may_take_away: "the old password or login of a consumer that has taken up the new one; or by a person's word",
            blind_spots: "a consumer that nothing is delivered to: a person says that it has the new password",
            raises: raises.iter().map(|t| t.as_str()).collect(),
            period: "60 s; a word, or while one is under way a record, starts a pass at once",
        }
    }

    /// How many are under way, as of the last pass.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// One pass. Answers whether anything moved beside.
    pub async fn one_pass(&mut self) -> Result<(PassReport, bool), StoreFault> {
        let began = self.parts.clock.now();
        let all = self
            .parts
            .journals
            .read(self.parts.bus.as_ref())
            .await
            .map_err(store_fault)?;
        let askers = self.parts.source.askers(&all).await.map_err(source_fault)?;
        let mut summary = Summary::default();
        let mut standing: BTreeMap<Of, Journal> = BTreeMap::new();
        let mut blind: Vec<String> = Vec::new();
        let mut moved = false;
        for asker in &askers {
            summary.asked += 1;
            match self.step(asker, all.get(&asker.of)).await {
                Ok((journal, did)) => {
                    moved |= did;
                    summary.applied += usize::from(did);
                    if journal.is_under_way() {
                        standing.insert(asker.of.clone(), journal);
                    }
                }
                // A failure of one stops no other (H-3).
                Err(fault) => {
                    summary.failed += 1;
                    blind.push(format!("{}/{}", asker.of.0, asker.of.1));
                    warn!(provider = %asker.of.0, consumer = %asker.of.1, "the rotation waits: {fault}");
                }
            }
        }
        if moved {
            self.parts.source.changed();
        }
        self.under_way = standing.len() + blind.len();
        self.idle = if moved {
            0
        } else {
            self.idle.saturating_add(1)
        };
        let report = self.finish(began, summary, &standing, &blind).await?;
        Ok((report, moved))
    }

    /// The next step of one; more than one while nothing must be seen in between.
    async fn step(
        &mut self,
        asker: &Asker,
        known: Option<&Journal>,
    ) -> Result<(Journal, bool), SourceFault> {
        let now = self.parts.clock.now();
        let (provider, consumer) = asker.of.clone();
        let fresh = || Journal::new(provider, consumer, asker.asks.way, now);
        let journal = known.cloned().unwrap_or_else(fresh);
        let seen = self.parts.source.seen(asker, &journal).await?;
        let next = decide::next(&journal, &asker.asks, &seen, &asker.said, now);
        let mut changed = next.journal;
        let mut events = next.events;
        let mut sealed = None;
        if let Some((make, cause)) = next.make {
            if !changed.is_under_way() && changed.number == 0 {
                changed.way = asker.asks.way;
            }
            let current = match changed.current.clone().filter(|_| !seen.lost) {
                Some(current) => Some(current),
                None if seen.lost => None,
                None => self.parts.source.current(&asker.of).await?,
            };
            let lost = current.is_none();
            let mut made = self.parts.source.seal(&asker.of, make).await?;
            made.seat = decide::seat_of_candidate(&changed, lost);
            sealed = Some(made.clone());
            let cause = if lost && cause == Cause::Clock {
                Cause::Lost
            } else {
                cause
            };
            events.push(decide::begin(&mut changed, current, made, cause, now));
        }
        if changed == journal {
            return Ok((journal, false));
        }
        let (bus, journals) = (self.parts.bus.as_ref(), &self.parts.journals);
        match journals.put(bus, known, &mut changed).await {
            Ok(true) => {}
            Ok(false) => {
                if let Some(made) = sealed {
                    self.parts.source.discard(&asker.of, &made).await;
                }
                return Ok((journal, true));
            }
            // Not known whether it is there: what was sealed is kept.
            Err(JournalFault::Bus(fault)) => return Err(fault.into()),
            Err(fault) => return Err(SourceFault::NotNow(fault.to_string())),
        }
        let did = changed.step != journal.step
            || changed.turn != journal.turn
            || changed.number != journal.number;
        for (kind, detail) in events {
            let (provider, consumer) = &asker.of;
            self.owner.tell(kind, (provider.as_str(), consumer), detail);
        }
        Ok((changed, did))
    }

    async fn finish(
        &mut self,
        began: mesh_sdk::Time,
        summary: Summary,
        standing: &BTreeMap<Of, Journal>,
        blind: &[String],
    ) -> Result<PassReport, StoreFault> {
        let now = self.parts.clock.now();
        let found: Vec<Fact> = standing
            .values()
            .filter_map(|one| facts::of(one, now))
            .collect();
        let pass = Pass {
            began,
            summary,
            next_at: now + self.wait(),
            goes_on: true,
        };
        let unseen = |subject: &str| blind.iter().any(|one| one == subject);
        self.owner.ends(pass, found, unseen).await
    }

    fn wait(&self) -> Duration {
        match self.under_way {
            0 => self.parts.period,
            _ => backoff(SOON, self.idle, LATER.min(self.parts.period)),
        }
    }
}

/// What a plan says of one that would begin, and why; of the others nothing.
pub fn would_begin(
    known: Option<&Journal>,
    asker: &Asker,
    seen: &Seen,
    now: mesh_sdk::Time,
) -> Option<Cause> {
    let (provider, consumer) = asker.of.clone();
    let journal = known
        .cloned()
        .unwrap_or_else(|| Journal::new(provider, consumer, asker.asks.way, now));
    if journal.step != Step::Resting {
        return None;
    }
    let next = decide::next(&journal, &asker.asks, seen, &asker.said, now);
    next.make.map(|(_, cause)| cause)
}

fn source_fault(fault: SourceFault) -> StoreFault {
    match fault {
        SourceFault::Bus(fault) => fault.into(),
        SourceFault::NotNow(why) => Fault::Unreachable(why).into(),
    }
}

fn store_fault(fault: JournalFault) -> StoreFault {
    match fault {
        JournalFault::Bus(fault) => fault.into(),
        JournalFault::Mirror { .. } => Fault::Unreachable(fault.to_string()).into(),
    }
}

#[async_trait]
impl Loop for Rotation {
    type Word = Told;

    fn name(&self) -> &str {
        NAME
    }
    fn hear(&mut self, word: Told) -> bool {
        match word {
            Told::Look(generation) => {
                self.owner.generation = self.owner.generation.max(generation);
                true
            }
            Told::Stir => self.under_way > 0,
            Told::Pass(number) => {
                self.owner.asked_for(number);
                true
            }
        }
    }
    fn hint(&mut self) {}
    async fn pass(&mut self) -> Result<PassReport, StoreFault> {
        self.one_pass().await.map(|(report, _)| report)
    }
}
