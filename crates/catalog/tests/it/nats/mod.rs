//! NATS.

mod bench;
mod bulk;
mod errors;
mod loading;
mod meaning;
mod reverse;
mod suite;
mod tls;

use mesh_catalog::nats::NatsKind;
use mesh_conformance::servers::{NatsClient, NatsOptions, NatsServer};
use mesh_sdk::adapter::{Cx, Finding, FindingLevel, ProviderSettings, Sink};
use mesh_sdk::handle::{AdapterHandle, AnyKind, Asked};
use mesh_sdk::provision::WishParts;
use mesh_sdk::{Answer, Error, Lost, Marker, MeshId, ProviderName, Secret, Wish};
use serde_json::Value;

use crate::wishes::wish_of;

/// A server, or a failure that says how to get one.
async fn server(options: NatsOptions) -> NatsServer {
    match NatsServer::start(options).await {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }
}

/// A server whose admin has the least rights.
async fn usual() -> NatsServer {
    server(NatsOptions {
        system_users: bench::least(),
        ..NatsOptions::default()
    })
    .await
}

fn users(server: &NatsServer) -> String {
    std::fs::read_to_string(server.users_file()).expect("the file")
}

async fn lets_in(server: &NatsServer, login: &str, password: &str) -> bool {
    let mut client = NatsClient::connect(server.port())
        .await
        .expect("a connection");
    client.log_in(login, password).await.expect("an answer")
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
        let provider = ProviderName::new("events").expect("a name");
        Self {
            adapter: AnyKind::open(&NatsKind, settings).expect("an adapter"),
            marker: Marker::new(mesh, "i1", provider, Secret::from("key")),
            cx: Cx::default(),
        }
    }
    fn of(server: &NatsServer) -> Self {
        Self::on(bench::settings(server, server.port()))
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
    async fn create_all(&self, wishes: &[Wish]) -> Vec<Result<(), Error>> {
        let adopted = false;
        let asked: Vec<Asked<'_>> = wishes.iter().map(|wish| Asked { wish, adopted }).collect();
        let sink = Sink::new(wishes.len());
        let call = self
            .adapter
            .create_all(&self.cx, &self.marker, &asked, &sink);
        call.await.expect("created");
        let taken = sink.take().into_iter();
        taken.map(|one| one.expect("an outcome")).collect()
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
    wish_of(&NatsKind, name, values, |parts| {
        parts.generated = true;
        change(parts);
    })
}
