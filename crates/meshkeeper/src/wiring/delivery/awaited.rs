//! How far a consumer is, for who waits for it: by what stands on the bus now, and by what the manifest here
//! asks for. Writes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, RwLock};

use mesh_loops::delivery::decide::Asked;
use mesh_loops::delivery::order::Order;
use mesh_loops::delivery::record::Record;
use mesh_loops::delivery::{Source, read_all};
use mesh_loops::rotation::journal::Seat;
use mesh_sdk::answer::Proof;
use mesh_sdk::bus::{Bucket, Fault, Key};
use mesh_sdk::decide::State;
use mesh_sdk::harness::StoreFault;
use mesh_sdk::{ConsumerName, Login, ProviderName, Secret, Time};
use serde::Serialize;

use super::applied::Applied;
use crate::manifest::{Manifest, Needed, SecretSource};
use crate::status::{self, Head, PictureFault, ProvisionView};
use crate::wiring::installation::Installation;
use crate::wiring::rotation::seats::seat_of;
use crate::wiring::secrets::{Known, SecretsFault};
use crate::wiring::shapes::{Standing, WishEntry};

/// One thing that is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Awaited {
    /// What it is about: `web on cache`, or the place that credentials are brought to.
    pub subject: String,
    /// Whether it is so.
    pub reached: bool,
    /// How it stands, for people.
    pub how: String,
    /// When that was seen so.
    #[serde(serialize_with = "status::rfc3339_option")]
    pub at: Option<Time>,
}

/// Why it cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum AwaitFault {
    /// The bus, or what lies on it.
    #[error(transparent)]
    Picture(#[from] PictureFault),
    /// The secret store.
    #[error(transparent)]
    Secrets(#[from] SecretsFault),
}

impl From<Fault> for AwaitFault {
    fn from(fault: Fault) -> Self {
        Self::Picture(fault.into())
    }
}

impl From<StoreFault> for AwaitFault {
    fn from(fault: StoreFault) -> Self {
        Self::Picture(fault.into())
    }
}

/// What is looked at.
pub struct Looking<'l> {
    /// The data folder, with its bus.
    pub installation: &'l Installation,
    /// The providers and their loops.
    pub head: &'l Head,
    /// The manifest of this host, if it can be used.
    pub manifest: Option<&'l Arc<Manifest>>,
    /// Reads given passwords.
    pub source: &'l dyn SecretSource,
    /// Who.
    pub consumer: &'l ConsumerName,
    /// Of one provider; of all, if not given.
    pub provider: Option<&'l ProviderName>,
}

