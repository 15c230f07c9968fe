//! The outside monitor: told every so often that all is alive, so that it raises an alarm when that stops.
//!
//! It is told only while the watchdog looked a moment ago and found every loop making progress, wherever it
//! runs. A backend that does not answer stops nothing: its loop goes on, and tells of that by a condition.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::clock::Clock;
use mesh_sdk::condition::{ConditionType, Fact, Reason};
use mesh_sdk::scrub::Scrubber;
use mesh_sdk::{ProviderName, Time};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::watchdog;
use crate::manifest::{AliveTo, AliveUrl, Machine};

/// Nobody waits for it, and it must not pile up.
const DEADLINE: Duration = Duration::from_secs(10);
/// What is not configured now may be soon.
const IDLE: Duration = Duration::from_secs(5);
/// So many in a row that failed are a condition.
const FAILURES: u32 = 3;

/// What the watchdog found last, and how telling goes.
#[derive(Debug, Default)]
pub struct Alive(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    well_at: Option<Time>,
    failures: u32,
    why: String,
}

impl Alive {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The watchdog looked: whether every loop makes progress.
    pub fn judged(&self, now: Time, all: bool) {
        self.state().well_at = all.then_some(now);
    }
    /// Whether it looked a moment ago, and found that.
    pub fn is_well(&self, now: Time) -> bool {
        let fresh = watchdog::EVERY * 3;
        self.state()
            .well_at
            .is_some_and(|at| now.since(at) <= fresh)
    }
    /// That the monitor could not be told, once that is more than chance.
    pub fn untold(&self) -> Option<Fact> {
        let state = self.state();
        (state.failures >= FAILURES).then(|| {
            let message = format!("{} times in a row: {}", state.failures, state.why);
            let kind = ConditionType::AliveUntold;
            Fact::at_once(kind, "monitor", Reason::CallFailed, message)
        })
    }
    fn note(&self, told: Result<(), String>) {
        let mut state = self.state();
        match told {
            Ok(()) => state.failures = 0,
            Err(why) => {
                warn!("the outside monitor could not be told: {why}");
                state.failures = state.failures.saturating_add(1);
                state.why = why;
            }
        }
    }
}

/// Tells the monitor for as long as this process has loops. `to` answers what the manifest says now.
pub async fn tell(
    alive: Arc<Alive>,
    to: impl Fn() -> Option<AliveTo> + Send,
    (clock, scrubber): (Clock, Arc<Scrubber>),
    stop: CancellationToken,
) {
    let mut held_back = false;
    loop {
        let now = to();
        let wait = match &now {
            Some(to) if alive.is_well(clock.now()) => {
                held_back = false;
                alive.note(tell_once(to, &scrubber).await);
                to.every
            }
            Some(_) => {
                if !std::mem::replace(&mut held_back, true) {
                    debug!("the outside monitor is not told that all is alive");
                }
                watchdog::EVERY.min(IDLE)
            }
            None => {
                alive.note(Ok(()));
                IDLE
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn tell_once(to: &AliveTo, scrubber: &Scrubber) -> Result<(), String> {
    if let Some(file) = &to.file {
        touch(file).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    match &to.url {
        None => Ok(()),
        Some(url) => match tokio::time::timeout(DEADLINE, ask(url, scrubber)).await {
            Ok(told) => told,
            Err(_) => Err(format!("no answer within {} s", DEADLINE.as_secs())),
        },
    }
}

fn touch(file: &Path) -> std::io::Result<()> {
    std::fs::write(file, b"alive\n")
}

async fn ask(url: &AliveUrl, scrubber: &Scrubber) -> Result<(), String> {
    let address = url.address(&Machine)?;
    scrubber.add(address.path.clone());
    let scheme = if address.tls { "https" } else { "http" };
    let name = ProviderName::new("monitor").map_err(|error| error.to_string())?;
    let settings = ProviderSettings::new(name, scheme, &address.host, address.port);
    let path = address.path.expose_str().unwrap_or("/");
    let answer = mesh_catalog::http_get(settings, address.tls, path).await;
    scrubber.remove(&address.path);
    match answer {
        Ok(status) if (200..300).contains(&status) => Ok(()),
        Ok(status) => Err(format!("it answers {status}")),
        Err(error) => Err(scrubber.scrub(error.message()).into_owned()),
    }
}
