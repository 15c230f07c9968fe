//! The values that the program keeps on the bus beside the harness's own: wish, words, providers.

use std::collections::BTreeSet;
use std::time::Duration;

use mesh_loops::rotation::decide::What;
use mesh_sdk::bus::Key;
use mesh_sdk::condition::{ConditionType, Reason};
use mesh_sdk::decide::tasks::Handled;
use mesh_sdk::decide::{SecretState, Settings, Wanted};
use mesh_sdk::provision::Digest;
use mesh_sdk::vault::SecretId;
use mesh_sdk::{Capabilities, ConsumerName, Login, ProviderName, Time};
use serde::{Deserialize, Serialize};

/// One consumer's wish on one provider (`wish`, key provider.consumer). No secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WishEntry {
    /// Who.
    pub consumer: ConsumerName,
    /// From whom.
    pub provider: ProviderName,
    /// Its login, as far as it is known.
    pub login: Option<Login>,
    /// Where it stands in the manifest.
    pub standing: Standing,
    /// The digest of what is asked; none for what is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Whether the login should be usable.
    pub enabled: bool,
    /// Whether an existing login may be taken over.
    pub adopt: bool,
    /// Why it is refused or kept, or its secret lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The data that its values speak of, or ever spoke of, under the names of `mesh purge`; `None` where
    /// nobody noted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Vec<String>>,
}

/// Where a consumer stands in the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Asked for.
    Wanted,
    /// Asked for, and its password cannot be had.
    SecretLost,
    /// Asked for in a way that cannot be; what was applied before stays.
    Refused,
    /// Asked for no more.
    Retired,
}

impl WishEntry {
    /// Its key.
    pub fn key(&self) -> Key {
        Key::of(&[self.provider.as_str(), self.consumer.as_str()])
    }
    /// The same, with what an earlier entry knew of its data.
    #[must_use]
    pub fn remembering(mut self, before: &WishEntry) -> Self {
        let Some(old) = &before.data else {
            return self;
        };
        let data = self.data.get_or_insert_default();
        let new: Vec<String> = old.iter().filter(|d| !data.contains(d)).cloned().collect();
        data.extend(new);
        data.sort();
        self
    }
    /// As decisions see it; `None` where there is nothing to decide on.
    pub fn wanted(&self) -> Option<Wanted> {
        let secret = match self.standing {
            Standing::Wanted => SecretState::Ready,
            Standing::SecretLost => SecretState::Lost(self.why.clone().unwrap_or_default()),
            Standing::Refused | Standing::Retired => return None,
        };
        Some(Wanted {
            consumer: self.consumer.clone(),
            login: self.login.clone()?,
            digest: self.digest?,
            enabled: self.enabled,
            adopt: self.adopt,
            secret,
        })
    }
}

/// Which secret is the version in force (`version`, key provider.consumer).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionEntry {
    /// Its id in the secret store.
    pub id: SecretId,
    /// Keyed, so that a reader of the bus cannot test guesses.
    pub fingerprint: Digest,
    /// On a bus beyond one machine: the secret, sealed with the installation's key, for the secret stores of
    /// the other hosts (B-3, S-7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<String>,
}

/// A provider as the running program knows it (`meta`, key provider.NAME).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderEntry {
    /// Its name.
    pub provider: ProviderName,
    /// Its kind.
    pub kind: String,
    /// The loops that look after it, one for each node.
    pub loops: Vec<String>,
    /// Addresses, without secrets.
    pub addresses: Vec<String>,
    /// Milliseconds between two checks.
    pub verify_every: u64,
    /// Milliseconds that an orphan is only shown as leaving.
    pub remove_after: u64,
    /// Milliseconds that it then stays switched off.
    pub grace: u64,
    /// Whether the adapter can be asked.
    pub can_ask: bool,
    /// It left the manifest; what it holds was left as it is.
    #[serde(default)]
    pub gone: bool,
    /// Nobody looks after it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closed>,
}

/// Why nobody looks after a provider: its loops could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// The condition that says so.
    pub kind: ConditionType,
    /// Its reason.
    pub reason: Reason,
    /// For people.
    pub why: String,
}

impl ProviderEntry {
    /// Its key.
    pub fn key(provider: &ProviderName) -> Key {
        Key::of(&["provider", provider.as_str()])
    }
    /// Whether the adapter can be asked.
    pub fn can_ask(capabilities: Capabilities) -> bool {
        capabilities.holds || capabilities.holds_all
    }
    /// What the steps of a removal need to know.
    pub fn removal_times(&self) -> Settings {
        Settings {
            remove_after: Duration::from_millis(self.remove_after),
            grace: Duration::from_millis(self.grace),
            ..Settings::default()
        }
    }
}

/// The wish as a whole (`meta`, key wish).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WishHead {
    /// Grows with each wish that differs from the one before.
    pub generation: u64,
    /// Of every provision in it.
    pub digest: String,
    /// Of what the manifest and the files that it names say, whatever lies in the stores: two hosts that ask for
    /// the same have the same.
    #[serde(default)]
    pub asked: String,
    /// When it was read whole last.
    pub read_at: Time,
    /// The mesh, for who reads the store without a manifest.
    #[serde(default)]
    pub mesh: String,
    /// The host whose manifest it is, where several share the bus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The hosts that credentials are to be brought to: each has a loop that does so.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub delivers: BTreeSet<String>,
}

