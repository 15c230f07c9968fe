//! The adapter suite: every rule that a real server can show, as a trial with the rule's number.
//!
//! [`run`] takes a kind and a [`Bench`]: a real server with a way to break things behind the adapter's
//! back. It never stops at the first failure. A trial whose ability the adapter does not declare, or that
//! the backend has nothing for, is in the report as skipped, with the reason.

mod bench;
mod ground;
mod report;
mod trials;

use std::time::Duration;

use mesh_sdk::handle::AnyKind;
use tokio::time::Instant;

pub use bench::{Bench, Done, Restart, Session};
pub use report::{Outcome, Report};

use ground::Ground;

/// Runs every trial, one after the other.
pub async fn run(kind: &dyn AnyKind, bench: &dyn Bench) -> Report {
    let mut report = Report::new(format!("{} on {}", kind.descriptor().kind, bench.name()));
    let ground = match Ground::new(kind, bench) {
        Ok(ground) => ground,
        Err(error) => {
            report.add("open", Outcome::Failed(error.to_string()), Duration::ZERO);
            return report;
        }
    };
    for trial in trials::ALL {
        let start = Instant::now();
        let outcome = (trial.run)(&ground).await;
        // Whatever a trial did to the network is over with it.
        bench.fault(crate::servers::Fault::None);
        report.add(trial.name, outcome.into(), start.elapsed());
    }
    report
}

/// The names of all trials.
pub fn trials() -> impl Iterator<Item = &'static str> {
    trials::ALL.iter().map(|trial| trial.name)
}
