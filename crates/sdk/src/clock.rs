//! The only reader of the clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::time::Time;

/// Tells the time: the wall's when it was made, moved on by a steady clock since.
///
/// A jump of the machine's clock while the process runs changes nothing here (O-37). Under tokio's
/// paused time it follows that, so a day passes in a test in a moment.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Time,
    start: tokio::time::Instant,
}

impl Clock {
    /// A clock set by the machine's. Call it once, in the program's wiring.
    #[allow(clippy::disallowed_methods)]
    pub fn system() -> Self {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Self::starting_at(Time::default() + wall)
    }
    /// A clock that starts at a given time; for tests.
    #[allow(clippy::disallowed_methods)]
    pub fn starting_at(origin: Time) -> Self {
        Self {
            origin,
            start: tokio::time::Instant::now(),
        }
    }
    /// Now.
    pub fn now(&self) -> Time {
        self.origin + self.start.elapsed()
    }
}
