//! What `mesh up --listen` serves beside the page: health, metrics, and the picture as JSON. Reads only, and
//! never a password (S-6); [`crate::web`] stands before it.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use mesh_sdk::bus::Bus;
use mesh_sdk::clock::Clock;

use crate::metrics::{Mesh, Metrics, Wanted};
use crate::status;
use crate::wiring::watchdog::local::Local;

/// How long an answer waits for the bus, for what it tells of the whole mesh.
const PATIENCE: Duration = Duration::from_secs(2);

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

fn bus_of(served: &Served) -> Arc<dyn Bus> {
    match served.bus.read() {
        Ok(bus) => Arc::clone(&bus),
        Err(poisoned) => Arc::clone(&poisoned.into_inner()),
    }
}

async fn read(served: &Served) -> Result<status::Picture, Response> {
    let bus = bus_of(served);
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

/// Answers whatever becomes of the bus: without it, only what this process counted.
async fn metrics(State(served): State<Arc<Served>>, headers: HeaderMap) -> Response {
    let (bus, local) = (bus_of(&served), served.local.standing());
    let read = Mesh::read(bus.as_ref(), &served.mesh, served.clock.now(), &local);
    let read = tokio::time::timeout(PATIENCE, read).await;
    let mesh = read.ok().and_then(Result::ok);
    let accept = headers.get(header::ACCEPT);
    let wanted = Wanted::by(accept.and_then(|accept| accept.to_str().ok()));
    match served.metrics.text(mesh.as_ref(), wanted) {
        Ok(text) => ([(header::CONTENT_TYPE, wanted.content_type())], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
