//! The other owners on the loop's skeleton.
//!
//! [`delivery`] brings each consumer its credentials and sees that they stay where they were brought.

pub mod delivery;
