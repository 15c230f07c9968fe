//! Whether loops make progress, judged by what was seen to move over the judge's own time (B-8).
//!
//! Nobody's clock is compared with anybody else's: a sign says that something moved, and how long it may
//! take to move again, and the judge counts that from when it saw it move.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::time::Time;

/// A beat that is over its due by so long does not come.
pub const SILENT_AFTER: Duration = Duration::from_secs(35);
/// Of a loop that never said anything its first beat is waited for so long.
const FIRST: Duration = Duration::from_secs(60);

/// What is known of one loop at one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sign {
    /// Other numbers than before: the loop beat.
    pub moved: [u64; 2],
    /// Other number than before: something was finished.
    pub done: u64,
    /// It is in a pass.
    pub passing: bool,
    /// The next beat comes within so long of the last one.
    pub due: Duration,
    /// In a pass something is finished within so long.
    pub bound: Duration,
    /// How many were not asked for three passes, while others were; none where that cannot be told.
    pub starved: Option<usize>,
    /// What shows that the process which has the loop goes on, where something does: other number than
    /// before, and after how long without one it surely acts no more.
    pub process: Option<(u64, Duration)>,
}

/// How a loop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The judge has not watched it for long enough.
    TooEarly,
    /// It makes progress.
    Well,
    /// No beat for so long.
    Silent(Duration),
    /// In a pass, and nothing was finished for so long.
    Stuck(Duration),
    /// It makes progress, and so many never get their turn.
    Starved(usize),
}

#[derive(Debug, Clone, Copy)]
struct Watched {
    sign: Option<Sign>,
    moved_at: Time,
    done_at: Time,
    process_at: Time,
    /// It was seen moving, and not only found.
    moved: bool,
}

/// Remembers what it saw moving, and when.
#[derive(Debug, Clone, Default)]
pub struct Judge {
    watched: BTreeMap<String, Watched>,
}

impl Judge {
    /// One look: every loop that is expected, with its sign if it ever gave one.
    pub fn look(
        &mut self,
        now: Time,
        signs: BTreeMap<String, Option<Sign>>,
    ) -> BTreeMap<String, Verdict> {
        self.watched.retain(|name, _| signs.contains_key(name));
        let judged = signs.into_iter().map(|(name, sign)| {
            let watched = self.watched.entry(name.clone()).or_insert(Watched {
                sign,
                moved_at: now,
                done_at: now,
                process_at: now,
                moved: false,
            });
            watched.see(now, sign);
            (name, watched.verdict(now))
        });
        judged.collect()
    }
}

impl Watched {
    fn see(&mut self, now: Time, sign: Option<Sign>) {
        let before = std::mem::replace(&mut self.sign, sign);
        if before.map(|s| s.moved) != sign.map(|s| s.moved) {
            (self.moved_at, self.moved) = (now, true);
        }
        let passing = sign.is_some_and(|s| s.passing);
        if !passing || before.map(|s| s.done) != sign.map(|s| s.done) {
            self.done_at = now;
        }
        let process = |s: Option<Sign>| s.and_then(|s| s.process).map(|(moved, _)| moved);
        if process(before) != process(sign) {
            self.process_at = now;
        }
    }

    fn verdict(&self, now: Time) -> Verdict {
        let due = self.sign.map_or(FIRST, |sign| sign.due);
        let silent = now.since(self.moved_at);
        if silent > due + SILENT_AFTER {
            return Verdict::Silent(silent);
        }
        let Some(sign) = self.sign else {
            return Verdict::TooEarly;
        };
        let halted = now.since(self.process_at);
        if let Some((_, within)) = sign.process
            && halted > within
        {
            return Verdict::Silent(halted);
        }
        let stuck = now.since(self.done_at);
        if sign.passing && stuck > sign.bound {
            return Verdict::Stuck(stuck);
        }
        match sign.starved {
            _ if !self.moved => Verdict::TooEarly,
            Some(count) if count > 0 => Verdict::Starved(count),
            _ => Verdict::Well,
        }
    }
}

#[cfg(test)]
mod tests {
    //! B-8 in small: beats seen over the judge's own time, and what follows from them.
    use super::*;

    const HEALTHY: Sign = Sign {
        moved: [1, 0],
        done: 1,
        passing: false,
        due: Duration::from_secs(60),
        bound: Duration::from_secs(90),
        starved: Some(0),
        process: None,
    };

