//! Conditions of the bus itself. They stand in this process too, so that they can be shown while the bus
//! that they are about cannot be written; it is told of them when it can.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mesh_bus::jetstream::{Finding, Inspection, OpenFault};
use mesh_sdk::Time;
use mesh_sdk::book::Book;
use mesh_sdk::bus::{Bus, Fault};
use mesh_sdk::condition::{Condition, ConditionType, Fact, Reason};
use mesh_sdk::decide::conditions::{Change, Ledger, Seen};
use mesh_sdk::event::Event;
use mesh_sdk::harness::declared::Declared;

use crate::wiring::installation::InstallationFault;
use crate::wiring::{owner, publish};

/// The owner's name on the bus.
pub const OWNER: &str = "bus";

/// What it declares of itself.
pub fn declared() -> Declared {
    Declared {
        class: OWNER,
        compares_against: "how the bus's streams were made, where it is one of NATS servers",
        repairs: "nothing; `mesh bus bootstrap` makes what is missing",
        may_take_away: "nothing",
        blind_spots: "what was put back with the same settings: the epoch tells that",
        raises: [ConditionType::BusTampered, ConditionType::BusNoQuorum]
            .iter()
            .map(|kind| kind.as_str())
            .collect(),
        period: "5 s, and at once when the bus's servers tell that a stream changed",
    }
}
/// Changes that wait for a bus that can be written; older ones are in the log only.
const UNTOLD: usize = 100;

/// What is known of the bus in this process.
#[derive(Debug)]
pub struct Local(Mutex<Known>);

#[derive(Debug)]
struct Known {
    ledger: Ledger,
    facts: Vec<Fact>,
    sure: bool,
    untold: Vec<Event>,
    book: Option<Book>,
}

impl Default for Local {
    fn default() -> Self {
        Self(Mutex::new(Known {
            ledger: Ledger::new(OWNER, Vec::new()),
            facts: Vec::new(),
            sure: false,
            untold: Vec::new(),
            book: None,
        }))
    }
}

impl Local {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What stands.
    pub fn standing(&self) -> Vec<Condition> {
        let known = self.known();
        let standing = known.ledger.kept().filter(|kept| kept.raised);
        standing.map(|kept| kept.condition.clone()).collect()
    }

    /// One look at the streams.
    pub fn inspected(&self, now: Time, seen: &Inspection) {
        let facts = seen.findings.iter().map(fact).collect();
        self.look(now, facts, !seen.unsure);
    }

    /// The bus could not be opened. What that says of it, says nothing of all else.
    pub fn not_opened(&self, now: Time, fault: &InstallationFault) {
        let InstallationFault::Nats(fault) = fault else {
            return;
        };
        let (kind, reason) = match fault {
            OpenFault::NotBootstrapped { .. } => (ConditionType::BusTampered, Reason::Deleted),
            OpenFault::NotLocked { .. } => (ConditionType::BusTampered, Reason::SettingsChanged),
            // There is a connection, and nobody who leads.
            OpenFault::NoJetStream { .. } | OpenFault::Bus(Fault::Unreachable(_)) => {
                (ConditionType::BusNoQuorum, Reason::NoMajority)
            }
            _ => return,
        };
        self.look(now, vec![of(kind, reason, fault.to_string())], false);
    }

    fn look(&self, now: Time, facts: Vec<Fact>, sure: bool) {
        let mut known = self.known();
        let seen = if sure { Seen::Good } else { Seen::NotLooked };
        let changes = known.ledger.look(now, 0, facts.clone(), |_| seen);
        let events = owner::events(OWNER, now, &changes);
        for event in &events {
            event.log();
        }
        known.untold.extend(events);
        let too_many = known.untold.len().saturating_sub(UNTOLD);
        known.untold.drain(..too_many);
        (known.facts, known.sure) = (facts, sure);
    }

    /// Tells the bus. Errors: it cannot be written now; what is to be told is kept.
    pub async fn tell(&self, bus: &dyn Bus, now: Time) -> Result<(), Fault> {
        let (untold, facts, sure, book) = {
            let mut known = self.known();
            let book = known.book.take();
            (
                std::mem::take(&mut known.untold),
                known.facts.clone(),
                known.sure,
                book,
            )
        };
        if let Err(fault) = owner::append(bus, &untold).await {
            let mut known = self.known();
            let later = std::mem::replace(&mut known.untold, untold);
            known.untold.extend(later);
            return Err(fault);
        }
        let mut book = match book {
            Some(book) => book,
            None => Book::open(bus, OWNER).await?,
        };
        let standing = book.ledger().kept().any(|kept| kept.raised);
        if standing || !facts.is_empty() {
            let generation = publish::head(bus).await?.generation;
            let seen = if sure { Seen::Good } else { Seen::NotLooked };
            let changes: Vec<Change> = book.look(now, generation, facts, |_| seen);
            book.store(bus, &changes).await?;
        }
        self.known().book = Some(book);
        Ok(())
    }
    /// Another bus is open now: what stands on it is read anew.
    pub fn opened_anew(&self) {
        self.known().book = None;
    }
}

fn fact(finding: &Finding) -> Fact {
    let (kind, reason) = match finding {
        Finding::Deleted { .. } | Finding::MadeAgain { .. } => {
            (ConditionType::BusTampered, Reason::Deleted)
        }
        Finding::Changed { .. } => (ConditionType::BusTampered, Reason::SettingsChanged),
        Finding::NoMajority { .. } => (ConditionType::BusNoQuorum, Reason::NoMajority),
    };
    of(kind, reason, finding.to_string())
}

fn of(kind: ConditionType, reason: Reason, message: String) -> Fact {
    Fact {
        kind,
        subject: "bus".to_owned(),
        // A majority may be lost for a moment: a leader was elected.
        final_at_once: kind != ConditionType::BusNoQuorum,
        reason,
        message,
        action: None,
    }
}