/// What a person said (`word`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum Word {
    /// One pass of everything, please; the number grows.
    Pass {
        /// The number of the request.
        number: u64,
    },
    /// Write nothing for a consumer or provider until then (H-25).
    Pause {
        /// `provider` or `provider/consumer` or a consumer everywhere.
        subject: Subject,
        /// Until when; a past time is a pause that ended.
        until: Time,
        /// Why, in the person's words.
        reason: String,
        /// When it was said.
        at: Time,
    },
    /// End brakes, delays and pauses, and look now.
    Resume {
        /// For whom.
        subject: Subject,
        /// When it was said; each word counts once.
        at: Time,
    },
    /// The server that answers under this provider's address now is meant (H-20).
    ApproveServer {
        /// The provider.
        provider: ProviderName,
        /// The identity that was shown.
        identity: String,
        /// When it was said.
        at: Time,
    },
    /// Exactly these may go.
    ApproveRemovals {
        /// The provider.
        provider: ProviderName,
        /// Consumer and login of each.
        removals: BTreeSet<(ConsumerName, Login)>,
        /// When it was said.
        at: Time,
    },
    /// A login that its consumer had before may go; never one that a wish names.
    Retire {
        /// The provider.
        provider: ProviderName,
        /// The consumer.
        consumer: ConsumerName,
        /// The login that was shown as superseded.
        login: Login,
        /// When it was said.
        at: Time,
    },
    /// Take over a login that exists once its password is proven (H-18); with `exact`, take back rights
    /// beyond what is asked. Stands until the manifest says otherwise.
    Adopt {
        /// The provider.
        provider: ProviderName,
        /// The consumer.
        consumer: ConsumerName,
        /// Surplus rights are taken back.
        exact: bool,
        /// When it was said.
        at: Time,
    },
    /// Seen, by a person (C-3): stops nothing but repeats.
    Ack {
        /// The condition's key.
        condition: String,
        /// In the person's words.
        reason: String,
        /// Until when.
        until: Time,
        /// When it was said.
        at: Time,
    },
    /// A consumer has taken up these versions of what was delivered to it, as they were shown.
    Taken {
        /// Who.
        consumer: ConsumerName,
        /// Which.
        versions: BTreeSet<String>,
        /// In the person's words.
        reason: String,
        /// When it was said.
        at: Time,
    },
    /// Give a consumer another password (once; the time tells one word from another).
    Rotate {
        /// The provider.
        provider: ProviderName,
        /// The consumer.
        consumer: ConsumerName,
        /// In the person's words.
        reason: String,
        /// Not before this.
        due: Time,
        /// When it was said.
        at: Time,
    },
    /// About one rotation that is under way.
    Turn {
        /// The provider.
        provider: ProviderName,
        /// The consumer.
        consumer: ConsumerName,
        /// Which rotation.
        number: u64,
        /// How often a password had come into force, as it was shown.
        turn: u64,
        /// What.
        what: What,
        /// In the person's words.
        reason: String,
        /// When it was said.
        at: Time,
    },
    /// What agents said about a task (C-7).
    Task(Handled),
    /// Does not count for exit codes until then (C-3).
    Silence {
        /// The condition's key.
        condition: String,
        /// In the person's words.
        reason: String,
        /// Until when.
        until: Time,
        /// When it was said.
        at: Time,
    },
}

/// Whom a word is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A whole provider.
    Provider(ProviderName),
    /// A consumer on every provider.
    Consumer(ConsumerName),
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::Provider(name) => write!(f, "provider {name}"),
            Subject::Consumer(name) => write!(f, "consumer {name}"),
        }
    }
}

impl Word {
    /// Where what agents said about a task is kept.
    pub fn task_key(id: &str) -> Key {
        Key::of(&["task", id])
    }
    /// Its key: a newer word about the same thing takes the older one's place.
    pub fn key(&self) -> Key {
        let subject = |kind: &str, subject: &Subject| match subject {
            Subject::Provider(name) => Key::of(&[kind, "provider", name.as_str()]),
            Subject::Consumer(name) => Key::of(&[kind, "consumer", name.as_str()]),
        };
        match self {
            Word::Pass { .. } => Key::of(&["pass"]),
            Word::Pause { subject: s, .. } => subject("pause", s),
            Word::Resume { subject: s, .. } => subject("resume", s),
            Word::ApproveServer { provider, .. } => Key::of(&["server", provider.as_str()]),
            Word::ApproveRemovals { provider, .. } => Key::of(&["removals", provider.as_str()]),
            Word::Retire {
                provider,
                consumer,
                login,
                ..
            } => Key::of(&[
                "retire",
                provider.as_str(),
                consumer.as_str(),
                login.as_str(),
            ]),
            Word::Adopt {
                provider, consumer, ..
            } => Key::of(&["adopt", provider.as_str(), consumer.as_str()]),
            Word::Taken { consumer, .. } => Key::of(&["taken", consumer.as_str()]),
            Word::Rotate {
                provider, consumer, ..
            } => Key::of(&["rotate", provider.as_str(), consumer.as_str()]),
            Word::Turn {
                provider, consumer, ..
            } => Key::of(&["turn", provider.as_str(), consumer.as_str()]),
            Word::Task(handled) => Self::task_key(&handled.task),
            Word::Ack { condition, .. } => Key::of(&["ack", condition]),
            Word::Silence { condition, .. } => Key::of(&["silence", condition]),
        }
    }
}
