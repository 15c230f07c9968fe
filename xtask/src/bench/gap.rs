//! How long a server leaves others waiting: a second connection that asks every millisecond.

use super::client::{Client, command};
use super::stopwatch::{pause, timed};
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Asks until it is told to stop.
pub(super) struct Gap {
    stop: Arc<AtomicBool>,
    asking: JoinHandle<Duration>,
}

impl Gap {
    pub(super) fn watch(port: u16) -> Result<Self> {
        let mut client = Client::connect(port)?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let asking = std::thread::spawn(move || {
            let ping = command(&[b"PING"]);
            let mut longest = Duration::ZERO;
            while !told.load(Ordering::Relaxed) {
                let (answer, took) =
                    timed(|| client.send(&ping).and_then(|()| client.each(|_| ())));
                if answer.is_err() {
                    break;
                }
                longest = longest.max(took);
                pause(1);
            }
            longest
        });
        Ok(Self { stop, asking })
    }

    /// The longest wait for an answer.
    pub(super) fn longest(self) -> Result<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        self.asking
            .join()
            .ok()
            .context("the second connection broke off")
    }
}
