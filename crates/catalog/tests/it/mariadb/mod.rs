//! MariaDB.

mod bench;
mod bulk;
mod cases;
mod hosts;
mod marks;
mod reverse;
mod rights;
mod suite;
mod tls;

use mesh_catalog::mariadb::MariadbKind;
use mesh_conformance::servers::{MariadbOptions, MariadbServer};
use mesh_sdk::adapter::{Cx, ProviderSettings, Sink};
use mesh_sdk::handle::{AdapterHandle, AnyKind, Asked};
use mesh_sdk::provision::{Departing, WishParts};
use mesh_sdk::{
    Answer, Class, Difference, Error, Login, Lost, Marker, MeshId, ProviderName, Secret, Wish,
};
use serde_json::Value;

use crate::wishes::{asked, wish_of};

/// One adapter with what its calls need.
struct Ours {
    adapter: AdapterHandle,
    marker: Marker,
    cx: Cx,
}

/// A server with an admin of the least rights, and the adapter for it.
async fn least() -> (MariadbServer, Ours) {
    let server = bench::server(bench::LEAST, MariadbOptions::default()).await;
    let ours = Ours::on(bench::settings(server.port()));
    (server, ours)
}

impl Ours {
    fn on(settings: ProviderSettings) -> Self {
        let mesh = MeshId::new("test").expect("a name");
        let provider = ProviderName::new("database").expect("a name");
        Self {
            adapter: AnyKind::open(&MariadbKind, settings).expect("an adapter"),
            marker: Marker::new(mesh, "i1", provider, Secret::from("key")),
            cx: Cx::default(),
        }
    }
    async fn create(&self, wish: &Wish) -> Result<(), Error> {
        let asked = asked(wish);
        self.adapter.create(&self.cx, &self.marker, asked).await
    }
    async fn holds(&self, wish: &Wish) -> Result<Answer, Error> {
        let asked = asked(wish);
        self.adapter.holds(&self.cx, &self.marker, asked).await
    }
    async fn remove(&self, wish: &Wish) -> Result<(), Error> {
        let going = Departing::new(wish.consumer().clone(), wish.login().clone());
        self.adapter.remove(&self.cx, &self.marker, &going).await
    }
    /// Makes it, and demands that it is held then.
    async fn made(&self, wish: &Wish) {
        self.create(wish).await.expect("created");
        self.held(wish).await;
    }
    async fn held(&self, wish: &Wish) {
        match self.holds(wish).await {
            Ok(Answer::Held(held)) if held.warning.is_none() => {}
            other => panic!("{wish:?} should be held, not {other:?}"),
        }
    }
    async fn lost(&self, wish: &Wish) -> Lost {
        match self.holds(wish).await {
            Ok(Answer::Lost(lost)) => *lost,
            other => panic!("{wish:?} should be lost, not {other:?}"),
        }
    }
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
    async fn create_all(&self, wishes: &[Wish]) -> Result<Vec<Result<(), Error>>, Error> {
        let asked: Vec<Asked<'_>> = wishes.iter().map(asked).collect();
        let sink = Sink::new(wishes.len());
        let made = self
            .adapter
            .create_all(&self.cx, &self.marker, &asked, &sink);
        made.await?;
        let each = sink.take().into_iter();
        Ok(each.map(|one| one.expect("an outcome")).collect())
    }
    async fn all_held(&self, wishes: &[Wish]) -> Result<bool, Error> {
        let asked: Vec<Asked<'_>> = wishes.iter().map(asked).collect();
        let sink = Sink::new(wishes.len());
        let looked = self
            .adapter
            .holds_all(&self.cx, &self.marker, &asked, &sink);
        looked.await?;
        let each = sink.take();
        Ok(each
            .iter()
            .all(|one| matches!(one, Some(Ok(Answer::Held(_))))))
    }
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
