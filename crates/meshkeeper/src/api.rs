//! What `mesh up --listen` serves beside the page: health, metrics, and the picture as JSON. Reads only, and
//! never a password (S-6); [`crate::web`] stands before it.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use mesh_sdk::bus::Bus;
use mesh_sdk::clock::Clock;
use mesh_sdk::harness::{Observer, PassReport};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::status;
use crate::wiring::watchdog::local::Local;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByLoop {
    provider: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByState {
    provider: String,
    state: &'static str,
}

type Seconds = Gauge<f64, AtomicU64>;

/// Counts what passes come to. Labels are names of providers and states, never of consumers: their
/// number is bounded by the manifest's providers.
pub struct Metrics {
    registry: Registry,
    passes: Family<ByLoop, Counter>,
    asked: Family<ByLoop, Counter>,
    unknown: Family<ByLoop, Counter>,
    lost: Family<ByLoop, Counter>,
    applied: Family<ByLoop, Counter>,
    failed: Family<ByLoop, Counter>,
    pass_duration: Family<ByLoop, Seconds>,
    last_pass: Family<ByLoop, Seconds>,
    conditions: Family<ByLoop, Gauge>,
    provisions: Family<ByState, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("mesh");
        let mut counter = |name: &str, help: &str| {
            let family = Family::<ByLoop, Counter>::default();
            registry.register(name, help, family.clone());
            family
        };
        let passes = counter("passes", "Passes that ended");
        let asked = counter("asked", "Consumers that were asked for");
        let unknown = counter("unknown", "Consumers that could not be told");
        let lost = counter("lost", "Consumers that were found not as asked");
        let applied = counter("applied", "Consumers that were applied");
        let failed = counter("failed", "Effects that failed");
        let (pass_duration, last_pass) = (Family::default(), Family::default());
        let (conditions, provisions) = (Family::default(), Family::default());
        let took = pass_duration.clone();
        registry.register_with_unit(
            "pass_duration",
            "How long the last pass took",
            Unit::Seconds,
            took,
        );
        let at = last_pass.clone();
        registry.register_with_unit(
            "last_pass_timestamp",
            "When the last pass ended",
            Unit::Seconds,
            at,
        );
        registry.register("conditions", "Conditions that stand", conditions.clone());
        registry.register("provisions", "Consumers by state", provisions.clone());
        Self {
            registry,
            passes,
            asked,
            unknown,
            lost,
            applied,
            failed,
            pass_duration,
            last_pass,
            conditions,
            provisions,
        }
    }
}

impl Observer for Metrics {
    fn passed(&self, report: &PassReport) {
        use mesh_sdk::decide::State as S;
        let by = ByLoop {
            provider: report.label.clone(),
        };
        let sum = &report.summary;
        let add = |family: &Family<ByLoop, Counter>, n: usize| {
            family.get_or_create(&by).inc_by(n as u64);
        };
        add(&self.passes, 1);
        add(&self.asked, sum.asked);
        add(&self.unknown, sum.unknown);
        add(&self.lost, sum.lost);
        add(&self.applied, sum.applied);
        add(&self.failed, sum.failed);
        self.pass_duration
            .get_or_create(&by)
            .set(report.took.as_secs_f64());
        self.last_pass
            .get_or_create(&by)
            .set(report.at.as_millis() as f64 / 1000.0);
        self.conditions
            .get_or_create(&by)
            .set(report.conditions as i64);
        for state in [
            S::Held,
            S::Disabled,
            S::Pending,
            S::Lost,
            S::Unknown,
            S::Braked,
            S::Refused,
        ] {
            let count = report
                .states
                .iter()
                .find(|(s, _)| *s == state)
                .map_or(0, |(_, n)| *n);
            let by = ByState {
                provider: report.label.clone(),
                state: state.as_str(),
            };
            self.provisions.get_or_create(&by).set(count as i64);
        }
    }
}

/// What is served.
pub struct Served {
    /// Where the picture is read from: another bus after the one that was open was lost.
    pub bus: Arc<RwLock<Arc<dyn Bus>>>,
    /// The mesh's id.
    pub mesh: String,
    /// The clock.
    pub clock: Clock,
    /// Counted by the loops.
    pub metrics: Arc<Metrics>,
    /// What is known of the bus in this process.
    pub local: Arc<Local>,
}

/// The routes. Who may ask is settled before them.
pub fn router(served: Served) -> Router {
    Router::new()
        .route("/live", get(|| async { "ok\n" }))
        .route("/ready", get(ready))
        .route("/status", get(picture))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(served))
}

async fn read(served: &Served) -> Result<status::Picture, Response> {
    let bus = match served.bus.read() {
        Ok(bus) => Arc::clone(&bus),
        Err(poisoned) => Arc::clone(&poisoned.into_inner()),
    };
    let read = status::read(bus.as_ref(), &served.mesh, served.clock.now(), true).await;
    read.map_err(|fault| {
        let mut text = format!("{fault}\n");
        for one in served.local.standing() {
            let (kind, since) = (one.id.kind, status::time_text(one.since));
            let line = format!("{kind} {} since {since}: {}\n", one.id.subject, one.message);
            text += &line;
        }
        (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
    })
}

/// Ready once every loop has made a pass and none is late.
async fn ready(State(served): State<Arc<Served>>) -> Response {
    let picture = match read(&served).await {
        Ok(picture) => picture,
        Err(response) => return response,
    };
    let late: Vec<&str> = picture
        .loops
        .iter()
        .filter(|l| l.state != "running")
        .map(|l| l.name.as_str())
        .collect();
    if late.is_empty() {
        "ok\n".into_response()
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not ready: {}\n", late.join(", ")),
        )
            .into_response()
    }
}

async fn picture(State(served): State<Arc<Served>>) -> Response {
    match read(&served).await {
        Ok(picture) => axum::Json(picture).into_response(),
        Err(response) => response,
    }
}

async fn metrics(State(served): State<Arc<Served>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &served.metrics.registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
