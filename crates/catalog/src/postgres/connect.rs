//! How a call gets a session: one that was kept, or a new one, dialled, logged in, and told who the server is.
//!
//! No more than the provider's `connections` work at once (O-22), and no call ever waits for a second one
//! while it holds a first. Those that wait for their next call are beside them (`kept`).

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::{Class, Error};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryRow};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::classify;
use super::kept::Kept;
use super::session::{Home, Line, Session};
use super::values::PostgresOptions;
use crate::tls::client_config;

/// Our own deadline for getting a connection that answers. All later waiting is under the harness's.
const DEADLINE: Duration = Duration::from_secs(10);

/// Said first on every connection. Whoever owns a database may have set other things for it, and may have
/// made functions and operators there that must not be taken for the server's own. The limits end what we
/// began if we are gone.
const MANNERS: &str = "SET search_path = pg_catalog, pg_temp; \
     SET client_min_messages = error; \
     SET standard_conforming_strings = on; \
     SET lock_timeout = '8s'; \
     SET statement_timeout = '60s'; \
     SET idle_in_transaction_session_timeout = '60s'; \
     SELECT set_config('client_connection_check_interval', '2s', false) \
       WHERE current_setting('server_version_num')::int >= 140000; ";

/// Where the server is, and how to get in.
pub(super) struct Endpoint {
    settings: ProviderSettings,
    pub(super) options: PostgresOptions,
    tls: OnceLock<Result<MakeRustlsConnect, Error>>,
    permits: Arc<Semaphore>,
    kept: Arc<Kept>,
}

