//! The suites that every adapter and every bus must pass, and the real servers that they run on.
//!
//! [`servers`] starts real servers as child processes. [`adapter`] is the adapter suite: hand it a kind
//! and a [`adapter::Bench`], and it reports which rules were kept. It knows the contract and no adapter.
//! [`bus`] is the same for stores. [`report`] is what both answer.

pub mod adapter;
pub mod bus;
pub mod report;
pub mod servers;
