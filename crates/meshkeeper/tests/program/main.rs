//! The built program against real servers: whole commands, the daemon, crashes, full disks, leaks.
//!
//! Every test has its own folder and its own servers, and waits for a state, never for a time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    missing_docs
)]

mod backends;
mod braking;
mod crashing;
mod encrypting;
mod handing;
mod healing;
mod hostile;
mod lab;
mod leaking;
mod nodes;
mod owning;
mod planning;
mod redis;
mod removing;
mod restarting;
mod serving;
mod speaking;
mod storing;
mod together;
mod wait;
mod wishing;
