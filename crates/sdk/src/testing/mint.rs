//! A mint that counts.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::{Trace, lock};
use crate::harness::{Mint, MintFault};
use crate::name::{ConsumerName, ProviderName};
use crate::provision::Wish;
use crate::secret::Secret;

/// Makes the wish of a consumer from its password.
type Complete = Arc<dyn Fn(&ConsumerName, Secret) -> Wish + Send + Sync>;

/// A [`Mint`] in memory. A consumer's version, once there, is never made anew.
#[derive(Clone)]
pub struct FakeMint {
    inner: Arc<Mutex<Inner>>,
    complete: Complete,
    trace: Trace,
}

#[derive(Default)]
struct Inner {
    versions: HashMap<ConsumerName, String>,
    sealed: usize,
    faults: VecDeque<MintFault>,
    calls: usize,
    again: usize,
}

impl FakeMint {
    /// One that completes wishes so.
    pub fn new(
        trace: Trace,
        complete: impl Fn(&ConsumerName, Secret) -> Wish + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner: Arc::default(),
            complete: Arc::new(complete),
            trace,
        }
    }
    /// The next call meets this fault; several wait in turn.
    pub fn fail_next(&self, fault: MintFault) {
        lock(&self.inner).faults.push_back(fault);
    }
    /// The password that is a consumer's version, if there is one.
    pub fn version(&self, consumer: &ConsumerName) -> Option<String> {
        lock(&self.inner).versions.get(consumer).cloned()
    }
    /// How many passwords became a version.
    pub fn versions(&self) -> usize {
        lock(&self.inner).versions.len()
    }
    /// How often it was asked for a consumer that had a version already: a second mint (H-22).
    pub fn asked_again(&self) -> usize {
        lock(&self.inner).again
    }
    /// How often it was called.
    pub fn calls(&self) -> usize {
        lock(&self.inner).calls
    }
}

#[async_trait]
impl Mint for FakeMint {
    async fn mint(
        &self,
        _provider: &ProviderName,
        consumer: &ConsumerName,
    ) -> Result<Arc<Wish>, MintFault> {
        let fault = {
            let mut inner = lock(&self.inner);
            inner.calls += 1;
            inner.again += usize::from(inner.versions.contains_key(consumer));
            inner.faults.pop_front()
        };
        if let Some(fault) = fault {
            return Err(fault);
        }
        self.trace.step(|| format!("mint: seal {consumer}")).await;
        let candidate = {
            let mut inner = lock(&self.inner);
            inner.sealed += 1;
            format!("minted-{consumer}-{}", inner.sealed)
        };
        self.trace
            .step(|| format!("mint: version {consumer}"))
            .await;
        let version = {
            let mut inner = lock(&self.inner);
            let versions = &mut inner.versions;
            versions
                .entry(consumer.clone())
                .or_insert(candidate)
                .clone()
        };
        self.trace.step(|| format!("mint: done {consumer}")).await;
        Ok(Arc::new((self.complete)(consumer, Secret::from(version))))
    }
}
