//! The adapter: one Mosquitto broker with the dynamic security plugin, spoken to with an admin's login.

use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;
use mesh_sdk::adapter::{Finding, Found, Listed, ProviderSettings, Server, Sink};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Adapter, Answer, Capabilities, Class, Cx, Error, Marker};

use super::compare::Wish;
use super::values::MosquittoValues;

/// What the adapter can do.
pub(super) const CAPABILITIES: Capabilities = {
    let mut all = Capabilities::none();
    all.server = true;
    all.holds = true;
    all.holds_all = true;
    all.create_all = true;
    all.disable = true;
    all.list = true;
    all.hint = true;
    all.find = true;
    all
};

/// The adapter for one broker. It keeps no connection: each call opens its own and closes it, so that a
/// call that was cut off leaves nothing behind (H-9).
pub struct Mosquitto {
    pub(super) settings: ProviderSettings,
    /// Whose turn it is to be logged in as at the next bulk look.
    pub(super) next_login: AtomicUsize,
}

impl Mosquitto {
    pub(super) fn new(settings: ProviderSettings) -> Self {
        Self {
            settings,
            next_login: AtomicUsize::new(0),
        }
    }
}

#[async_trait]
impl Adapter for Mosquitto {
    type Values = MosquittoValues;

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }
    async fn create(&self, cx: &Cx, wish: &Wish<'_>) -> Result<(), Error> {
        let outcomes = Sink::new(1);
        self.create_many(cx, std::slice::from_ref(wish), &outcomes)
            .await?;
        let outcome = outcomes.take().pop().flatten();
        outcome.unwrap_or_else(|| Err(Error::new(Class::Bug, "nothing came of it")))
    }
    async fn remove(&self, cx: &Cx, marker: &Marker, login: &Departing) -> Result<(), Error> {
        self.remove_one(cx, marker, login).await
    }
    async fn server(&self, cx: &Cx) -> Result<Server, Error> {
        self.describe(cx).await
    }
    async fn holds(&self, cx: &Cx, wish: &Wish<'_>) -> Result<Answer, Error> {
        self.look_at_one(cx, wish).await
    }
    async fn holds_all(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        if wishes.is_empty() {
            return Ok(());
        }
        self.look_at_all(cx, wishes, answers).await
    }
    async fn create_all(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        if wishes.is_empty() {
            return Ok(());
        }
        self.create_many(cx, wishes, outcomes).await
    }
    async fn disable(&self, cx: &Cx, marker: &Marker, login: &Departing) -> Result<(), Error> {
        self.switch_off(cx, marker, login).await
    }
    async fn list(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error> {
        self.list_all(cx, marker).await
    }
    async fn find(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Found<MosquittoValues>>, Error> {
        self.find_all(cx, marker).await
    }
    async fn hint(&self, cx: &Cx) -> Result<(), Error> {
        self.wait_for_hint(cx).await
    }
    async fn doctor(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        self.examine(cx).await
    }
}
