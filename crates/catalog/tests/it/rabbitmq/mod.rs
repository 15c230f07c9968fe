//! RabbitMQ.

mod bench;
mod bulk;
mod cases;
mod reverse;
mod rights;
mod suite;
mod tls;

use mesh_catalog::rabbitmq::RabbitKind;
use mesh_conformance::servers::{RabbitServer, TlsFiles};
use mesh_sdk::adapter::{Cx, ProviderSettings, Sink};
use mesh_sdk::handle::{AdapterHandle, AnyKind, Asked};
use mesh_sdk::provision::WishParts;
use mesh_sdk::{Answer, Error, Marker, MeshId, ProviderName, Secret, Wish};
use serde_json::{Value, json};

use bench::{ADMIN, user};

use crate::wishes::{asked, wish_of};

/// A server with the adapter's admin, or a failure that says how to get one.
async fn server(tls: Option<TlsFiles>) -> RabbitServer {
    let server = match RabbitServer::start(tls).await {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    };
    let admin = json!({ "password": ADMIN.1, "tags": "administrator" });
    server
        .must("PUT", &user(ADMIN.0), admin)
        .await
        .expect("an admin");
    let guest = json!({ "password": "guest", "tags": "" });
    server
        .must("PUT", &user("guest"), guest)
        .await
        .expect("the default user");
    server
}

/// One adapter with what its calls need.
struct Ours {
    adapter: AdapterHandle,
    marker: Marker,
    cx: Cx,
}

impl Ours {
    fn on(settings: ProviderSettings) -> Self {
        let mesh = MeshId::new("test").expect("a name");
        let provider = ProviderName::new("queue").expect("a name");
        Self {
            adapter: AnyKind::open(&RabbitKind, settings).expect("an adapter"),
            marker: Marker::new(mesh, "i1", provider, Secret::from("key")),
            cx: Cx::default(),
        }
    }
    async fn create(&self, wish: &Wish) -> Result<(), Error> {
        self.adapter
            .create(&self.cx, &self.marker, asked(wish))
            .await
    }
    async fn holds(&self, wish: &Wish) -> Result<Answer, Error> {
        self.adapter
            .holds(&self.cx, &self.marker, asked(wish))
            .await
    }
    async fn is_held(&self, wish: &Wish) -> bool {
        matches!(self.holds(wish).await, Ok(Answer::Held(held)) if held.warning.is_none())
    }
    /// The outcome of each, or the error that left some without one.
    async fn create_all(&self, wishes: &[Wish]) -> Vec<Result<(), Error>> {
        let asked: Vec<Asked<'_>> = wishes.iter().map(asked).collect();
        let sink = Sink::new(wishes.len());
        let ended = self
            .adapter
            .create_all(&self.cx, &self.marker, &asked, &sink)
            .await;
        let taken = sink.take().into_iter();
        taken
            .map(|one| one.unwrap_or_else(|| Err(ended.clone().expect_err("a reason"))))
            .collect()
    }
    async fn held(&self, wishes: &[Wish]) -> Result<usize, Error> {
        let asked: Vec<Asked<'_>> = wishes.iter().map(asked).collect();
        let sink = Sink::new(wishes.len());
        self.adapter
            .holds_all(&self.cx, &self.marker, &asked, &sink)
            .await?;
        let taken = sink.take();
        Ok(taken
            .iter()
            .filter(|one| matches!(one, Some(Ok(Answer::Held(_)))))
            .count())
    }
}

fn wish(name: &str, values: Value) -> Wish {
    wish_with(name, values, |_| ())
}

fn wish_with(name: &str, values: Value, change: impl FnOnce(&mut WishParts)) -> Wish {
    wish_of(&RabbitKind, name, values, change)
}
