//! etcd.

mod bench;
mod suite;

use mesh_conformance::servers::{EtcdFlavor, EtcdServer};
use serde_json::json;

use bench::ADMIN;

/// A server with the adapter's admin, or a failure that says how to get one.
async fn server(flavor: EtcdFlavor) -> EtcdServer {
    let server = match EtcdServer::start(flavor, None, false).await {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    };
    let admin = json!({ "name": ADMIN.0, "password": ADMIN.1 });
    server.must("auth/user/add", admin).await.expect("an admin");
    let role = json!({ "user": ADMIN.0, "role": "root" });
    server
        .must("auth/user/grant", role)
        .await
        .expect("its rights");
    server
}
