//! Spans of a pass, for who traces: the pass, its three parts, and every call on the backend in them.
//!
//! They cost nothing while nobody listens to [`TARGET`]. What they hold is scrubbed: names, numbers, the class
//! of an error and its words; never a value of a wish.

use std::future::Future;

use tracing::field::Empty;
use tracing::{Instrument, Span, info_span};

use super::{PassReport, Provisioner};
use crate::error::Error;
use crate::name::ConsumerName;

/// The target of every span here, for filters.
pub const TARGET: &str = "mesh_trace";

/// A whole pass over a provider.
pub(super) fn pass(provider: &str) -> Span {
    info_span!(
        target: TARGET, "pass", provider,
        asked = Empty, held = Empty, lost = Empty, unknown = Empty, applied = Empty, failed = Empty,
        error = Empty
    )
}
/// It asks the backend.
pub(super) fn look() -> Span {
    info_span!(target: TARGET, "look")
}
/// It carries out what was decided, and looks again.
pub(super) fn apply() -> Span {
    info_span!(target: TARGET, "apply")
}
/// It writes down what it found.
pub(super) fn store() -> Span {
    info_span!(target: TARGET, "store")
}

/// What a pass came to.
pub(super) fn passed(report: &PassReport) {
    let span = Span::current();
    let sum = &report.summary;
    for (name, count) in [
        ("asked", sum.asked),
        ("held", sum.held),
        ("lost", sum.lost),
        ("unknown", sum.unknown),
        ("applied", sum.applied),
        ("failed", sum.failed),
    ] {
        span.record(name, count);
    }
}

/// What a call came to.
pub(super) trait Told {
    /// Its error.
    fn error(&self) -> Option<&Error>;
}
impl<T> Told for Result<T, Error> {
    fn error(&self) -> Option<&Error> {
        self.as_ref().err()
    }
}
impl<T> Told for Option<Result<T, Error>> {
    fn error(&self) -> Option<&Error> {
        self.as_ref().and_then(Told::error)
    }
}

impl Provisioner {
    /// A call on the backend, by the adapter's word for it, for one consumer or for so many.
    pub(super) async fn traced<T: Told>(
        &self,
        what: &'static str,
        (consumer, count): (Option<&ConsumerName>, usize),
        call: impl Future<Output = T>,
    ) -> T {
        let span = info_span!(
            target: TARGET, "call", call = what, provider = self.label, count,
            consumer = Empty, class = Empty, error = Empty
        );
        if span.is_disabled() {
            return call.await;
        }
        if let Some(consumer) = consumer {
            span.record("consumer", consumer.as_str());
        }
        let outcome = call.instrument(span.clone()).await;
        if let Some(error) = outcome.error() {
            span.record("class", error.class().as_str());
            span.record("error", (self.parts.scrub)(error.message()));
        }
        outcome
    }
}
