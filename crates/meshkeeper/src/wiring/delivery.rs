//! Delivery in the program: what the manifest orders on this host, and what consumers have on providers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use mesh_loops::delivery::order::{Has, Order};
use mesh_loops::delivery::record::Version;
use mesh_loops::delivery::template;
use mesh_loops::delivery::{Delivery, Is, Looked, Parts, Source, Told};
use mesh_sdk::bus::{Bucket, Bus, Fault, Key};
use mesh_sdk::clock::Clock;
use mesh_sdk::decide::Record;
use mesh_sdk::harness::skeleton::{self, Message};
use mesh_sdk::harness::{PassReport, Provisioner, StoreFault};
use mesh_sdk::scrub::Scrubber;
use mesh_sdk::{ConsumerName, ProviderName, Secret};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::installation::Installation;
use super::needed;
use super::oneshot::read_lock;
use super::rotation::seats::seat_of;
use super::secrets::{Known, Secrets, SecretsFault};
use super::services::{host_and_port, services, url};
use super::shapes::Word;
use super::words::Said;
use crate::manifest::{Manifest, Needed};

/// How often places are looked at.
pub const PERIOD: Duration = Duration::from_secs(60);
/// Waiting words at the loop's door.
const DOOR: usize = 16;
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

/// What consumers have, by the records on the bus and the secret store of this host.
struct Applied {
    bus: Arc<dyn Bus>,
    secrets: Arc<Secrets>,
    manifest: Arc<RwLock<Arc<Manifest>>>,
}

#[async_trait]
impl Source for Applied {
    async fn of(
        &self,
        provider: &ProviderName,
        consumers: &BTreeSet<ConsumerName>,
    ) -> Result<HashMap<ConsumerName, Has>, Fault> {
        let manifest = read_lock(&self.manifest);
        let mut all = HashMap::with_capacity(consumers.len());
        for consumer in consumers {
            let has = match needed(&manifest, provider, consumer) {
                Some(needed) => self.one(&manifest, needed).await?,
                None => Has::Nothing("the manifest's entry for it cannot be used".to_owned()),
            };
            all.insert(consumer.clone(), has);
        }
        Ok(all)
    }
}

impl Applied {
    async fn one(&self, manifest: &Manifest, needed: &Needed) -> Result<Has, Fault> {
        let nothing = |why: &str| Ok(Has::Nothing(why.to_owned()));
        let Some(provider) = manifest.providers.get(&needed.provider) else {
            return nothing("its provider cannot be used");
        };
        if !needed.enabled {
            return Ok(Has::SwitchedOff);
        }
        let known = match self
            .secrets
            .current(&needed.provider, &needed.consumer)
            .await
        {
            Ok(known) => known,
            Err(SecretsFault::Bus(fault)) => return Err(fault),
            Err(fault) => {
                return Ok(Has::Nothing(format!(
                    "its password cannot be read: {fault}"
                )));
            }
        };
        let password = match known {
            Known::Version(password) => password,
            Known::Nothing => return nothing("it has no password yet"),
            Known::Missing(why) => {
                return Ok(Has::Nothing(format!("its password cannot be had: {why}")));
            }
        };
        let Some(text) = password.expose_str().map(str::to_owned) else {
            return nothing("its password is not UTF-8");
        };
        let of = (needed.provider.clone(), needed.consumer.clone());
        let journal = match self.secrets.journal(&of).await {
            Ok(journal) => journal,
            Err(SecretsFault::Bus(fault)) => return Err(fault),
            Err(fault) => return Ok(Has::Nothing(fault.to_string())),
        };
        let turn = journal.as_ref().map_or(0, |journal| journal.turn);
        let seated = journal
            .as_ref()
            .map(|journal| seat_of(needed, journal.in_use()));
        let needed = seated.as_ref().unwrap_or(needed);
        // Alone, or beside another one that is valid, too: either way the server has it.
        let mut pairs = vec![(password.clone(), None)];
        if let Some(held) = journal.as_ref().and_then(|journal| journal.other.as_ref())
            && let Ok(Known::Version(other)) = self.secrets.open_held(&needed.provider, held).await
        {
            pairs.push((password.clone(), Some(other.clone())));
            pairs.push((other, Some(password.clone())));
        }
        // A person may have said that it is to be taken over exactly, which the manifest does not say.
        let key = self.secrets.digest_key();
        let mut asked = Vec::new();
        for (first, second) in pairs {
            for exact in [false, true] {
                let needed = needed.adopting(exact);
                let wish = needed.wish_beside(Some(first.clone()), second.clone(), key);
                asked.push(wish.digest());
            }
        }
        let several = provider.nodes.len() > 1;
        for node in &provider.nodes {
            let label = Provisioner::label_of(&needed.provider, several.then_some(&*node.name));
            let key = Key::of(&[&label, needed.consumer.as_str()]);
            let record = self.bus.get(Bucket::Record, &key).await?;
            let record: Option<Record> = record.and_then(|e| serde_json::from_slice(&e.value).ok());
            // What is being applied just now is not there yet, and what was applied before is not asked for.
            if !record
                .and_then(|record| record.applied)
                .is_some_and(|applied| asked.contains(&applied))
            {
                return nothing("it is not applied yet");
            }
        }
        Ok(Has::Credentials(
            words(manifest, needed, &password, &text),
            turn,
        ))
    }
}

