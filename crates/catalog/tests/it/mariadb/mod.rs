//! MariaDB.

mod bench;
mod bulk;
mod cases;
mod fence;
mod hosts;
mod marks;
mod memory;
mod reverse;
mod rights;
mod suite;
mod tls;

use mesh_catalog::mariadb::MariadbKind;
use mesh_conformance::servers::{MariadbOptions, MariadbServer};
use mesh_sdk::provision::WishParts;
use mesh_sdk::{Class, Difference, Login, Lost, Wish};
use serde_json::Value;

use crate::wishes::wish_of;

type Ours = crate::ours::Ours<MariadbKind>;

impl Ours {
    /// Demands that it is lost in this way, and healed by the ordinary path.
    async fn healed(&self, wish: &Wish, difference: Difference) -> Lost {
        let lost = self.lost(wish).await;
        assert!(lost.differences.contains(difference), "{lost:?}");
        self.made(wish).await;
        lost
    }
    async fn refused(&self, wish: &Wish) -> (Class, String) {
        let error = self.create(wish).await.expect_err("refused");
        (error.class(), error.message().to_owned())
    }
}

/// A server with an admin of the least rights, and the adapter for it.
async fn least() -> (MariadbServer, Ours) {
    let server = bench::server(bench::LEAST, MariadbOptions::default()).await;
    let ours = Ours::on(bench::settings(server.port()));
    (server, ours)
}

fn wish(name: &str, values: Value) -> Wish {
    wish_as(name, name, values, |_| ())
}

fn wish_as(name: &str, login: &str, values: Value, change: impl FnOnce(&mut WishParts)) -> Wish {
    wish_of(&MariadbKind, name, values, |parts| {
        parts.login = Login::new(login).expect("a login");
        change(parts);
    })
}
