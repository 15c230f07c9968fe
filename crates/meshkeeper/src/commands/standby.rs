//! Standing by: a host waits until no other acts on the bus that they share, and keeps itself ready.

use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::bus::{Bucket, Fault, Key};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::notify::Notify;
use crate::wiring::installation::{Claim, Claiming, Holder, Installation};
use crate::wiring::watchdog::{self, Watched};

/// Many passwords that are made at once are copied at once.
const GATHER: Duration = Duration::from_secs(2);

/// How standing by ended.
pub(super) enum Stand {
    /// Nobody else can use this bus.
    Alone(Installation),
    /// It is this host's turn.
    Mine(Installation, Arc<Claim>),
    /// It was told to stop.
    Stopped,
}

/// Waits for this host's turn. Errors: the bus cannot be used.
pub(super) async fn stand_by(
    installation: Installation,
    me: Holder,
    notify: &Notify,
    (watched, stop): (&Watched, &CancellationToken),
) -> Result<Stand, Fault> {
    if !installation.is_shared() {
        return Ok(Stand::Alone(installation));
    }
    notify.ready();
    notify.status("stands by");
    let answer = tokio::select! {
        answer = my_turn(&installation, me) => answer?,
        fault = keep_ready(&installation) => return Err(fault),
        () = watches(watched, notify, stop) => return Ok(Stand::Stopped),
        () = stop.cancelled() => return Ok(Stand::Stopped),
    };
    let claim = Arc::new(answer);
    info!(
        fence = claim.fence(),
        "this host has the claim on the installation"
    );
    Ok(Stand::Mine(installation.under(&claim), claim))
}

/// Judges what the other hosts do, and says with each look that this process goes on.
async fn watches(watched: &Watched, notify: &Notify, stop: &CancellationToken) {
    notify.alive();
    watchdog::watch(watched.clone(), || notify.alive(), stop.clone()).await;
}

async fn my_turn(installation: &Installation, me: Holder) -> Result<Claim, Fault> {
    let mut told: Option<Holder> = None;
    loop {
        match installation.claim(me.clone()).await? {
            Some(Claiming::Mine(claim)) => return Ok(claim),
            Some(Claiming::Other(other)) => {
                if told.as_ref() != Some(&other) {
                    info!(
                        host = other.host,
                        "standing by: `mesh {}` there has the loops", other.runner
                    );
                    told = Some(other);
                }
            }
            None => return Err(Fault::Corrupt("nobody shares this bus".to_owned())),
        }
    }
}

/// Keeps copies of the passwords that other hosts make, for as long as that works.
async fn keep_ready(installation: &Installation) -> Fault {
    let everything = Key::everything();
    let mut bell = match installation.bus.watch(Bucket::Version, &everything).await {
        Ok(bell) => bell,
        Err(fault) => return fault,
    };
    loop {
        match installation.secrets.take_copies().await {
            Ok(0) => {}
            Ok(count) => info!(count, "sealed copies of passwords were kept here"),
            Err(fault) => warn!("passwords could not be copied: {fault}"),
        }
        bell.next().await;
        tokio::time::sleep(GATHER).await;
    }
}
