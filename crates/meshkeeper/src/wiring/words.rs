//! What people said, and how it reaches the loops: through the store, whose watch is the doorbell.

use std::collections::HashMap;
use std::time::Duration;

use mesh_loops::rotation::decide::What;
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put, Write};
use mesh_sdk::decide::Approval;
use mesh_sdk::event::{Event, EventKind};
use mesh_sdk::harness::Provisioner;
use mesh_sdk::{ConsumerName, ProviderName, Time};

use super::shapes::{Subject, Word};

/// How often a contended word is said again.
const TRIES: usize = 5;

/// What people said, as it stands in the store.
#[derive(Debug, Clone, Default)]
pub struct Said(Vec<(u64, Word)>);

impl Said {
    /// Each word.
    pub fn words(&self) -> impl Iterator<Item = &Word> {
        self.0.iter().map(|(_, word)| word)
    }
    /// The revision of the newest.
    pub fn newest(&self) -> u64 {
        self.0.iter().map(|(seq, _)| *seq).max().unwrap_or(0)
    }
    /// The newest request for a pass.
    pub fn pass(&self) -> u64 {
        let numbers = self.words().filter_map(|word| match word {
            Word::Pass { number } => Some(*number),
            _ => None,
        });
        numbers.max().unwrap_or(0)
    }
    /// Without requests for a pass.
    #[must_use]
    pub fn without_pass(mut self) -> Self {
        self.0
            .retain(|(_, word)| !matches!(word, Word::Pass { .. }));
        self
    }
}

/// Every word that stands.
pub async fn read(bus: &dyn Bus) -> Result<Said, Fault> {
    let snapshot = bus.list(Bucket::Word, &Key::everything()).await?;
    let parsed = snapshot.entries.iter().map(|entry| {
        let word = serde_json::from_slice(&entry.value)
            .map_err(|error| Fault::Corrupt(format!("word {}: {error}", entry.key)))?;
        Ok((entry.rev.seq, word))
    });
    parsed.collect::<Result<_, _>>().map(Said)
}

/// Says a word: it takes the place of an older one about the same thing, and goes to the history.
pub async fn say(bus: &dyn Bus, word: &Word, now: Time) -> Result<(), Fault> {
    say_as(bus, &word.key(), |_| word.clone()).await?;
    tell(bus, word, now).await
}

/// Asks for a pass; its number is above those of all others who ask at the same time.
pub async fn ask_for_pass(bus: &dyn Bus) -> Result<u64, Fault> {
    let next = |before: Option<Word>| match before {
        Some(Word::Pass { number }) => Word::Pass { number: number + 1 },
        _ => Word::Pass { number: 1 },
    };
    let key = Word::Pass { number: 0 }.key();
    match say_as(bus, &key, next).await? {
        Word::Pass { number } => Ok(number),
        _ => Err(Fault::Corrupt(format!("{key} is no request for a pass"))),
    }
}

/// Puts a word in the place of the one that stands; one that cannot be read counts as none.
async fn say_as(
    bus: &dyn Bus,
    key: &Key,
    word: impl Fn(Option<Word>) -> Word,
) -> Result<Word, Fault> {
    let next = |before: Option<&[u8]>| {
        let before = before.and_then(|value| serde_json::from_slice(value).ok());
        Ok::<Word, Fault>(word(before))
    };
    change(bus, key, next).await
}

/// Writes what follows from the word that stands, whoever else speaks meanwhile. An unknown outcome is read
/// back (B-5). Errors: those of `next`, which ends it; and those of the store.
pub(super) async fn change<E: From<Fault>>(
    bus: &dyn Bus,
    key: &Key,
    next: impl Fn(Option<&[u8]>) -> Result<Word, E>,
) -> Result<Word, E> {
    for _ in 0..TRIES {
        let current = bus.get(Bucket::Word, key).await?;
        let word = next(current.as_ref().map(|entry| entry.value.as_slice()))?;
        let value = serde_json::to_vec(&word).map_err(|error| Fault::Corrupt(error.to_string()))?;
        let write = Write {
            key: key.clone(),
            expect: current.map_or(Expect::Absent, |entry| Expect::At(entry.rev)),
            value: value.clone(),
        };
        match bus.put_if(Bucket::Word, write).await? {
            Put::Done(_) => return Ok(word),
            Put::Conflict => {}
            Put::Unknown => {
                let found = bus.get(Bucket::Word, key).await?;
                if found.is_some_and(|entry| entry.value == value) {
                    return Ok(word);
                }
            }
        }
    }
    let why = "others keep writing the same word; try again";
    Err(Fault::Unreachable(why.into()).into())
}

/// Provider, consumer and line of a word about rotation.
fn of_rotation(word: &Word, now: Time) -> (String, String, String) {
    match word {
        Word::Rotate {
            provider,
            consumer,
            reason,
            due,
            ..
        } => {
            let mut text = "another password".to_owned();
            if *due > now {
                text.push_str(&format!(", not before {} UTC", due.clock()));
            }
            if !reason.is_empty() {
                text.push_str(&format!(": {reason}"));
            }
            (provider.to_string(), consumer.to_string(), text)
        }
        Word::Turn {
            provider,
            consumer,
            number,
            what,
            reason,
            ..
        } => {
            let what = match what {
                What::Taken => "the consumer has the new password",
                What::Force => "the old password goes, whoever is waited for",
                What::Back => "back to the old password",
            };
            let text = format!("rotation {number}: {what}: {reason}");
            (provider.to_string(), consumer.to_string(), text)
        }
        _ => (String::new(), String::new(), String::new()),
    }
}

