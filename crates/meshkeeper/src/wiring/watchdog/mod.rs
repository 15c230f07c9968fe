//! The watchdog: sees that every loop makes progress, that somebody has each, and that the bus is as it was
//! made (B-7, B-8).
//!
//! It judges by what it sees move over its own time: the pulses of the loops in this process, what others
//! wrote on the bus, and who beats for a provider. It runs in every `mesh up`, whether or not that has a provider;
//! several that find the same raise the same condition. Whether *it* runs is seen by `status`, which
//! computes the same from the same entries, and by the service manager and the outside monitor, which hear
//! of it only while all is in order.

pub mod local;
pub mod signs;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mesh_bus::JetstreamBus;
use mesh_bus::jetstream::Advisories;
use mesh_sdk::Time;
use mesh_sdk::book::Book;
use mesh_sdk::bus::{Bus, Fault};
use mesh_sdk::clock::Clock;
use mesh_sdk::condition::{ConditionId, ConditionType, Fact, Reason};
use mesh_sdk::decide::alive::{Judge, Verdict};
use mesh_sdk::decide::conditions::Seen;
use mesh_sdk::harness::declared::Declared;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::local::Local;
use self::signs::{Pulses, Reader};
use super::alive::Alive;
use super::health::HealthKeeper;
use super::{owner, publish};
use crate::status;

/// The owner's name on the bus.
pub const OWNER: &str = "watchdog";
/// How often it looks.
pub const EVERY: Duration = Duration::from_secs(5);
/// A provider that nobody has for so long is told.
const NOBODY: Duration = Duration::from_secs(90);
/// What other judges wrote is read again after so many looks, and before something new is told.
const READ_AGAIN: u32 = 12;

/// What it declares of itself.
pub fn declared() -> Declared {
    let raises = [
        ConditionType::LoopSilent,
        ConditionType::LoopStuck,
        ConditionType::LoopStarved,
        ConditionType::NobodyHolds,
        ConditionType::AliveUntold,
    ];
    Declared {
        class: "watchdog",
        compares_against: "when each loop said that it would beat next, and what its deadlines are",
        repairs: "nothing; under systemd a process whose loop hangs is restarted",
        may_take_away: "nothing",
        blind_spots: "its own process: `mesh status` and the outside monitor see that, and on a shared bus \
                      the other hosts",
        raises: raises.iter().map(|kind| kind.as_str()).collect(),
        period: "5 s",
    }
}

/// What a watchdog looks at.
#[derive(Clone)]
pub struct Watched {
    /// The bus.
    pub bus: Arc<dyn Bus>,
    /// The same, where it is one of NATS servers.
    pub servers: Option<Arc<JetstreamBus>>,
    /// The clock.
    pub clock: Clock,
    /// The loops of this process.
    pub pulses: Arc<Pulses>,
    /// What is known of the bus in this process.
    pub local: Arc<Local>,
    /// What the outside monitor is told.
    pub alive: Arc<Alive>,
    /// What is kept for `status --check`, where the bus lies beyond this machine.
    pub health: Option<Arc<HealthKeeper>>,
}

/// What a look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    /// No loop of this process hangs.
    here: bool,
    /// This process has loops.
    ours: bool,
    /// Every loop that is expected was seen making progress, wherever it runs.
    all: bool,
}

struct Watchdog {
    watched: Watched,
    judge: Judge,
    reader: Reader,
    holders: BTreeMap<String, (Option<u64>, Time)>,
    book: Option<Book>,
    looks: u32,
}

