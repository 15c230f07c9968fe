//! The program's own conditions: about the manifest, its secrets, TLS, and the store.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use mesh_sdk::Time;
use mesh_sdk::book::Book;
use mesh_sdk::bus::{Bucket, Bus, Fault, Key};
use mesh_sdk::condition::{ConditionType, Fact, Reason};
use mesh_sdk::decide::conditions::{Change, Kept, Seen};
use mesh_sdk::event::Event;
use mesh_sdk::harness::declared::Declared;
use mesh_sdk::{ConsumerName, ProviderName};

use super::member;
use super::shapes::{Closed, ProviderEntry};
use super::wish::Built;
use crate::manifest::{BusChoice, Manifest};

/// The owner's name on the bus.
pub const OWNER: &str = "wish";

/// Raises and clears what is wrong with the wish itself.
pub struct WishOwner {
    book: Book,
}

/// What it declares of itself.
pub fn declared() -> Declared {
    let raises = [
        ConditionType::WishUnreadable,
        ConditionType::Refused,
        ConditionType::SecretUnreadable,
        ConditionType::WeakPassword,
        ConditionType::TlsUnverified,
        ConditionType::ProviderGone,
        ConditionType::BusReplaced,
        // A provider whose records cannot be read has no loop that could tell it.
        ConditionType::LookUnknown,
    ];
    Declared {
        class: OWNER,
        compares_against: "the manifest and the files that it names",
        repairs: "nothing; it puts the wish in force, and keeps the last good one",
        may_take_away: "nothing",
        blind_spots: "whether what is asked is what was meant",
        raises: raises.iter().map(|kind| kind.as_str()).collect(),
        period: "when a file changes, on SIGHUP, and every list_every",
    }
}

impl WishOwner {
    /// Opens its book.
    pub async fn open(bus: &dyn Bus) -> Result<Self, Fault> {
        Ok(Self {
            book: Book::open(bus, OWNER).await?,
        })
    }

    /// Every fact of a wish that was built.
    pub fn facts(
        &self,
        built: &Built,
        without_loop: &[(ProviderName, Closed)],
        replaced: Option<&str>,
        manifest: &Manifest,
    ) -> Vec<Fact> {
        let mut facts = built.facts.clone();
        for (provider, closed) in without_loop {
            let message = format!("nobody looks after it: {}", closed.why);
            let subject = provider.as_str();
            facts.push(Fact::at_once(closed.kind, subject, closed.reason, message));
        }
        if let Some(why) = replaced {
            facts.push(Fact::at_once(
                ConditionType::BusReplaced,
                "store",
                Reason::EpochChanged,
                why.to_owned(),
            ));
        }
        if let BusChoice::Nats(bus) = &manifest.bus
            && bus.dangerously_plain
        {
            facts.push(Fact::at_once(
                ConditionType::TlsUnverified,
                "bus",
                Reason::AsDeclared,
                "the bus is spoken to without TLS, as the manifest says".to_owned(),
            ));
        }
        let mut undelivered: BTreeMap<&ConsumerName, Vec<&str>> = BTreeMap::new();
        for (consumer, why) in &manifest.undelivered {
            undelivered.entry(consumer).or_default().push(why);
        }
        for (consumer, why) in undelivered {
            let subject = format!("delivery/{consumer}");
            let message = format!("nothing is delivered by that table: {}", why.join("; "));
            facts.push(Fact::at_once(
                ConditionType::Refused,
                &subject,
                Reason::RefusedValue,
                message,
            ));
        }
        let mut unhosted: BTreeMap<&ConsumerName, Vec<&str>> = BTreeMap::new();
        for (consumer, why) in &manifest.unhosted {
            unhosted.entry(consumer).or_default().push(why);
        }
        for (consumer, why) in unhosted {
            let subject = format!("host/{consumer}");
            let message = format!("nothing runs by that table: {}", why.join("; "));
            facts.push(Fact::at_once(
                ConditionType::Refused,
                &subject,
                Reason::RefusedValue,
                message,
            ));
        }
        for provider in manifest.providers.values() {
            let plain = provider.dangerously_plain;
            if plain || provider.tls.dangerously_unverified {
                let what = if plain {
                    "without TLS"
                } else {
                    "without verifying the server"
                };
                let message = format!("the connection is made {what}, as the manifest says");
                let subject = provider.name.as_str();
                facts.push(Fact::at_once(
                    ConditionType::TlsUnverified,
                    subject,
                    Reason::AsDeclared,
                    message,
                ));
            }
        }
        facts
    }

    /// Facts about providers that left the manifest.
    pub async fn gone(bus: &dyn Bus) -> Result<Vec<Fact>, Fault> {
        let snapshot = bus.list(Bucket::Meta, &Key::of(&["provider"])).await?;
        let mut facts = Vec::new();
        for entry in snapshot.entries {
            let known: ProviderEntry = serde_json::from_slice(&entry.value)
                .map_err(|error| Fault::Corrupt(format!("provider {}: {error}", entry.key)))?;
            if known.gone {
                let message = format!(
                    "it left the manifest; its logins on {} were left as they are",
                    known.addresses.join(", ")
                );
                let subject = known.provider.as_str();
                facts.push(Fact::at_once(
                    ConditionType::ProviderGone,
                    subject,
                    Reason::SubjectRetired,
                    message,
                ));
            }
        }
        Ok(facts)
    }

