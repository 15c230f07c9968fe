//! Redis and Valkey.

mod bench;
mod suite;

use mesh_conformance::servers::{Flavor, Options, RedisServer};

/// A server, or a failure that says how to get one.
async fn server(flavor: Flavor, options: Options) -> RedisServer {
    match RedisServer::start(flavor, options).await {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }
}
