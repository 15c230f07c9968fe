//! The other owners on the loop's skeleton.
//!
//! [`delivery`] brings each consumer its credentials and sees that they stay where they were brought; [`host`] keeps
//! the containers and systemd units that use them; [`rotation`] gives a consumer another password without a moment
//! in which it has none that works. What they have in common: [`brake`], how repairs that do not last are met; `owner`,
//! what each puts on the bus as a pass ends; `store`, what is remembered of each thing.

pub mod brake;
pub mod delivery;
pub mod host;
mod owner;
pub mod rotation;
mod store;
