//! The built program against real servers: whole commands, the daemon, crashes, full disks, leaks.
//!
//! Every test has its own folder and its own servers, and waits for a state, never for a time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    missing_docs
)]

mod agents;
mod alive;
mod backends;
mod braking;
mod browser;
mod crashing;
mod delivering;
mod encrypting;
mod fencing;
mod following;
mod handing;
mod healing;
mod hostile;
mod hosting;
mod hosts;
mod lab;
mod leaking;
mod leaving;
mod leaving_data;
mod losing;
mod nats;
mod nodes;
mod observing;
mod owning;
mod page;
mod planning;
mod postgres;
mod purging;
mod redis;
mod removing;
mod replacing;
mod restarting;
mod reverse;
mod rotating;
mod rotating_app;
mod rotating_killed;
mod serving;
mod shared;
mod sharing;
mod speaking;
mod storing;
mod taking_over;
mod together;
mod tracing_out;
mod wait;
mod waiting;
mod wishing;
