//! LDAP directories.

mod bench;
mod meaning;
mod reverse;
mod suite;
mod tls;

use mesh_catalog::ldap::LdapKind;
use mesh_sdk::adapter::{Cx, ProviderSettings, Sink};
use mesh_sdk::handle::{AdapterHandle, AnyKind, Asked};
use mesh_sdk::provision::WishParts;
use mesh_sdk::{Answer, Error, Marker, MeshId, Secret, Wish};
use serde_json::{Value, json};

use crate::wishes::{asked, wish_of};

/// One adapter with what its calls need.
struct Ours {
    adapter: AdapterHandle,
    marker: Marker,
    cx: Cx,
}

impl Ours {
    fn on(settings: ProviderSettings) -> Self {
        let mesh = MeshId::new("test").expect("a name");
        let provider = settings.provider.clone();
        AnyKind::check_provider(&LdapKind, &settings).expect("settings");
        Self {
            adapter: AnyKind::open(&LdapKind, settings).expect("an adapter"),
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
    async fn create_all(&self, wishes: &[Wish]) -> Result<(), Error> {
        let all: Vec<Asked<'_>> = wishes.iter().map(asked).collect();
        let sink = Sink::new(wishes.len());
        self.adapter
            .create_all(&self.cx, &self.marker, &all, &sink)
            .await?;
        sink.take()
            .into_iter()
            .try_for_each(|one| one.expect("an outcome"))
    }
    async fn look(&self, wishes: &[Wish]) -> Result<Vec<Answer>, Error> {
        let all: Vec<Asked<'_>> = wishes.iter().map(asked).collect();
        let sink = Sink::new(wishes.len());
        self.adapter
            .holds_all(&self.cx, &self.marker, &all, &sink)
            .await?;
        sink.take()
            .into_iter()
            .map(|one| one.expect("an answer"))
            .collect()
    }
    async fn all_held(&self, wishes: &[Wish]) -> Result<bool, Error> {
        let answers = self.look(wishes).await?;
        Ok(answers.iter().all(|one| matches!(one, Answer::Held(_))))
    }
}

fn wish_with(name: &str, values: Value, change: impl FnOnce(&mut WishParts)) -> Wish {
    wish_of(&LdapKind, name, values, change)
}

fn wish(name: &str) -> Wish {
    wish_with(name, json!({}), |_| ())
}
