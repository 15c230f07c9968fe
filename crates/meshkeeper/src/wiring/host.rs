//! The host loop in the program: what the manifest asks to run on this host, and the engines that are there.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use mesh_loops::delivery::order::Target;
use mesh_loops::delivery::place::Place;
use mesh_loops::host::engine::Engines;
use mesh_loops::host::engine::docker::Docker;
use mesh_loops::host::engine::systemd::Systemd;
use mesh_loops::host::order::Order;
use mesh_loops::host::{Host, Is, Looked, Parts, Told};
use mesh_sdk::bus::{Bucket, Key, Watch};
use mesh_sdk::clock::Clock;
use mesh_sdk::harness::skeleton::{self, Message};
use mesh_sdk::harness::{PassReport, StoreFault};
use mesh_sdk::scrub::Scrubber;
use tokio_util::sync::CancellationToken;

use super::installation::Installation;
use super::oneshot::read_lock;
use super::running::{Door, Running};
use super::words::Said;
use crate::manifest::Manifest;

/// How often everything is looked at.
pub const PERIOD: Duration = Duration::from_secs(60);
/// So long a daemon waits for more reasons before it restarts something.
const WINDOW: Duration = Duration::from_secs(10);

/// The name of its loop on a host.
pub fn name_of(host: &str) -> String {
    format!("host/{host}")
}

/// What is to run on this host, each with the places where its consumer's credentials are brought here.
pub fn orders(manifest: &Manifest, host: &str) -> Vec<Order> {
    let is_here = |name: &Option<String>| name.as_deref().is_none_or(|name| name == host);
    let hosted = manifest.hosted.iter().filter(|one| is_here(&one.host));
    let filled = hosted.map(|one| {
        let mut order = one.order.clone();
        let brought = manifest.deliveries.iter().filter(|delivered| {
            delivered.order.consumer == order.consumer && is_here(&delivered.host)
        });
        order.places = brought
            .map(|delivered| {
                let target = &delivered.order.target;
                let path = match target {
                    Target::Place(Place::File(path, _) | Place::Folder(path)) => Some(path.clone()),
                    Target::Program(_) => None,
                };
                (target.to_string(), path)
            })
            .collect();
        order
    });
    filled.collect()
}

/// What the loop on this host is made with.
fn parts(
    installation: &Installation,
    manifest: &Manifest,
    (clock, scrubber): (Clock, Arc<Scrubber>),
    host: &str,
    window: Duration,
) -> Parts {
    let key = installation.secrets.digest_key().clone();
    let docker = Docker {
        mesh: manifest.mesh.clone(),
        key: key.clone(),
    };
    Parts {
        name: name_of(host),
        host: host.to_owned(),
        bus: Arc::clone(&installation.bus),
        engine: Arc::new(Engines {
            docker,
            systemd: Systemd,
        }),
        clock,
        scrubber,
        key,
        period: PERIOD,
        window,
    }
}

/// One pass by a process that ends after it: everything that it waits for has been done before. `None`: nothing is to
/// run here, and nothing ever was.
pub async fn one_pass(
    installation: &Installation,
    manifest: &Arc<RwLock<Arc<Manifest>>>,
    with: (Clock, Arc<Scrubber>),
    (host, generation): (&str, u64),
    pass: u64,
) -> Result<Option<PassReport>, StoreFault> {
    let manifest = read_lock(manifest);
    let parts = parts(installation, &manifest, with, host, Duration::ZERO);
    let mut this = Host::open(parts).await?;
    let orders = orders(&manifest, host);
    if orders.is_empty() && this.records().next().is_none() {
        return Ok(None);
    }
    this.set_orders(orders, generation);
    skeleton::Loop::hear(&mut this, Told::Pass(pass));
    this.one_pass().await.map(Some)
}

/// What a first pass would do here, where there is no installation yet.
pub fn all_new(manifest: &Manifest, host: &str) -> Vec<Looked> {
    let all = orders(manifest, host).into_iter().map(|order| Looked {
        thing: order.thing.to_string(),
        consumer: order.consumer,
        is: Is::ToMake("new".to_owned()),
    });
    all.collect()
}

/// What a pass would do here. Writes nothing.
pub async fn look_only(
    installation: &Installation,
    manifest: &Manifest,
    with: (Clock, Arc<Scrubber>),
    host: &str,
) -> Result<Vec<Looked>, StoreFault> {
    let orders = orders(manifest, host);
    let parts = parts(installation, manifest, with, host, Duration::ZERO);
    let mut this = Host::open(parts).await?;
    this.set_orders(orders, 0);
    this.look_only().await
}

/// The loop in a running daemon. It starts with the first order.
pub struct Hosting {
    host: String,
    running: Option<Running<Host>>,
}

impl Hosting {
    /// On this host.
    pub fn on(host: String) -> Self {
        Self {
            host,
            running: None,
        }
    }
    /// Tells the loop what is asked for now, and starts it if there is anything to look after.
    pub async fn take(
        &mut self,
        installation: &Installation,
        manifest: &Manifest,
        with: (Clock, Arc<Scrubber>),
        generation: u64,
    ) -> Result<(), StoreFault> {
        let orders = orders(manifest, &self.host);
        match &self.running {
            Some(running) => running.tell(Told::Orders(orders, generation)).await,
            None => {
                let parts = parts(installation, manifest, with.clone(), &self.host, WINDOW);
                let mut this = Host::open(parts).await?;
                if orders.is_empty() && this.records().next().is_none() {
                    return Ok(());
                }
                // Its first pass begins at once, and must not find that nothing is asked for.
                this.set_orders(orders, generation);
                let brought = Key::of(&["delivery", &self.host]);
                let watch = installation.bus.watch(Bucket::Meta, &brought).await?;
                let running = Running::start(this, with.0, PERIOD, CancellationToken::new());
                self.running = Some(running.listening(|door| hint(watch, door)));
            }
        }
        Ok(())
    }
    /// Hands on what people said.
    pub async fn hear(&self, words: &Said) {
        if let Some(running) = &self.running {
            running.tell(Told::Pass(words.pass())).await;
        }
    }
    /// Lets it finish its step, and waits for that.
    pub async fn stop(self) {
        if let Some(running) = self.running {
            running.stop().await;
        }
    }
}

/// What delivery wrote down is a hint (H-14), and no more than that: the timer is the promise.
async fn hint(mut brought: Box<dyn Watch>, door: Door<Host>) {
    loop {
        brought.next().await;
        if door.send(Message::Hint).await.is_err() {
            return;
        }
    }
}