/// Looks until the stop; after each look by which no loop of this process hangs it says so.
pub async fn watch(watched: Watched, fine: impl Fn() + Send, stop: CancellationToken) {
    let mut told = match &watched.servers {
        Some(servers) => servers.advisories().await,
        None => None,
    };
    let mut dog = Watchdog::of(watched);
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            told = next(&mut told) => info!("the bus's servers tell of {}: {}", told.1, told.0),
            () = stop.cancelled() => return,
        }
        dog.look_at_bus().await;
        match dog.look(dog.watched.clock.now()).await {
            Ok(look) => {
                if look.here {
                    fine();
                }
                let now = dog.watched.clock.now();
                dog.watched.alive.judged(now, look.ours && look.all);
                if let Some(health) = &dog.watched.health {
                    health.looked(dog.watched.bus.as_ref(), now, look.all).await;
                }
            }
            Err(fault) => {
                dog.book = None;
                if let Some(health) = &dog.watched.health {
                    health.tried(dog.watched.clock.now());
                }
                warn!("the watchdog could not look: {fault}");
                // The bus is away, and that is nothing that a restart would mend.
                fine();
            }
        }
    }
}

/// The next thing that the servers tell; never, where there are none or they ended.
async fn next(told: &mut Option<Advisories>) -> (String, String) {
    if let Some(advisories) = told {
        if let Some(advisory) = advisories.next().await {
            return advisory;
        }
        *told = None;
    }
    std::future::pending().await
}

impl Watchdog {
    fn of(watched: Watched) -> Self {
        Self {
            watched,
            judge: Judge::default(),
            reader: Reader::default(),
            holders: BTreeMap::new(),
            book: None,
            looks: 0,
        }
    }

    /// Looks at the bus's own streams, where it has some.
    async fn look_at_bus(&self) {
        let Some(servers) = &self.watched.servers else {
            return;
        };
        let seen = servers.inspect().await;
        let now = self.watched.clock.now();
        self.watched.local.inspected(now, &seen);
        if let Some(health) = &self.watched.health {
            health.bus_stands(now, &self.watched.local.standing());
        }
        // What cannot be written now is kept, and shown by this process.
        drop(
            self.watched
                .local
                .tell(self.watched.bus.as_ref(), now)
                .await,
        );
    }

    async fn look(&mut self, now: Time) -> Result<Look, Fault> {
        let bus = Arc::clone(&self.watched.bus);
        let bus = bus.as_ref();
        let providers = status::providers(bus).await?;
        let pulses = &self.watched.pulses;
        let delivers = publish::head(bus).await?.delivers;
        let expected = (&*providers, &delivers);
        let read = self.reader.read(bus, expected, pulses).await?;
        let nobody = self.nobody_holds(now, &read.holders);
        let verdicts = self.judge.look(now, read.loops);
        let here = verdicts
            .iter()
            .filter(|(name, _)| self.watched.pulses.has(name));
        let here = here
            .clone()
            .all(|(_, verdict)| !matches!(verdict, Verdict::Silent(_) | Verdict::Stuck(_)));
        let ours = verdicts.keys().any(|name| self.watched.pulses.has(name));
        let all = nobody.values().all(|since| since.is_none())
            && verdicts
                .values()
                .all(|verdict| matches!(verdict, Verdict::Well | Verdict::Starved(_)));
        let mut facts: Vec<Fact> = verdicts
            .iter()
            .filter_map(|(name, verdict)| fact(name, *verdict))
            .filter(|fact| !is_nobodys(&nobody, &fact.subject))
            .collect();
        facts.extend(
            nobody
                .iter()
                .filter_map(|(name, since)| since.map(|since| told_of_nobody(name, since))),
        );
        facts.extend(self.watched.alive.untold());
        let judged = |id: &ConditionId| seen(id, &verdicts, &nobody);
        self.tell(bus, now, facts, judged).await?;
        Ok(Look { here, ours, all })
    }

    /// Each provider that several hosts can have: for how long nobody had it, if that is too long.
    fn nobody_holds(
        &mut self,
        now: Time,
        holders: &BTreeMap<String, Option<u64>>,
    ) -> BTreeMap<String, Option<Duration>> {
        self.holders.retain(|name, _| holders.contains_key(name));
        let judged = holders.iter().map(|(name, moved)| {
            let known = self.holders.entry(name.clone()).or_insert((*moved, now));
            if known.0 != *moved {
                *known = (*moved, now);
            }
            let since = now.since(known.1);
            (name.clone(), Some(since).filter(|since| *since > NOBODY))
        });
        judged.collect()
    }

