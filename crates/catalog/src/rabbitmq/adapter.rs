//! The adapter: one RabbitMQ server or cluster, spoken to through its management interface.

use std::sync::Mutex;

use async_trait::async_trait;
use mesh_sdk::adapter::{Finding, Found, Listed, ProviderSettings, Server, Sink, Use};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Adapter, Answer, Capabilities, Class, Cx, Error, Marker, Provision};

use super::api::Api;
use super::values::RabbitValues;
use crate::http::Client;

/// What the adapter can do.
pub(super) const CAPABILITIES: Capabilities = {
    let mut all = Capabilities::none();
    all.server = true;
    all.holds = true;
    all.holds_all = true;
    all.create_all = true;
    all.disable = true;
    all.list = true;
    all.uses = true;
    all.find = true;
    all.purge = true;
    all
};

/// The adapter for one server. It keeps no connection: each call opens its own and closes it, so that a
/// call that was cut off leaves nothing behind (H-9).
pub struct Rabbit {
    pub(super) client: Client,
    /// When the server was last computed to have started, by its own clock.
    pub(super) started: Mutex<Option<i64>>,
}

impl Rabbit {
    pub(super) fn new(settings: ProviderSettings) -> Self {
        let encrypted = settings.scheme == "https";
        Self {
            client: Client::new(settings, encrypted),
            started: Mutex::default(),
        }
    }

    /// The calls, on a connection of their own.
    pub(super) fn api(&self) -> Result<Api<'_>, Error> {
        Api::new(&self.client)
    }

    /// The admin's name.
    pub(super) fn admin(&self) -> &str {
        self.client
            .settings()
            .admin
            .as_ref()
            .map_or("", |admin| &admin.user)
    }

    /// Refuses logins that are never touched (H-19).
    pub(super) fn may_touch(&self, login: &str) -> Result<(), Error> {
        if is_reserved(login, self.client.settings()) {
            let message = format!("`{login}` is reserved and never touched");
            return Err(Error::new(Class::RefusedValue, message));
        }
        Ok(())
    }
}

/// The default user, and whoever we log in as.
pub(super) fn is_reserved(login: &str, settings: &ProviderSettings) -> bool {
    let admin = settings.admin.as_ref().map(|admin| admin.user.as_str());
    login == "guest" || Some(login) == admin
}

#[async_trait]
impl Adapter for Rabbit {
    type Values = RabbitValues;

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }
    async fn create(&self, cx: &Cx, wish: &Provision<'_, RabbitValues>) -> Result<(), Error> {
        self.create_one(cx, wish).await
    }
    async fn remove(&self, cx: &Cx, marker: &Marker, login: &Departing) -> Result<(), Error> {
        self.remove_one(cx, marker, login).await
    }
    async fn server(&self, cx: &Cx) -> Result<Server, Error> {
        self.describe(cx).await
    }
    async fn holds(&self, cx: &Cx, wish: &Provision<'_, RabbitValues>) -> Result<Answer, Error> {
        self.look_at_one(cx, wish).await
    }
    async fn holds_all(
        &self,
        cx: &Cx,
        wishes: &[Provision<'_, RabbitValues>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        self.look_at_all(cx, wishes, answers).await
    }
    async fn create_all(
        &self,
        cx: &Cx,
        wishes: &[Provision<'_, RabbitValues>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
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
    async fn find(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Found<RabbitValues>>, Error> {
        self.find_all(cx, marker).await
    }
    async fn data(&self, cx: &Cx, name: &str) -> Result<Option<String>, Error> {
        self.data_named(cx, name).await
    }
    async fn purge(&self, cx: &Cx, name: &str) -> Result<(), Error> {
        self.purge_named(cx, name).await
    }
    async fn doctor(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        self.examine(cx).await
    }
}
