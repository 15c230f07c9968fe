//! NATS.

mod bench;
mod suite;

use mesh_conformance::servers::{NatsOptions, NatsServer};

/// A server, or a failure that says how to get one.
async fn server(options: NatsOptions) -> NatsServer {
    match NatsServer::start(options).await {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }
}
