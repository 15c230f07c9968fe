//! Doubles for tests: a bus in memory, a backend that does what a script says, a mint that counts.
//!
//! Behind the feature `testing`, which nothing that ships may ask for. Each of them counts what was
//! done to it, and each leads through a [`Trace`], so that a test can read the order of the steps and
//! cut a pass off at any of them.

mod backend;
mod bus;
mod mint;
mod trace;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use self::backend::{Act, Call, FakeBackend, FakeLogin, FakeValues, Made};
pub use self::bus::{MemoryBus, Trouble};
pub use self::mint::FakeMint;
pub use self::trace::Trace;

/// A double stays usable after a scripted panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
