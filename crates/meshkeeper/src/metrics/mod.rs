//! What is measured: each metric with its name, its kind, its labels and its help, told once here.
//!
//! Labels are names of providers and closed lists of words, never names of consumers: how many series there
//! are follows from the number of providers in the manifest. Counters and the provisions' gauges are of the
//! loops that this process has; conditions and deliveries are read from the bus when they are asked for
//! ([`mesh`]), and are of the whole mesh.

mod mesh;
mod text;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use mesh_sdk::decide::State;
use mesh_sdk::event::EventKind;
use mesh_sdk::harness::beat::{Pulse, PulseRef};
use mesh_sdk::harness::{Observer, PassReport};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use crate::traces::Tally;

pub use mesh::Mesh;
pub use text::{OPEN_METRICS, Wanted};

/// How a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, and begins at zero with the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts what fell into which range.
    Histogram,
}

impl Kind {
    /// The word for it in the exposition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A metric, as people read of it.
#[derive(Debug, Clone, Copy)]
pub struct Told {
    /// Its whole name.
    pub name: &'static str,
    /// How it counts.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static str,
    /// What it says.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($id:ident $kind:ident $name:literal $labels:literal $help:literal;)*) => {
        $(const $id: Told = Told { name: $name, kind: Kind::$kind, labels: $labels, help: $help };)*
        /// Every metric there is.
        pub const ALL: &[Told] = &[$($id),*];
    };
}

