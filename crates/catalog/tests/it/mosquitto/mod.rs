//! Mosquitto.

mod bench;
mod suite;

use mesh_conformance::servers::{MosquittoOptions, MosquittoServer};

/// A broker, or a failure that says how to get one.
async fn server(options: MosquittoOptions) -> MosquittoServer {
    match MosquittoServer::start(options).await {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }
}
