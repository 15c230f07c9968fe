//! What every word that meets stores or servers needs: a runtime, a clock, a scrubber, signals.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use mesh_sdk::MeshId;
use mesh_sdk::clock::Clock;
use mesh_sdk::scrub::Scrubber;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::errors::Fault;
use crate::logs;
use crate::wiring::installation::{self, Installation, InstallationFault, Runner, Turn, take_turn};
use crate::wiring::oneshot::{self, RunFault};

/// A process that works with stores and servers.
pub(crate) struct Online {
    runtime: Runtime,
    /// The clock.
    pub(crate) clock: Clock,
    /// Hides every secret that this process comes to know.
    pub(crate) scrubber: Arc<Scrubber>,
    /// Cancelled by SIGTERM and SIGINT.
    pub(crate) stop: CancellationToken,
}

impl Online {
    /// Starts logging, the runtime and the ear for signals. `threads`: how many besides this one; the
    /// loops themselves need few.
    pub(crate) fn start(cx: &Context<'_>) -> Result<Self, Fault> {
        let scrubber = Arc::new(Scrubber::default());
        let hide = Arc::clone(&scrubber);
        logs::start(&cx.settings.log, cx.printer.err_colours(), move |text| {
            hide.scrub(text).into_owned()
        })?;
        // The one provider of cryptography; a second call in one process is harmless.
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| {
                Fault::failed(
                    format!("the runtime does not start: {error}"),
                    "look at the limits of this user",
                )
            })?;
        let clock = runtime.block_on(async { Clock::system() });
        let stop = CancellationToken::new();
        runtime.spawn(listen_for_stop(stop.clone()));
        Ok(Self {
            runtime,
            clock,
            scrubber,
            stop,
        })
    }
    /// Runs something to its end.
    pub(crate) fn run<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(what)
    }
    /// Opens the data folder for reading and writing.
    pub(crate) fn open(&self, folder: &Path, mesh: &MeshId) -> Result<Installation, Fault> {
        self.run(async {
            Installation::open(folder, mesh, self.clock, Arc::clone(&self.scrubber)).map_err(told)
        })
    }
    /// Opens the data folder for reading only, and says which mesh it is of. The manifest is not needed:
    /// what is there can be seen while that is broken, too.
    pub(crate) fn open_to_read(&self, folder: &Path) -> Result<(Installation, MeshId), Fault> {
        let scrubber = Arc::clone(&self.scrubber);
        self.run(async {
            Installation::open_to_read(folder, scrubber)
                .await
                .map_err(told)
        })
    }
    /// The same, if anything was ever applied there.
    pub(crate) fn read_if_there(&self, folder: &Path) -> Result<Option<Installation>, Fault> {
        let scrubber = Arc::clone(&self.scrubber);
        match self.run(async { Installation::open_to_read(folder, scrubber).await }) {
            Ok((installation, _)) => Ok(Some(installation)),
            Err(InstallationFault::NotThere { .. }) => Ok(None),
            Err(fault) => Err(told(fault)),
        }
    }
    /// The data folder for `plan`, if anything was ever applied there.
    pub(crate) fn open_if_there(
        &self,
        folder: &Path,
        mesh: &MeshId,
    ) -> Result<Option<Installation>, Fault> {
        let opened = self
            .run(async { Installation::open_read_only(folder, mesh, Arc::clone(&self.scrubber)) });
        match opened {
            Ok(installation) => Ok(Some(installation)),
            Err(InstallationFault::NotThere { .. }) => Ok(None),
            Err(fault) => Err(told(fault)),
        }
    }
}

async fn listen_for_stop(stop: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    stop.cancel();
}

/// Without a running daemon it is this command that sees the manifest. Where something was ever applied,
/// monitors must see that it cannot be used.
pub(crate) async fn tell_unreadable(
    cx: &Context<'_>,
    online: &Online,
    fault: &Fault,
) -> Result<(), Fault> {
    let folder = &cx.settings.data;
    let scrubber = Arc::clone(&online.scrubber);
    let Ok((readable, mesh)) = Installation::open_to_read(folder, scrubber).await else {
        return Ok(());
    };
    drop(readable);
    let turn = take_turn(folder, Runner::OneShot).await;
    let Ok(Turn::Mine(_turn)) = turn else {
        return Ok(());
    };
    let (clock, scrubber) = (online.clock, Arc::clone(&online.scrubber));
    let opened = Installation::open(folder, &mesh, clock, scrubber);
    let installation = opened.map_err(told)?;
    let why = match fault {
        Fault::Manifest => "`mesh check` tells its mistakes".to_owned(),
        fault => fault.to_string(),
    };
    oneshot::unreadable(&installation, clock, &why)
        .await
        .map_err(run_fault)
}

/// Why a data folder cannot be used, with what to do.
pub(crate) fn told(fault: InstallationFault) -> Fault {
    let help = match &fault {
        InstallationFault::NotThere { .. } => {
            "run `mesh apply` or `mesh up`, or name another folder with --data"
        }
        InstallationFault::Folder { .. } => "look at the folder's owner and rights",
        InstallationFault::NoRandom => "this machine cannot make passwords now",
        InstallationFault::Bus { .. } | InstallationFault::Vault { .. } => {
            "`docs/operating.md` tells how to recover; nothing was changed"
        }
    };
    Fault::failed(fault.to_string(), help)
}

/// Why a run broke off, with what to do.
pub(crate) fn run_fault(fault: RunFault) -> Fault {
    match fault {
        RunFault::Installation(fault) => told(fault),
        fault => Fault::failed(
            fault.to_string(),
            "nothing was half done; the next run looks first",
        ),
    }
}

/// A store that failed under a command.
pub(crate) fn store_fault(fault: impl std::fmt::Display) -> Fault {
    Fault::failed(
        fault.to_string(),
        "look at the data folder's disk and rights",
    )
}

/// Whether a daemon runs on the data folder now.
pub(crate) fn is_running(cx: &Context<'_>) -> bool {
    installation::running(&cx.settings.data) == Some(Runner::Daemon)
}
