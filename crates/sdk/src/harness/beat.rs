//! Beats: what a loop says of its own progress, while it makes it (B-8).
//!
//! A beat is told by the loop's own task and by nothing else: a task that lives beside it would beat on
//! while the loop hangs. In the process a beat costs a lock that nobody contends for. On the bus one is
//! written only while a pass takes long; after a short one the loop's record says all there is to say.

use std::borrow::Cow;
use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::store::STORE_TIMEOUT;
use crate::bus::{Bucket, Bus, Expect, Key, Write};
use crate::clock::Clock;
use crate::decide::Settings;
use crate::time::Time;

/// While a pass runs, the next beat comes within so long.
pub const EVERY: Duration = Duration::from_secs(10);
/// Every call in a pass is given up at its deadline. If nothing was finished for so many of the longest,
/// nothing will be.
const DEADLINES: u32 = 3;

/// What a loop said of itself last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Beat {
    /// Moves with every beat.
    pub counter: u64,
    /// Moves with everything that was finished in a pass: an answer (also one that is unknown), an effect,
    /// a step.
    pub done: u64,
    /// Counts the passes of this process.
    pub pass: u64,
    /// Since when it is in a pass; none between passes.
    pub since: Option<Time>,
    /// What it does in it.
    pub doing: Cow<'static, str>,
    /// Answers of this pass so far, unknown ones among them.
    pub asked: usize,
    /// Those that are unknown.
    pub unknown: usize,
    /// Since when the one that waits longest waits for its turn to be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Time>,
    /// How much was finished when that was told last.
    #[serde(skip)]
    told: u64,
    /// When something was finished last, to about ten seconds.
    pub done_at: Time,
    /// When it was told.
    pub at: Time,
    /// The next one comes within so many milliseconds.
    pub due: u64,
    /// In a pass something is finished within so many milliseconds.
    pub bound: u64,
}

impl Beat {
    /// Where it stands on the bus, by the loop's name.
    pub fn key(name: &str) -> Key {
        Key::of(&["beat", name])
    }
}

/// In a pass something is finished within so long, by the deadlines of its calls.
pub fn bound_of(settings: &Settings) -> Duration {
    let longest = settings.ask_timeout.max(settings.apply_timeout);
    longest.max(STORE_TIMEOUT) * DEADLINES
}

/// A loop's beats, for who shares its process.
#[derive(Debug, Clone, Default)]
pub struct Pulse(Arc<Mutex<Beat>>);

/// A pulse that ends with its loop.
#[derive(Debug, Clone)]
pub struct PulseRef(Weak<Mutex<Beat>>);

impl PulseRef {
    /// The last beat; none if the loop is gone.
    pub fn last(&self) -> Option<Beat> {
        let beat = self.0.upgrade()?;
        Some(lock(&beat).clone())
    }
}

fn lock(beat: &Mutex<Beat>) -> MutexGuard<'_, Beat> {
    beat.lock().unwrap_or_else(PoisonError::into_inner)
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

impl Pulse {
    /// The last beat.
    pub fn last(&self) -> Beat {
        lock(&self.0).clone()
    }
    /// For who must not keep it alive.
    pub fn watched(&self) -> PulseRef {
        PulseRef(Arc::downgrade(&self.0))
    }
    /// A pass begins.
    pub fn begins(&self, now: Time, bound: Duration) {
        let mut beat = lock(&self.0);
        beat.counter += 1;
        beat.pass += 1;
        beat.since = Some(now);
        beat.doing = Cow::Borrowed("begins");
        (beat.asked, beat.unknown) = (0, 0);
        (beat.at, beat.done_at) = (now, now);
        (beat.due, beat.bound) = (millis(EVERY), millis(bound));
    }
    /// The pass goes on to its next step.
    pub fn step(&self, now: Time, doing: &'static str) {
        let mut beat = lock(&self.0);
        beat.counter += 1;
        beat.done += 1;
        beat.doing = Cow::Borrowed(doing);
        (beat.at, beat.done_at) = (now, now);
    }
    /// Something was finished.
    pub fn item(&self) {
        let mut beat = lock(&self.0);
        beat.counter += 1;
        beat.done += 1;
    }
    /// So many answers were counted, and somebody waits since then.
    pub(super) fn counted(&self, asked: usize, unknown: usize, oldest: Option<Time>) {
        let mut beat = lock(&self.0);
        beat.counter += 1;
        beat.done += 1;
        (beat.asked, beat.unknown, beat.oldest) = (asked, unknown, oldest);
    }
    /// It goes on with what it does, and nothing was finished.
    fn goes_on(&self, now: Time) -> Beat {
        let mut beat = lock(&self.0);
        beat.counter += 1;
        beat.at = now;
        if beat.done != beat.told {
            (beat.told, beat.done_at) = (beat.done, now);
        }
        beat.clone()
    }
    /// The pass ended; the next one begins within so long.
    pub fn rests(&self, now: Time, next: Duration) {
        let mut beat = lock(&self.0);
        beat.counter += 1;
        beat.done += 1;
        beat.since = None;
        beat.doing = Cow::Borrowed("rests");
        (beat.at, beat.due) = (now, millis(next));
    }
}

/// What a loop needs to beat on the bus.
pub struct Beating {
    /// The bus.
    pub bus: Arc<dyn Bus>,
    /// The loop's name.
    pub name: String,
    /// Its pulse.
    pub pulse: Pulse,
    /// The clock.
    pub clock: Clock,
}

impl Beating {
    /// Runs a pass; while it takes long, says every [`EVERY`] that it goes on. Both are one task: where the
    /// pass blocks that, no beat is told.
    pub async fn during<T>(self, pass: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            outcome = pass => outcome,
            never = self.beats() => match never {},
        }
    }

    async fn beats(&self) -> Infallible {
        loop {
            tokio::time::sleep(EVERY).await;
            let beat = self.pulse.goes_on(self.clock.now());
            self.tell(&beat).await;
        }
    }

    /// A beat that is lost is followed by another one.
    async fn tell(&self, beat: &Beat) {
        let key = Beat::key(&self.name);
        let Ok(entry) = self.bus.get(Bucket::Loop, &key).await else {
            return;
        };
        let write = Write {
            key,
            expect: entry.map_or(Expect::Absent, |entry| Expect::At(entry.rev)),
            value: super::store::json(beat),
        };
        drop(self.bus.put_if(Bucket::Loop, write).await);
    }
}
