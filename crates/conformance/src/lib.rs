//! The suites that every adapter and every bus must pass, and the real servers that they run on.
//!
//! `servers` starts real servers as child processes; it is behind the feature `servers`, for tests only.
//! [`adapter`] is the adapter suite: hand it a kind
//! and a [`adapter::Bench`], and it reports which rules were kept. It knows the contract and no adapter.
//! [`bus`] is the same for stores. [`exec`] is a bench for an adapter that is a program. [`report`] is what both
//! answer.

pub mod adapter;
pub mod basics;
pub mod bus;
pub mod exec;
pub mod report;
#[cfg(feature = "servers")]
pub mod servers;
