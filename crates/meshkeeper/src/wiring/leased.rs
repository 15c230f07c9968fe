//! A one-shot pass among other hosts (B-4): it takes the leases that nobody holds, and asks the daemons that
//! hold the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::ProviderName;
use mesh_sdk::bus::Fault;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::installation::{Claim, Claiming, Holder, Installation};
use super::oneshot::{Pass, RunFault};
use super::words;
use crate::manifest::Manifest;
use crate::status;

/// How long the pass of a daemon is waited for.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(200);

type Leases = BTreeMap<ProviderName, Arc<Claim>>;

impl Pass {
    /// The pass of every provider: by this process, or by whoever has it.
    pub(super) async fn leased(
        &mut self,
        installation: &Installation,
        manifest: &Manifest,
        me: &Holder,
    ) -> Result<(), RunFault> {
        let all: BTreeSet<ProviderName> = manifest.providers.keys().cloned().collect();
        let leases = take(installation, &all, me).await?;
        let theirs = all.iter().filter(|name| !leases.contains_key(*name));
        let mut theirs: BTreeSet<ProviderName> = theirs.cloned().collect();
        let mut number = None;
        if !theirs.is_empty() {
            number = Some(words::ask_for_pass(installation.bus.as_ref()).await?);
        }
        let mut outcome = self.under(installation, manifest, leases).await;
        let began = Instant::now();
        while let (Some(number), Ok(()), false) = (number, &outcome, theirs.is_empty()) {
            if began.elapsed() > PATIENCE || self.is_stopping() {
                let names: Vec<&str> = theirs.iter().map(ProviderName::as_str).collect();
                self.outcome.faults.push(format!(
                    "the host that has the loops of {} has not made the pass",
                    names.join(", ")
                ));
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
            let free = open_ones(installation, &mut theirs, number).await?;
            // Whoever had them gave them back instead.
            let leases = take(installation, &free, me).await?;
            theirs.retain(|name| !leases.contains_key(name));
            outcome = self.under(installation, manifest, leases).await;
        }
        outcome
    }

    async fn under(
        &mut self,
        installation: &Installation,
        manifest: &Manifest,
        leases: Leases,
    ) -> Result<(), RunFault> {
        let providers = manifest.providers.values();
        let providers = providers.filter(|provider| leases.contains_key(&provider.name));
        let made = self.of(providers, |this, name| match leases.get(name) {
            Some(claim) => {
                let manifest = Arc::clone(&this.manifest);
                this.common.under(installation, manifest, claim)
            }
            None => this.common.clone(),
        });
        let made = made.await;
        let mut back = JoinSet::new();
        for (_, claim) in leases {
            back.spawn(async move { claim.give_back().await });
        }
        drop(back.join_all().await);
        made
    }
}

/// Asks for leases, all at the same time, and answers those that were had.
async fn take(
    installation: &Installation,
    providers: &BTreeSet<ProviderName>,
    me: &Holder,
) -> Result<Leases, Fault> {
    let mut asking = JoinSet::new();
    for name in providers {
        let (name, answer) = (name.clone(), installation.lease(name, me.clone()));
        asking.spawn(async move { (name, answer.await) });
    }
    let mut had = Leases::new();
    for (name, answer) in asking.join_all().await {
        if let Claiming::Mine(claim) = answer? {
            had.insert(name, Arc::new(claim));
        }
    }
    Ok(had)
}

/// Leaves out those whose loops have answered, and answers those that nobody holds any more.
async fn open_ones(
    installation: &Installation,
    theirs: &mut BTreeSet<ProviderName>,
    number: u64,
) -> Result<BTreeSet<ProviderName>, RunFault> {
    let bus = installation.bus.as_ref();
    let providers = status::providers(bus).await?;
    let held = super::sharing::held(bus).await?.unwrap_or_default();
    let mut free = BTreeSet::new();
    for provider in providers {
        let name = &provider.provider;
        if !theirs.contains(name) {
            continue;
        }
        let loops = status::records(bus, &provider).await?;
        let answered = loops
            .iter()
            .map(|record| record.as_ref().map(|r| r.answered_request));
        if answered.clone().all(|answered| answered >= Some(number)) {
            theirs.remove(name);
        } else if held.get(name).is_none_or(Option::is_none) {
            free.insert(name.clone());
        }
    }
    // A provider that is new has no entry yet, and so nobody who answers for it.
    let unheld = theirs
        .iter()
        .filter(|name| held.get(*name).is_none_or(Option::is_none));
    free.extend(unheld.cloned());
    Ok(free)
}