metrics! {
    BUILD Gauge "mesh_build_info" "version" "The program that runs; always 1";
    PASSES Counter "mesh_passes_total" "provider" "Passes that ended";
    DURATION Histogram "mesh_pass_duration_seconds" "provider" "How long passes took";
    LAST Gauge "mesh_last_pass_timestamp_seconds" "provider" "When the last pass ended";
    NEXT Gauge "mesh_next_pass_timestamp_seconds" "provider" "When the next pass is due";
    LOOKS Counter "mesh_looks_total" "provider" "Looks at consumers on their backend";
    UNKNOWN Counter "mesh_looks_unknown_total" "provider" "Looks that could not tell";
    LOSSES Counter "mesh_losses_total" "provider" "Looks that found a consumer not as asked";
    HEALS Counter "mesh_heals_total" "provider" "Consumers that were lost and applied again";
    APPLIES Counter "mesh_applies_total" "provider" "Effects that succeeded, heals among them";
    FAILURES Counter "mesh_apply_failures_total" "provider" "Effects that failed";
    PROVISIONS Gauge "mesh_provisions" "provider, state" "Consumers by how they stand";
    CONDITIONS Gauge "mesh_conditions" "type, severity" "Conditions that stand in the mesh and that nobody silenced";
    LOOPS Gauge "mesh_loops" "state" "Loops of the mesh by how they run";
    DELIVERIES Gauge "mesh_deliveries" "state" "Places that credentials are brought to, by how they stand";
    READABLE Gauge "mesh_bus_readable" "" "Whether the bus could be read for this answer; while not, what is read from it is left out";
    SPANS Counter "mesh_trace_spans_total" "outcome" "Spans that were sent to the collector, or dropped";
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByLoop {
    provider: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByState {
    provider: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    outcome: &'static str,
}

type Seconds = Gauge<f64, AtomicU64>;

/// From a pass over a few consumers on this machine to one over a hundred thousand far away.
const BOUNDS: [f64; 13] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0,
];

#[derive(Debug, Clone, Copy, Default)]
struct Ranges;

impl MetricConstructor<Histogram> for Ranges {
    fn new_metric(&self) -> Histogram {
        Histogram::new(BOUNDS)
    }
}

/// Every state that a provision may have.
const STATES: [State; 7] = [
    State::Held,
    State::Disabled,
    State::Pending,
    State::Lost,
    State::Unknown,
    State::Braked,
    State::Refused,
];

/// Counts what passes come to.
pub struct Metrics {
    registry: Registry,
    loops: Mutex<BTreeMap<String, PulseRef>>,
    passes: Family<ByLoop, Counter>,
    looks: Family<ByLoop, Counter>,
    unknown: Family<ByLoop, Counter>,
    losses: Family<ByLoop, Counter>,
    heals: Family<ByLoop, Counter>,
    applies: Family<ByLoop, Counter>,
    failures: Family<ByLoop, Counter>,
    duration: Family<ByLoop, Histogram, Ranges>,
    last: Family<ByLoop, Seconds>,
    next: Family<ByLoop, Seconds>,
    provisions: Family<ByState, Gauge>,
    mesh: mesh::Gauges,
    spans: Family<ByOutcome, Counter>,
    tally: Tally,
}

/// Puts a metric of this description on the list.
fn list<M: Metric + Default + Clone>(registry: &mut Registry, told: Told) -> M {
    put(registry, told, M::default())
}

fn put<M: Metric + Clone>(registry: &mut Registry, told: Told, metric: M) -> M {
    // The encoder writes a counter's ending itself.
    let name = match told.kind {
        Kind::Counter => told.name.strip_suffix("_total").unwrap_or(told.name),
        _ => told.name,
    };
    registry.register(name, told.help, metric.clone());
    metric
}

impl Metrics {
    /// With nothing counted yet. `tally`: what became of the spans.
    pub fn new(tally: Tally) -> Self {
        let mut registry = Registry::default();
        let to = &mut registry;
        let build: Family<Build, Gauge> = list(to, BUILD);
        let version = env!("CARGO_PKG_VERSION");
        build.get_or_create(&Build { version }).set(1);
        Self {
            passes: list(to, PASSES),
            duration: put(to, DURATION, Family::new_with_constructor(Ranges)),
            last: list(to, LAST),
            next: list(to, NEXT),
            looks: list(to, LOOKS),
            unknown: list(to, UNKNOWN),
            losses: list(to, LOSSES),
            heals: list(to, HEALS),
            applies: list(to, APPLIES),
            failures: list(to, FAILURES),
            provisions: list(to, PROVISIONS),
            mesh: mesh::Gauges::on(to),
            spans: list(to, SPANS),
            tally,
            loops: Mutex::default(),
            registry,
        }
    }

    /// Everything as text. `mesh`: what was read from the bus for it; nothing where that failed.
    pub fn text(&self, mesh: Option<&Mesh>, wanted: Wanted) -> Result<String, std::fmt::Error> {
        self.forget_ended_loops();
        self.mesh.set(mesh);
        for (outcome, count) in self.tally.counts() {
            let counter = self.spans.get_or_create_owned(&ByOutcome { outcome });
            counter.inc_by(count.saturating_sub(counter.get()));
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(match wanted {
            Wanted::OpenMetrics => text,
            Wanted::Plain => text::plain(&text),
        })
    }

    /// What a loop left behind that this process has no more would be taken for the truth: its provider left
    /// the manifest, or another host has it now.
    fn forget_ended_loops(&self) {
        let mut loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        loops.retain(|provider, pulse| {
            let lives = pulse.last().is_some();
            if !lives {
                self.forget(provider);
            }
            lives
        });
    }

    fn forget(&self, provider: &str) {
        let provider = provider.to_owned();
        for state in STATES.map(State::as_str) {
            let provider = provider.clone();
            self.provisions.remove(&ByState { provider, state });
        }
        let by = ByLoop { provider };
        for family in [
            &self.passes,
            &self.looks,
            &self.unknown,
            &self.losses,
            &self.heals,
            &self.applies,
            &self.failures,
        ] {
            family.remove(&by);
        }
        self.duration.remove(&by);
        self.last.remove(&by);
        self.next.remove(&by);
    }
}

impl Observer for Metrics {
    fn opened(&self, name: &str, pulse: &Pulse) {
        let Some(provider) = name.strip_prefix("provisioner/") else {
            return;
        };
        let mut loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        loops.insert(provider.to_owned(), pulse.watched());
    }

    fn happened(&self, label: &str, kinds: &[(EventKind, usize)]) {
        let healed = kinds.iter().filter(|(kind, _)| *kind == EventKind::Healed);
        let healed: usize = healed.map(|(_, n)| n).sum();
        let provider = label.to_owned();
        let counter = self.heals.get_or_create_owned(&ByLoop { provider });
        counter.inc_by(healed as u64);
    }

    fn passed(&self, report: &PassReport) {
        let by = ByLoop {
            provider: report.label.clone(),
        };
        let sum = &report.summary;
        let add = |family: &Family<ByLoop, Counter>, n: usize| {
            family.get_or_create(&by).inc_by(n as u64);
        };
        add(&self.passes, 1);
        add(&self.looks, sum.asked);
        add(&self.unknown, sum.unknown);
        add(&self.losses, sum.lost);
        add(&self.heals, 0);
        add(&self.applies, sum.applied);
        add(&self.failures, sum.failed);
        let took = report.took.as_secs_f64();
        self.duration.get_or_create(&by).observe(took);
        let seconds = |time: mesh_sdk::Time| time.as_millis() as f64 / 1000.0;
        self.last.get_or_create(&by).set(seconds(report.at));
        self.next.get_or_create(&by).set(seconds(report.next_at));
        for state in STATES {
            let found = report.states.iter().find(|(s, _)| *s == state);
            let count = found.map_or(0, |(_, n)| *n);
            let by = ByState {
                provider: report.label.clone(),
                state: state.as_str(),
            };
            self.provisions.get_or_create(&by).set(count as i64);
        }
    }
}

#[cfg(test)]
mod tests;
