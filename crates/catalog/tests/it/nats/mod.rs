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
use mesh_sdk::Wish;
use mesh_sdk::adapter::{Finding, FindingLevel};
use mesh_sdk::provision::WishParts;
use serde_json::Value;

use crate::wishes::wish_of;

type Ours = crate::ours::Ours<NatsKind>;

impl Ours {
    fn of(server: &NatsServer) -> Self {
        Self::on(bench::settings(server, server.port()))
    }
    async fn doctor(&self) -> Vec<Finding> {
        self.adapter.doctor(&self.cx).await.expect("findings")
    }
}

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
