//! `mesh up`: all loops until SIGTERM; each finishes its step, then stops. On a bus that several hosts share
//! it has those of the providers whose leases it holds.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use mesh_sdk::bus::Bus;
use mesh_sdk::harness::Observer;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Context;
use super::online::{Online, run_fault, tell_unreadable, told};
use super::ready;
use crate::api::{self, Served};
use crate::cli::UpArgs;
use crate::desk;
use crate::errors::Fault;
use crate::manifest::{BusChoice, Kinds, Manifest, PageAsked};
use crate::notify::Notify;
use crate::watch::{Change, Pace, Watch};
use crate::web;
use crate::wiring::alive::{self, Alive};
use crate::wiring::daemon::{Daemon, Outside};
use crate::wiring::health::HealthKeeper;
use crate::wiring::installation::{
    Holder, Installation, InstallationFault, Runner, Turn, take_turn,
};
use crate::wiring::oneshot::{RunFault, read_lock};
use crate::wiring::sharing::{News, Sharing};
use crate::wiring::watchdog::local::Local;
use crate::wiring::watchdog::signs::Pulses;
use crate::wiring::watchdog::{self, Watched};

/// How long a `mesh apply` that runs here is waited for.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Changes that wait while the daemon is busy with one.
const WAITING: usize = 8;
/// On a bus that was replaced nobody is new (H-22). After so long every loop has made its passes, and it is
/// opened as the bus that this folder knows.
const AS_REPLACED: Duration = Duration::from_secs(600);
/// A bus beyond this machine that cannot be used is tried again after so long.
const AGAIN: Duration = Duration::from_secs(5);

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
    let outcome = online.run(serve(cx, &online, Arc::new(manifest), args));
    drop(turn);
    outcome.map(|()| 0)
}

