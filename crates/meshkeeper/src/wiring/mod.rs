//! The only place where adapters, stores and loops meet.
//!
//! [`installation`] opens a data folder; [`wish`] turns a manifest into what the loops ask for;
//! [`secrets`] knows whose password is which; [`fleet`] has a loop for each server, which is a [`seat`];
//! [`delivery`] brings
//! credentials to the places on this host, [`host`] keeps what runs with them; [`words`] hands on what people say, [`tasks`] what agents do; [`shapes`] is what lies on the bus.

pub mod alive;
mod asked;
mod canary;
pub mod claimed;
pub mod copies;
pub mod daemon;
pub mod delivery;
pub mod fleet;
pub mod health;
pub mod hints;
pub mod host;
pub mod installation;
pub mod inventory;
mod kept;
pub mod keyname;
mod leased;
pub mod link;
mod member;
pub mod members;
pub mod memory;
pub mod minting;
pub mod moving;
pub mod nothing;
pub mod oneshot;
pub mod owner;
pub mod publish;
mod reading;
pub mod rotation;
pub mod running;
pub mod seat;
pub mod secrets;
pub mod services;
pub mod shapes;
pub mod sharing;
mod tally;
pub mod tasks;
pub mod turn;
pub mod watchdog;
pub mod wish;
pub mod words;

use mesh_sdk::{ConsumerName, ProviderName};

use crate::manifest::{Kinds, Manifest, Needed};

/// Every kind that this program was built with.
pub fn kinds() -> Kinds {
    Kinds::new(mesh_catalog::catalogue())
}

/// One provision of a manifest, whose provisions are in order of consumer and provider.
pub fn needed<'m>(
    manifest: &'m Manifest,
    provider: &ProviderName,
    consumer: &ConsumerName,
) -> Option<&'m Needed> {
    let found = manifest
        .provisions
        .binary_search_by(|one| (&one.consumer, &one.provider).cmp(&(consumer, provider)));
    found.ok().map(|i| &manifest.provisions[i])
}