    async fn tell(
        &mut self,
        bus: &dyn Bus,
        now: Time,
        facts: Vec<Fact>,
        seen: impl Fn(&ConditionId) -> Seen,
    ) -> Result<(), Fault> {
        self.looks = self.looks.wrapping_add(1);
        let known = self.book.as_ref();
        let standing = known.is_some_and(|book| book.ledger().kept().any(|kept| kept.raised));
        let begins = !standing && !facts.is_empty();
        let open = match self.book.take() {
            // Another judge may have told of it, or of its end.
            Some(book) if !begins && !self.looks.is_multiple_of(READ_AGAIN) => book,
            _ => Book::open(bus, OWNER).await?,
        };
        let open = self.book.insert(open);
        if !facts.is_empty() || open.ledger().kept().any(|kept| kept.raised) {
            let generation = publish::head(bus).await?.generation;
            let changes = open.look(now, generation, facts, seen);
            owner::tell(bus, OWNER, now, &changes).await?;
            open.store(bus, &changes).await?;
        }
        Ok(())
    }
}

/// What is told of a loop is about its provider, or about the loop itself where it has none.
fn label(name: &str) -> &str {
    name.strip_prefix("provisioner/").unwrap_or(name)
}

/// Whether a loop's provider is one that nobody has: that is told, and not its loops (C-6).
fn is_nobodys(nobody: &BTreeMap<String, Option<Duration>>, label: &str) -> bool {
    let provider = label.split('@').next().unwrap_or(label);
    nobody.get(provider).is_some_and(Option::is_some)
}

fn fact(name: &str, verdict: Verdict) -> Option<Fact> {
    let (kind, reason, message) = match verdict {
        Verdict::TooEarly | Verdict::Well => return None,
        Verdict::Silent(since) => (
            ConditionType::LoopSilent,
            Reason::NoBeat,
            format!(
                "there was no sign of its progress for {} s",
                since.as_secs()
            ),
        ),
        Verdict::Stuck(since) => (
            ConditionType::LoopStuck,
            Reason::NoProgress,
            format!(
                "it is in a pass and finished nothing for {} s",
                since.as_secs()
            ),
        ),
        Verdict::Starved(count) => (
            ConditionType::LoopStarved,
            Reason::NoTurn,
            format!("{count} consumers were not asked for three passes, while others were"),
        ),
    };
    Some(Fact::at_once(kind, label(name), reason, message))
}

fn told_of_nobody(provider: &str, since: Duration) -> Fact {
    let message = format!("no host has its loops for {} s", since.as_secs());
    Fact::at_once(
        ConditionType::NobodyHolds,
        provider,
        Reason::NoHolder,
        message,
    )
}

/// What a look says of a condition that stands. What could not be told leaves it as it is.
fn seen(
    id: &ConditionId,
    verdicts: &BTreeMap<String, Verdict>,
    nobody: &BTreeMap<String, Option<Duration>>,
) -> Seen {
    let found = |wanted: &str| {
        let mut all = verdicts.iter();
        all.find(|(name, _)| label(name) == wanted).map(|(_, v)| *v)
    };
    match id.kind {
        ConditionType::LoopSilent | ConditionType::LoopStuck | ConditionType::LoopStarved => {
            match (found(&id.subject), id.kind) {
                (None, _) => Seen::Retired,
                (Some(Verdict::Well), _) => Seen::Good,
                (Some(Verdict::Starved(_)), kind) if kind != ConditionType::LoopStarved => {
                    Seen::Good
                }
                (Some(Verdict::Stuck(_)), ConditionType::LoopSilent) => Seen::Good,
                _ => Seen::NotLooked,
            }
        }
        ConditionType::NobodyHolds => match nobody.get(&id.subject) {
            Some(None) => Seen::Good,
            Some(Some(_)) => Seen::NotLooked,
            // Loops that run here need nobody else.
            None => Seen::Good,
        },
        _ => Seen::Good,
    }
}

#[cfg(test)]
mod tests;
