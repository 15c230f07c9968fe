//! PostgreSQL.

mod bench;
mod suite;

use mesh_conformance::servers::{PostgresFlavor, PostgresOptions, PostgresServer};

/// A server, or a failure that says how to get one.
async fn server(flavor: PostgresFlavor, options: PostgresOptions) -> PostgresServer {
    match PostgresServer::start(flavor, options).await {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }
}
