//! A point in time as data. Reading a clock is [`crate::clock`]'s alone.

use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z.
///
/// Within one process it comes from a steady clock that was set once (see [`crate::clock`]), so it
/// never runs backwards there. One that was stored may lie in the future after a clock jump: readers
/// call [`Time::not_after`] on what they load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "i64", into = "i64")]
pub struct Time(
    // The milliseconds with their sign turned over, which keeps their order; that it is never 0 lets an
    // `Option` of it take no more room, and there are many of them for each consumer.
    NonZeroU64,
);

const SIGN: u64 = 1 << 63;

impl Default for Time {
    fn default() -> Self {
        Self::from_millis(0)
    }
}
impl From<i64> for Time {
    fn from(millis: i64) -> Self {
        Self::from_millis(millis)
    }
}
impl From<Time> for i64 {
    fn from(time: Time) -> i64 {
        time.as_millis()
    }
}

impl Time {
    /// From milliseconds since the epoch.
    pub const fn from_millis(millis: i64) -> Self {
        match NonZeroU64::new(millis.cast_unsigned() ^ SIGN) {
            Some(turned) => Self(turned),
            None => Self(NonZeroU64::MIN),
        }
    }
    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> i64 {
        (self.0.get() ^ SIGN).cast_signed()
    }
    /// How long ago `earlier` was; zero if it is not earlier.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(
            u64::try_from(self.as_millis().saturating_sub(earlier.as_millis())).unwrap_or(0),
        )
    }
    /// The time of day, UTC, in hours and minutes, for people.
    pub fn clock(self) -> String {
        let minutes = self.as_millis().div_euclid(60_000).rem_euclid(24 * 60);
        format!("{:02}:{:02}", minutes / 60, minutes % 60)
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
        let span = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Time::from_millis(self.as_millis().saturating_add(span))
    }
}

impl std::ops::Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, span: Duration) -> Time {
        let span = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Time::from_millis(self.as_millis().saturating_sub(span))
    }
}

#[cfg(test)]
mod tests {
    //! Arithmetic that cannot overflow or go negative.
    use super::*;

    #[test]
    fn times_are_in_order_and_come_back_as_they_were() {
        let all = [i64::MIN + 1, -1, 0, 1, 1_796_038_352_104, i64::MAX];
        for pair in all.windows(2) {
            assert!(Time::from_millis(pair[0]) < Time::from_millis(pair[1]));
        }
        for millis in all {
            let time = Time::from_millis(millis);
            assert_eq!(time.as_millis(), millis);
            let text = serde_json::to_string(&time).expect("json");
            assert_eq!(text, millis.to_string());
            assert_eq!(serde_json::from_str::<Time>(&text).expect("back"), time);
        }
        assert_eq!(size_of::<Option<Time>>(), 8);
    }

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
