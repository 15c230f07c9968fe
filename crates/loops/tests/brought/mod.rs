//! What `web` has on `cache`, as a test says, and the delivery that brings it to an env file.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mesh_loops::delivery::format::{Format, Reader};
use mesh_loops::delivery::order::{Has, Order, Target};
use mesh_loops::delivery::place::Place;
use mesh_loops::delivery::template::Word;
use mesh_loops::delivery::{Delivery, Parts, Source};
use mesh_sdk::bus::Fault;
use mesh_sdk::clock::Clock;
use mesh_sdk::scrub::Scrubber;
use mesh_sdk::testing::MemoryBus;
use mesh_sdk::{ConsumerName, ProviderName, Secret};

/// How often loops look.
pub(crate) const PERIOD: Duration = Duration::from_secs(60);

/// What the consumers have on `cache`.
#[derive(Default)]
pub(crate) struct Held(Mutex<Option<Has>>);

impl Held {
    pub(crate) fn set(&self, password: &str) {
        let words = [(Word::User, "web"), (Word::Password, password)];
        let words = words.map(|(word, text)| (word, Secret::from(text)));
        self.say(Has::Credentials(BTreeMap::from(words), 0));
    }
    pub(crate) fn say(&self, has: Has) {
        *self.0.lock().expect("lock") = Some(has);
    }
}

#[async_trait]
impl Source for Held {
    async fn of(
        &self,
        provider: &ProviderName,
        consumers: &BTreeSet<ConsumerName>,
    ) -> Result<HashMap<ConsumerName, Has>, Fault> {
        let has = self.0.lock().expect("lock").clone();
        let has = has.filter(|_| provider.as_str() == "cache");
        let consumers = consumers.iter();
        Ok(consumers
            .filter_map(|consumer| Some((consumer.clone(), has.clone()?)))
            .collect())
    }
}

pub(crate) fn web() -> ConsumerName {
    ConsumerName::new("web").expect("name")
}

/// A file that every reader of env files reads.
pub(crate) fn env_file(path: &Path) -> Place {
    Place::File(path.to_owned(), Format::Env(Reader::ALL.to_vec()))
}

/// What `web` has on `cache`, in such a file.
pub(crate) fn order(path: &Path) -> Order {
    let cache = ProviderName::new("cache").expect("name");
    let target = Target::Place(env_file(path));
    Order::new(web(), target, BTreeSet::from([cache]))
}

/// The delivery of the host `here`.
pub(crate) async fn delivery(bus: &Arc<MemoryBus>, held: &Arc<Held>, clock: Clock) -> Delivery {
    let parts = Parts {
        name: "delivery/here".to_owned(),
        host: "here".to_owned(),
        bus: bus.clone(),
        source: held.clone(),
        clock,
        scrubber: Arc::new(Scrubber::default()),
        key: Secret::from("key"),
        period: PERIOD,
    };
    Delivery::open(parts).await.expect("open")
}
