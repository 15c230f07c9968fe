//! A connection of its own for every call: dialled, logged in, and told who the server is.
//!
//! None is kept: a call that was cut off leaves nothing behind that is used again (H-9). No more than the
//! provider's `connections` are open at once (O-22), and no call ever waits for a second one while it
//! holds a first.

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
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls, Row, SimpleQueryMessage, SimpleQueryRow};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::classify;
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
       WHERE current_setting('server_version_num')::int >= 140000; \
     SELECT current_setting('server_version_num'), current_setting('server_version'), \
       pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on', \
       rolsuper, has_table_privilege('pg_catalog.pg_authid', 'SELECT'), \
       extract(epoch FROM pg_postmaster_start_time())::text, \
       extract(epoch FROM pg_conf_load_time())::text \
     FROM pg_catalog.pg_roles WHERE rolname = current_user";

/// Where the server is, and how to get in.
pub(super) struct Endpoint {
    settings: ProviderSettings,
    pub(super) options: PostgresOptions,
    tls: OnceLock<Result<MakeRustlsConnect, Error>>,
    permits: Arc<Semaphore>,
}

/// What a server says of itself, and of us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// `15.18`.
    pub(super) version: String,
    /// `15`.
    pub(super) major: u32,
    /// Why it takes no writes, if it does not.
    pub(super) read_only: Option<&'static str>,
    /// The admin login is a superuser.
    pub(super) superuser: bool,
    /// The admin login may read verifiers, in the database of this connection.
    pub(super) verifiers: bool,
    /// Changes with each start.
    pub(super) started: String,
    /// Changes with each start and each reading of the configuration.
    pub(super) configured: String,
}

/// A connection. Dropped, it is closed at once; [`Session::close`] says good-bye.
pub(super) struct Session {
    client: Option<Client>,
    task: JoinHandle<()>,
    pub(super) facts: Facts,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.client.is_some() {
            self.task.abort();
        }
    }
}

/// A parameter of a query.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

impl Endpoint {
    /// No I/O yet.
    pub(super) fn new(settings: ProviderSettings, options: PostgresOptions) -> Self {
        let permits = usize::try_from(options.connections).unwrap_or(1).max(1);
        Self {
            settings,
            options,
            tls: OnceLock::new(),
            permits: Arc::new(Semaphore::new(permits)),
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

    /// The admin's connection, in its own database.
    pub(super) async fn admin(&self) -> Result<Session, Error> {
        self.admin_in(self.home()).await
    }
    /// The admin's connection to another database of the server.
    pub(super) async fn admin_in(&self, database: &str) -> Result<Session, Error> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        self.in_time("log in", self.log_in(database, permit)).await
    }
    /// The admin's connection that waits for hints and counts as none of the others.
    pub(super) async fn watcher(&self) -> Result<Session, Error> {
        let home = self.home();
        self.in_time("log in", self.log_in(home, None)).await
    }

    async fn log_in(
        &self,
        database: &str,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Session, Error> {
        let password = self.settings.admin.as_ref();
        let password = password.and_then(|admin| admin.password.as_ref());
        let password = password.map(|password| password.expose());
        let dialled = self.dial(self.admin_name(), password, database).await?;
        let (client, task) = dialled.map_err(|error| {
            let what = format!("log in as the admin `{}`", self.admin_name());
            classify::failed(&what, &error)
        })?;
        let mut session = Session {
            client: Some(client),
            task,
            facts: Facts::unknown(),
            _permit: permit,
        };
        let rows = session.simple("ask who the server is", MANNERS).await?;
        let facts = rows.last().and_then(Facts::read);
        session.facts = facts.ok_or_else(|| classify::garbled("ask who the server is"))?;
        Ok(session)
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

impl Facts {
    fn unknown() -> Self {
        Self {
            version: String::new(),
            major: 0,
            read_only: None,
            superuser: false,
            verifiers: false,
            started: String::new(),
            configured: String::new(),
        }
    }
    fn read(row: &SimpleQueryRow) -> Option<Self> {
        let text = |index| row.get(index);
        let is = |index| text(index) == Some("t");
        let number: u32 = text(0)?.parse().ok()?;
        let read_only = if is(2) {
            Some("it is a standby")
        } else if is(3) {
            Some("`default_transaction_read_only` is on")
        } else {
            None
        };
        Some(Self {
            // Debian adds its own version in brackets.
            version: text(1)?.split(' ').next()?.to_owned(),
            major: number / 10_000,
            read_only,
            superuser: is(4),
            verifiers: is(5),
            started: text(6)?.to_owned(),
            configured: format!("{} {}", text(6)?, text(7)?),
        })
    }
}

impl Session {
    fn client(&self) -> Result<&Client, Error> {
        let gone = || Error::new(Class::Bug, "the connection was closed before");
        self.client.as_ref().ok_or_else(gone)
    }

    /// One query, in one round trip.
    pub(super) async fn query(
        &self,
        what: &str,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        let rows = self.client()?.query_typed(sql, params).await;
        rows.map_err(|error| classify::failed(what, &error))
    }

    /// Statements without parameters; gives the rows of all of them.
    pub(super) async fn simple(&self, what: &str, sql: &str) -> Result<Vec<SimpleQueryRow>, Error> {
        let told = self.client()?.simple_query(sql).await;
        let told = told.map_err(|error| classify::failed(what, &error))?;
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        };
        Ok(told.into_iter().filter_map(row).collect())
    }

    /// Statements whose failure is looked at more closely.
    pub(super) async fn run(&self, sql: &str) -> Result<(), Failed> {
        let client = self.client().map_err(Failed::Ours)?;
        let done = client.batch_execute(sql).await;
        done.map_err(Failed::Theirs)
    }

    /// Refuses to begin a write on a server that takes none (H-21).
    pub(super) fn must_write(&self) -> Result<(), Error> {
        match self.facts.read_only {
            None => Ok(()),
            Some(why) => {
                let message = format!("waits for a writable server: {why}");
                Err(Error::new(Class::ReadOnly, message))
            }
        }
    }

    /// Returns when the connection is over.
    pub(super) async fn over(&mut self) {
        let _ = (&mut self.task).await;
    }

    /// Says good-bye and does not wait for an answer.
    pub(super) fn close(mut self) {
        self.client = None;
    }
}

/// How statements failed.
pub(super) enum Failed {
    Ours(Error),
    Theirs(tokio_postgres::Error),
}

impl Failed {
    pub(super) fn told(&self, what: &str) -> Error {
        match self {
            Failed::Ours(error) => error.clone(),
            Failed::Theirs(error) => classify::failed(what, error),
        }
    }
    /// Whether the server said no, and goes on serving the connection.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Failed::Ours(_) => false,
            Failed::Theirs(error) => error.as_db_error().is_some() && !error.is_closed(),
        }
    }
    /// Whether the same works a moment later.
    pub(super) fn is_concurrent(&self) -> bool {
        match self {
            Failed::Ours(_) => false,
            Failed::Theirs(error) => error
                .as_db_error()
                .is_some_and(|db| classify::is_concurrent(db.code().code(), db.routine())),
        }
    }
}
