//! Where the one program of a provider sits: started when it is asked for, replaced when it is gone.

use std::sync::{Arc, Mutex};

use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::{Capabilities, Class, Cx, Error};
use tokio::task::JoinSet;

use super::process::Process;
use super::values::ExecOptions;

/// One provider's program.
pub(super) struct Seat {
    pub(super) settings: ProviderSettings,
    options: ExecOptions,
    /// The program, while it runs.
    running: tokio::sync::Mutex<Option<Arc<Process>>>,
    /// What it said it can, the last time that it said hello.
    known: Mutex<Option<Capabilities>>,
}

impl Seat {
    pub(super) fn new(settings: ProviderSettings, options: ExecOptions) -> Self {
        Self {
            settings,
            options,
            running: tokio::sync::Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// What the program can, once it said so.
    pub(super) fn known(&self) -> Option<Capabilities> {
        self.known.lock().ok().and_then(|known| *known)
    }

    /// The program, started if it does not run.
    pub(super) async fn process(self: &Arc<Self>, cx: &Cx) -> Result<Arc<Process>, Error> {
        if let Ok(running) = self.running.try_lock()
            && let Some(process) = running.as_ref().filter(|process| process.is_usable())
        {
            return Ok(Arc::clone(process));
        }
        // In a task of its own: a caller that waits without being polled must not keep the others waiting.
        // Dropped, the task ends, and with it a program that has not said hello yet.
        let mut task = JoinSet::new();
        let seat = Arc::clone(self);
        task.spawn(async move { seat.start().await });
        let started = task.join_next().await;
        cx.progress();
        let gone = || {
            Error::new(
                Class::Bug,
                "the task that starts the program ended by itself",
            )
        };
        started.and_then(Result::ok).ok_or_else(gone)?
    }

    async fn start(&self) -> Result<Arc<Process>, Error> {
        let mut running = self.running.lock().await;
        // Another caller may have started it meanwhile.
        if let Some(process) = running.as_ref().filter(|process| process.is_usable()) {
            return Ok(Arc::clone(process));
        }
        *running = None;
        let process = Arc::new(Process::start(&self.settings, &self.options).await?);
        if let Ok(mut known) = self.known.lock() {
            *known = Some(process.hello.capabilities());
        }
        *running = Some(Arc::clone(&process));
        Ok(process)
    }
}
