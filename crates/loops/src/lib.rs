//! The other owners on the loop's skeleton.
//!
//! [`delivery`] brings each consumer its credentials and sees that they stay where they were brought; [`rotation`]
//! gives a consumer another password without a moment in which it has none that works.

pub mod delivery;
pub mod rotation;
