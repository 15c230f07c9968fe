//! The adapter: one PostgreSQL server, spoken to with its admin login.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;
use mesh_sdk::adapter::{Fence, Finding, Found, Listed, ProviderSettings, Server, Sink, Use};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Adapter, Answer, Capabilities, Class, Cx, Error, Marker, Provision};

use super::check::is_reserved;
use super::compare::Wish;
use super::connect::Endpoint;
use super::hba::Known;
use super::values::{PostgresOptions, PostgresValues};

/// What the adapter can do, on every version.
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

/// The adapter for one server.
pub struct Postgres {
    pub(super) endpoint: Endpoint,
    /// How the server lets logins in.
    pub(super) hba: Known,
    /// Where the next slice of logins begins.
    pub(super) cursor: Mutex<usize>,
    /// How many logins the next transaction has.
    pub(super) fits: AtomicUsize,
    /// How many roles the server had when it was last asked.
    pub(super) roles: AtomicUsize,
    /// The fence that the server keeps, and that no transaction from before it can get past.
    pub(super) fence: Mutex<Option<Fence>>,
    /// The run that the last connection for hints was on.
    pub(super) hinted: Mutex<Option<String>>,
}

impl Postgres {
    pub(super) fn new(settings: ProviderSettings, options: PostgresOptions) -> Self {
        Self {
            endpoint: Endpoint::new(settings, options),
            hba: Known::default(),
            cursor: Mutex::default(),
            roles: AtomicUsize::new(usize::MAX),
            fits: AtomicUsize::new(super::batch::FIRST),
            fence: Mutex::default(),
            hinted: Mutex::default(),
        }
    }

    /// The role that owns what others left.
    pub(super) fn keeper(&self) -> &str {
        &self.endpoint.options.keeper
    }

    /// Refuses logins that are never touched (H-19).
    pub(super) fn may_touch(&self, login: &str) -> Result<(), Error> {
        if is_reserved(login, self.endpoint.settings(), self.keeper()) {
            let message = format!("`{login}` is reserved and never touched");
            return Err(Error::new(Class::RefusedValue, message));
        }
        Ok(())
    }
}

#[async_trait]
impl Adapter for Postgres {
    type Values = PostgresValues;

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }
    async fn create(&self, cx: &Cx, wish: &Wish<'_>) -> Result<(), Error> {
        let outcomes = Sink::new(1);
        self.create_many(cx, std::slice::from_ref(wish), &outcomes)
            .await?;
        only(outcomes)
    }
    async fn remove(&self, cx: &Cx, marker: &Marker, login: &Departing) -> Result<(), Error> {
        self.remove_one(cx, marker, login).await
    }
    async fn server(&self, cx: &Cx) -> Result<Server, Error> {
        self.describe(cx).await
    }
    async fn holds(&self, cx: &Cx, wish: &Wish<'_>) -> Result<Answer, Error> {
        let answers = Sink::new(1);
        self.look_at_all(cx, std::slice::from_ref(wish), &answers)
            .await?;
        only(answers)
    }
    async fn holds_all(
        &self,
        cx: &Cx,
        wishes: &[Provision<'_, PostgresValues>],
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
        wishes: &[Provision<'_, PostgresValues>],
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
    async fn find(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Found<PostgresValues>>, Error> {
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

/// The one result of a call for one.
fn only<T>(results: Sink<T>) -> Result<T, Error> {
    let none = || Error::new(Class::Bug, "there is no result");
    results
        .take()
        .pop()
        .flatten()
        .unwrap_or_else(|| Err(none()))
}