impl Looking<'_> {
    /// Whether the consumer has each login, as its manifest asks for it. Empty: nobody asks anything for it.
    pub async fn held(&self) -> Result<Vec<Awaited>, AwaitFault> {
        let bus = self.installation.bus.as_ref();
        let mut found = BTreeMap::new();
        for one in status::read_one(bus, self.head, self.consumer, self.provider).await? {
            let login = self.login_in_use(&one.view.provider).await?;
            // The other of two logins that take turns may rest, or be on its way out.
            if login.is_none() || login == one.view.login {
                found.insert(one.view.provider.clone(), one.view);
            }
        }
        let mut names: BTreeSet<&ProviderName> = found.keys().collect();
        names.extend(self.needed().map(|needed| &needed.provider));
        let mut all = Vec::new();
        for name in names {
            let subject = format!("{} on {name}", self.consumer);
            let not_yet = match self.needed().find(|needed| needed.provider == *name) {
                Some(needed) => self.not_in_force(needed).await?,
                None => None,
            };
            all.push(match (found.get(name), not_yet) {
                (_, Some(why)) => not(subject, why, None),
                (None, None) => not(subject, NOT_IN_FORCE.to_owned(), None),
                (Some(view), None) => self.one_held(subject, view),
            });
        }
        Ok(all)
    }

    fn one_held(&self, subject: String, view: &ProvisionView) -> Awaited {
        if view.state != State::Held {
            let state = view.state.as_str();
            let how = match &view.why {
                Some(why) => format!("{state}: {why}"),
                None => state.to_owned(),
            };
            return not(subject, how, view.checked_at);
        }
        let of = |name: &str| {
            let label = name.strip_prefix("provisioner/");
            label.and_then(|label| label.split('@').next()) == Some(view.provider.as_str())
        };
        if let Some(name) = self.hangs(of) {
            let how = format!("it was held, and {name} makes no progress");
            return not(subject, how, view.checked_at);
        }
        let how = match view.proof {
            Some(Proof::Record) | None => {
                "held, by what was applied: it cannot be asked".to_owned()
            }
            Some(proof) => format!("held, proven by {proof}"),
        };
        Awaited {
            subject,
            reached: true,
            how,
            at: view.checked_at,
        }
    }

    /// Whether the consumer has taken up what it should have at each place. Empty: nothing is delivered to it.
    pub async fn delivered(&self) -> Result<Vec<Awaited>, AwaitFault> {
        let bus = self.installation.bus.as_ref();
        let mut records = read_all(bus).await?;
        records.retain(|record| record.consumer == *self.consumer && !record.retired);
        let Some(manifest) = self.manifest else {
            return Ok(records
                .iter()
                .map(|record| self.by_record(record))
                .collect());
        };
        let of = |order: &Order| {
            order.consumer == *self.consumer
                && self
                    .provider
                    .is_none_or(|one| order.providers.contains(one))
        };
        let orders = manifest.deliveries.iter().filter(|one| of(&one.order));
        let source = Applied {
            bus: Arc::clone(&self.installation.bus),
            secrets: Arc::clone(&self.installation.secrets),
            manifest: Arc::new(RwLock::new(Arc::clone(manifest))),
        };
        let mut all = Vec::new();
        for one in orders {
            let place = one.order.target.to_string();
            let subject = match &one.host {
                Some(host) => format!("{}: {place} on {host}", self.consumer),
                None => format!("{}: {place}", self.consumer),
            };
            if let Some(why) = self.not_all_in_force(&one.order).await? {
                all.push(not(subject, why, None));
                continue;
            }
            let record = record_of(&records, &place, one.host.as_deref());
            let asked = self.asked(&source, &one.order).await?;
            all.push(self.one_delivered(subject, &asked, record));
        }
        Ok(all)
    }

    /// Why what this order speaks of is not in force as the manifest asks for it.
    async fn not_all_in_force(&self, order: &Order) -> Result<Option<String>, AwaitFault> {
        let needed = self.manifest.iter().flat_map(|m| &m.provisions);
        let of = |one: &&Needed| {
            one.consumer == *self.consumer && order.providers.contains(&one.provider)
        };
        for needed in needed.filter(of) {
            if let Some(why) = self.not_in_force(needed).await? {
                return Ok(Some(format!("{}: {why}", needed.provider)));
            }
        }
        Ok(None)
    }

    async fn asked(&self, source: &Applied, order: &Order) -> Result<Asked, AwaitFault> {
        let me = BTreeSet::from([self.consumer.clone()]);
        let mut has = HashMap::new();
        for provider in &order.providers {
            let found = source.of(provider, &me).await?.remove(self.consumer);
            has.extend(found.map(|found| (provider.clone(), found)));
        }
        Ok(order.make(&has, self.key()).asked)
    }

    fn one_delivered(&self, subject: String, asked: &Asked, record: Option<&Record>) -> Awaited {
        let version = match asked {
            Asked::Ready(version) => version,
            Asked::Waits(why) => return not(subject, format!("waits for {why}"), None),
            Asked::Nothing => {
                let how = "a login of it is switched off on purpose".to_owned();
                return not(subject, how, None);
            }
            Asked::Refused(why) => return not(subject, why.clone(), None),
        };
        let Some(record) = record else {
            let how = format!("version {} was not brought there yet", version.0);
            return not(subject, how, None);
        };
        let wanted = record.wanted.as_ref().map(|wanted| &wanted.version);
        if wanted != Some(version) {
            let how = format!("version {} was not brought there yet", version.0);
            return not(subject, how, None);
        }
        let shown = self.by_record(record);
        Awaited { subject, ..shown }
    }

    /// How a place stands by what delivery knows of it alone.
    fn by_record(&self, record: &Record) -> Awaited {
        let subject = format!("{}: {} on {}", record.consumer, record.place, record.host);
        if let Some(since) = record.outstanding_since() {
            let how = status::why_of(record);
            let how = how.unwrap_or("it was not brought there yet".to_owned());
            return not(subject, how, Some(since));
        }
        let Some(taken) = &record.acknowledged else {
            return not(subject, "nothing was taken up yet".to_owned(), None);
        };
        let loops = super::name_of(&record.host);
        if let Some(name) = self.hangs(|name| name == loops) {
            let how = format!("it was taken up, and {name} makes no progress");
            return not(subject, how, Some(taken.at));
        }
        Awaited {
            subject,
            reached: true,
            how: format!("version {} is taken up", taken.version.0),
            at: Some(taken.at),
        }
    }

    /// A loop among these that makes no progress.
    fn hangs(&self, of: impl Fn(&str) -> bool) -> Option<&str> {
        let mut all = self.head.loops();
        let found = all.find(|view| view.hangs() && of(&view.name));
        found.map(|view| view.name.as_str())
    }

    fn needed(&self) -> impl Iterator<Item = &Needed> {
        let all = self.manifest.into_iter().flat_map(|m| &m.provisions);
        all.filter(|one| {
            one.consumer == *self.consumer && self.provider.is_none_or(|p| one.provider == *p)
        })
    }

    fn key(&self) -> &Secret {
        self.installation.secrets.digest_key()
    }

    /// Why the wish in force is not the manifest's: whoever changed the manifest waits for what it asks for now.
    /// Where that cannot be told here, as with a password in a variable that only the daemon has, the wish counts.
    async fn not_in_force(&self, needed: &Needed) -> Result<Option<String>, AwaitFault> {
        let secrets = &self.installation.secrets;
        let of = (needed.provider.clone(), needed.consumer.clone());
        let journal = secrets.journal(&of).await?;
        let seat = journal
            .as_ref()
            .map_or(Seat::First, |journal| journal.in_use());
        let seated = seat_of(needed, seat);
        let bus = self.installation.bus.as_ref();
        let key = Key::of(&[seated.provider.as_str(), seated.consumer.as_str()]);
        let entry = bus.get(Bucket::Wish, &key).await?;
        let parse = |entry: mesh_sdk::bus::Entry| {
            serde_json::from_slice::<WishEntry>(&entry.value)
                .map_err(|error| Fault::Corrupt(format!("wish {key}: {error}")))
        };
        let not_yet = || Ok(Some(NOT_IN_FORCE.to_owned()));
        let entry = match entry.map(parse).transpose()? {
            Some(entry) if entry.standing != Standing::Retired => entry,
            _ => return not_yet(),
        };
        if entry.standing == Standing::Refused {
            return Ok(None);
        }
        if entry.login.as_ref() != Some(&seated.login) || entry.enabled != seated.enabled {
            return not_yet();
        }
        let current = secrets.current_by(journal.as_ref(), &of).await?;
        let password = match (needed.given_password(self.source), current) {
            (Some(Ok(password)), _) => {
                secrets.hide(&password);
                password
            }
            (None, Known::Version(password)) => password,
            (Some(Err(_)), _) | (None, Known::Nothing | Known::Missing(_)) => return Ok(None),
        };
        let key = self.key();
        let mut asked = seated.digests(Some(&password), None, key).to_vec();
        if let Some(held) = journal.as_ref().and_then(|journal| journal.beside())
            && let Known::Version(other) = secrets.open_held(&needed.provider, held).await?
        {
            asked.extend(seated.digests(Some(&password), Some(&other), key));
        }
        match entry.digest.is_some_and(|digest| asked.contains(&digest)) {
            true => Ok(None),
            false => not_yet(),
        }
    }

    /// Which of two logins that take turns is in use; none where none ever took turns.
    async fn login_in_use(&self, provider: &ProviderName) -> Result<Option<Login>, AwaitFault> {
        let of = (provider.clone(), self.consumer.clone());
        let journal = self.installation.secrets.journal(&of).await?;
        let needed = self.needed().find(|needed| needed.provider == *provider);
        Ok(journal
            .zip(needed)
            .map(|(journal, needed)| seat_of(needed, journal.in_use()).login))
    }
}

/// The record of a place. On another host the manifest may lie in another folder: there its kind and its last name
/// tell it.
fn record_of<'r>(records: &'r [Record], place: &str, host: Option<&str>) -> Option<&'r Record> {
    let there = |record: &&Record| host.is_none_or(|host| host == record.host);
    let same = |record: &&Record| record.place == place;
    let alike = |record: &&Record| host.is_some() && name_of(&record.place) == name_of(place);
    let mut of = records.iter().filter(there);
    of.clone().find(same).or_else(|| of.find(alike))
}

fn name_of(place: &str) -> (&str, &str) {
    let kind = place.split(' ').next().unwrap_or(place);
    (kind, place.rsplit('/').next().unwrap_or(place))
}

const NOT_IN_FORCE: &str = "what the manifest asks for is not in force yet";

fn not(subject: String, how: String, at: Option<Time>) -> Awaited {
    Awaited {
        subject,
        reached: false,
        how,
        at,
    }
}