    fn at(seconds: i64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    fn look(judge: &mut Judge, seconds: i64, sign: Option<Sign>) -> Verdict {
        let signs = BTreeMap::from([("provisioner/cache".to_owned(), sign)]);
        let judged = judge.look(at(seconds), signs);
        judged["provisioner/cache"]
    }

    #[test]
    fn b8_a_judge_that_begins_says_nothing_until_it_saw_something_move() {
        let mut judge = Judge::default();
        assert_eq!(look(&mut judge, 0, Some(HEALTHY)), Verdict::TooEarly);
        assert_eq!(look(&mut judge, 95, Some(HEALTHY)), Verdict::TooEarly);
        let moved = Sign {
            moved: [2, 0],
            ..HEALTHY
        };
        assert_eq!(look(&mut judge, 95, Some(moved)), Verdict::Well);
    }

    #[test]
    fn b8_no_beat_for_35_seconds_past_its_due_is_silence_and_a_beat_ends_it() {
        let mut judge = Judge::default();
        look(&mut judge, 0, Some(HEALTHY));
        assert_eq!(look(&mut judge, 95, Some(HEALTHY)), Verdict::TooEarly);
        let silent = Verdict::Silent(Duration::from_secs(96));
        assert_eq!(look(&mut judge, 96, Some(HEALTHY)), silent);
        let moved = Sign {
            moved: [1, 1],
            ..HEALTHY
        };
        assert_eq!(look(&mut judge, 200, Some(moved)), Verdict::Well);
        // In a pass the next beat is due soon.
        let passing = Sign {
            moved: [1, 2],
            passing: true,
            due: Duration::from_secs(10),
            ..HEALTHY
        };
        look(&mut judge, 210, Some(passing));
        assert_eq!(look(&mut judge, 255, Some(passing)), Verdict::Well);
        let silent = Verdict::Silent(Duration::from_secs(46));
        assert_eq!(look(&mut judge, 256, Some(passing)), silent);
    }

    #[test]
    fn b8_beats_without_anything_finished_are_a_loop_that_is_stuck() {
        let mut judge = Judge::default();
        let beat = |n: u64, done: u64| Sign {
            moved: [1, n],
            done,
            passing: true,
            due: Duration::from_secs(10),
            ..HEALTHY
        };
        for n in 0..10 {
            let verdict = look(&mut judge, n * 10, Some(beat(n.unsigned_abs(), 7)));
            assert!(matches!(verdict, Verdict::TooEarly | Verdict::Well), "{n}");
        }
        let stuck = look(&mut judge, 91, Some(beat(11, 7)));
        assert_eq!(stuck, Verdict::Stuck(Duration::from_secs(91)));
        assert_eq!(look(&mut judge, 92, Some(beat(12, 8))), Verdict::Well);
        // A long rest is nobody's trouble.
        look(&mut judge, 93, Some(HEALTHY));
        assert_eq!(look(&mut judge, 150, Some(HEALTHY)), Verdict::Well);
    }

    #[test]
    fn b8_who_never_gets_a_turn_is_told_only_of_a_loop_that_moves() {
        let mut judge = Judge::default();
        let starving = |n: u64| Sign {
            moved: [n, 0],
            starved: Some(3),
            ..HEALTHY
        };
        assert_eq!(look(&mut judge, 0, Some(starving(1))), Verdict::TooEarly);
        let starved = Verdict::Starved(3);
        assert_eq!(look(&mut judge, 60, Some(starving(2))), starved);
        let silent = look(&mut judge, 160, Some(starving(2)));
        assert!(matches!(silent, Verdict::Silent(_)), "one fact, not two");
    }

    #[test]
    fn b8_a_process_that_stands_still_makes_its_loops_silent_before_their_beat_is_due() {
        let mut judge = Judge::default();
        let held = |beat: u64| Sign {
            process: Some((beat, Duration::from_secs(25))),
            due: Duration::from_secs(3600),
            ..HEALTHY
        };
        look(&mut judge, 0, Some(held(1)));
        look(&mut judge, 5, Some(held(2)));
        assert_eq!(look(&mut judge, 30, Some(held(2))), Verdict::TooEarly);
        let silent = look(&mut judge, 31, Some(held(2)));
        assert_eq!(silent, Verdict::Silent(Duration::from_secs(26)));
        // Another process has it now.
        assert_eq!(look(&mut judge, 50, Some(held(9))), Verdict::TooEarly);
    }

    #[test]
    fn b8_a_loop_that_never_said_anything_is_waited_for_and_one_that_left_is_forgotten() {
        let mut judge = Judge::default();
        assert_eq!(look(&mut judge, 0, None), Verdict::TooEarly);
        assert_eq!(look(&mut judge, 95, None), Verdict::TooEarly);
        assert!(matches!(look(&mut judge, 96, None), Verdict::Silent(_)));
        assert!(judge.look(at(97), BTreeMap::new()).is_empty());
        assert_eq!(look(&mut judge, 98, None), Verdict::TooEarly);
    }
}
