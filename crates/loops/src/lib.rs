//! The other owners on the loop's skeleton.
//!
//! [`delivery`] brings each consumer its credentials and sees that they stay where they were brought; [`host`] keeps
//! the containers and systemd units that use them.

pub mod delivery;
pub mod host;
mod store;
