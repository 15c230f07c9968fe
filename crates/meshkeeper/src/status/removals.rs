//! What is leaving a provider and waits for nothing but time or a person, as one set with a name.

use std::collections::{BTreeMap, BTreeSet};

use mesh_sdk::bus::Bus;
use mesh_sdk::decide::Record;
use mesh_sdk::harness::{StoreFault, read_records};
use mesh_sdk::mark::keyed;
use mesh_sdk::{ConsumerName, Login, ProviderName, Secret};
use serde::Serialize;

use crate::wiring::shapes::ProviderEntry;

/// The removals that an approval lets go: exactly these, whoever else leaves meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemovalSet {
    /// The provider.
    pub provider: ProviderName,
    /// The name of this set; another set has another one.
    pub set: String,
    /// Whose, and which login, in order.
    pub removals: Vec<Removal>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Removal {
    /// Whose login it was.
    pub consumer: ConsumerName,
    /// The login.
    pub login: Login,
}

impl RemovalSet {
    /// The set of these on a provider; `None` if there are none.
    pub fn of(
        provider: &ProviderName,
        pairs: impl IntoIterator<Item = (ConsumerName, Login)>,
    ) -> Option<Self> {
        let pairs: BTreeSet<(ConsumerName, Login)> = pairs.into_iter().collect();
        if pairs.is_empty() {
            return None;
        }
        let mut parts: Vec<&[u8]> = vec![provider.as_str().as_bytes()];
        for (consumer, login) in &pairs {
            parts.extend([consumer.as_str().as_bytes(), login.as_str().as_bytes()]);
        }
        let digest = keyed(&Secret::from("removals"), b"set", &parts);
        let set = digest.iter().take(4).map(|b| format!("{b:02x}")).collect();
        let removals = pairs.into_iter();
        Some(Self {
            provider: provider.clone(),
            set,
            removals: removals
                .map(|(consumer, login)| Removal { consumer, login })
                .collect(),
        })
    }
    /// As a word carries them.
    pub fn pairs(&self) -> BTreeSet<(ConsumerName, Login)> {
        let each = self.removals.iter();
        each.map(|one| (one.consumer.clone(), one.login.clone()))
            .collect()
    }
    /// For people: how many, and the word that lets exactly these go.
    pub fn line(&self) -> String {
        let count = self.removals.len();
        let logins = if count == 1 { "login is" } else { "logins are" };
        format!(
            "{count} {logins} leaving {}; what is held back of these goes with: {}",
            self.provider,
            self.command()
        )
    }
    /// The command that lets exactly these go.
    pub fn command(&self) -> String {
        format!("mesh approve removals {} --set {}", self.provider, self.set)
    }
}

/// What is leaving a provider by what its loops keep, on whichever of its nodes.
pub async fn removals_of(
    bus: &dyn Bus,
    known: &ProviderEntry,
) -> Result<Option<RemovalSet>, StoreFault> {
    let mut pairs = BTreeSet::new();
    for label in super::labels_of(std::slice::from_ref(known), &known.provider) {
        let records = read_records(bus, &label).await?;
        pairs.extend(waiting(records.iter().map(|(name, record)| (name, record))));
    }
    Ok(RemovalSet::of(&known.provider, pairs))
}

/// Whom a person's word could let go, by one loop's records. Without our own login among them only a person
/// lets anybody go.
pub(super) fn waiting<'r>(
    records: impl Iterator<Item = (&'r ConsumerName, &'r Record)> + Clone,
) -> Vec<(ConsumerName, Login)> {
    let mut own = records.clone().filter(|(name, _)| name.is_canary());
    let unguarded = !own.any(|(_, record)| record.claims(&record.login));
    let leavers = records.flat_map(|(name, record)| record.leavers(name));
    let leavers = leavers.filter(|one| one.may_be_let_go(unguarded));
    leavers
        .map(|one| (one.consumer.clone(), one.login.clone()))
        .collect()
}

/// The sets of what leaves, by provider. A provider with several nodes has one: `cache@a` is of `cache`.
pub fn sets_by_provider<'l>(
    leaving: impl IntoIterator<Item = (&'l str, (ConsumerName, Login))>,
) -> Vec<RemovalSet> {
    let mut all: BTreeMap<ProviderName, BTreeSet<(ConsumerName, Login)>> = BTreeMap::new();
    for (label, pair) in leaving {
        let name = label.split('@').next().unwrap_or(label);
        if let Ok(provider) = ProviderName::new(name) {
            all.entry(provider).or_default().insert(pair);
        }
    }
    let sets = all.iter();
    sets.filter_map(|(provider, pairs)| RemovalSet::of(provider, pairs.iter().cloned()))
        .collect()
}

#[cfg(test)]
mod tests {
    //! a set's name follows from what is in it, and from nothing else.
    use super::*;

    #[test]
    fn r7_a_set_is_named_by_what_is_in_it() {
        let provider = |name: &str| ProviderName::new(name).expect("name");
        let pair = |c: &str, l: &str| {
            (
                ConsumerName::new(c).expect("name"),
                Login::new(l).expect("login"),
            )
        };
        let set = |p: &str, pairs: Vec<_>| RemovalSet::of(&provider(p), pairs).map(|s| s.set);
        let (a, b) = (pair("a", "a"), pair("b", "b"));
        let both = set("cache", vec![a.clone(), b.clone()]);
        assert_eq!(both, set("cache", vec![b.clone(), a.clone(), a.clone()]));
        assert_eq!(both.as_ref().map(String::len), Some(8));
        for other in [
            set("cache", vec![a.clone()]),
            set("mail", vec![a.clone(), b]),
            set("cache", vec![pair("a", "a2"), pair("b", "b")]),
            set("cache", vec![a, pair("b", "b"), pair("c", "c")]),
        ] {
            assert_ne!(both, other);
        }
        assert_eq!(set("cache", Vec::new()), None);
    }
}
