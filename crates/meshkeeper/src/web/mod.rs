//! The page of `mesh up --listen`: what `mesh status` and `mesh explain` tell, for a browser.
//!
//! Everything is written on this side ([`views`], escaped by `maud`), so that it reads without JavaScript; a
//! script of our own asks for the same page again when [`live`] says that there is something new. [`access`]
//! says who may read and who may speak, [`listen`] who is let in, [`snapshot`] keeps what is costly to read.
//! No password is known here (S-6): the page reads the bus, which has none (B-3).

mod access;
mod answer;
mod form;
mod html;
mod listen;
mod live;
mod passes;
mod plot;
mod snapshot;
mod token;
mod views;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, RwLock};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use mesh_sdk::bus::Bus;
use mesh_sdk::clock::Clock;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use access::Door;
pub use listen::{Limits, listen};
pub use passes::Passes;
pub use token::{FILE as TOKEN_FILE, door};

use crate::manifest::Kinds;
use crate::wiring::watchdog::local::Local;
use access::Access;
use snapshot::Snapshots;

/// Streams of changes that are open at once; further ones are told to come later, and their page is read by
/// loading it again.
pub const READERS: usize = 256;

/// What the page is made from.
pub struct Page {
    /// Where the picture is read from: another bus after the one that was open was lost.
    pub bus: Arc<RwLock<Arc<dyn Bus>>>,
    /// The mesh's id.
    pub mesh: String,
    /// The clock.
    pub clock: Clock,
    /// What the kinds can and cannot tell.
    pub kinds: Kinds,
    /// The passes of this process.
    pub passes: Arc<Passes>,
    /// What is known of the bus in this process.
    pub local: Arc<Local>,
    snapshots: Snapshots,
    access: Access,
    readers: Arc<Semaphore>,
    arrivals: AtomicUsize,
    stop: CancellationToken,
}

impl Page {
    /// Of an open bus. `readers`: how many streams of changes may be open.
    pub fn new(
        bus: Arc<RwLock<Arc<dyn Bus>>>,
        (mesh, clock, kinds): (String, Clock, Kinds),
        (passes, local): (Arc<Passes>, Arc<Local>),
        door: Door,
        (readers, stop): (usize, CancellationToken),
    ) -> Arc<Self> {
        Arc::new(Self {
            snapshots: Snapshots::new(clock),
            access: Access::new(door, clock),
            readers: Arc::new(Semaphore::new(readers)),
            arrivals: AtomicUsize::new(0),
            bus,
            mesh,
            clock,
            kinds,
            passes,
            local,
            stop,
        })
    }
    /// The bus that is open now.
    fn bus(&self) -> Arc<dyn Bus> {
        match self.bus.read() {
            Ok(bus) => Arc::clone(&bus),
            Err(poisoned) => Arc::clone(&poisoned.into_inner()),
        }
    }
}

/// The page's routes, and those of `more` (health, metrics, status) behind the same door.
pub fn router(page: Arc<Page>, more: Router) -> Router {
    let of_the_page = Router::new()
        .route("/", get(views::overview::get))
        .route("/conditions", get(views::conditions::list))
        .route("/condition/{key}", get(views::conditions::one))
        .route("/condition/{key}/ack", post(form::ack))
        .route("/condition/{key}/silence", post(form::silence))
        .route("/consumer/{name}", get(views::consumer::get))
        .route("/provider/{name}", get(views::provider::get))
        .route("/loops", get(views::loops::get))
        .route("/changes", get(live::changes))
        .route("/sign-in", get(form::sign_in_page).post(form::sign_in))
        .route("/sign-out", post(form::sign_out))
        .route("/assets/page.css", get(css))
        .route("/assets/page.js", get(js))
        .route("/assets/icon.svg", get(icon))
        .with_state(Arc::clone(&page));
    of_the_page
        .merge(more)
        .layer(axum::extract::DefaultBodyLimit::max(form::LONGEST))
        .layer(middleware::from_fn_with_state(page, access::guard))
}

async fn css() -> impl IntoResponse {
    asset("text/css; charset=utf-8", include_str!("assets/page.css"))
}
async fn js() -> impl IntoResponse {
    asset(
        "text/javascript; charset=utf-8",
        include_str!("assets/page.js"),
    )
}
async fn icon() -> impl IntoResponse {
    asset("image/svg+xml", include_str!("assets/icon.svg"))
}

fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    (StatusCode::OK, [(header::CONTENT_TYPE, kind)], text)
}
