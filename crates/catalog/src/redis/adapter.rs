//! The adapter: one Redis or Valkey server, spoken to with its admin login.

use std::collections::hash_map::RandomState;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mesh_sdk::adapter::{Finding, Found, Listed, ProviderSettings, Server, Sink, Use};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Adapter, Answer, Capabilities, Class, Cx, Error, Marker, Provision};

use super::acl::Shown;
use super::classify;
use super::commands::Table;
use super::compare::Wish;
use super::connect::{Endpoint, Session};
use super::state::State;
use super::values::RedisValues;
use super::wire::{Reply, Request};

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
    all.two_passwords = true;
    all.uses = true;
    all.find = true;
    all.purge = true;
    all
};

/// The adapter for one server. It keeps no connection: each call opens its own and closes it, so that a
/// call that was cut off leaves nothing behind (H-9).
pub struct Redis {
    pub(super) endpoint: Endpoint,
    pub(super) state: State,
    /// Keys the fingerprints of descriptions.
    pub(super) fingerprints: RandomState,
    /// The run that the last hint connection was on.
    pub(super) hinted: Mutex<Option<String>>,
}

impl Redis {
    pub(super) fn new(settings: ProviderSettings) -> Self {
        Self {
            endpoint: Endpoint::new(settings),
            state: State::default(),
            fingerprints: RandomState::new(),
            hinted: Mutex::default(),
        }
    }

    /// Opens an admin's connection.
    pub(super) async fn session(&self, cx: &Cx) -> Result<Session, Error> {
        let session = self.endpoint.admin().await?;
        cx.progress();
        Ok(session)
    }

    /// The commands of this server, fetched once a run.
    pub(super) async fn table(&self, cx: &Cx, session: &mut Session) -> Result<Arc<Table>, Error> {
        let run = session.facts.run.clone();
        if let Some(table) = self.state.of(&run).table {
            return Ok(table);
        }
        const WHAT: &str = "list the command categories";
        let mut categories = Vec::new();
        let list: [&[u8]; 2] = [b"ACL", b"CAT"];
        let add = |name: &[u8]| categories.push(name.to_vec());
        session.wire.each_line(cx, WHAT, &list, add).await?;
        let mut request = Request::with_room(1024);
        for category in &categories {
            request.push(&[b"ACL", b"CAT", category]);
        }
        session.wire.send(&request).await?;
        let mut all = Vec::with_capacity(categories.len());
        for category in categories {
            let reply = session.wire.reply().await?.ok(WHAT)?;
            let names = reply.list().ok_or_else(|| classify::garbled(WHAT))?;
            let names = names.iter().filter_map(Reply::text).map(<[u8]>::to_vec);
            all.push((category, names.collect()));
        }
        cx.progress();
        let table = Arc::new(Table::new(all));
        self.state
            .change(&run, |known| known.table = Some(Arc::clone(&table)));
        Ok(table)
    }

    /// Refuses logins that are never touched (H-19).
    pub(super) fn may_touch(&self, login: &str) -> Result<(), Error> {
        if is_reserved(login, self.endpoint.settings()) {
            let message = format!("`{login}` is reserved and never touched");
            return Err(Error::new(Class::RefusedValue, message));
        }
        Ok(())
    }
}

/// The default user, and whoever we log in as.
pub(super) fn is_reserved(login: &str, settings: &ProviderSettings) -> bool {
    let admin = settings.admin.as_ref().map(|admin| admin.user.as_str());
    login == "default" || Some(login) == admin
}

/// One user, by `ACL GETUSER`; `None` if there is none of that name.
pub(super) async fn get_user(session: &mut Session, login: &str) -> Result<Option<Shown>, Error> {
    let args: [&[u8]; 3] = [b"ACL", b"GETUSER", login.as_bytes()];
    read_user(session.wire.ask("look at a login", &args).await?)
}

/// A reply to `ACL GETUSER`.
pub(super) fn read_user(reply: Reply) -> Result<Option<Shown>, Error> {
    const WHAT: &str = "look at a login";
    match reply.ok(WHAT)? {
        Reply::Nil => Ok(None),
        reply => match Shown::from_reply(&reply) {
            Some(shown) => Ok(Some(shown)),
            None => Err(classify::garbled(WHAT)),
        },
    }
}

#[async_trait]
impl Adapter for Redis {
    type Values = RedisValues;

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
        wishes: &[Provision<'_, RedisValues>],
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
        wishes: &[Provision<'_, RedisValues>],
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
    async fn find(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Found<RedisValues>>, Error> {
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