    /// The manifest could not be read: the last good wish stays in force.
    pub fn unreadable(why: &str) -> Fact {
        Fact::at_once(
            ConditionType::WishUnreadable,
            "manifest",
            Reason::Malformed,
            why.to_owned(),
        )
    }

    /// One look: raises what was found, clears what was seen gone, and tells both. A file that was read
    /// cannot be read better a second time, so one reading is the two good looks of C-4.
    pub async fn look(
        &mut self,
        bus: &dyn Bus,
        now: Time,
        generation: u64,
        mut facts: Vec<Fact>,
    ) -> Result<(), Fault> {
        facts.extend(Self::gone(bus).await?);
        look_through(&mut self.book, OWNER, bus, (now, generation), facts).await
    }

    /// Closes the conditions of loops that are declared no more: their provider left the manifest, or its
    /// nodes have other names (C-3). Only a whole manifest says that.
    ///
    /// `hosts`: those that are there, where it is known; what one said that ended without a word ends, too.
    pub async fn retire(
        bus: &dyn Bus,
        now: Time,
        generation: u64,
        manifest: &Manifest,
        hosts: Option<&BTreeSet<String>>,
    ) -> Result<(), Fault> {
        let declared: Option<HashSet<String>> = manifest
            .is_whole()
            .then(|| super::fleet::loops_of(manifest).collect());
        let delivers = super::publish::head(bus).await?.delivers;
        let ended = |owner: &str| match owner.split_once('/') {
            Some(("provisioner", _)) => declared.as_ref().is_some_and(|all| !all.contains(owner)),
            Some(("delivery", host)) => manifest.is_whole() && !delivers.contains(host),
            Some((member::CLASS, host)) => hosts.is_some_and(|hosts| !hosts.contains(host)),
            _ => false,
        };
        let mut owners = BTreeSet::new();
        let all = bus.list(Bucket::Condition, &Key::everything()).await?;
        for entry in all.entries {
            let kept: Kept = serde_json::from_slice(&entry.value)
                .map_err(|error| Fault::Corrupt(format!("condition {}: {error}", entry.key)))?;
            let owner = kept.condition.id.owner;
            if kept.raised && ended(&owner) {
                owners.insert(owner);
            }
        }
        for owner in owners {
            let mut book = Book::open(bus, &owner).await?;
            let changes = book.look(now, generation, Vec::new(), |_| Seen::Retired);
            tell(bus, &owner, now, &changes).await?;
            book.store(bus, &changes).await?;
        }
        Ok(())
    }

    /// The manifest could not be read: nothing else is known anew.
    pub async fn look_unreadable(
        &mut self,
        bus: &dyn Bus,
        now: Time,
        generation: u64,
        why: &str,
    ) -> Result<(), Fault> {
        let standing: HashSet<_> = self
            .book
            .ledger()
            .kept()
            .map(|k| k.condition.id.clone())
            .collect();
        let seen = |id: &_| {
            if standing.contains(id) {
                Seen::Nothing
            } else {
                Seen::Good
            }
        };
        let changes = self
            .book
            .look(now, generation, vec![Self::unreadable(why)], seen);
        tell(bus, OWNER, now, &changes).await?;
        self.book.store(bus, &changes).await
    }
}

/// One look at what is seen whole each time: what was found stands, and what was not is gone. So one look is
/// the two good ones of C-4.
pub(super) async fn look_through(
    book: &mut Book,
    owner: &str,
    bus: &dyn Bus,
    (now, generation): (Time, u64),
    facts: Vec<Fact>,
) -> Result<(), Fault> {
    let clears = book.ledger().kept().any(|kept| {
        let id = &kept.condition.id;
        let found = |f: &Fact| f.kind == id.kind && f.subject == id.subject;
        kept.raised && !facts.iter().any(found)
    });
    let mut changes = Vec::new();
    for _ in 0..if clears { 2 } else { 1 } {
        changes.extend(book.look(now, generation, facts.clone(), |_| Seen::Good));
    }
    tell(bus, owner, now, &changes).await?;
    book.store(bus, &changes).await
}

/// Puts changes of conditions into the history.
pub(super) async fn tell(
    bus: &dyn Bus,
    owner: &str,
    now: Time,
    changes: &[Change],
) -> Result<(), Fault> {
    let events = events(owner, now, changes);
    events.iter().for_each(Event::log);
    append(bus, &events).await
}

/// Changes of conditions as events.
pub(super) fn events(owner: &str, now: Time, changes: &[Change]) -> Vec<Event> {
    let event = |change| Event::of_change(change, owner, now);
    changes.iter().map(event).collect()
}

/// Adds events to the history.
pub(super) async fn append(bus: &dyn Bus, events: &[Event]) -> Result<(), Fault> {
    let lines: Vec<_> = events.iter().map(Event::line).collect::<Result<_, _>>()?;
    if lines.is_empty() {
        Ok(())
    } else {
        bus.append(lines).await
    }
}
