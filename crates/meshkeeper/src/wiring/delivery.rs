//! Delivery in the program: what the manifest orders on this host, and what consumers have on providers.

mod applied;
pub mod awaited;

use std::collections::BTreeSet;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use mesh_loops::delivery::order::Order;
use mesh_loops::delivery::record::Version;
use mesh_loops::delivery::{Delivery, Is, Looked, Parts, Told};
use mesh_sdk::clock::Clock;
use mesh_sdk::harness::skeleton;
use mesh_sdk::harness::{Observer, PassReport, StoreFault};
use mesh_sdk::scrub::Scrubber;
use tokio_util::sync::CancellationToken;

use self::applied::Applied;
use super::installation::Installation;
use super::oneshot::read_lock;
use super::running::Running;
use super::shapes::Word;
use super::words::Said;
use crate::manifest::Manifest;

/// How often places are looked at.
pub const PERIOD: Duration = Duration::from_secs(60);
/// The name of its loop on a host.
pub fn name_of(host: &str) -> String {
    format!("delivery/{host}")
}

/// What people said, as far as it is about deliveries. Hearing it again changes nothing.
pub fn said(said: &Said) -> Vec<Told> {
    let mut told = vec![Told::Pass(said.pass())];
    for word in said.words() {
        if let Word::Taken {
            consumer, versions, ..
        } = word
        {
            let version =
                |version: &String| Told::Taken(consumer.clone(), Version(version.clone()));
            told.extend(versions.iter().map(version));
        }
    }
    told
}

/// What is to be delivered on this host.
pub fn orders(manifest: &Manifest, host: &str) -> Vec<Order> {
    let here = manifest
        .deliveries
        .iter()
        .filter(|one| one.host.as_deref().is_none_or(|name| name == host));
    here.map(|one| one.order.clone()).collect()
}

/// Every host that something is to be delivered to. `here`: where a table that names none is meant.
pub fn hosts(manifest: &Manifest, here: &str) -> BTreeSet<String> {
    let named = manifest.deliveries.iter();
    let named = named.map(|one| one.host.as_deref().unwrap_or(here));
    named.map(str::to_owned).collect()
}

/// What the loop on this host is made with.
fn parts(
    installation: &Installation,
    manifest: Arc<RwLock<Arc<Manifest>>>,
    (clock, scrubber): (Clock, Arc<Scrubber>),
    host: &str,
) -> Parts {
    let source = Applied {
        bus: Arc::clone(&installation.bus),
        secrets: Arc::clone(&installation.secrets),
        manifest,
    };
    Parts {
        name: name_of(host),
        host: host.to_owned(),
        bus: Arc::clone(&installation.bus),
        source: Arc::new(source),
        clock,
        scrubber,
        key: installation.secrets.digest_key().clone(),
        period: PERIOD,
    }
}

/// One pass by a process that ends after it. `None`: there is nothing to deliver here, and never was.
pub async fn one_pass(
    installation: &Installation,
    manifest: &Arc<RwLock<Arc<Manifest>>>,
    with: (Clock, Arc<Scrubber>),
    (host, generation): (&str, u64),
    told: Vec<Told>,
) -> Result<Option<PassReport>, StoreFault> {
    let mut delivery =
        Delivery::open(parts(installation, Arc::clone(manifest), with, host)).await?;
    let orders = orders(&read_lock(manifest), host);
    if orders.is_empty() && delivery.records().next().is_none() {
        return Ok(None);
    }
    delivery.set_orders(orders, generation);
    for told in told {
        skeleton::Loop::hear(&mut delivery, told);
    }
    delivery.one_pass().await.map(Some)
}

/// What a first pass would do here, where there is no installation yet.
pub fn all_new(manifest: &Manifest, host: &str) -> Vec<Looked> {
    let all = orders(manifest, host).into_iter().map(|order| Looked {
        place: order.target.to_string(),
        consumer: order.consumer,
        is: Is::ToWrite("once there are credentials".to_owned()),
    });
    all.collect()
}

/// What a pass would do here. Writes nothing.
pub async fn look_only(
    installation: &Installation,
    manifest: Arc<RwLock<Arc<Manifest>>>,
    with: (Clock, Arc<Scrubber>),
    host: &str,
) -> Result<Vec<Looked>, StoreFault> {
    let orders = orders(&read_lock(&manifest), host);
    let mut delivery = Delivery::open(parts(installation, manifest, with, host)).await?;
    delivery.set_orders(orders, 0);
    delivery.look_only().await
}

/// The loop in a running daemon. It starts with the first order.
pub struct Delivering {
    host: String,
    running: Option<Running<Delivery>>,
}

impl Delivering {
    /// On this host.
    pub fn on(host: String) -> Self {
        Self {
            host,
            running: None,
        }
    }
    /// The host.
    pub fn host(&self) -> &str {
        &self.host
    }
    /// Tells the loop what is asked for now, and starts it if there is anything to look after.
    pub async fn take(
        &mut self,
        installation: &Installation,
        manifest: &Arc<RwLock<Arc<Manifest>>>,
        with: (Clock, Arc<Scrubber>),
        (generation, observers): (u64, &[Arc<dyn Observer>]),
    ) -> Result<(), StoreFault> {
        let orders = orders(&read_lock(manifest), &self.host);
        match &self.running {
            Some(running) => running.tell(Told::Orders(orders, generation)).await,
            None => {
                let parts = parts(installation, Arc::clone(manifest), with.clone(), &self.host);
                let mut delivery = Delivery::open(parts).await?;
                if orders.is_empty() && delivery.records().next().is_none() {
                    return Ok(());
                }
                // Its first pass begins at once, and must not find that nothing is asked for.
                delivery.set_orders(orders, generation);
                for observer in observers {
                    observer.opened(skeleton::Loop::name(&delivery), delivery.pulse());
                }
                let stop = CancellationToken::new();
                self.running = Some(Running::start(delivery, with.0, PERIOD, stop));
            }
        }
        Ok(())
    }
    /// Hands on what people said.
    pub async fn hear(&self, words: &Said) {
        if let Some(running) = &self.running {
            for told in said(words) {
                running.tell(told).await;
            }
        }
    }
    /// Lets it finish its step, and waits for that.
    pub async fn stop(self) {
        if let Some(running) = self.running {
            running.stop().await;
        }
    }
}
