//! Redis and Valkey.

mod bench;
mod budget;
mod meaning;
mod nodes;
mod reverse;
mod rights;
mod saving;
mod suite;
mod tls;

use mesh_catalog::redis::RedisKind;
use mesh_conformance::servers::{Flavor, Options, RedisServer};
use mesh_sdk::Wish;
use serde_json::Value;

use crate::wishes::wish_of;

type Ours = crate::ours::Ours<RedisKind>;

/// A server, or a failure that says how to get one.
async fn server(flavor: Flavor, options: Options) -> RedisServer {
    match RedisServer::start(flavor, options).await {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }
}

fn wish(name: &str, values: Value) -> Wish {
    wish_of(&RedisKind, name, values, |_| ())
}

/// Many with rules that Redis 7.0 takes long to describe.
fn dear(count: usize) -> Vec<Wish> {
    let of = |n: usize| {
        let values = serde_json::json!({
            "keys": [format!("app{n}:*")],
            "commands": ["+@read", "+@write", "-@dangerous"],
        });
        wish(&format!("app-{n:04}"), values)
    };
    (0..count).map(of).collect()
}
