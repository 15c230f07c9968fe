//! A loop for each server that the manifest names: opened, told the wish, run, stopped.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use mesh_sdk::adapter::{Fence, ProviderSettings};
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Write};
use mesh_sdk::clock::Clock;
use mesh_sdk::condition::{ConditionType, Reason};
use mesh_sdk::decide::Settings;
use mesh_sdk::handle::AdapterHandle;
use mesh_sdk::harness::{
    Limits, Mint, Observer, Parts, ProviderWish, Provisioner, Scrub, StoreFault,
};
use mesh_sdk::mark::keyed;
use mesh_sdk::scrub::Scrubber;
use mesh_sdk::{Marker, ProviderName, Secret};
use tokio_util::sync::CancellationToken;

use super::installation::{Claim, Installation};
use super::minting::Minter;
use super::seat::Seat;
use super::shapes::{Closed, ProviderEntry};
use super::tally::Tally;
use crate::manifest::{Manifest, Provider, SecretSource, SecretTrouble};

/// What opening a loop came to.
pub type Opened = Result<Vec<Seat>, OpenFault>;

/// Why a provider has no loop.
#[derive(Debug, thiserror::Error)]
pub enum OpenFault {
    /// The admin's password or a certificate cannot be read.
    #[error("provider {provider}: {}", .troubles.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Secrets {
        /// The provider.
        provider: ProviderName,
        /// Every trouble.
        troubles: Vec<SecretTrouble>,
    },
    /// The adapter refuses its settings.
    #[error("provider {provider}: {error}")]
    Adapter {
        /// The provider.
        provider: ProviderName,
        /// Why.
        error: mesh_sdk::Error,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreFault),
}

impl OpenFault {
    /// What is told of a provider without a loop; `None` where the store itself fails, and no loop could
    /// be opened.
    pub fn closed(&self) -> Option<Closed> {
        let (kind, reason) = match self {
            OpenFault::Secrets { .. } => (ConditionType::SecretUnreadable, Reason::SourceMissing),
            OpenFault::Adapter { .. } => (ConditionType::Refused, Reason::RefusedValue),
            OpenFault::Store(StoreFault::Unreadable { .. }) => {
                (ConditionType::LookUnknown, Reason::CallFailed)
            }
            OpenFault::Store(_) => return None,
        };
        let why = self.to_string();
        Some(Closed { kind, reason, why })
    }
}

/// What every loop is made with.
#[derive(Clone)]
pub struct Common {
    /// The bus.
    pub bus: Arc<dyn Bus>,
    /// Makes marks.
    pub marker: Arc<dyn Fn(&ProviderName) -> Marker + Send + Sync>,
    /// Mints.
    pub mint: Arc<dyn Mint>,
    /// The clock.
    pub clock: Clock,
    /// Hides secrets.
    pub scrubber: Arc<Scrubber>,
    /// Hear of passes.
    pub observers: Vec<Arc<dyn Observer>>,
    /// Stands for chance.
    pub seed: u64,
    /// Counts removals over all loops.
    pub tally: Arc<Tally>,
    /// The lease under which these loops write; none where there are no leases.
    pub fence: Option<Fence>,
    /// The store was wiped or put back since it was used last: what leaves begins to leave anew (B-6).
    pub replaced: bool,
}

impl Common {
    /// For a data folder that is open.
    pub fn of(
        installation: &Installation,
        manifest: Arc<RwLock<Arc<Manifest>>>,
        clock: Clock,
        scrubber: Arc<Scrubber>,
        observers: Vec<Arc<dyn Observer>>,
    ) -> Self {
        let minter = Minter {
            secrets: Arc::clone(&installation.secrets),
            manifest,
            replaced: installation.replaced.is_some(),
        };
        Self {
            bus: Arc::clone(&installation.bus),
            marker: installation.marker(),
            mint: Arc::new(minter),
            clock,
            scrubber,
            observers,
            seed: installation.seed(),
            tally: Arc::new(Tally::of(installation.is_shared())),
            fence: None,
            replaced: installation.replaced.is_some(),
        }
    }

    /// The same under a lease: what its loops write is refused when that is not surely held.
    #[must_use]
    pub fn under(
        &self,
        installation: &Installation,
        manifest: Arc<RwLock<Arc<Manifest>>>,
        claim: &Arc<Claim>,
    ) -> Self {
        let (scrubber, observers) = (Arc::clone(&self.scrubber), self.observers.clone());
        let under = installation.under(claim);
        Self {
            tally: Arc::clone(&self.tally),
            fence: Some(on_servers(claim)),
            ..Self::of(&under, manifest, self.clock, scrubber, observers)
        }
    }

