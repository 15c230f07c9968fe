//! A point in time as data. Reading a clock is [`crate::clock`]'s alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z.
///
/// Within one process it comes from a steady clock that was set once (see [`crate::clock`]), so it
/// never runs backwards there. One that was stored may lie in the future after a clock jump: readers
/// call [`Time::not_after`] on what they load.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(i64);

impl Time {
    /// From milliseconds since the epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }
    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }
    /// How long ago `earlier` was; zero if it is not earlier.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
    /// This time, or `now` if it claims to be later: a stamp from the future counts as now (O-37).
    #[must_use]
    pub fn not_after(self, now: Time) -> Time {
        self.min(now)
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Time;
    fn add(self, span: Duration) -> Time {
        Time(
            self.0
                .saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)),
        )
    }
}

impl std::ops::Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, span: Duration) -> Time {
        Time(
            self.0
                .saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)),
        )
    }
}

#[cfg(test)]
mod tests {
    //! Arithmetic that cannot overflow or go negative.
    use super::*;

    #[test]
    fn spans_never_go_negative_and_sums_never_overflow() {
        let early = Time::from_millis(1_000);
        let late = Time::from_millis(3_500);
        assert_eq!(late.since(early), Duration::from_millis(2_500));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(late.not_after(early), early);
        assert_eq!(
            Time::from_millis(i64::MAX) + Duration::MAX,
            Time::from_millis(i64::MAX)
        );
    }
}
