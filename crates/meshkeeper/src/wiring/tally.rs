//! How many logins leave the whole mesh: those of the loops that run here, and those of other hosts.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mesh_sdk::bus::{Bucket, Bus, Fault, Key};
use mesh_sdk::harness::LoopRecord;
use mesh_sdk::{ProviderName, Time};

/// The counts of one provider's loops, by label.
type Counts = BTreeMap<ProviderName, BTreeMap<String, usize>>;

/// A loop of another host that has not passed for so long counts no more: what it took away is no longer
/// recent.
const RECENT: Duration = Duration::from_secs(3600);

/// How many logins each loop took away lately or is about to, for the brake of the whole mesh.
#[derive(Debug, Default)]
pub struct Tally {
    /// Of the loops that run here.
    here: Mutex<Counts>,
    /// Of the loops that run elsewhere, as they said last.
    elsewhere: Mutex<Counts>,
    /// Other hosts have loops, too.
    shared: bool,
}

impl Tally {
    /// One that counts the loops of other hosts, too, where the bus has several.
    pub fn of(shared: bool) -> Self {
        Self {
            shared,
            ..Self::default()
        }
    }
    /// A loop that runs here counted.
    pub fn note(&self, provider: &ProviderName, label: &str, count: usize) {
        let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = here.entry(provider.clone()).or_default();
        nodes.insert(label.to_owned(), count);
    }
    /// A provider's loops run here no more.
    pub fn forget(&self, provider: &ProviderName) {
        let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        here.remove(provider);
    }
    /// Reads what the loops of other hosts counted. Where there are none, it reads nothing. What was read
    /// before stays if the bus does not serve.
    pub async fn look(&self, bus: &dyn Bus, now: Time) -> Result<(), Fault> {
        if !self.shared {
            return Ok(());
        }
        let all = bus.list(Bucket::Loop, &Key::everything()).await?;
        let mut counts = Counts::new();
        for entry in all.entries {
            // Leases and members lie beside the loops.
            let Ok(record) = serde_json::from_slice::<LoopRecord>(&entry.value) else {
                continue;
            };
            let recent = record.last_pass.is_some_and(|at| now.since(at) < RECENT);
            let name = record.label.split_once('@');
            let name = ProviderName::new(name.map_or(&*record.label, |(name, _)| name));
            if let (true, Ok(name)) = (recent && record.removals > 0, name) {
                let nodes = counts.entry(name).or_default();
                nodes.insert(record.label, record.removals);
            }
        }
        *self
            .elsewhere
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = counts;
        Ok(())
    }
    /// Of the other providers. A consumer that leaves a provider with several nodes is one removal.
    pub fn others(&self, provider: &ProviderName) -> usize {
        let here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        let elsewhere = self
            .elsewhere
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Whoever runs here says it itself.
        let away = elsewhere
            .iter()
            .filter(|(name, _)| !here.contains_key(*name));
        let others = here
            .iter()
            .chain(away)
            .filter(|(name, _)| *name != provider);
        others
            .map(|(_, nodes)| nodes.values().copied().max().unwrap_or(0))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    //! what leaves elsewhere counts, and nodes of one provider count once.
    use super::*;
    use mesh_bus::EmbeddedBus;
    use mesh_bus::embedded::Settings;
    use mesh_sdk::bus::{Expect, Write};
    use mesh_sdk::clock::Clock;

    fn name(text: &str) -> ProviderName {
        ProviderName::new(text).expect("name")
    }

    #[test]
    fn r7_removals_are_counted_over_the_mesh_and_once_for_several_nodes() {
        let tally = Tally::default();
        tally.note(&name("cache"), "cache@a", 4);
        tally.note(&name("cache"), "cache@b", 3);
        tally.note(&name("mail"), "mail", 2);
        assert_eq!(tally.others(&name("mail")), 4);
        assert_eq!(tally.others(&name("cache")), 2);
        assert_eq!(tally.others(&name("other")), 6);
        tally.note(&name("cache"), "cache@a", 0);
        assert_eq!(tally.others(&name("mail")), 3);
    }

    #[tokio::test]
    async fn r7_removals_of_other_hosts_are_counted_from_the_bus() {
        let folder = tempfile::tempdir().expect("folder");
        let settings = Settings {
            installation: "inst1".to_owned(),
            clock: Clock::system(),
        };
        let opened = EmbeddedBus::open(folder.path(), &settings).expect("open");
        let (bus, tally) = (opened.bus, Tally::of(true));
        let at = |seconds: i64| Time::from_millis(seconds * 1000);
        for (label, removals, passed) in [
            ("cache", 5, 7000),
            ("mail@a", 2, 7000),
            ("mail@b", 3, 7000),
            ("gone", 9, 10),
        ] {
            let record = LoopRecord {
                label: label.to_owned(),
                last_pass: Some(at(passed)),
                removals,
                ..LoopRecord::default()
            };
            let write = Write {
                key: Key::of(&[&format!("provisioner/{label}")]),
                expect: Expect::Absent,
                value: serde_json::to_vec(&record).expect("JSON"),
            };
            bus.put_if(Bucket::Loop, write).await.expect("put");
        }
        // A loop that runs here counts as it says now, not as it wrote last.
        tally.note(&name("cache"), "cache", 1);
        tally.look(&bus, at(7200)).await.expect("read");
        assert_eq!(tally.others(&name("web")), 1 + 3);
        assert_eq!(tally.others(&name("mail")), 1);
        tally.forget(&name("cache"));
        assert_eq!(tally.others(&name("web")), 5 + 3);
    }
}
