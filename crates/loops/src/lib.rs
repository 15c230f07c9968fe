//! The other owners on the loop's skeleton.
//!
//! [`delivery`] brings each consumer its credentials and sees that they stay where they were brought; [`host`] keeps
//! the containers and systemd units that use them; [`rotation`] gives a consumer another password without a moment
//! in which it has none that works.

pub mod brake;
pub mod delivery;
pub mod host;
mod owner;
pub mod rotation;
mod store;
