//! What a host among several keeps ready: the passwords that the others make, so that it can go on with any
//! provider at once.

use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::bus::{Bucket, Key};
use tracing::{info, warn};

use crate::wiring::installation::Installation;

/// Many passwords that are made at once are copied at once.
const GATHER: Duration = Duration::from_secs(2);
/// A bus that does not serve is asked again after so long.
const AGAIN: Duration = Duration::from_secs(5);

/// Keeps copies of the passwords that other hosts make, for ever.
pub(super) async fn keep_copies(installation: Arc<Installation>) {
    let everything = Key::everything();
    let mut bell = loop {
        match installation.bus.watch(Bucket::Version, &everything).await {
            Ok(bell) => break bell,
            Err(fault) => warn!("passwords of other hosts are not copied: {fault}"),
        }
        tokio::time::sleep(AGAIN).await;
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
