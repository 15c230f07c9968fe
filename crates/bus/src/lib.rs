//! Where Meshkeeper's loops keep shared state: the bus, and the sealed secret store beside it.
//!
//! [`embedded`] is the bus of one machine: one file, no server. [`jetstream`] keeps the same promises on
//! NATS servers. [`claim`] and [`transfer`] are written once, on the contract. [`vault`] keeps the
//! passwords, sealed, in a file of its own, so that whoever reads the bus reads no secret (S-7). [`mint`]
//! makes new passwords.

mod files;
mod sqlite;
mod watch;
mod worker;

pub mod claim;
pub mod embedded;
pub mod jetstream;
pub mod mint;
pub mod transfer;
pub mod vault;

pub use embedded::EmbeddedBus;
pub use jetstream::JetstreamBus;
pub use vault::SealedVault;
