//! Mosquitto.

mod bench;
mod bulk;
mod errors;
mod meaning;
mod reverse;
mod suite;
mod tls;

use mesh_catalog::mosquitto::MosquittoKind;
use mesh_conformance::servers::{MosquittoOptions, MosquittoServer, MqttClient};
use mesh_sdk::adapter::{Cx, Finding, FindingLevel, ProviderSettings, Sink};
use mesh_sdk::handle::{AdapterHandle, AnyKind, Asked};
use mesh_sdk::provision::WishParts;
use mesh_sdk::{Answer, Error, Lost, Marker, MeshId, ProviderName, Secret, Wish};
use serde_json::Value;

use crate::wishes::wish_of;

/// A broker, or a failure that says how to get one.
async fn server(options: MosquittoOptions) -> MosquittoServer {
    match MosquittoServer::start(options).await {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }
}

/// A broker with an admin of the least rights.
async fn usual() -> MosquittoServer {
    let broker = server(MosquittoOptions::default()).await;
    bench::make_admin(broker.port()).await.expect("an admin");
    broker
}

async fn log_in(broker: &MosquittoServer, login: &str, password: &str) -> Option<MqttClient> {
    let client = MqttClient::log_in(broker.port(), login, password).await;
    client.expect("an answer")
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
        let provider = ProviderName::new("things").expect("a name");
        Self {
            adapter: AnyKind::open(&MosquittoKind, settings).expect("an adapter"),
            marker: Marker::new(mesh, "i1", provider, Secret::from("key")),
            cx: Cx::default(),
        }
    }
    fn of(broker: &MosquittoServer) -> Self {
        Self::on(bench::settings(broker.port()))
    }
    async fn create(&self, wish: &Wish) -> Result<(), Error> {
        let adopted = false;
        let asked = Asked { wish, adopted };
        self.adapter.create(&self.cx, &self.marker, asked).await
    }
    async fn holds(&self, wish: &Wish) -> Result<Answer, Error> {
        let adopted = false;
        let asked = Asked { wish, adopted };
        self.adapter.holds(&self.cx, &self.marker, asked).await
    }
    async fn held(&self, wish: &Wish) -> bool {
        matches!(self.holds(wish).await, Ok(Answer::Held(_)))
    }
    async fn lost(&self, wish: &Wish) -> Lost {
        match self.holds(wish).await {
            Ok(Answer::Lost(lost)) => *lost,
            other => panic!("{other:?}"),
        }
    }
    async fn holds_all(&self, wishes: &[Wish]) -> Vec<Answer> {
        let adopted = false;
        let asked: Vec<Asked<'_>> = wishes.iter().map(|wish| Asked { wish, adopted }).collect();
        let sink = Sink::new(wishes.len());
        let call = self
            .adapter
            .holds_all(&self.cx, &self.marker, &asked, &sink);
        call.await.expect("looked");
        let taken = sink.take().into_iter();
        taken
            .map(|one| one.expect("an answer").expect("known"))
            .collect()
    }
    async fn doctor(&self) -> Vec<Finding> {
        self.adapter.doctor(&self.cx).await.expect("findings")
    }
}

fn found(findings: &[Finding], about: &str, level: FindingLevel) -> bool {
    findings
        .iter()
        .any(|one| one.about == about && one.level == level)
}

fn wish(name: &str, values: Value) -> Wish {
    wish_with(name, values, |_| ())
}

fn wish_with(name: &str, values: Value, change: impl FnOnce(&mut WishParts)) -> Wish {
    wish_of(&MosquittoKind, name, values, |parts| {
        parts.generated = true;
        change(parts);
    })
}
