//! Rotation: gives a consumer another password without a moment in which it has none that works.
//!
//! [`journal`] is how far one is; [`decide`] is the pure core; [`store`] keeps journals on the bus and mirrors them in
//! the data folder; [`keeper`] is the loop.

pub mod decide;
mod facts;
pub mod journal;
pub mod keeper;
pub mod store;

pub use facts::DUE;