    /// Whether the loops of a provider could be opened here, as far as that is known without its records.
    pub fn can_open(
        &self,
        provider: &Provider,
        source: &dyn SecretSource,
    ) -> Result<(), OpenFault> {
        self.adapters(provider, source).map(drop)
    }

    fn adapters(
        &self,
        provider: &Provider,
        source: &dyn SecretSource,
    ) -> Result<Vec<AdapterHandle>, OpenFault> {
        let resolved = provider.resolve(source);
        let resolved = resolved.map_err(|troubles| OpenFault::Secrets {
            provider: provider.name.clone(),
            troubles,
        })?;
        let open = |settings: ProviderSettings| {
            self.hide(&settings);
            let opened = provider.kind.kind.open(settings);
            opened.map_err(|error| OpenFault::Adapter {
                provider: provider.name.clone(),
                error: self.scrubbed(error),
            })
        };
        resolved.into_iter().map(open).collect()
    }

    /// Opens the loops of one provider, one for each node (H-21); `wish` is what they
    /// will be told. Reads the store; writes nothing.
    pub async fn open(
        &self,
        provider: &Provider,
        source: &dyn SecretSource,
        wish: &ProviderWish,
        stop: &CancellationToken,
    ) -> Opened {
        let adapters = self.adapters(provider, source)?;
        let several = provider.nodes.len() > 1;
        let mut seats = Vec::with_capacity(adapters.len());
        for (node, adapter) in provider.nodes.iter().zip(adapters) {
            let node = several.then(|| node.name.clone());
            seats.push(self.seat(provider, node, adapter, (wish, stop)).await?);
        }
        Ok(seats)
    }

    async fn seat(
        &self,
        provider: &Provider,
        node: Option<String>,
        adapter: AdapterHandle,
        (wish, stop): (&ProviderWish, &CancellationToken),
    ) -> Result<Seat, OpenFault> {
        let scrubber = Arc::clone(&self.scrubber);
        let scrub: Scrub = Arc::new(move |text| scrubber.scrub(text).into_owned());
        let block_budget = provider.timing.block_budget;
        let parts = Parts {
            provider: provider.name.clone(),
            node,
            adapter: Arc::clone(&adapter),
            marker: (self.marker)(&provider.name),
            settings: settings_of(provider, self.seed),
            limits: Limits {
                block_budget,
                ..Limits::default()
            },
            bus: Arc::clone(&self.bus),
            mint: Arc::clone(&self.mint),
            clock: self.clock,
            scrub,
            observers: self.observers.clone(),
            stop: stop.clone(),
        };
        let mut inner = Provisioner::open_for(parts, wish).await?;
        inner.set_fence(self.fence.clone());
        if self.replaced {
            inner.core_mut().store_replaced(self.clock.now());
        }
        let around = (Arc::clone(&self.bus), self.clock, Arc::clone(&self.tally));
        let name = provider.name.clone();
        let seat = Seat::of(name, inner, adapter, around).await;
        Ok(seat.map_err(StoreFault::from)?)
    }

    fn scrubbed(&self, error: mesh_sdk::Error) -> mesh_sdk::Error {
        let message = self.scrubber.scrub(error.message()).into_owned();
        error.with_message(message)
    }

    fn hide(&self, settings: &ProviderSettings) {
        if let Some(password) = settings
            .admin
            .as_ref()
            .and_then(|admin| admin.password.as_ref())
        {
            self.scrubber.add(password.clone());
        }
    }
}

/// A lease as servers keep it that can refuse what an earlier holder writes (B-4).
fn on_servers(claim: &Claim) -> Fence {
    let me = claim.me();
    let me = me.map(|me| format!("{}-{}", me.start, me.host));
    Fence::new(claim.epoch().0, claim.fence(), &me.unwrap_or_default())
}

fn settings_of(provider: &Provider, seed: u64) -> Settings {
    let timing = &provider.timing;
    Settings {
        verify_every: timing.verify_every,
        ask_timeout: timing.ask_timeout,
        apply_timeout: timing.apply_timeout,
        unknown_after: timing.unknown_after,
        remove_after: timing.remove_after,
        grace: timing.grace,
        max_removals: provider.max_removals as usize,
        list_every: timing.list_every,
        seed,
    }
}

