//! What every owner does around its looks: it knows what it told of, says what it did, and ends a pass by putting all
//! of that and its beat on the bus.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh_sdk::book::Book;
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put, Rev, Write};
use mesh_sdk::clock::Clock;
use mesh_sdk::condition::{ConditionId, ConditionType, Fact, Reason};
use mesh_sdk::decide::Summary;
use mesh_sdk::decide::conditions::Seen;
use mesh_sdk::event::{Event, EventKind};
use mesh_sdk::harness::declared::{self, Declared};
use mesh_sdk::harness::{LoopRecord, PassReport, StoreFault};
use mesh_sdk::{ConsumerName, Time};

/// An owner of conditions, with what it has not put on the bus yet.
pub(crate) struct Owner {
    name: String,
    label: String,
    class: &'static str,
    bus: Arc<dyn Bus>,
    clock: Clock,
    book: Book,
    beat: Option<Rev>,
    events: Vec<Event>,
    /// The generation of the wish that it looks by.
    pub(crate) generation: u64,
    /// The newest request for a pass.
    pub(crate) asked: u64,
}

/// A pass that ends.
pub(crate) struct Pass {
    /// When it began.
    pub(crate) began: Time,
    /// What it came to.
    pub(crate) summary: Summary,
    /// When the next one is due.
    pub(crate) next_at: Time,
    /// Whether there is a next one: a process that makes a single pass promises none.
    pub(crate) goes_on: bool,
}

impl Owner {
    /// Of the loop of this name; `label`: what tells it from others of its class. Reads the bus; writes nothing.
    pub(crate) async fn open(
        (bus, clock): (&Arc<dyn Bus>, Clock),
        (name, label): (&str, &str),
        declared: Declared,
    ) -> Result<Self, StoreFault> {
        let class = declared.class;
        declared::declare(declared);
        let book = Book::open(bus.as_ref(), name).await?;
        let beat = bus.get(Bucket::Loop, &Key::of(&[name])).await?;
        Ok(Self {
            name: name.to_owned(),
            label: label.to_owned(),
            class,
            bus: Arc::clone(bus),
            clock,
            book,
            beat: beat.map(|entry| entry.rev),
            events: Vec::new(),
            generation: 0,
            asked: 0,
        })
    }

    /// Somebody asks for a pass.
    pub(crate) fn asked_for(&mut self, number: u64) {
        self.asked = self.asked.max(number);
    }

    /// Says what it did or found, in the log and, at the end of the pass, in the history. `provider`: of whom, or the
    /// loop's class.
    pub(crate) fn tell(
        &mut self,
        kind: EventKind,
        (provider, consumer): (&str, &ConsumerName),
        detail: String,
    ) {
        let event = Event {
            at: self.clock.now(),
            kind,
            owner: self.name.clone(),
            provider: provider.to_owned(),
            consumer: consumer.to_string(),
            detail,
            count: 1,
        };
        event.log();
        self.events.push(event);
    }

    /// Raises and clears by what was found, and puts conditions, history and beat on the bus. `unseen`: subjects of
    /// which nothing can be told now, and what was told of them stands.
    pub(crate) async fn ends(
        &mut self,
        pass: Pass,
        found: Vec<Fact>,
        unseen: impl Fn(&str) -> bool,
    ) -> Result<PassReport, StoreFault> {
        let now = self.clock.now();
        let seen = |id: &ConditionId| match unseen(&id.subject) {
            true => Seen::Nothing,
            false => Seen::Good,
        };
        let changes = self.book.look(now, self.generation, found, seen);
        for change in &changes {
            let event = Event::of_change(change, &self.name, now);
            event.log();
            self.events.push(event);
        }
        self.append().await?;
        self.book.store(self.bus.as_ref(), &changes).await?;
        self.beats(&pass, now).await?;
        let standing = self.book.ledger().kept().filter(|kept| kept.raised);
        Ok(PassReport {
            name: self.name.clone(),
            label: self.name.clone(),
            summary: pass.summary,
            states: Vec::new(),
            took: now.since(pass.began),
            at: now,
            next_at: pass.next_at,
            rests: false,
            conditions: standing.count(),
        })
    }

    /// Puts lines into the history. They wait if it cannot be written.
    async fn append(&mut self) -> Result<(), StoreFault> {
        if self.events.is_empty() {
            return Ok(());
        }
        let lines = self.events.iter().map(Event::line);
        self.bus.append(lines.collect::<Result<_, _>>()?).await?;
        self.events.clear();
        Ok(())
    }

    /// Says that a pass was made, and when the next one is due.
    async fn beats(&mut self, pass: &Pass, now: Time) -> Result<(), StoreFault> {
        let record = LoopRecord {
            class: self.class.to_owned(),
            label: self.label.clone(),
            last_pass: Some(now),
            next_pass: pass.goes_on.then_some(pass.next_at),
            summary: pass.summary,
            generation: self.generation,
            answered_request: self.asked,
            ..LoopRecord::default()
        };
        let key = Key::of(&[&self.name]);
        let write = Write {
            key: key.clone(),
            expect: self.beat.map_or(Expect::Absent, Expect::At),
            value: serde_json::to_vec(&record).map_err(|e| Fault::Corrupt(e.to_string()))?,
        };
        self.beat = match self.bus.put_if(Bucket::Loop, write).await? {
            Put::Done(rev) => Some(rev),
            Put::Conflict | Put::Unknown => {
                let found = self.bus.get(Bucket::Loop, &key).await?;
                found.map(|entry| entry.rev)
            }
        };
        Ok(())
    }
}

/// Several findings of one kind about one subject are one fact.
pub(crate) fn folded(
    found: impl Iterator<Item = (String, ConditionType, Reason, String)>,
) -> Vec<Fact> {
    let mut all: BTreeMap<(String, ConditionType), (Reason, Vec<String>)> = BTreeMap::new();
    for (subject, kind, reason, text) in found {
        let (_, texts) = all.entry((subject, kind)).or_insert((reason, Vec::new()));
        texts.push(text);
    }
    let fact = |((subject, kind), (reason, texts)): ((String, _), (_, Vec<String>))| {
        Fact::at_once(kind, &subject, reason, texts.join("; "))
    };
    all.into_iter().map(fact).collect()
}
