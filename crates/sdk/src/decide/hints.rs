//! When a hint may start a pass (H-14).

use std::time::Duration;

use super::brake::backoff;
use crate::time::Time;

/// At most one hinted pass per provider in this time.
const FIRST: Duration = Duration::from_secs(5);

/// Folds hints together: one hinted pass in 5 s, and doubling up to `verify_every` while hinted passes
/// find nothing lost. The timer is the promise; a hint that is held back costs nothing but time.
#[derive(Debug, Clone)]
pub struct HintGate {
    longest: Duration,
    last: Option<Time>,
    empty: u32,
    pending: bool,
}

impl HintGate {
    /// A gate for a provider with this `verify_every`.
    pub fn new(verify_every: Duration) -> Self {
        Self {
            longest: verify_every.max(FIRST),
            last: None,
            empty: 0,
            pending: false,
        }
    }
    /// A hint came.
    pub fn hint(&mut self) {
        self.pending = true;
    }
    /// When a hinted pass may start, if a hint waits.
    pub fn ready_at(&self, now: Time) -> Option<Time> {
        let wait = backoff(FIRST, self.empty, self.longest);
        self.pending
            .then(|| self.last.map_or(now, |last| (last + wait).max(now)))
    }
    /// A pass starts now: it answers every hint that waits. Returns whether there was one.
    pub fn pass_starts(&mut self, now: Time) -> bool {
        let hinted = std::mem::take(&mut self.pending);
        if hinted {
            self.last = Some(now);
        }
        hinted
    }
    /// A hinted pass ended, and had found something lost or not.
    pub fn hinted_pass_ended(&mut self, found: bool) {
        self.empty = if found {
            0
        } else {
            self.empty.saturating_add(1)
        };
    }
}

#[cfg(test)]
mod tests {
    //! H-14: hints are folded, and an empty one makes the next wait longer.
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_millis(0) + Duration::from_secs(seconds)
    }

    #[test]
    fn h14_hints_are_folded_into_one_pass_in_five_seconds() {
        let mut gate = HintGate::new(Duration::from_secs(60));
        assert_eq!(gate.ready_at(at(0)), None);
        gate.hint();
        gate.hint();
        assert_eq!(
            gate.ready_at(at(0)),
            Some(at(0)),
            "the first one starts at once"
        );
        assert!(gate.pass_starts(at(0)));
        gate.hinted_pass_ended(true);
        assert_eq!(gate.ready_at(at(1)), None, "both were answered");
        gate.hint();
        assert_eq!(gate.ready_at(at(1)), Some(at(5)));
        assert_eq!(gate.ready_at(at(9)), Some(at(9)));
    }

    #[test]
    fn h14_empty_hinted_passes_double_the_wait_up_to_verify_every() {
        let mut gate = HintGate::new(Duration::from_secs(60));
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..7 {
            gate.hint();
            let ready = gate.ready_at(now).expect("a hint waits");
            waits.push(ready.since(now).as_secs());
            now = ready;
            assert!(gate.pass_starts(now));
            gate.hinted_pass_ended(false);
        }
        assert_eq!(waits, [0, 10, 20, 40, 60, 60, 60]);
        gate.hint();
        assert!(gate.pass_starts(now));
        gate.hinted_pass_ended(true);
        gate.hint();
        assert_eq!(
            gate.ready_at(now),
            Some(now + FIRST),
            "a found loss makes hints quick again"
        );
    }

    #[test]
    fn h14_a_timer_pass_answers_a_waiting_hint() {
        let mut gate = HintGate::new(Duration::from_secs(60));
        assert!(!gate.pass_starts(at(0)), "nothing waited");
        gate.hint();
        assert!(gate.pass_starts(at(1)));
        assert_eq!(gate.ready_at(at(2)), None);
    }
}