/// Writes what the running program knows of each provider, for `status` and others. `closed`: those that
/// have no loop now, and why.
pub async fn publish_providers(
    bus: &dyn Bus,
    manifest: &Manifest,
    closed: &[(ProviderName, Closed)],
) -> Result<(), Fault> {
    let stored = bus.list(Bucket::Meta, &Key::of(&["provider"])).await?;
    let mut before = BTreeMap::new();
    for entry in stored.entries {
        let known: ProviderEntry = serde_json::from_slice(&entry.value)
            .map_err(|error| Fault::Corrupt(format!("provider {}: {error}", entry.key)))?;
        before.insert(known.provider.clone(), (entry.rev, known));
    }
    let mut writes = Vec::new();
    for provider in manifest.providers.values() {
        let mut entry = entry_of(provider);
        let found = closed.iter().find(|(name, _)| *name == provider.name);
        entry.closed = found.map(|(_, closed)| closed.clone());
        let known = before.remove(&provider.name);
        if known.as_ref().is_some_and(|(_, old)| *old == entry) {
            continue;
        }
        let expect = known.map_or(Expect::Absent, |(rev, _)| Expect::At(rev));
        writes.push(write_of(&entry, expect)?);
    }
    for (_, (rev, old)) in before {
        if !old.gone && manifest.is_whole() {
            writes.push(write_of(
                &ProviderEntry {
                    gone: true,
                    closed: None,
                    ..old
                },
                Expect::At(rev),
            )?);
        }
    }
    if !writes.is_empty() {
        bus.put_each(Bucket::Meta, writes).await?;
    }
    Ok(())
}

fn write_of(entry: &ProviderEntry, expect: Expect) -> Result<Write, Fault> {
    let value = serde_json::to_vec(entry).map_err(|error| Fault::Corrupt(error.to_string()))?;
    Ok(Write {
        key: ProviderEntry::key(&entry.provider),
        expect,
        value,
    })
}

/// The names of a provider's loops, one for each node.
fn loop_names(provider: &Provider) -> impl Iterator<Item = String> {
    let several = provider.nodes.len() > 1;
    provider.nodes.iter().map(move |node| {
        let node = several.then_some(node.name.as_str());
        Provisioner::name_of(&provider.name, node)
    })
}

/// The names of all loops that a manifest asks for.
pub fn loops_of(manifest: &Manifest) -> impl Iterator<Item = String> {
    manifest.providers.values().flat_map(loop_names)
}

pub(super) fn entry_of(provider: &Provider) -> ProviderEntry {
    ProviderEntry {
        provider: provider.name.clone(),
        kind: provider.kind.descriptor.kind.to_owned(),
        loops: loop_names(provider).collect(),
        addresses: provider
            .nodes
            .iter()
            .map(|n| n.settings.address())
            .collect(),
        verify_every: millis(provider.timing.verify_every),
        remove_after: millis(provider.timing.remove_after),
        grace: millis(provider.timing.grace),
        can_ask: ProviderEntry::can_ask(provider.kind.descriptor.capabilities),
        gone: false,
        closed: None,
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// What a provider's loops were made of: its table, and what its secret files held then.
pub struct MadeOf {
    provider: Provider,
    secrets: Option<[u8; 32]>,
}

impl MadeOf {
    /// Of a provider as it is now.
    pub fn of(provider: &Provider, key: &Secret, source: &dyn SecretSource) -> Self {
        Self {
            provider: provider.clone(),
            secrets: digest_of(provider, key, source),
        }
    }
    /// Whether loops made now would be the same. Secrets that cannot be read now change nothing (S-4).
    pub fn fits(&self, new: &Provider, key: &Secret, source: &dyn SecretSource) -> bool {
        let secrets = digest_of(new, key, source);
        let old = &self.provider;
        let nodes = |p: &Provider| -> Vec<String> {
            p.nodes.iter().map(|n| n.settings.address()).collect()
        };
        old.kind.descriptor.kind == new.kind.descriptor.kind
            && nodes(old) == nodes(new)
            && (&old.admin, &old.tls, &old.timing) == (&new.admin, &new.tls, &new.timing)
            && (old.dangerously_plain, old.max_removals)
                == (new.dangerously_plain, new.max_removals)
            && (secrets.is_none() || secrets == self.secrets)
    }
}

fn digest_of(provider: &Provider, key: &Secret, source: &dyn SecretSource) -> Option<[u8; 32]> {
    let resolved = provider.resolve(source).ok()?;
    let settings = resolved.first()?;
    let admin = settings
        .admin
        .as_ref()
        .and_then(|a| a.password.as_ref())
        .map(Secret::expose);
    let (cert, client_key) = match &settings.tls.client_pem {
        Some((cert, key)) => (cert.as_slice(), key.expose()),
        None => Default::default(),
    };
    let ca = settings.tls.ca_pem.as_deref().unwrap_or_default();
    Some(keyed(
        key,
        b"provider",
        &[admin.unwrap_or_default(), ca, cert, client_key],
    ))
}