/// The right to run loops here. A `mesh apply` that runs now ends soon; a daemon does not.
async fn my_turn(online: &Online, folder: &Path) -> Result<std::fs::File, Fault> {
    let began = online.clock.now();
    loop {
        let turn = take_turn(folder, Runner::Daemon).await;
        match turn.map_err(told)? {
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

/// What a process knows whatever becomes of its bus.
struct Kept {
    local: Arc<Local>,
    health: Option<Arc<HealthKeeper>>,
}

async fn serve(
    cx: &Context<'_>,
    online: &Online,
    mut manifest: Arc<Manifest>,
    args: &UpArgs,
) -> Result<(), Fault> {
    let opened = online.open_for(&cx.settings.data, &manifest).await;
    let mut installation = opened.map_err(told)?;
    let metrics = Arc::new(api::Metrics::default());
    let shown: Arc<RwLock<Arc<dyn Bus>>> = Arc::new(RwLock::new(Arc::clone(&installation.bus)));
    let kept = Kept {
        local: Arc::default(),
        health: installation
            .is_shared()
            .then(|| Arc::new(HealthKeeper::new(&installation.folder))),
    };
    let passes = Arc::new(web::Passes::default());
    let served = match args.listen {
        Some(address) => {
            let served = Served {
                bus: Arc::clone(&shown),
                mesh: manifest.mesh.to_string(),
                clock: online.clock,
                metrics: Arc::clone(&metrics),
                local: Arc::clone(&kept.local),
            };
            let of = (installation.folder.as_path(), &manifest.page);
            Some(listen((cx, online), address, of, (served, Arc::clone(&passes))).await?)
        }
        None => None,
    };
    let mut observers: Vec<Arc<dyn Observer>> = vec![metrics];
    if served.is_some() {
        observers.push(passes);
    }
    let notify = Notify::to(cx.settings.notify.as_deref());
    let outcome = loop {
        let shared = installation.is_shared();
        let named = (manifest.mesh.as_str(), cx.settings.host.as_str());
        let desk = desk::serve(&installation, named, online.clock, &online.scrubber).await;
        let ears = (&observers[..], &notify, &kept);
        let outcome = turn(cx, online, installation, &manifest, (ears, args.hand_back)).await;
        desk.close().await;
        match outcome {
            outcome if !shared => break outcome.map_err(run_fault),
            _ if online.stop.is_cancelled() => break Ok(()),
            Ok(()) => {}
            Err(fault) => warn!("the loops stopped: {fault}"),
        }
        // The manifest may have changed meanwhile; one that cannot be read now changes nothing.
        if let Ok(new) = cx.manifest()
            && new.bus == manifest.bus
        {
            manifest = Arc::new(new);
        }
        kept.local.opened_anew();
        let Some(again) = open_again(cx, online, &manifest, (&notify, &kept)).await else {
            break Ok(());
        };
        installation = again;
        match shown.write() {
            Ok(mut shown) => *shown = Arc::clone(&installation.bus),
            Err(poisoned) => *poisoned.into_inner() = Arc::clone(&installation.bus),
        }
    };
    notify.stopping();
    online.stop.cancel();
    if let Some(served) = served {
        drop(served.await);
    }
    info!("stopped");
    outcome
}

/// Serves the page and what stands beside it.
async fn listen(
    (cx, online): (&Context<'_>, &Online),
    address: SocketAddr,
    (folder, asked): (&Path, &PageAsked),
    (served, passes): (Served, Arc<web::Passes>),
) -> Result<JoinHandle<()>, Fault> {
    let door = web::door(address, folder, asked, cx.secrets)?;
    online.scrubber.add(door.token.clone());
    let stop = online.stop.clone();
    let page = web::Page::new(
        Arc::clone(&served.bus),
        (served.mesh.clone(), served.clock, cx.kinds.clone()),
        (passes, Arc::clone(&served.local)),
        door,
        (web::READERS, stop.clone()),
    );
    let app = web::router(Arc::clone(&page), api::router(served));
    web::listen(address, (page, app), web::Limits::default(), stop).await
}

/// Opens the bus anew, however long that takes. `None`: it is time to stop.
async fn open_again(
    cx: &Context<'_>,
    online: &Online,
    manifest: &Manifest,
    (notify, kept): (&Notify, &Kept),
) -> Option<Installation> {
    notify.status("waits for the bus");
    loop {
        notify.alive();
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = online.stop.cancelled() => return None,
        }
        match online.open_for(&cx.settings.data, manifest).await {
            Ok(installation) => return Some(installation),
            Err(fault) => {
                warn!("the bus cannot be used, and nothing is done without it: {fault}");
                let now = online.clock.now();
                kept.local.not_opened(now, &fault);
                if let Some(health) = &kept.health {
                    health.bus_stands(now, &kept.local.standing());
                    health.tried(now);
                }
            }
        }
    }
}

/// Who hears of passes, the service manager, and what is known whatever becomes of the bus.
type Ears<'e> = (&'e [Arc<dyn Observer>], &'e Notify, &'e Kept);

/// One turn of this host: until it is told to stop, or can do nothing more on this bus.
async fn turn(
    cx: &Context<'_>,
    online: &Online,
    installation: Installation,
    manifest: &Arc<Manifest>,
    ((heard, notify, kept), hand_back): (Ears<'_>, Duration),
) -> Result<(), RunFault> {
    let installation = Arc::new(installation);
    let stop = online.stop.child_token();
    let watched = Watched {
        bus: Arc::clone(&installation.bus),
        servers: installation.servers(),
        clock: online.clock,
        pulses: Arc::new(Pulses::default()),
        local: Arc::clone(&kept.local),
        alive: Arc::new(Alive::default()),
        health: kept.health.clone(),
    };
    let mut observers = installation.observers();
    observers.extend(heard.iter().cloned());
    let mut tasks = tokio::task::JoinSet::new();
    let mut among = None;
    if installation.is_shared() {
        let me = online.holder(cx, Runner::Daemon);
        let me: Holder = me.map_err(|_| InstallationFault::NoRandom)?;
        among = Some(Sharing::start(Arc::clone(&installation.bus), me, hand_back));
        tasks.spawn(ready::keep_copies(Arc::clone(&installation)));
        tasks.spawn(known_again(Arc::clone(&installation), stop.clone()));
    }
    let kept_here = Arc::clone(&installation);
    let is_shared = installation.is_shared();
    let outcome = act(
        (cx.kinds.clone(), cx.settings.host.clone()),
        online,
        installation,
        Arc::clone(manifest),
        (observers, notify.clone(), stop),
        (watched, among),
    );
    let outcome = match is_shared {
        false => outcome.await,
        true => tokio::select! {
            outcome = outcome => outcome,
            never = super::status::keep(cx, kept_here, (manifest.mesh.as_str(), online.clock)) => match never {},
        },
    };
    tasks.abort_all();
    outcome
}

/// Ends the turn on a bus that was replaced after a while, so that it is opened as the one that this folder
/// knows.
async fn known_again(installation: Arc<Installation>, stop: CancellationToken) {
    if installation.replaced.is_none() {
        return;
    }
    tokio::time::sleep(AS_REPLACED).await;
    if let Err(fault) = installation.replacement_told().await {
        warn!("the data folder does not take up the bus that was replaced: {fault}");
    }
    info!("the bus that was replaced is opened anew: from now on somebody may be new");
    stop.cancel();
}

/// Runs the loops.
async fn act(
    (kinds, host): (Kinds, String),
    online: &Online,
    installation: Arc<Installation>,
    manifest: Arc<Manifest>,
    (mut observers, notify, stop): (Vec<Arc<dyn Observer>>, Notify, CancellationToken),
    (watched, among): (Watched, Option<(Sharing, mpsc::UnboundedReceiver<News>)>),
) -> Result<(), RunFault> {
    // Before anything is read from the files that it names, so that no change of theirs is missed.
    let watch = Watch::start_with(Arc::clone(&manifest), kinds, Pace::default());
    let bus = manifest.bus.clone();
    let (clock, scrubber) = (online.clock, Arc::clone(&online.scrubber));
    observers.push(Arc::clone(&watched.pulses) as Arc<dyn Observer>);
    if let Some(health) = &watched.health {
        observers.push(Arc::clone(health) as Arc<dyn Observer>);
    }
    let (sharing, news) = among.unzip();
    let ears = (Arc::clone(&scrubber), observers);
    let here = (sharing, host);
    let daemon = Daemon::start(installation, manifest, clock, ears, here, stop.clone());
    let daemon = daemon.await?;
    info!("up");
    notify.ready();
    notify.status("runs");
    let stopping = notify.clone();
    let manifest = daemon.manifest();
    let to = move || read_lock(&manifest).alive.clone();
    let telling = alive::tell(
        Arc::clone(&watched.alive),
        to,
        (clock, scrubber),
        stop.clone(),
    );
    let telling = tokio::spawn(telling);
    let watching = watchdog::watch(watched, move || notify.alive(), stop.clone());
    let watching = tokio::spawn(watching);
    let (door, outside) = mpsc::channel(WAITING);
    let (hup, again) = (watch.trigger(), watch.trigger());
    let following = tokio::spawn(follow(watch, bus, door, stop.clone()));
    let hanging_up = listen_for_hup(hup);
    let outcome = daemon
        .run(outside, Box::new(move || again.fire()), news)
        .await;
    stopping.status("stops its loops");
    hanging_up.abort();
    stop.cancel();
    drop(following.await);
    drop(watching.await);
    drop(telling.await);
    outcome
}

fn listen_for_hup(hup: crate::watch::Trigger) -> JoinHandle<()> {
    tokio::spawn(async move {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut signal) = signal(SignalKind::hangup()) else {
            return;
        };
        while signal.recv().await.is_some() {
            info!("asked to read the manifest again");
            hup.fire();
        }
    })
}

/// Hands on every change of the manifest that the daemon started with. One that names another bus is not
/// taken up: what is asked for stays as it is until a person has moved the installation.
async fn follow(
    mut watch: Watch,
    bus: BusChoice,
    door: mpsc::Sender<Outside>,
    stop: CancellationToken,
) {
    loop {
        let change = tokio::select! {
            change = watch.next() => change,
            () = stop.cancelled() => return,
        };
        let message = match change {
            Change::Reloaded { manifest, .. } if manifest.bus != bus => {
                Outside::Unreadable(
                    "it names another bus, or another way to it, than `mesh up` was started with: start it again"
                        .to_owned(),
                )
            }
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

#[cfg(test)]
mod tests {
    //! When a bus that was replaced is taken for the one that this folder knows.
    use mesh_sdk::MeshId;
    use mesh_sdk::clock::Clock;
    use tokio::time::Instant;

    use super::*;

    async fn opened(folder: &Path) -> Arc<Installation> {
        let mesh = MeshId::new("home").expect("id");
        let opening = Installation::open(folder, &mesh, None, Clock::system(), Arc::default());
        Arc::new(opening.await.expect("open"))
    }

    #[tokio::test]
    async fn b6_h22_a_bus_that_was_replaced_is_known_after_ten_minutes_and_not_before() {
        let folder = tempfile::tempdir().expect("folder");
        drop(opened(folder.path()).await);
        for entry in std::fs::read_dir(folder.path()).expect("read") {
            let path = entry.expect("entry").path();
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            if name.is_some_and(|name| name.starts_with("mesh.db")) {
                std::fs::remove_file(path).expect("removed");
            }
        }
        let wiped = opened(folder.path()).await;
        assert!(wiped.replaced.is_some(), "nobody is new on it");
        let stop = CancellationToken::new();
        tokio::time::pause();
        let began = Instant::now();
        known_again(Arc::clone(&wiped), stop.clone()).await;
        assert!(stop.is_cancelled(), "it is opened anew");
        assert_eq!(began.elapsed().as_secs(), AS_REPLACED.as_secs());
        tokio::time::resume();
        drop(wiped);
        let known = opened(folder.path()).await;
        assert_eq!(known.replaced, None, "from now on somebody may be new");
        let stop = CancellationToken::new();
        known_again(known, stop.clone()).await;
        assert!(!stop.is_cancelled(), "and that ends no turn");
    }
}
