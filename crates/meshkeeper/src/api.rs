//! What `mesh up --listen` serves: health, metrics, and the picture as JSON. Reads only, and never a
//! password (S-6).

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use mesh_sdk::bus::Bus;
use mesh_sdk::clock::Clock;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::errors::Fault;
use crate::metrics::{Mesh, Metrics, Wanted};
use crate::status;
use crate::wiring::watchdog::local::Local;

/// How long open requests may go on after a stop.
const DRAIN: Duration = Duration::from_secs(2);

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

/// Listens, and serves until the stop. Errors: an address beyond this machine, or one that is taken.
pub async fn listen(
    address: SocketAddr,
    served: Served,
    stop: CancellationToken,
) -> Result<JoinHandle<()>, Fault> {
    if !address.ip().is_loopback() {
        return Err(Fault::failed(
            format!(
                "{address} is not an address of this machine alone, and tokens come with the page"
            ),
            "listen on 127.0.0.1 and put a proxy before it",
        ));
    }
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Fault::failed(
            format!("cannot listen on {address}: {error}"),
            "choose another port",
        )
    })?;
    let address = listener.local_addr().unwrap_or(address);
    info!(%address, "serving health, metrics and status");
    let app = router(served);
    let ended = stop.clone();
    let serving =
        axum::serve(listener, app).with_graceful_shutdown(async move { ended.cancelled().await });
    Ok(tokio::spawn(drained(serving.into_future(), stop)))
}

async fn drained(serving: impl Future<Output = std::io::Result<()>>, stop: CancellationToken) {
    let patience = async {
        stop.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        _ = serving => {}
        () = patience => {}
    }
}

/// The routes.
pub fn router(served: Served) -> Router {
    Router::new()
        .route("/live", get(|| async { "ok\n" }))
        .route("/ready", get(ready))
        .route("/status", get(picture))
        .route("/metrics", get(metrics))
        .layer(middleware::from_fn(only_this_machine))
        .with_state(Arc::new(served))
}

/// Answers only what was asked under a name of this machine: a page of somebody else, whose name leads
/// here, reads nothing.
async fn only_this_machine(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok());
    match host {
        Some(host) if is_of_this_machine(host) => next.run(request).await,
        _ => (StatusCode::FORBIDDEN, "not a name of this machine\n").into_response(),
    }
}

fn is_of_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let loopback = |address: IpAddr| address.is_loopback();
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(loopback)
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
