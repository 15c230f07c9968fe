//! The only stopwatch of xtask: measuring how long things take is what a benchmark is for.

use std::time::{Duration, Instant};

/// Runs from the moment that it is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }
    pub(super) fn read(self) -> Duration {
        self.0.elapsed()
    }
}

/// Runs something, and answers how long it took.
pub(super) fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let watch = Stopwatch::start();
    let done = what();
    (done, watch.read())
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for")]
pub(super) fn pause(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// The one in the middle; zero of none.
pub(super) fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
