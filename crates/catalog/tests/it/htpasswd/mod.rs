//! Password files.

mod bench;
mod bulk;
mod files;
mod readers;
mod reverse;
mod suite;

use std::path::{Path, PathBuf};

use mesh_catalog::htpasswd::HtpasswdKind;
use mesh_sdk::adapter::{Cx, ProviderSettings, Sink};
use mesh_sdk::handle::{AdapterHandle, AnyKind, Asked};
use mesh_sdk::provision::{Departing, WishParts};
use mesh_sdk::{Answer, Error, Marker, MeshId, ProviderName, Secret, Wish};
use serde_json::json;
use tempfile::TempDir;

use crate::wishes::{asked, wish_of};

/// One adapter with what its calls need.
struct Ours {
    adapter: AdapterHandle,
    marker: Marker,
    cx: Cx,
}

/// A folder with the path of a file in it, which is not there yet, and the adapter for it.
fn in_folder() -> (TempDir, PathBuf, Ours) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("users");
    let ours = Ours::on(bench::settings(&path));
    (folder, path, ours)
}

impl Ours {
    fn on(settings: ProviderSettings) -> Self {
        let mesh = MeshId::new("test").expect("a name");
        let provider = ProviderName::new("users").expect("a name");
        Self {
            adapter: AnyKind::open(&HtpasswdKind, settings).expect("an adapter"),
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
    async fn made(&self, wish: &Wish) {
        self.create(wish).await.expect("created");
        let answer = self.holds(wish).await;
        assert!(
            matches!(answer, Ok(Answer::Held(_))),
            "{wish:?}: {answer:?}"
        );
    }
    async fn create_all(&self, wishes: &[Wish]) -> Result<(), Error> {
        let asked: Vec<Asked<'_>> = wishes.iter().map(asked).collect();
        let sink = Sink::new(wishes.len());
        let made = self
            .adapter
            .create_all(&self.cx, &self.marker, &asked, &sink);
        made.await?;
        sink.take()
            .into_iter()
            .try_for_each(|one| one.expect("an outcome"))
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
    async fn remove(&self, wish: &Wish) -> Result<(), Error> {
        let going = Departing::new(wish.consumer().clone(), wish.login().clone());
        self.adapter.remove(&self.cx, &self.marker, &going).await
    }
}

fn wish(name: &str) -> Wish {
    wish_with(name, |_| ())
}

fn wish_with(name: &str, change: impl FnOnce(&mut WishParts)) -> Wish {
    wish_of(&HtpasswdKind, name, json!({ "cost": 5 }), change)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the file")
}
