//! Every history of the lease, and of minting and recording without any lease, in a model checker: the
//! steps are those of our own rules, and what may fail between them is the model's.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "it says how much it looked at, and how long that took"
)]

mod lease;
mod leases;
mod minting;
mod settle;
mod steps;

use std::time::Instant;

use stateright::{Checker, Model};

/// How much was looked at.
fn told<M: Model>(what: &str, checked: &impl Checker<M>, began: Instant)
where
    M::State: std::hash::Hash,
{
    println!(
        "{what}: {} different states of {}, {} deep, in {:.1?}",
        checked.unique_state_count(),
        checked.state_count(),
        checked.max_depth(),
        began.elapsed()
    );
}

/// So many more faults are looked for in one history.
fn more_faults() -> u8 {
    let asked = std::env::var("MESH_MODEL_FAULTS").ok();
    asked.and_then(|asked| asked.parse().ok()).unwrap_or(0)
}