async fn tell(bus: &dyn Bus, word: &Word, now: Time) -> Result<(), Fault> {
    let (provider, consumer, detail) = match word {
        Word::Pass { .. } | Word::Task(_) => return Ok(()),
        Word::Pause {
            subject, reason, ..
        } => {
            let (p, c) = names(subject);
            (p, c, format!("paused: {reason}"))
        }
        Word::Resume { subject, .. } => {
            let (p, c) = names(subject);
            (p, c, "resumed: brakes, delays and pauses end".to_owned())
        }
        Word::ApproveServer {
            provider, identity, ..
        } => (
            provider.to_string(),
            String::new(),
            format!("the server {identity} is meant"),
        ),
        Word::ApproveRemovals {
            provider, removals, ..
        } => (
            provider.to_string(),
            String::new(),
            format!("{} removals may go", removals.len()),
        ),
        Word::Retire {
            provider,
            consumer,
            login,
            ..
        } => (
            provider.to_string(),
            consumer.to_string(),
            format!("the earlier login `{login}` may go"),
        ),
        Word::Adopt {
            provider,
            consumer,
            exact,
            ..
        } => {
            let how = if *exact {
                ", and rights beyond the wish taken back"
            } else {
                ""
            };
            (
                provider.to_string(),
                consumer.to_string(),
                format!("to be taken over{how}"),
            )
        }
        Word::Taken {
            consumer,
            versions,
            reason,
            ..
        } => {
            let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
            (
                "delivery".to_owned(),
                consumer.to_string(),
                format!("it has version {}: {reason}", versions.join(" and ")),
            )
        }
        Word::Rotate { .. } | Word::Turn { .. } => of_rotation(word, now),
        Word::Ack {
            condition, reason, ..
        } => (
            String::new(),
            String::new(),
            format!("acknowledged {condition}: {reason}"),
        ),
        Word::Silence {
            condition, reason, ..
        } => (
            String::new(),
            String::new(),
            format!("silenced {condition}: {reason}"),
        ),
    };
    let event = Event {
        at: now,
        kind: EventKind::Word,
        owner: "person".into(),
        provider,
        consumer,
        detail,
        count: 1,
    };
    note(bus, &event).await
}

/// Puts an event into the history.
pub async fn note(bus: &dyn Bus, event: &Event) -> Result<(), Fault> {
    bus.append(vec![event.line()?]).await
}

fn names(subject: &Subject) -> (String, String) {
    match subject {
        Subject::Provider(name) => (name.to_string(), String::new()),
        Subject::Consumer(name) => (String::new(), name.to_string()),
    }
}

/// Tells a provisioner what stands and what is new. Words about pauses are states; the others count
/// once: those after the revision `heard`. Returns whether a pass is wanted.
pub fn apply(
    this: &mut Provisioner,
    provider: &ProviderName,
    said: &Said,
    heard: u64,
    now: Time,
) -> bool {
    let mut until: Option<Time> = None;
    let mut consumers: HashMap<ConsumerName, Time> = HashMap::new();
    let mut wanted = false;
    for (seq, word) in &said.0 {
        let is_new = *seq > heard;
        match word {
            Word::Pause {
                subject,
                until: end,
                ..
            } if *end > now => match subject {
                Subject::Provider(name) if name == provider => until = Some(*end),
                Subject::Consumer(name) => {
                    consumers.insert(name.clone(), *end);
                }
                Subject::Provider(_) => {}
            },
            Word::Resume { subject, .. } if is_new => {
                let about = match subject {
                    Subject::Provider(name) if name == provider => None,
                    Subject::Provider(_) => continue,
                    Subject::Consumer(name) => Some(name),
                };
                this.core_mut().release(about, now);
                wanted = true;
            }
            Word::ApproveServer {
                provider: name,
                identity,
                ..
            } if name == provider && this.core().server().changed_to.as_ref() == Some(identity) => {
                this.core_mut().approve_server();
                wanted = true;
            }
            Word::ApproveRemovals {
                provider: name,
                removals,
                ..
            } if name == provider && is_new => {
                this.core_mut().approve_removals(Approval {
                    removals: removals.clone(),
                });
                wanted = true;
            }
            Word::Retire {
                provider: name,
                consumer,
                login,
                ..
            } if name == provider && is_new => {
                this.core_mut().retire(consumer, login, now);
                wanted = true;
            }
            Word::Adopt {
                provider: name,
                consumer,
                ..
            } if name == provider && is_new => {
                this.core_mut().release(Some(consumer), now);
                wanted = true;
            }
            Word::Pass { number } => wanted |= this.request(*number),
            // An agent's "done" is no more than a reason to look (C-7).
            Word::Task(handled)
                if is_new && handled.asks_for_a_look() && handled.owner == this.name() =>
            {
                let consumer = handled.consumer().and_then(|c| ConsumerName::new(c).ok());
                this.core_mut().look_now(consumer.as_ref());
                wanted = true;
            }
            _ => {}
        }
    }
    this.core_mut().set_pauses(until, &consumers);
    wanted
}

/// What people said about taking over logins, for whoever builds the wish.
pub fn adoptions(said: &Said) -> HashMap<(ProviderName, ConsumerName), bool> {
    let adopted = said.words().filter_map(|word| match word {
        Word::Adopt {
            provider,
            consumer,
            exact,
            ..
        } => Some(((provider.clone(), consumer.clone()), *exact)),
        _ => None,
    });
    adopted.collect()
}

/// The longest that a person may pause, silence or acknowledge something.
pub const LONGEST: Duration = Duration::from_secs(7 * 86_400);
