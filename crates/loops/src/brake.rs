//! The brake of the owners that repair by themselves (H-11), and who keeps changing what they keep (H-15): pure, and
//! part of what is remembered of a place or a thing.

use std::time::Duration;

use mesh_sdk::Time;
use mesh_sdk::decide::backoff;
use serde::{Deserialize, Serialize};

/// After a first failed act, doubling up to the period of the looks.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// The brake's longest wait (H-11).
const LONGEST: Duration = Duration::from_secs(3600);
/// So many changes in such a time are a second writer, or an app that does not stay up (H-15).
const CHANGES: usize = 4;
const WINDOW: Duration = Duration::from_secs(3600);

/// What is remembered of repairs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brake {
    /// When it was found gone or changed after it had been in order: the last four (H-15).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Time>,
    /// How often in a row it was amiss at the next look after a repair (H-11).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub strikes: u32,
    /// Repaired, and not seen in order since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repaired: bool,
    /// Failed acts in a row.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// Nothing is done before this time, unless something else is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Brake {
    /// Whether something may be done.
    pub(crate) fn is_open(&self, now: Time) -> bool {
        self.not_before.is_none_or(|at| at <= now)
    }
    /// What was in order was found gone or changed. The same at the look after a repair, or four times within an
    /// hour, is what a repair does not help.
    pub(crate) fn found_changed(&mut self, now: Time) {
        self.changes.retain(|at| now.since(*at) < WINDOW);
        if self.changes.len() == CHANGES {
            self.changes.remove(0);
        }
        self.changes.push(now);
        let again = std::mem::take(&mut self.repaired);
        if again || self.is_contested(now) {
            self.strikes = self.strikes.saturating_add(1);
        }
    }
    /// It is in order, whoever made it so. That ends the brake, but not a tug of war.
    pub(crate) fn found_in_order(&mut self, now: Time) {
        self.repaired = false;
        if self.strikes > 0 && !self.is_contested(now) {
            self.strikes = 0;
            self.not_before = None;
        }
    }
    fn is_contested(&self, now: Time) -> bool {
        let lately = self.changes.iter().filter(|at| now.since(**at) < WINDOW);
        lately.count() >= CHANGES
    }
    /// A repair ended well. Where repairs do not last, the next one waits: answers how many there were within the hour.
    pub(crate) fn repair_ended(&mut self, period: Duration, now: Time) -> Option<usize> {
        self.failures = 0;
        let wait = |times| backoff(period, times, LONGEST.max(period));
        self.not_before = self.strikes.checked_sub(1).map(|times| now + wait(times));
        self.not_before.map(|_| self.changes.len())
    }
    /// An act failed: it is tried again later and later, at most as seldom as is looked.
    pub(crate) fn failed(&mut self, period: Duration, now: Time) {
        self.not_before = Some(now + backoff(FIRST_RETRY, self.failures, period));
        self.failures = self.failures.saturating_add(1);
    }
    /// Whether a failure is told: the first of several may be of something that is just being made.
    pub(crate) fn tells_failures(&self) -> bool {
        self.failures != 1
    }
}
