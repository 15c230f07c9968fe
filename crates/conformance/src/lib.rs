//! The suites that every adapter and every bus must pass.
pub mod bus;
pub mod report;
