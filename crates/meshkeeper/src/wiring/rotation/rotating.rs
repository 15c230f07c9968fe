//! The loop in the process that puts the wish in force.

use std::sync::{Arc, RwLock};

use mesh_loops::rotation::keeper::Source as _;
use mesh_loops::rotation::keeper::{PERIOD, Parts, Rotation, Told, would_begin};
use mesh_sdk::bus::{Bucket, Bus, Key};
use mesh_sdk::clock::Clock;
use mesh_sdk::harness::skeleton::{self, Message};
use mesh_sdk::harness::{PassReport, StoreFault};
use mesh_sdk::{ConsumerName, ProviderName};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::source::Facts;
use crate::manifest::Manifest;
use crate::wiring::installation::Installation;
use crate::wiring::running::{Door, Running};
use crate::wiring::secrets::SecretsFault;

fn facts(
    installation: &Installation,
    manifest: &Arc<RwLock<Arc<Manifest>>>,
    changed: &Arc<Notify>,
) -> Facts {
    Facts {
        bus: Arc::clone(&installation.bus),
        secrets: Arc::clone(&installation.secrets),
        manifest: Arc::clone(manifest),
        changed: Arc::clone(changed),
    }
}

fn parts(
    installation: &Installation,
    manifest: &Arc<RwLock<Arc<Manifest>>>,
    clock: Clock,
    changed: &Arc<Notify>,
) -> Option<Parts> {
    Some(Parts {
        bus: Arc::clone(&installation.bus),
        journals: Arc::clone(installation.secrets.journals.as_ref()?),
        source: Arc::new(facts(installation, manifest, changed)),
        clock,
        period: PERIOD,
    })
}

/// One pass by a process that ends after it; and whether anything moved, so that what is asked for is another now.
pub async fn one_pass(
    installation: &Installation,
    manifest: &Arc<RwLock<Arc<Manifest>>>,
    clock: Clock,
    pass: u64,
) -> Result<Option<(PassReport, bool)>, StoreFault> {
    let Some(parts) = parts(installation, manifest, clock, &Arc::default()) else {
        return Ok(None);
    };
    let mut rotation = Rotation::open(parts).await?;
    skeleton::Loop::hear(&mut rotation, Told::Pass(pass));
    rotation.one_pass().await.map(Some)
}

/// Whoever would get another password now, and why.
pub async fn look_only(
    installation: &Installation,
    manifest: Arc<RwLock<Arc<Manifest>>>,
    clock: Clock,
) -> Result<Vec<(ProviderName, ConsumerName, String)>, SecretsFault> {
    let all = installation.secrets.all_journals().await?;
    let facts = facts(installation, &manifest, &Arc::default());
    let fault = |fault: mesh_loops::rotation::keeper::SourceFault| {
        SecretsFault::Bus(mesh_sdk::bus::Fault::Unreachable(fault.to_string()))
    };
    let mut would = Vec::new();
    for asker in facts.askers(&all).await.map_err(fault)? {
        let known = all.get(&asker.of);
        let names = asker.of.clone();
        let fresh = || {
            mesh_loops::rotation::journal::Journal::new(
                names.0.clone(),
                names.1.clone(),
                asker.asks.way,
                clock.now(),
            )
        };
        let journal = known.cloned().unwrap_or_else(fresh);
        let seen = facts.seen(&asker, &journal).await.map_err(fault)?;
        if let Some(cause) = would_begin(known, &asker, &seen, clock.now()) {
            would.push((asker.of.0.clone(), asker.of.1.clone(), cause.to_string()));
        }
    }
    Ok(would)
}

/// The loop in a running daemon.
#[derive(Default)]
pub struct Rotating {
    running: Option<Running<Rotation>>,
    /// Rung when what is asked for is another now.
    pub changed: Arc<Notify>,
}

impl Rotating {
    /// The wish was put in force: the loop looks, and is started if it is not there yet.
    pub async fn take(
        &mut self,
        installation: &Installation,
        manifest: &Arc<RwLock<Arc<Manifest>>>,
        clock: Clock,
        generation: u64,
    ) -> Result<(), StoreFault> {
        if self.running.is_none() {
            let Some(parts) = parts(installation, manifest, clock, &self.changed) else {
                return Ok(());
            };
            let bus = Arc::clone(&parts.bus);
            let rotation = Rotation::open(parts).await?;
            let running = Running::start(rotation, clock, PERIOD, CancellationToken::new());
            self.running = Some(running.listening(|door| stir(bus, door)));
        }
        self.tell(Told::Look(generation)).await;
        Ok(())
    }
    /// Hands on a word.
    pub async fn tell(&self, told: Told) {
        if let Some(running) = &self.running {
            running.tell(told).await;
        }
    }
    /// Lets it finish its step, and waits for that.
    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
    }
}

/// While a rotation is under way each record and each delivery may be what it waits for. A watch that ends costs time
/// only: the timer is the promise.
async fn stir(bus: Arc<dyn Bus>, door: Door<Rotation>) {
    let records = bus.watch(Bucket::Record, &Key::everything()).await;
    let deliveries = bus.watch(Bucket::Meta, &Key::of(&["delivery"])).await;
    let (Ok(mut records), Ok(mut deliveries)) = (records, deliveries) else {
        return;
    };
    loop {
        tokio::select! {
            _ = records.next() => {}
            _ = deliveries.next() => {}
        }
        if door.send(Message::Word(Told::Stir)).await.is_err() {
            return;
        }
        // Many at once are one.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