impl Endpoint {
    /// No I/O yet.
    pub(super) fn new(settings: ProviderSettings, options: PostgresOptions) -> Self {
        let permits = usize::try_from(options.connections).unwrap_or(1).max(1);
        Self {
            settings,
            options,
            tls: OnceLock::new(),
            permits: Arc::new(Semaphore::new(permits)),
            kept: Arc::default(),
        }
    }
    pub(super) fn settings(&self) -> &ProviderSettings {
        &self.settings
    }
    /// The admin's login.
    pub(super) fn admin_name(&self) -> &str {
        admin_name(&self.settings)
    }
    /// The database that the admin's connections are in.
    pub(super) fn home(&self) -> &str {
        home(&self.settings)
    }
    /// Whether the connection is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.settings.scheme == super::TLS_SCHEME
    }
    /// Whether a consumer's own password may be tried: the connection leaves this machine by no wire, or
    /// goes to a server whose certificate was verified (H-17).
    pub(super) fn may_carry_passwords(&self) -> bool {
        self.settings.may_carry_passwords(self.is_encrypted())
    }

    /// The admin's session, in its own database.
    pub(super) async fn admin(&self) -> Result<Session, Error> {
        self.admin_in(self.home()).await
    }
    /// The admin's session in another database of the server.
    pub(super) async fn admin_in(&self, database: &str) -> Result<Session, Error> {
        Ok(self.admin_asking(database, "").await?.0)
    }
    /// The same, with the answers to statements that are said in the same breath.
    pub(super) async fn admin_asking(
        &self,
        database: &str,
        statements: &str,
    ) -> Result<(Session, Vec<SimpleQueryRow>), Error> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        let session = self.asked(database, statements, permit);
        self.in_time("log in", session).await
    }
    /// One that was kept, without a question whether it is alive, or a new one. Whoever uses it asks that
    /// itself, and comes for a new one where it is dead.
    pub(super) async fn unasked_in(&self, database: &str) -> Result<Session, Error> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        match self.kept.take(database) {
            Some(idle) => Ok(Session::again(idle, self.home_of(database), permit)),
            None => self.new_in(database, permit).await,
        }
    }
    /// A new one in the place of one that was kept and is dead.
    pub(super) async fn instead_of(
        &self,
        mut dead: Session,
        database: &str,
    ) -> Result<Session, Error> {
        let permit = dead.take_permit();
        drop(dead);
        self.new_in(database, permit).await
    }
    /// The admin's connection that waits for hints and counts as none of the others.
    pub(super) async fn watcher(&self) -> Result<Session, Error> {
        self.new_in(self.home(), None).await
    }
    /// Ends the sessions that wait in a database, and returns when they are over.
    pub(super) async fn end_kept_in(&self, database: &str) {
        self.kept.end(Some(database)).await;
    }

    async fn new_in(
        &self,
        database: &str,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Session, Error> {
        let new = async {
            let (mut session, _) = self.log_in(database, "").await?;
            session.give_permit(permit);
            Ok(session)
        };
        self.in_time("log in", new).await
    }

    async fn asked(
        &self,
        database: &str,
        statements: &str,
        mut permit: Option<OwnedSemaphorePermit>,
    ) -> Result<(Session, Vec<SimpleQueryRow>), Error> {
        if let Some(idle) = self.kept.take(database) {
            let mut session = Session::again(idle, self.home_of(database), permit);
            match session.greet("", &format!("; {statements}")).await {
                Ok(rows) => return Ok((session, rows)),
                // It is dead, or no good: a new one says what is the matter, if anything is.
                Err(_) => permit = session.take_permit(),
            }
        }
        let (mut session, rows) = self.log_in(database, statements).await?;
        session.give_permit(permit);
        Ok((session, rows))
    }

    fn home_of(&self, database: &str) -> Home {
        Home {
            kept: Arc::clone(&self.kept),
            most: usize::try_from(self.options.kept_sessions).unwrap_or(0),
            goes_first: database == self.home(),
        }
    }

    async fn log_in(
        &self,
        database: &str,
        statements: &str,
    ) -> Result<(Session, Vec<SimpleQueryRow>), Error> {
        let password = self.settings.admin.as_ref();
        let password = password.and_then(|admin| admin.password.as_ref());
        let password = password.map(|password| password.expose());
        let mut dialled = self.dial(self.admin_name(), password, database).await?;
        // Where the server has no room, those that wait are the first to go.
        if dialled.as_ref().is_err_and(is_full) && self.kept.end(None).await {
            dialled = self.dial(self.admin_name(), password, database).await?;
        }
        let (client, task) = dialled.map_err(|error| {
            let what = format!("log in as the admin `{}`", self.admin_name());
            classify::failed(&what, &error)
        })?;
        let line = Line::new(client, task);
        let mut session = Session::new(line, database, self.home_of(database));
        let rows = session.greet(MANNERS, &format!("; {statements}")).await?;
        Ok((session, rows))
    }

    /// Logs in as a consumer and goes again. Both kinds of failure are told apart: no connection, or what
    /// the server said.
    pub(super) async fn try_login(
        &self,
        user: &str,
        password: &[u8],
        database: &str,
    ) -> Result<Result<(), tokio_postgres::Error>, Error> {
        let _permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        let tried = async {
            let dialled = self.dial(user, Some(password), database).await?;
            Ok(dialled.map(|(client, _task)| drop(client)))
        };
        self.in_time("log in as a consumer", tried).await
    }

    async fn dial(
        &self,
        user: &str,
        password: Option<&[u8]>,
        database: &str,
    ) -> Result<Result<(Client, JoinHandle<()>), tokio_postgres::Error>, Error> {
        let settings = &self.settings;
        settings.may_connect(self.is_encrypted())?;
        let broken = |error| classify::broken("connect", &error);
        let target = (settings.host.as_str(), settings.port);
        let socket = TcpStream::connect(target).await.map_err(broken)?;
        socket.set_nodelay(true).map_err(broken)?;
        let mut config = Config::new();
        config
            .user(user)
            .dbname(database)
            .application_name("meshkeeper");
        if let Some(password) = password {
            config.password(password);
        }
        if !self.is_encrypted() {
            config.ssl_mode(SslMode::Disable);
            let connected = config.connect_raw(socket, NoTls).await;
            return Ok(connected.map(|(client, connection)| {
                (client, tokio::spawn(async { drop(connection.await) }))
            }));
        }
        config.ssl_mode(SslMode::Require);
        let made = self
            .tls
            .get_or_init(|| client_config(settings).map(MakeRustlsConnect::new));
        let mut make = made.as_ref().map_err(Clone::clone)?.clone();
        let tls = MakeTlsConnect::<TcpStream>::make_tls_connect(&mut make, &settings.host);
        let tls = tls.map_err(|error| {
            Error::new(Class::RefusedValue, format!("TLS cannot be used: {error}"))
        })?;
        let connected = config.connect_raw(socket, tls).await;
        Ok(connected
            .map(|(client, connection)| (client, tokio::spawn(async { drop(connection.await) }))))
    }

    async fn in_time<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let result = match timeout(DEADLINE, call).await {
            Ok(result) => result,
            Err(_) => Err(classify::late(what)),
        };
        result.map_err(|error| {
            let message = format!("{} ({})", error.message(), self.settings.address());
            error.with_message(message)
        })
    }
}

fn is_full(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code() == "53300")
}

/// Who the admin's connections are.
pub(super) fn admin_name(settings: &ProviderSettings) -> &str {
    settings
        .admin
        .as_ref()
        .map_or("postgres", |admin| admin.user.as_str())
}

/// The database that they are in.
pub(super) fn home(settings: &ProviderSettings) -> &str {
    match settings.path.as_str() {
        "" => "postgres",
        path => path,
    }
}
