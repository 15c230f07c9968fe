//! The adapter: one etcd cluster, spoken to through the JSON gateway of a member.

use std::sync::Mutex;

use async_trait::async_trait;
use mesh_sdk::adapter::{Finding, Found, Listed, ProviderSettings, Server, Sink};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Adapter, Answer, Capabilities, Class, Cx, Error, Marker, Provision, Secret};

use super::api::{Api, Door};
use super::compare::Wish;
use super::proof::Ledger;
use super::values::{EtcdOptions, EtcdValues};
use crate::http::Client;

/// What the adapter can do, on every version. There is no switching off.
pub(super) const CAPABILITIES: Capabilities = {
    let mut all = Capabilities::none();
    all.server = true;
    all.holds = true;
    all.holds_all = true;
    all.create_all = true;
    all.list = true;
    all.find = true;
    all.purge = true;
    all
};

/// The adapter for one cluster. It keeps no connection: each call opens its own and closes it, so that a
/// call that was cut off leaves nothing behind (H-9).
pub struct Etcd {
    pub(super) client: Client,
    pub(super) ledger: Ledger,
    token: Mutex<Option<Secret>>,
    cost: u32,
}

impl Etcd {
    pub(super) fn new(settings: ProviderSettings) -> Result<Self, Error> {
        let options: EtcdOptions = settings
            .typed_options()
            .map_err(|refusal| Error::new(Class::RefusedValue, refusal.to_string()))?;
        let encrypted = settings.scheme == "https";
        Ok(Self {
            client: Client::new(settings, encrypted),
            ledger: Ledger::default(),
            token: Mutex::default(),
            cost: options.bcrypt_cost.unwrap_or(bcrypt::DEFAULT_COST.min(10)),
        })
    }
    /// The calls, on a connection of their own, as the admin.
    pub(super) async fn api(&self, cx: &Cx) -> Result<Api<'_>, Error> {
        Api::open(cx, &self.client, &self.token).await
    }
    /// For consumers' own logins, on a connection of its own.
    pub(super) fn door(&self) -> Result<Door<'_>, Error> {
        Door::new(&self.client, &self.token)
    }
    /// What a password that Meshkeeper made needs is no slow hash.
    pub(super) fn cost(&self, wish: &Wish<'_>) -> u32 {
        if wish.is_generated() { 4 } else { self.cost }
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

/// The user that may everything, and whoever we log in as.
pub(super) fn is_reserved(login: &str, settings: &ProviderSettings) -> bool {
    let admin = settings.admin.as_ref().map(|admin| admin.user.as_str());
    login == "root" || Some(login) == admin
}

#[async_trait]
impl Adapter for Etcd {
    type Values = EtcdValues;

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }
    async fn create(&self, cx: &Cx, wish: &Provision<'_, EtcdValues>) -> Result<(), Error> {
        self.create_one(cx, wish).await
    }
    async fn remove(&self, cx: &Cx, marker: &Marker, login: &Departing) -> Result<(), Error> {
        self.remove_one(cx, marker, login).await
    }
    async fn server(&self, cx: &Cx) -> Result<Server, Error> {
        self.describe(cx).await
    }
    async fn holds(&self, cx: &Cx, wish: &Provision<'_, EtcdValues>) -> Result<Answer, Error> {
        self.look_at_one(cx, wish).await
    }
    async fn holds_all(
        &self,
        cx: &Cx,
        wishes: &[Provision<'_, EtcdValues>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        self.look_at_all(cx, wishes, answers).await
    }
    async fn create_all(
        &self,
        cx: &Cx,
        wishes: &[Provision<'_, EtcdValues>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        self.create_many(cx, wishes, outcomes).await
    }
    async fn list(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error> {
        self.list_all(cx, marker).await
    }
    async fn find(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Found<EtcdValues>>, Error> {
        self.find_all(cx, marker).await
    }
    async fn data(&self, cx: &Cx, name: &str) -> Result<Option<String>, Error> {
        self.look_at_data(cx, name).await
    }
    async fn purge(&self, cx: &Cx, name: &str) -> Result<(), Error> {
        self.delete_data(cx, name).await
    }
    async fn doctor(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        self.examine(cx).await
    }
}
