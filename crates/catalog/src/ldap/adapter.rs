//! The adapter: one directory, spoken to with its admin login.

use std::sync::atomic::{AtomicBool, AtomicUsize};

use async_trait::async_trait;
use mesh_sdk::adapter::{Finding, Found, Listed, ProviderSettings, Server, Sink};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Adapter, Answer, Capabilities, Class, Cx, Error, Marker, Provision};

use super::compare::Wish;
use super::connect::{self, Session};
use super::look::Binds;
use super::values::{LdapOptions, LdapValues};
use super::{check, dn};

/// What the adapter can do.
pub(super) const CAPABILITIES: Capabilities = {
    let mut all = Capabilities::none();
    all.server = true;
    all.holds = true;
    all.holds_all = true;
    all.create_all = true;
    all.disable = true;
    all.list = true;
    all.find = true;
    all.two_passwords = true;
    all
};

/// The adapter for one directory. It keeps no connection: each call opens its own and closes it (H-9).
pub struct Ldap {
    pub(super) settings: ProviderSettings,
    pub(super) options: LdapOptions,
    /// The server was seen to know `{SSHA512}`.
    pub(super) sha512_proven: AtomicBool,
    /// Whose turn it is to be proven by a bind, where nothing else proves a password.
    pub(super) next_bind: AtomicUsize,
}

impl Ldap {
    pub(super) fn new(settings: ProviderSettings) -> Result<Self, Error> {
        let options = settings
            .typed_options()
            .map_err(|refusal| Error::new(Class::RefusedValue, refusal.to_string()))?;
        Ok(Self {
            settings,
            options,
            sha512_proven: AtomicBool::new(false),
            next_bind: AtomicUsize::new(0),
        })
    }
    /// An admin's connection.
    pub(super) async fn session(&self, cx: &Cx) -> Result<Session, Error> {
        let session = connect::admin(&self.settings).await?;
        cx.progress();
        Ok(session)
    }
    /// The name of a login's entry.
    pub(super) fn dn(&self, login: &str) -> String {
        dn::of("uid", login, &self.settings.path)
    }
    /// Refuses logins that are never touched (H-19), and those that the server takes for another.
    pub(super) fn may_touch(&self, login: &str) -> Result<(), Error> {
        check::login(&self.settings, login)
            .map_err(|refusal| Error::new(Class::RefusedValue, refusal.to_string()))
    }
}

#[async_trait]
impl Adapter for Ldap {
    type Values = LdapValues;

    fn capabilities(&self) -> Capabilities {
        let mut all = CAPABILITIES;
        all.two_passwords = !self.options.one_password;
        all
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
        let session = self.session(cx).await?;
        let found = self.look_up(cx, &session, wish.login().as_str()).await?;
        drop(session);
        self.judge(wish, found.as_ref(), &Binds::One).await
    }
    async fn holds_all(
        &self,
        cx: &Cx,
        wishes: &[Provision<'_, LdapValues>],
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
        wishes: &[Provision<'_, LdapValues>],
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
    async fn find(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Found<LdapValues>>, Error> {
        self.offers(cx, marker).await
    }
    async fn doctor(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        self.examine(cx).await
    }
}
