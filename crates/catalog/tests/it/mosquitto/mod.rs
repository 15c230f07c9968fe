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
use mesh_sdk::Wish;
use mesh_sdk::adapter::{Finding, FindingLevel};
use mesh_sdk::provision::WishParts;
use serde_json::Value;

use crate::wishes::wish_of;

type Ours = crate::ours::Ours<MosquittoKind>;

impl Ours {
    fn of(broker: &MosquittoServer) -> Self {
        Self::on(bench::settings(broker.port()))
    }
    async fn doctor(&self) -> Vec<Finding> {
        self.adapter.doctor(&self.cx).await.expect("findings")
    }
}

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
