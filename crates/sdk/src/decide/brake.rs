//! Waiting longer and longer: the brake (H-11), the tug of war (H-15), and a failed create's delay (H-3).

use std::time::Duration;

use super::settings::{BRAKE_MAX, FIRST_RETRY, Settings, TUG_CHANGES, TUG_WINDOW};
use crate::time::Time;

/// `base` doubled `times` over, at most `max`. Never less than `base` unless `max` is.
pub fn backoff(base: Duration, times: u32, max: Duration) -> Duration {
    base.checked_mul(1u32.checked_shl(times.min(20)).unwrap_or(u32::MAX))
        .unwrap_or(max)
        .min(max)
}

/// How long until a consumer with this many strikes is checked again (H-11): `verify_every`, then
/// doubling to an hour. A `verify_every` of more than an hour stays as it is.
pub(super) fn check_interval(settings: &Settings, strikes: u32) -> Duration {
    backoff(
        settings.verify_every,
        strikes,
        BRAKE_MAX.max(settings.verify_every),
    )
}

/// How long until a failed create of something new or changed is tried again (H-3): growing, spread by
/// chance over the upper half, never longer than `verify_every`.
pub(super) fn retry_delay(settings: &Settings, failures: u32, name: &str) -> Duration {
    let full = backoff(
        FIRST_RETRY,
        failures.saturating_sub(1),
        settings.verify_every,
    );
    let half = full / 2;
    half + half.mul_f64(chance(settings.seed, name, failures))
}

/// A number in 0..1 drawn from a seed, a name and a counter: splitmix64 over FNV-1a.
pub(super) fn chance(seed: u64, name: &str, n: u32) -> f64 {
    let mut x = name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    });
    x = x.wrapping_add(u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Notes that a held login was found changed, and says whether that is a tug of war by now (H-15).
pub(super) fn note_change(changes: &mut Vec<Time>, now: Time) -> bool {
    changes.retain(|at| now.since(*at) < TUG_WINDOW);
    if changes.len() == TUG_CHANGES {
        changes.remove(0);
    }
    changes.push(now);
    changes.len() == TUG_CHANGES
}

#[cfg(test)]
mod tests {
    //! Delays grow, are bounded, and are the same for the same seed.
    use super::*;

    #[test]
    fn h11_check_intervals_double_up_to_an_hour() {
        let settings = Settings::default();
        let minutes: Vec<u64> = (0..9)
            .map(|s| check_interval(&settings, s).as_secs() / 60)
            .collect();
        assert_eq!(minutes, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(check_interval(&settings, u32::MAX), BRAKE_MAX);
        let rare = Settings {
            verify_every: 2 * BRAKE_MAX,
            ..Settings::default()
        };
        assert_eq!(check_interval(&rare, 3), 2 * BRAKE_MAX);
    }

    #[test]
    fn h3_retry_delays_grow_jittered_and_never_pass_verify_every() {
        let settings = Settings::default();
        let mut last = Duration::ZERO;
        for failures in 1..40 {
            let full = backoff(FIRST_RETRY, failures - 1, settings.verify_every);
            let delay = retry_delay(&settings, failures, "web");
            assert!(
                delay >= full / 2 && delay <= full,
                "{failures}: {delay:?} of {full:?}"
            );
            assert!(full >= last);
            assert_eq!(delay, retry_delay(&settings, failures, "web"));
            last = full;
        }
        assert_eq!(last, settings.verify_every);
        let spread: std::collections::BTreeSet<Duration> = (0..50)
            .map(|i| retry_delay(&settings, 9, &format!("c{i}")))
            .collect();
        assert!(spread.len() > 45, "consumers do not beat in step");
        let other = Settings {
            seed: 1,
            ..settings.clone()
        };
        assert_ne!(
            retry_delay(&settings, 9, "web"),
            retry_delay(&other, 9, "web")
        );
    }

    #[test]
    fn h15_four_changes_in_an_hour_are_a_tug_of_war() {
        let minute = Duration::from_secs(60);
        let start = Time::from_millis(0);
        let mut changes = Vec::new();
        let at = |m: u32| start + minute * m;
        assert!(!note_change(&mut changes, at(0)));
        assert!(!note_change(&mut changes, at(10)));
        assert!(!note_change(&mut changes, at(20)));
        assert!(note_change(&mut changes, at(59)));
        assert!(
            note_change(&mut changes, at(61)),
            "10, 20, 59 and 61 lie within an hour"
        );
        assert!(!note_change(&mut changes, at(120)));
        assert!(changes.len() <= TUG_CHANGES);
        let mut changes = vec![at(0), at(20), at(40)];
        assert!(
            !note_change(&mut changes, at(60)),
            "an hour ago is not within the hour"
        );
    }
}
