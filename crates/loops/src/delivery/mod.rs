//! Delivery: brings each consumer its credentials, sees that they stay where they were brought, and knows who
//! has not got which version yet.
//!
//! [`template`] and [`format`](mod@format) make of values what is written; [`place`] knows where it lies; [`decide`] is
//! the pure core; [`record`] is what is remembered.

pub mod decide;
mod facts;
pub mod format;
pub mod hook;
mod keeper;
pub mod order;
pub mod place;
pub mod record;
mod store;
pub mod template;

pub use facts::DUE;
pub use keeper::{Delivery, Is, Looked, Parts, Source, Told};
pub use store::read_all;
pub(crate) use store::{append, beat};
