//! The adapter: one MariaDB server, spoken to with its admin login.

use std::collections::hash_map::RandomState;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mesh_sdk::adapter::{Finding, Found, Listed, ProviderSettings, Server, Sink, Use};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Adapter, Answer, Capabilities, Class, Cx, Error, Marker, Provision};

use super::check::is_reserved;
use super::compare::Wish;
use super::connect::{Endpoint, Session};
use super::memory::Judge;
use super::read::{Whose, ask_for_databases, read};
use super::values::MariadbValues;

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
    all.uses = true;
    all.find = true;
    all.purge = true;
    all.fence = true;
    all
};

/// The adapter for one server. It keeps no connection: each call opens its own and closes it, so that a
/// call that was cut off leaves nothing behind (H-9).
pub struct Mariadb {
    pub(super) endpoint: Endpoint,
    /// Keys the fingerprints of what was found.
    pub(super) fingerprints: RandomState,
    /// The start that the last hint connection was on.
    pub(super) hinted: Mutex<Option<String>>,
    /// Whose call writes, of those under a fence.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
}

impl Mariadb {
    pub(super) fn new(settings: ProviderSettings) -> Self {
        Self {
            endpoint: Endpoint::new(settings),
            fingerprints: RandomState::new(),
            hinted: Mutex::default(),
            turn: Arc::default(),
        }
    }

    /// Opens an admin's connection.
    pub(super) async fn session(&self, cx: &Cx) -> Result<Session, Error> {
        let session = self.endpoint.admin().await?;
        cx.progress();
        Ok(session)
    }

    /// Refuses logins that are never touched (H-19).
    pub(super) fn may_touch(&self, login: &str) -> Result<(), Error> {
        if is_reserved(login, self.endpoint.settings()) {
            let message = format!("`{login}` is reserved and never touched");
            return Err(Error::new(Class::RefusedValue, message));
        }
        Ok(())
    }

    async fn look_at_one(&self, cx: &Cx, wish: &Wish<'_>) -> Result<Answer, Error> {
        let mut session = self.session(cx).await?;
        let wishes = std::slice::from_ref(wish);
        let databases = ask_for_databases(wishes);
        let seen = read(cx, &mut session, Whose::of(wishes), databases).await?;
        Judge::new(&seen, wishes, &self.fingerprints).answer(wish)
    }
}

#[async_trait]
impl Adapter for Mariadb {
    type Values = MariadbValues;

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }
    async fn create(&self, cx: &Cx, wish: &Wish<'_>) -> Result<(), Error> {
        self.create_one(cx, wish).await
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
        wishes: &[Provision<'_, MariadbValues>],
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
        wishes: &[Provision<'_, MariadbValues>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        if wishes.is_empty() {
            return Ok(());
        }
        self.create_many(cx, wishes, outcomes).await
    }
    async fn disable(&self, cx: &Cx, marker: &Marker, login: &Departing) -> Result<(), Error> {
        self.disable_one(cx, marker, login).await
    }
    async fn list(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error> {
        self.list_all(cx, marker).await
    }
    async fn uses(&self, cx: &Cx, logins: &[Departing]) -> Result<Vec<Option<Use>>, Error> {
        self.uses_of(cx, logins).await
    }
    async fn find(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Found<MariadbValues>>, Error> {
        self.find_all(cx, marker).await
    }
    async fn data(&self, cx: &Cx, name: &str) -> Result<Option<String>, Error> {
        self.data_named(cx, name).await
    }
    async fn purge(&self, cx: &Cx, name: &str) -> Result<(), Error> {
        self.purge_named(cx, name).await
    }
    async fn hint(&self, cx: &Cx) -> Result<(), Error> {
        self.wait_for_hint(cx).await
    }
    async fn doctor(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        self.examine(cx).await
    }
}
