//! The order in which things happened, and a trap at any of them.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::lock;

/// Steps in the order in which they were taken. Doubles that share one are seen in one order.
///
/// A trap at step `n` lets steps `0..n` happen and then waits for ever: whoever drops the future there
/// has crashed the program between two steps.
#[derive(Debug, Clone, Default)]
pub struct Trace(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    reached: Notify,
}

#[derive(Debug, Default)]
struct State {
    on: bool,
    steps: Vec<String>,
    trap: Option<usize>,
    sprung: bool,
}

impl Trace {
    /// Forgets what was, and notes steps from now on.
    pub fn record(&self) {
        *lock(&self.0.state) = State {
            on: true,
            ..State::default()
        };
    }
    /// The same, with a trap at step `n`.
    pub fn record_and_trap(&self, n: usize) {
        *lock(&self.0.state) = State {
            on: true,
            trap: Some(n),
            ..State::default()
        };
    }
    /// Notes nothing any more; a trap is gone.
    pub fn off(&self) {
        lock(&self.0.state).on = false;
    }
    /// The steps so far.
    pub fn steps(&self) -> Vec<String> {
        lock(&self.0.state).steps.clone()
    }
    /// Waits until a step runs into the trap.
    pub async fn trapped(&self) {
        self.0.reached.notified().await;
    }
    /// A step is about to be taken.
    pub(super) async fn step(&self, name: impl FnOnce() -> String) {
        let first = {
            let mut state = lock(&self.0.state);
            if !state.on {
                return;
            }
            if state.trap != Some(state.steps.len()) {
                state.steps.push(name());
                return;
            }
            !std::mem::replace(&mut state.sprung, true)
        };
        if first {
            self.0.reached.notify_one();
        }
        std::future::pending::<()>().await;
    }
}
