//! The views, one file each. Each is written from what the status tells; none decides anything.

pub(super) mod conditions;
pub(super) mod consumer;
mod grid;
pub(super) mod loops;
pub(super) mod overview;
pub(super) mod provider;
