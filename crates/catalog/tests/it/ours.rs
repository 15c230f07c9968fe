//! One adapter with what its calls need, and what the tests of every kind ask of it.

use std::marker::PhantomData;

use mesh_sdk::adapter::{Cx, Found, ProviderSettings, Sink};
use mesh_sdk::handle::{AdapterHandle, AnyKind, Asked};
use mesh_sdk::{Answer, Error, Held, Lost, Marker, MeshId, Secret, Wish};
use serde_json::Value;

use crate::wishes::{asked, going};

/// An adapter of the kind `K`, for the installation `i1` of the mesh `test`. A kind that asks for more says it in
/// an `impl` of its own.
pub(crate) struct Ours<K> {
    pub(crate) adapter: AdapterHandle,
    pub(crate) marker: Marker,
    pub(crate) cx: Cx,
    kind: PhantomData<K>,
}

impl<K: AnyKind + Default> Ours<K> {
    /// One for a server, whose settings must pass the check.
    pub(crate) fn on(settings: ProviderSettings) -> Self {
        let kind = K::default();
        let mesh = MeshId::new("test").expect("a name");
        kind.check_provider(&settings).expect("settings");
        let provider = settings.provider.clone();
        Self {
            adapter: kind.open(settings).expect("an adapter"),
            marker: Marker::new(mesh, "i1", provider, Secret::from("key")),
            cx: Cx::default(),
            kind: PhantomData,
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
        let going = going(wish);
        self.adapter.remove(&self.cx, &self.marker, &going).await
    }
    /// Demands that it is held.
    pub(crate) async fn held(&self, wish: &Wish) -> Held {
        match self.holds(wish).await {
            Ok(Answer::Held(held)) => held,
            other => panic!("{wish:?} should be held, not {other:?}"),
        }
    }
    /// Demands that it is held, with nothing to add.
    pub(crate) async fn in_order(&self, wish: &Wish) {
        assert_eq!(self.held(wish).await.warning, None, "{wish:?}");
    }
    /// Whether it is held, with nothing to add.
    pub(crate) async fn is_held(&self, wish: &Wish) -> bool {
        matches!(self.holds(wish).await, Ok(Answer::Held(held)) if held.warning.is_none())
    }
    /// Demands that it is lost.
    pub(crate) async fn lost(&self, wish: &Wish) -> Lost {
        match self.holds(wish).await {
            Ok(Answer::Lost(lost)) => *lost,
            other => panic!("{wish:?} should be lost, not {other:?}"),
        }
    }
    /// Makes it, and demands that it is in order then.
    pub(crate) async fn made(&self, wish: &Wish) {
        self.create(wish).await.expect("created");
        self.in_order(wish).await;
    }
    /// Takes over a login that somebody else made, and demands that it is held then.
    pub(crate) async fn adopted(&self, wish: &Wish) -> Held {
        let adopted = || Asked {
            wish,
            adopted: true,
        };
        let create = self.adapter.create(&self.cx, &self.marker, adopted());
        create.await.expect("adopted");
        let held = self.adapter.holds(&self.cx, &self.marker, adopted());
        match held.await {
            Ok(Answer::Held(held)) => held,
            other => panic!("{wish:?} should be held, not {other:?}"),
        }
    }
    /// Everybody that can be imported, by login.
    pub(crate) async fn found_all(&self) -> Vec<Found<Value>> {
        let found = self.adapter.find(&self.cx, &self.marker).await;
        let mut all = found.expect("found");
        all.sort_by(|one, two| one.login.cmp(&two.login));
        all
    }
    /// The outcome of each; where there is none, the call's own error.
    pub(crate) async fn create_all(&self, wishes: &[Wish]) -> Vec<Result<(), Error>> {
        let asked: Vec<Asked<'_>> = wishes.iter().map(asked).collect();
        let sink = Sink::new(wishes.len());
        let call = self
            .adapter
            .create_all(&self.cx, &self.marker, &asked, &sink);
        each(call.await, &sink)
    }
    /// Makes all of them.
    pub(crate) async fn made_all(&self, wishes: &[Wish]) {
        for outcome in self.create_all(wishes).await {
            outcome.expect("created");
        }
    }
    /// The answer to each; where there is none, the call's own error.
    pub(crate) async fn holds_all(&self, wishes: &[Wish]) -> Vec<Result<Answer, Error>> {
        let asked: Vec<Asked<'_>> = wishes.iter().map(asked).collect();
        let sink = Sink::new(wishes.len());
        let call = self
            .adapter
            .holds_all(&self.cx, &self.marker, &asked, &sink);
        each(call.await, &sink)
    }
    /// The answers, none of which is unknown.
    pub(crate) async fn answers(&self, wishes: &[Wish]) -> Vec<Answer> {
        let answers = self.holds_all(wishes).await.into_iter();
        answers.map(|one| one.expect("an answer")).collect()
    }
    /// Whether all are held; none may be unknown.
    pub(crate) async fn all_held(&self, wishes: &[Wish]) -> bool {
        let answers = self.answers(wishes).await;
        answers.iter().all(|one| matches!(one, Answer::Held(_)))
    }
}

fn each<T>(ended: Result<(), Error>, sink: &Sink<T>) -> Vec<Result<T, Error>> {
    let missing = || ended.clone().expect_err("none, and no error either");
    let taken = sink.take().into_iter();
    taken
        .map(|one| one.unwrap_or_else(|| Err(missing())))
        .collect()
}