/// Everything that a client needs. Where a provider has several nodes, of the first.
fn words(
    manifest: &Manifest,
    needed: &Needed,
    password: &Secret,
    text: &str,
) -> BTreeMap<template::Word, Secret> {
    let login = needed.login.as_str();
    let mut words = BTreeMap::from([
        (template::Word::User, Secret::from(login)),
        (template::Word::Password, password.clone()),
    ]);
    let provider = manifest.providers.get(&needed.provider);
    let address =
        provider.and_then(|provider| services(manifest, provider, needed).into_iter().next());
    let Some(address) = address else {
        return words;
    };
    if let Some(url) = url(&address, login, text) {
        words.insert(template::Word::Url, Secret::from(url));
    }
    if let Some((host, port)) = host_and_port(&address.0) {
        words.insert(template::Word::Host, Secret::from(host));
        if let Some(port) = port {
            words.insert(template::Word::Port, Secret::from(port));
        }
    }
    if !address.1.is_empty() {
        words.insert(template::Word::Name, Secret::from(address.1));
    }
    words
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
    running: Option<Running>,
}

struct Running {
    door: mpsc::Sender<Message<Told>>,
    stop: CancellationToken,
    task: JoinHandle<Delivery>,
}

impl Delivering {
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
        manifest: &Arc<RwLock<Arc<Manifest>>>,
        with: (Clock, Arc<Scrubber>),
        generation: u64,
    ) -> Result<(), StoreFault> {
        let orders = orders(&read_lock(manifest), &self.host);
        let running = match &self.running {
            Some(running) => running,
            None => {
                let parts = parts(installation, Arc::clone(manifest), with.clone(), &self.host);
                let delivery = Delivery::open(parts).await?;
                if orders.is_empty() && delivery.records().next().is_none() {
                    return Ok(());
                }
                let (door, inbox) = mpsc::channel(DOOR);
                let stop = CancellationToken::new();
                let running = skeleton::run(delivery, with.0, PERIOD, inbox, stop.clone());
                let task = tokio::spawn(running);
                self.running.insert(Running { door, stop, task })
            }
        };
        // A loop that stopped hears nothing more; whoever stopped it knows.
        drop(
            running
                .door
                .send(Message::Word(Told::Orders(orders, generation)))
                .await,
        );
        Ok(())
    }
    /// Hands on what people said.
    pub async fn hear(&self, words: &Said) {
        if let Some(running) = &self.running {
            for told in said(words) {
                drop(running.door.send(Message::Word(told)).await);
            }
        }
    }
    /// Lets it finish its step, and waits for that.
    pub async fn stop(self) {
        if let Some(running) = self.running {
            running.stop.cancel();
            drop(running.task.await);
        }
    }
}
