//! etcd.

mod bench;
mod cases;
mod proof;
mod reverse;
mod suite;
mod tls;

use mesh_catalog::etcd::EtcdKind;
use mesh_conformance::servers::{EtcdFlavor, EtcdServer};
use mesh_sdk::adapter::{Cx, ProviderSettings, Sink};
use mesh_sdk::handle::{AdapterHandle, AnyKind, Asked};
use mesh_sdk::provision::WishParts;
use mesh_sdk::{Answer, Error, Held, Lost, Marker, MeshId, Proof, ProviderName, Secret, Wish};
use serde_json::{Value, json};

use bench::ADMIN;

use crate::wishes::{asked, wish_of};

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

/// One adapter with what its calls need.
struct Ours {
    adapter: AdapterHandle,
    marker: Marker,
    cx: Cx,
}

impl Ours {
    fn on(settings: ProviderSettings) -> Self {
        let mesh = MeshId::new("test").expect("a name");
        let provider = ProviderName::new("store").expect("a name");
        Self {
            adapter: AnyKind::open(&EtcdKind, settings).expect("an adapter"),
            marker: Marker::new(mesh, "i1", provider, Secret::from("key")),
            cx: Cx::default(),
        }
    }
    async fn create(&self, wish: &Wish) -> Result<(), Error> {
        self.adapter
            .create(&self.cx, &self.marker, asked(wish))
            .await
    }
    async fn holds(&self, wish: &Wish) -> Result<Answer, Error> {
        self.adapter
            .holds(&self.cx, &self.marker, asked(wish))
            .await
    }
    /// How it is proven to be held.
    async fn proof(&self, wish: &Wish) -> Proof {
        match self.holds(wish).await {
            Ok(Answer::Held(Held {
                proof,
                warning: None,
            })) => proof,
            other => panic!("{other:?}"),
        }
    }
    async fn lost(&self, wish: &Wish) -> Lost {
        match self.holds(wish).await {
            Ok(Answer::Lost(lost)) => *lost,
            other => panic!("{other:?}"),
        }
    }
    async fn create_all(&self, wishes: &[Wish]) {
        let asked: Vec<Asked<'_>> = wishes.iter().map(asked).collect();
        let sink = Sink::new(wishes.len());
        self.adapter
            .create_all(&self.cx, &self.marker, &asked, &sink)
            .await
            .expect("created");
        for outcome in sink.take() {
            outcome.expect("an outcome").expect("created");
        }
    }
    /// How many are held by each of: login, verifier, presence.
    async fn held(&self, wishes: &[Wish]) -> [usize; 3] {
        let asked: Vec<Asked<'_>> = wishes.iter().map(asked).collect();
        let sink = Sink::new(wishes.len());
        self.adapter
            .holds_all(&self.cx, &self.marker, &asked, &sink)
            .await
            .expect("a look");
        let mut counts = [0; 3];
        for answer in sink.take() {
            match answer {
                Some(Ok(Answer::Held(held))) => {
                    counts[match held.proof {
                        Proof::Login => 0,
                        Proof::Verifier => 1,
                        _ => 2,
                    }] += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        counts
    }
}

fn wish(name: &str, values: Value) -> Wish {
    wish_with(name, values, |_| ())
}

fn wish_with(name: &str, values: Value, change: impl FnOnce(&mut WishParts)) -> Wish {
    wish_of(&EtcdKind, name, values, |parts| {
        parts.generated = true;
        change(parts);
    })
}
