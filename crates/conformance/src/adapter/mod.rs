//! The adapter suite: every rule that a real server can show, as a trial with the rule's number.
//!
//! [`run`] takes a kind and a [`Bench`]: a real server with a way to break things behind the adapter's
//! back. It never stops at the first failure. A trial whose ability the adapter does not declare, or that
//! the backend has nothing for, is in the report as skipped, with the reason.

mod bench;
mod ground;
mod trials;

use mesh_sdk::handle::AnyKind;

pub use bench::{Bench, Done, Restart, Session};

use crate::report::{Outcome, Report};
use ground::Ground;

/// Runs every trial, one after the other.
pub async fn run(kind: &dyn AnyKind, bench: &dyn Bench) -> Report {
    let mut report = Report::expecting(trials::ALL.len());
    report.title = format!("{} on {}", kind.descriptor().kind, bench.name());
    let ground = match Ground::new(kind, bench) {
        Ok(ground) => ground,
        Err(error) => {
            report.note("open", Outcome::Failed(error.to_string()));
            return report;
        }
    };
    for trial in trials::ALL {
        let outcome = (trial.run)(&ground).await;
        // Whatever a trial did to the network is over with it.
        bench.fault(crate::basics::Fault::None);
        report.note(trial.name, outcome.into());
    }
    report
}

/// The names of all trials.
pub fn trials() -> impl Iterator<Item = &'static str> {
    trials::ALL.iter().map(|trial| trial.name)
}
