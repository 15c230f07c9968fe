//! What became of the spans.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts them; its copies count together.
#[derive(Debug, Clone, Default)]
pub struct Tally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl Tally {
    /// The collector took so many.
    pub fn sent(&self, count: usize) {
        self.0.sent.fetch_add(count as u64, Ordering::Relaxed);
    }
    /// So many were let go: there was no room, or nobody took them.
    pub fn dropped(&self, count: usize) {
        self.0.dropped.fetch_add(count as u64, Ordering::Relaxed);
    }
    /// By what became of them.
    pub fn counts(&self) -> [(&'static str, u64); 2] {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [("sent", of(&self.0.sent)), ("dropped", of(&self.0.dropped))]
    }
}
