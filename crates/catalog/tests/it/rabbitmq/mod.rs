//! RabbitMQ.

mod bench;
mod suite;

use mesh_conformance::servers::{RabbitServer, TlsFiles};
use serde_json::json;

use bench::{ADMIN, user};

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
