//! The passes of this process, for the plots: a ring of each loop's newest.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mesh_sdk::Time;
use mesh_sdk::harness::{Observer, PassReport};

/// So many are kept of each loop.
const KEPT: usize = 360;

/// One pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pass {
    pub(super) at: Time,
    pub(super) took: Duration,
    /// Consumers that were applied on it.
    pub(super) applied: usize,
}

/// The newest of each loop.
#[derive(Debug, Default)]
pub struct Passes(Mutex<BTreeMap<String, VecDeque<Pass>>>);

impl Passes {
    /// Those of a provider's node, oldest first.
    pub(super) fn of(&self, label: &str) -> Vec<Pass> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(label).into_iter().flatten().copied().collect()
    }
}

impl Observer for Passes {
    fn passed(&self, report: &PassReport) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.entry(report.label.clone()).or_default();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(Pass {
            at: report.at,
            took: report.took,
            applied: report.summary.applied,
        });
    }
}
