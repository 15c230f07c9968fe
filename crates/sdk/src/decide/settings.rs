//! The times and numbers that a provider's manifest table may set.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How often, how long, how many. Defaults are the design's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Each applied consumer is asked for this often (H-4).
    pub verify_every: Duration,
    /// A single check is cut off after this; a bulk one after this long without progress (H-9).
    pub ask_timeout: Duration,
    /// `create`, `remove`, `disable` and `list` are cut off after this (H-9).
    pub apply_timeout: Duration,
    /// *Unknown* for longer than this is a condition (H-7).
    pub unknown_after: Duration,
    /// An orphan is shown as leaving for this long before it is switched off.
    pub remove_after: Duration,
    /// A switched-off login is dropped after this.
    pub grace: Duration,
    /// More removals than this within an hour wait for a person, unless 10 % is more.
    pub max_removals: usize,
    /// The server's logins are listed this often while something is leaving.
    pub list_every: Duration,
    /// Stands for chance: jitter is drawn from it and the consumer's name.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        Self {
            verify_every: MINUTE,
            ask_timeout: Duration::from_secs(30),
            apply_timeout: Duration::from_secs(30),
            unknown_after: 5 * MINUTE,
            remove_after: 10 * MINUTE,
            grace: 24 * 60 * MINUTE,
            max_removals: 3,
            list_every: 10 * MINUTE,
            seed: 0,
        }
    }
}

/// The longest interval between two checks of a braked consumer (H-11).
pub(super) const BRAKE_MAX: Duration = Duration::from_secs(3600);
/// The window in which changes of one login are counted (H-15).
pub(super) const TUG_WINDOW: Duration = Duration::from_secs(3600);
/// That many changes within the window are a tug of war (H-15).
pub(super) const TUG_CHANGES: usize = 4;
/// The first delay after a failed create of something new (H-3).
pub(super) const FIRST_RETRY: Duration = Duration::from_secs(2);
