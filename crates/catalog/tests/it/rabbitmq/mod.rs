//! RabbitMQ.

mod bench;
mod bulk;
mod cases;
mod imports;
mod reverse;
mod rights;
mod suite;
mod tls;

use mesh_catalog::rabbitmq::RabbitKind;
use mesh_conformance::servers::{RabbitServer, TlsFiles};
use mesh_sdk::Wish;
use mesh_sdk::provision::WishParts;
use serde_json::{Value, json};

use bench::{ADMIN, user};

use crate::wishes::wish_of;

type Ours = crate::ours::Ours<RabbitKind>;

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

fn wish(name: &str, values: Value) -> Wish {
    wish_with(name, values, |_| ())
}

fn wish_with(name: &str, values: Value, change: impl FnOnce(&mut WishParts)) -> Wish {
    wish_of(&RabbitKind, name, values, change)
}
