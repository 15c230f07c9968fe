//! One adapter with what its calls need, and what the tests of every kind ask of it.

use mesh_sdk::adapter::{Cx, ProviderSettings, Sink};
use mesh_sdk::handle::{AdapterHandle, AnyKind, Asked};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Answer, Error, Held, Lost, Marker, MeshId, Secret, Wish};

use crate::wishes::asked;

/// An adapter of the installation `i1` of the mesh `test`.
pub(crate) struct Ours {
    pub(crate) adapter: AdapterHandle,
    pub(crate) marker: Marker,
    pub(crate) cx: Cx,
}

impl Ours {
    /// One for a server, whose settings must pass the check.
    pub(crate) fn on(kind: &dyn AnyKind, settings: ProviderSettings) -> Self {
        let mesh = MeshId::new("test").expect("a name");
        kind.check_provider(&settings).expect("settings");
        let provider = settings.provider.clone();
        Self {
            adapter: kind.open(settings).expect("an adapter"),
            marker: Marker::new(mesh, "i1", provider, Secret::from("key")),
            cx: Cx::default(),
        }
    }
    pub(crate) async fn create(&self, wish: &Wish) -> Result<(), Error> {
        let asked = asked(wish);
        self.adapter.create(&self.cx, &self.marker, asked).await
    }
    pub(crate) async fn holds(&self, wish: &Wish) -> Result<Answer, Error> {
        let asked = asked(wish);
        self.adapter.holds(&self.cx, &self.marker, asked).await
    }
    pub(crate) async fn remove(&self, wish: &Wish) -> Result<(), Error> {
        let going = Departing::new(wish.consumer().clone(), wish.login().clone());
        self.adapter.remove(&self.cx, &self.marker, &going).await
    }
    /// Demands that it is held.
    pub(crate) async fn held(&self, wish: &Wish) -> Held {
        match self.holds(wish).await {
            Ok(Answer::Held(held)) => held,
            other => panic!("{wish:?} should be held, not {other:?}"),
        }
    }
    /// Demands that it is lost.
    pub(crate) async fn lost(&self, wish: &Wish) -> Lost {
        match self.holds(wish).await {
            Ok(Answer::Lost(lost)) => *lost,
            other => panic!("{wish:?} should be lost, not {other:?}"),
        }
    }
    /// Makes it, and demands that it is held then, with nothing to add.
    pub(crate) async fn made(&self, wish: &Wish) {
        self.create(wish).await.expect("created");
        assert_eq!(self.held(wish).await.warning, None, "{wish:?}");
    }
    /// Each one's outcome; an error of the call itself is an error.
    pub(crate) async fn create_all(
        &self,
        wishes: &[Wish],
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let asked: Vec<Asked<'_>> = wishes.iter().map(asked).collect();
        let sink = Sink::new(wishes.len());
        let call = self
            .adapter
            .create_all(&self.cx, &self.marker, &asked, &sink);
        call.await?;
        let each = sink.take().into_iter();
        Ok(each.map(|one| one.expect("an outcome")).collect())
    }
    /// Each one's answer; an error of the call itself is an error.
    pub(crate) async fn holds_all(
        &self,
        wishes: &[Wish],
    ) -> Result<Vec<Result<Answer, Error>>, Error> {
        let asked: Vec<Asked<'_>> = wishes.iter().map(asked).collect();
        let sink = Sink::new(wishes.len());
        let call = self
            .adapter
            .holds_all(&self.cx, &self.marker, &asked, &sink);
        call.await?;
        let each = sink.take().into_iter();
        Ok(each.map(|one| one.expect("an answer")).collect())
    }
    /// Whether all are held.
    pub(crate) async fn all_held(&self, wishes: &[Wish]) -> Result<bool, Error> {
        let answers = self.holds_all(wishes).await?;
        let is_held = |one: &Result<Answer, Error>| matches!(one, Ok(Answer::Held(_)));
        Ok(answers.iter().all(is_held))
    }
}
