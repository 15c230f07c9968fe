//! What people said, and how it reaches the loops: through the store, whose watch is the doorbell.

use std::collections::HashMap;
use std::time::Duration;

use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put, Write};
use mesh_sdk::decide::Approval;
use mesh_sdk::event::{Event, EventKind};
use mesh_sdk::harness::Provisioner;
use mesh_sdk::{ConsumerName, ProviderName, Time};

use super::shapes::{Subject, Word};

/// How often a contended word is said again.
const TRIES: usize = 5;

/// Every word that stands.
pub async fn read(bus: &dyn Bus) -> Result<Vec<Word>, Fault> {
    let snapshot = bus.list(Bucket::Word, &Key::everything()).await?;
    let parsed = snapshot.entries.iter().map(|entry| {
        serde_json::from_slice(&entry.value)
            .map_err(|error| Fault::Corrupt(format!("word {}: {error}", entry.key)))
    });
    parsed.collect()
}

/// Says a word: it takes the place of an older one about the same thing, and goes to the history.
pub async fn say(bus: &dyn Bus, word: &Word, now: Time) -> Result<(), Fault> {
    let key = word.key();
    let value = serde_json::to_vec(word).map_err(|error| Fault::Corrupt(error.to_string()))?;
    for _ in 0..TRIES {
        let current = bus.get(Bucket::Word, &key).await?;
        let expect = current.map_or(Expect::Absent, |entry| Expect::At(entry.rev));
        match bus
            .put_if(
                Bucket::Word,
                Write {
                    key: key.clone(),
                    expect,
                    value: value.clone(),
                },
            )
            .await?
        {
            Put::Done(_) => return tell(bus, word, now).await,
            Put::Conflict | Put::Unknown => {}
        }
    }
    Err(Fault::Unreachable(
        "others keep writing the same word; try again".into(),
    ))
}

async fn tell(bus: &dyn Bus, word: &Word, now: Time) -> Result<(), Fault> {
    let (provider, consumer, detail) = match word {
        Word::Pass { .. } => return Ok(()),
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
    let subject = Key::of(&[event.kind.as_str(), &event.provider, &event.consumer]);
    let line = serde_json::to_string(&event).map_err(|error| Fault::Corrupt(error.to_string()))?;
    bus.append(vec![(subject, line)]).await
}

fn names(subject: &Subject) -> (String, String) {
    match subject {
        Subject::Provider(name) => (name.to_string(), String::new()),
        Subject::Consumer(name) => (String::new(), name.to_string()),
    }
}

/// The next number for a request for a pass.
pub async fn next_pass(bus: &dyn Bus) -> Result<u64, Fault> {
    let words = read(bus).await?;
    let last = words.iter().filter_map(|word| match word {
        Word::Pass { number } => Some(*number),
        _ => None,
    });
    Ok(last.max().unwrap_or(0) + 1)
}

/// Which words were heard already: each of them counts once, whatever clocks do meanwhile.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    until: Time,
    seen: HashMap<Key, Time>,
}

impl Heard {
    /// Everything that was said until then counts as heard: the end of the loop's last pass.
    pub fn until(until: Time) -> Self {
        Self {
            until,
            seen: HashMap::new(),
        }
    }
    /// Whether a word is new.
    fn is_new(&self, word: &Word, at: Time) -> bool {
        self.seen
            .get(&word.key())
            .map_or(at > self.until, |seen| *seen != at)
    }
    /// These were heard now.
    pub fn note(&mut self, words: &[Word]) {
        self.seen.extend(
            words
                .iter()
                .filter_map(|word| Some((word.key(), word.at()?))),
        );
    }
}

/// Tells a provisioner what stands and what is new. Words about pauses are states; the others count
/// once. Returns whether a pass is wanted.
pub fn apply(
    this: &mut Provisioner,
    provider: &ProviderName,
    words: &[Word],
    heard: &Heard,
    now: Time,
) -> bool {
    let mut until: Option<Time> = None;
    let mut consumers: HashMap<ConsumerName, Time> = HashMap::new();
    let mut wanted = false;
    for word in words {
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
            Word::Resume { subject, at } if heard.is_new(word, *at) => {
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
            } if name == provider => {
                if this.core().server().changed_to.as_ref() == Some(identity) {
                    this.core_mut().approve_server();
                    wanted = true;
                }
            }
            Word::ApproveRemovals {
                provider: name,
                removals,
                at,
            } if name == provider && heard.is_new(word, *at) => {
                this.core_mut().approve_removals(Approval {
                    removals: removals.clone(),
                });
                wanted = true;
            }
            Word::Adopt {
                provider: name,
                consumer,
                at,
                ..
            } if name == provider && heard.is_new(word, *at) => {
                this.core_mut().release(Some(consumer), now);
                wanted = true;
            }
            Word::Pass { number } => wanted |= this.request(*number),
            _ => {}
        }
    }
    this.core_mut().set_pauses(until, &consumers);
    wanted
}

/// What people said about taking over logins, for whoever builds the wish.
pub fn adoptions(said: &[Word]) -> HashMap<(ProviderName, ConsumerName), bool> {
    let adopted = said.iter().filter_map(|word| match word {
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
