//! `mesh up`: all loops until SIGTERM; each finishes its step, then stops.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::harness::Observer;
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::Context;
use super::online::{Online, run_fault, tell_unreadable};
use crate::api::{self, Served};
use crate::cli::UpArgs;
use crate::errors::Fault;
use crate::manifest::{Kinds, Manifest};
use crate::watch::{Change, Pace, Watch};
use crate::wiring::daemon::{Daemon, Outside};
use crate::wiring::installation::{Installation, Runner, Turn, take_turn};

/// How long a `mesh apply` that runs here is waited for.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Changes that wait while the daemon is busy with one.
const WAITING: usize = 8;

/// Runs it.
pub(super) fn run(args: &UpArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let online = Online::start(cx)?;
    let manifest = match cx.manifest() {
        Ok(manifest) => manifest,
        Err(fault) => {
            let told = online.run(tell_unreadable(cx, &online, &fault));
            return told.and(Err(fault));
        }
    };
    let turn = online.run(my_turn(&online, &cx.settings.data))?;
    let installation = Arc::new(online.open(&cx.settings.data, &manifest.mesh)?);
    let outcome = online.run(serve(
        &online,
        installation,
        manifest,
        cx.kinds.clone(),
        args.listen,
    ));
    drop(turn);
    outcome.map(|()| 0)
}

/// The right to run loops here. A `mesh apply` that runs now ends soon; a daemon does not.
async fn my_turn(online: &Online, folder: &Path) -> Result<std::fs::File, Fault> {
    let began = online.clock.now();
    loop {
        let turn = take_turn(folder, Runner::Daemon).await;
        match turn.map_err(super::online::told)? {
            Turn::Mine(turn) => return Ok(turn),
            Turn::Taken(Runner::OneShot)
                if online.clock.now().since(began) < PATIENCE && !online.stop.is_cancelled() =>
            {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Turn::Taken(_) => {
                return Err(Fault::failed(
                    format!(
                        "another `mesh up` or `mesh apply` runs on {}",
                        folder.display()
                    ),
                    "one process has the loops of a data folder; `mesh status` shows how they are",
                ));
            }
        }
    }
}

async fn serve(
    online: &Online,
    installation: Arc<Installation>,
    manifest: Manifest,
    kinds: Kinds,
    listen: Option<SocketAddr>,
) -> Result<(), Fault> {
    let mesh = manifest.mesh.to_string();
    let metrics = Arc::new(api::Metrics::default());
    let served = match listen {
        Some(address) => {
            let served = Served {
                bus: Arc::clone(&installation.bus),
                mesh,
                clock: online.clock,
                metrics: Arc::clone(&metrics),
            };
            Some(api::listen(address, served, online.stop.clone()).await?)
        }
        None => None,
    };
    let observers: Vec<Arc<dyn Observer>> = vec![metrics];
    let (clock, scrubber, stop) = (
        online.clock,
        Arc::clone(&online.scrubber),
        online.stop.clone(),
    );
    let manifest = Arc::new(manifest);
    // Before anything is read from the files that it names, so that no change of theirs is missed.
    let watch = Watch::start_with(Arc::clone(&manifest), kinds, Pace::default());
    let daemon = Daemon::start(
        installation,
        manifest,
        clock,
        scrubber,
        observers,
        stop.clone(),
    );
    let daemon = daemon.await.map_err(run_fault)?;
    info!("up");
    let (door, outside) = mpsc::channel(WAITING);
    let (hup, again) = (watch.trigger(), watch.trigger());
    let following = tokio::spawn(follow(watch, door, stop.clone()));
    let hanging_up = tokio::spawn(async move {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut signal) = signal(SignalKind::hangup()) else {
            return;
        };
        while signal.recv().await.is_some() {
            info!("asked to read the manifest again");
            hup.fire();
        }
    });
    let outcome = daemon
        .run(outside, Box::new(move || again.fire()))
        .await
        .map_err(run_fault);
    hanging_up.abort();
    stop.cancel();
    drop(following.await);
    if let Some(served) = served {
        drop(served.await);
    }
    info!("stopped");
    outcome
}

/// Hands on every change of the manifest that the daemon started with.
async fn follow(
    mut watch: Watch,
    door: mpsc::Sender<Outside>,
    stop: tokio_util::sync::CancellationToken,
) {
    loop {
        let change = tokio::select! {
            change = watch.next() => change,
            () = stop.cancelled() => return,
        };
        let message = match change {
            Change::Reloaded {
                manifest, problems, ..
            } => {
                for line in problems.lines() {
                    warn!("the manifest: {line:?}");
                }
                Outside::Manifest(manifest)
            }
            Change::Unreadable(why) => Outside::Unreadable(why.summary()),
        };
        if door.send(message).await.is_err() {
            return;
        }
    }
}
