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
use crate::manifest::Manifest;
use crate::wiring::installation::{
    self, Claiming, Holder, Installation, InstallationFault, Runner, Turn, take_turn,
};
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
    /// Opens the data folder for reading and writing, with the bus that it uses.
    pub(crate) fn open(&self, folder: &Path, mesh: &MeshId) -> Result<Installation, Fault> {
        let scrubber = Arc::clone(&self.scrubber);
        let opening = Installation::open(folder, mesh, None, self.clock, scrubber);
        self.run(opening).map_err(told)
    }
    /// The same with the bus that a manifest names, which must be the one that the folder uses.
    pub(crate) async fn open_for(
        &self,
        folder: &Path,
        manifest: &Manifest,
    ) -> Result<Installation, InstallationFault> {
        let (bus, scrubber) = (Some(&manifest.bus), Arc::clone(&self.scrubber));
        Installation::open(folder, &manifest.mesh, bus, self.clock, scrubber).await
    }
    /// Opens the data folder for reading only, and says which mesh it is of. The manifest is not needed:
    /// what is there can be seen while that is broken, too.
    pub(crate) fn open_to_read(&self, folder: &Path) -> Result<(Installation, MeshId), Fault> {
        let scrubber = Arc::clone(&self.scrubber);
        self.run(Installation::open_to_read(folder, scrubber))
            .map_err(|fault| unseen(fault, folder))
    }
    /// The same, if anything was ever applied there.
    pub(crate) fn read_if_there(&self, folder: &Path) -> Result<Option<Installation>, Fault> {
        let scrubber = Arc::clone(&self.scrubber);
        match self.run(Installation::open_to_read(folder, scrubber)) {
            Ok((installation, _)) => Ok(Some(installation)),
            Err(InstallationFault::NotThere { .. }) => Ok(None),
            Err(fault) => Err(unseen(fault, folder)),
        }
    }
    /// The data folder for `plan`, if anything was ever applied there.
    pub(crate) fn open_if_there(
        &self,
        folder: &Path,
        manifest: &Manifest,
    ) -> Result<Option<Installation>, Fault> {
        let (bus, scrubber) = (Some(&manifest.bus), Arc::clone(&self.scrubber));
        let opening = Installation::open_read_only(folder, &manifest.mesh, bus, scrubber);
        match self.run(opening) {
            Ok(installation) => Ok(Some(installation)),
            Err(InstallationFault::NotThere { .. }) => Ok(None),
            Err(fault) => Err(unseen(fault, folder)),
        }
    }
    /// What this process calls itself on a bus that several hosts share.
    pub(crate) fn holder(&self, cx: &Context<'_>, runner: Runner) -> Result<Holder, Fault> {
        Ok(Holder {
            host: cx.settings.host.clone(),
            start: installation::new_id().map_err(told)?,
            runner: runner.as_str().to_owned(),
        })
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
    let opened = Installation::open(folder, &mesh, None, clock, scrubber).await;
    let mut installation = opened.map_err(told)?;
    // Where another host has the loops, its manifest counts.
    let me = online.holder(cx, Runner::OneShot)?;
    let claim = match installation.claim(me).await.map_err(store_fault)? {
        None => None,
        Some(Claiming::Other(_)) => return Ok(()),
        Some(Claiming::Mine(claim)) => {
            let claim = Arc::new(claim);
            installation = installation.under(&claim);
            Some(claim)
        }
    };
    let why = match fault {
        Fault::Manifest => "`mesh check` tells its mistakes".to_owned(),
        fault => fault.to_string(),
    };
    let outcome = oneshot::unreadable(&installation, clock, &why).await;
    if let Some(claim) = claim {
        claim.give_back().await;
    }
    outcome.map_err(run_fault)
}

/// Why what is there cannot be shown. Of a bus beyond this machine only whether a daemon runs here is known
/// without it; what this host knew last is shown by `status` alone, which says so.
pub(crate) fn unseen(fault: InstallationFault, folder: &Path) -> Fault {
    if !matches!(
        fault,
        InstallationFault::Nats(_) | InstallationFault::Slow { .. }
    ) {
        return told(fault);
    }
    let here = who_runs(folder);
    let Fault::Failed { message, help } = told(fault) else {
        return Fault::failed("the bus cannot be used", here);
    };
    let help = help.unwrap_or_default();
    Fault::failed(
        message,
        format!("{help}. Nothing can be told without it; {here}"),
    )
}

/// What runs on this host while the bus does not answer.
pub(crate) fn who_runs(folder: &Path) -> &'static str {
    match installation::running(folder) {
        Some(Runner::Daemon) => "`mesh up` runs on this host, and does nothing without the bus",
        Some(Runner::OneShot) => "`mesh apply` runs on this host",
        None => "no `mesh up` runs on this host",
    }
}

/// Why a data folder cannot be used, with what to do.
pub(crate) fn told(fault: InstallationFault) -> Fault {
    let help = match &fault {
        InstallationFault::NotThere { .. } => {
            "run `mesh apply` or `mesh up`, or name another folder with --data"
        }
        InstallationFault::Folder { .. } => "look at the folder's owner and rights",
        InstallationFault::NoRandom => "this machine cannot make passwords now",
        InstallationFault::Nats(mesh_bus::jetstream::OpenFault::NotBootstrapped { .. }) => {
            "if it was there before, `docs/operating.md` tells how to recover; nothing was changed"
        }
        InstallationFault::Nats(_) | InstallationFault::Slow { .. } => {
            "look at the NATS servers and the way to them; nothing was changed"
        }
        InstallationFault::Login(_) => "bring the file or variable back, or change `bus` in [mesh]",
        InstallationFault::NotJoined { .. } => {
            "`mesh bus bootstrap` sets up a new one there; `mesh bus adopt` joins one that is in use"
        }
        InstallationFault::Moved { .. } => {
            "move what it holds with `mesh bus export` and `mesh bus import`, or leave it behind with `mesh bus adopt`"
        }
        InstallationFault::NoKey { .. } | InstallationFault::OtherKey { .. } => {
            "copy installation.key from the data folder of a host that has it"
        }
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

/// Whether a daemon has the loops of what is open: on this data folder or, on a bus that several hosts
/// share, on the host that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Daemon {
    /// Whether there is one.
    pub(crate) runs: bool,
    /// The host.
    pub(crate) host: Option<String>,
}

/// Who has the loops now. A host that died without a word counts until another takes its place; its loops
/// are late by then.
pub(crate) fn daemon_of(
    cx: &Context<'_>,
    online: &Online,
    installation: &Installation,
) -> Result<Daemon, Fault> {
    online.run(daemon_here(cx, installation))
}

/// The same, for who waits already.
pub(crate) async fn daemon_here(
    cx: &Context<'_>,
    installation: &Installation,
) -> Result<Daemon, Fault> {
    if !installation.is_shared() {
        let runs = installation::running(&cx.settings.data) == Some(Runner::Daemon);
        return Ok(Daemon { runs, host: None });
    }
    let holder = installation.holder().await.map_err(store_fault)?;
    let host = holder.filter(|holder| holder.runner == Runner::Daemon.as_str());
    let host = host.map(|holder| holder.host);
    Ok(Daemon {
        runs: host.is_some(),
        host,
    })
}

/// Whether a daemon has the loops now.
pub(crate) fn is_running(
    cx: &Context<'_>,
    online: &Online,
    installation: &Installation,
) -> Result<bool, Fault> {
    Ok(daemon_of(cx, online, installation)?.runs)
}
