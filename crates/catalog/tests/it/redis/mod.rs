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
use mesh_sdk::adapter::{Cx, ProviderSettings, Sink};
use mesh_sdk::handle::{AdapterHandle, AnyKind, Asked};
use mesh_sdk::{Answer, Error, Marker, MeshId, ProviderName, Secret, Wish};
use serde_json::Value;

use crate::wishes::wish_of;

/// A server, or a failure that says how to get one.
async fn server(flavor: Flavor, options: Options) -> RedisServer {
    match RedisServer::start(flavor, options).await {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }
}

/// One adapter with what its calls need.
struct Ours {
    adapter: AdapterHandle,
    marker: Marker,
    cx: Cx,
}

impl Ours {
    fn on(settings: ProviderSettings) -> Self {
        let mesh = MeshId::new("test").expect("a name");
        let provider = ProviderName::new("cache").expect("a name");
        Self {
            adapter: AnyKind::open(&RedisKind, settings).expect("an adapter"),
            marker: Marker::new(mesh, "i1", provider, Secret::from("key")),
            cx: Cx::default(),
        }
    }
    async fn create(&self, wish: &Wish) -> Result<(), Error> {
        let asked = Asked {
            wish,
            adopted: false,
        };
        self.adapter.create(&self.cx, &self.marker, asked).await
    }
    async fn holds(&self, wish: &Wish) -> Result<Answer, Error> {
        let asked = Asked {
            wish,
            adopted: false,
        };
        self.adapter.holds(&self.cx, &self.marker, asked).await
    }
    async fn create_all(&self, wishes: &[Wish]) -> Result<(), Error> {
        let asked: Vec<Asked<'_>> = wishes
            .iter()
            .map(|wish| Asked {
                wish,
                adopted: false,
            })
            .collect();
        let sink = Sink::new(wishes.len());
        self.adapter
            .create_all(&self.cx, &self.marker, &asked, &sink)
            .await?;
        sink.take()
            .into_iter()
            .try_for_each(|one| one.expect("an outcome"))
    }
    async fn all_held(&self, wishes: &[Wish]) -> Result<bool, Error> {
        let asked: Vec<Asked<'_>> = wishes
            .iter()
            .map(|wish| Asked {
                wish,
                adopted: false,
            })
            .collect();
        let sink = Sink::new(wishes.len());
        self.adapter
            .holds_all(&self.cx, &self.marker, &asked, &sink)
            .await?;
        Ok(sink
            .take()
            .iter()
            .all(|one| matches!(one, Some(Ok(Answer::Held(_))))))
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
