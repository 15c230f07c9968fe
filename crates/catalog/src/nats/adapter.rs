//! The adapter: one NATS server, and the file in which one of its accounts has its users.

use std::collections::hash_map::RandomState;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mesh_sdk::adapter::{Finding, Found, Listed, ProviderSettings, Refusal, Server, Sink, Use};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Adapter, Answer, Capabilities, Class, Cx, Error, Marker};

use super::compare::Wish;
use super::file::UsersFile;
use super::values::{NatsOptions, NatsValues};

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
    all
};

/// What the server is known to serve: its run, when it read its configuration, and a hash of the text.
type Served = Option<(String, i128, u64)>;

/// The adapter for one server. It keeps no connection: each call opens its own and closes it, so that a
/// call that was cut off leaves nothing behind (H-9).
pub struct Nats {
    pub(super) settings: ProviderSettings,
    pub(super) options: Result<NatsOptions, Refusal>,
    /// Held from reading the file until what was made of it is written and loaded.
    pub(super) writing: Arc<tokio::sync::Mutex<()>>,
    pub(super) served: Mutex<Served>,
    pub(super) hasher: RandomState,
    /// The file as it was read last, so that a text that is still the same is not read again.
    pub(super) last_read: Mutex<Option<Arc<UsersFile>>>,
    /// Whose turn it is to be logged in as at the next bulk look.
    pub(super) next_login: AtomicUsize,
    /// The run that the last hint connection was on.
    pub(super) hinted: Mutex<Option<String>>,
}

impl Nats {
    pub(super) fn new(settings: ProviderSettings) -> Self {
        Self {
            options: settings.typed_options(),
            settings,
            writing: Arc::default(),
            served: Mutex::default(),
            hasher: RandomState::new(),
            last_read: Mutex::default(),
            next_login: AtomicUsize::new(0),
            hinted: Mutex::default(),
        }
    }
}

#[async_trait]
impl Adapter for Nats {
    type Values = NatsValues;

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
    async fn uses(&self, cx: &Cx, logins: &[Departing]) -> Result<Vec<Option<Use>>, Error> {
        self.uses_of(cx, logins).await
    }
    async fn find(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Found<NatsValues>>, Error> {
        self.find_all(cx, marker).await
    }
    async fn hint(&self, cx: &Cx) -> Result<(), Error> {
        self.wait_for_hint(cx).await
    }
    async fn doctor(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        self.examine(cx).await
    }
}
