//! etcd.

mod bench;
mod cases;
mod proof;
mod reverse;
mod suite;
mod tls;

use mesh_catalog::etcd::EtcdKind;
use mesh_conformance::servers::{EtcdFlavor, EtcdServer};
use mesh_sdk::provision::WishParts;
use mesh_sdk::{Answer, Proof, Wish};
use serde_json::{Value, json};

use bench::ADMIN;

use crate::wishes::wish_of;

type Ours = crate::ours::Ours<EtcdKind>;

impl Ours {
    /// How it is proven to be held.
    async fn proof(&self, wish: &Wish) -> Proof {
        let held = self.held(wish).await;
        assert_eq!(held.warning, None, "{wish:?}");
        held.proof
    }
    /// How many are held by each of: login, verifier, presence.
    async fn held_by(&self, wishes: &[Wish]) -> [usize; 3] {
        let mut counts = [0; 3];
        for answer in self.answers(wishes).await {
            match answer {
                Answer::Held(held) => {
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

fn wish(name: &str, values: Value) -> Wish {
    wish_with(name, values, |_| ())
}

fn wish_with(name: &str, values: Value, change: impl FnOnce(&mut WishParts)) -> Wish {
    wish_of(&EtcdKind, name, values, |parts| {
        parts.generated = true;
        change(parts);
    })
}
