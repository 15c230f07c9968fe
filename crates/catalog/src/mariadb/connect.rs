//! A connection of its own for every call: dialled, logged in as the admin, and told who the server is.

use std::sync::OnceLock;
use std::time::Duration;

use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::{Class, Error};
use mysql_async::prelude::Queryable;
use mysql_async::{ClientIdentity, Conn, Opts, OptsBuilder, Row, SslOpts};
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use super::account::Age;
use super::classify;
use crate::tls;

/// Our own deadline for getting a connection that answers. All later waiting is under the harness's.
const DEADLINE: Duration = Duration::from_secs(10);
/// The longest packet that is sent, and taken.
const PACKET: usize = 16 * 1024 * 1024;

/// Who the server says it is; asked on every connection, in one row of texts.
const FACTS: &str = "SELECT @@version, CURRENT_USER(), @@read_only, @@skip_grant_tables, \
     @@lower_case_table_names, UNIX_TIMESTAMP(), @@default_password_lifetime, \
     UNIX_TIMESTAMP() - VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
     WHERE VARIABLE_NAME = 'UPTIME'";

/// Settings of the session that all text in statements rests on. Without `NO_AUTO_CREATE_USER` a grant to
/// an account that went meanwhile would make it anew, without a password.
const SESSION: &str = "SET NAMES utf8mb4, SESSION sql_mode = 'NO_AUTO_CREATE_USER'";

/// Where the server is, and how to get in.
pub(super) struct Endpoint {
    settings: ProviderSettings,
    opts: OnceLock<Result<Opts, Error>>,
}

/// What the server says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Facts {
    /// `10.11.19-MariaDB-0+deb12u1`.
    pub(super) version: String,
    /// Who we are there: the account, not the login.
    pub(super) whoami: String,
    pub(super) read_only: bool,
    /// Started with `--skip-grant-tables`: whoever connects is let in.
    pub(super) open: bool,
    /// The server keeps names of databases in lower case.
    pub(super) lower_case: bool,
    pub(super) age: Age,
    /// The second of its start.
    pub(super) started: String,
}

/// A statement, and what it is for.
pub(super) struct Query {
    what: &'static str,
    sql: String,
}

impl Query {
    pub(super) fn new(what: &'static str, sql: impl Into<String>) -> Self {
        let sql = sql.into();
        Self { what, sql }
    }
}

/// An admin's connection.
pub(super) struct Session {
    conn: Conn,
    pub(super) facts: Facts,
    /// Held by a connection that writes under a fence.
    pub(super) turn: Option<OwnedMutexGuard<()>>,
}

impl Endpoint {
    /// No I/O yet.
    pub(super) fn new(settings: ProviderSettings) -> Self {
        Self {
            settings,
            opts: OnceLock::new(),
        }
    }
    pub(super) fn settings(&self) -> &ProviderSettings {
        &self.settings
    }
    /// Whether the connection is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.settings.scheme == "mariadbs"
    }

    /// A connection that is logged in as the admin.
    pub(super) async fn admin(&self) -> Result<Session, Error> {
        let result = match timeout(DEADLINE, self.log_in()).await {
            Ok(result) => result,
            Err(_) => Err(classify::late("log in")),
        };
        result.map_err(|error| {
            let message = format!("{} ({})", error.message(), self.settings.address());
            error.with_message(message)
        })
    }

    async fn log_in(&self) -> Result<Session, Error> {
        let settings = &self.settings;
        settings.may_connect(self.is_encrypted())?;
        let opts = self.opts.get_or_init(|| self.options());
        let opts = opts.as_ref().map_err(Clone::clone)?;
        const WHAT: &str = "log in as the admin";
        let conn = Conn::new(opts.clone()).await;
        let mut session = Session {
            conn: conn.map_err(|error| self.refused(classify::failed(WHAT, &error)))?,
            facts: Facts::default(),
            turn: None,
        };
        const WHO: &str = "ask who the server is";
        let queries = [
            Query::new("set up the session", SESSION),
            Query::new(WHO, FACTS),
        ];
        let mut facts = None;
        let read = |_, row| {
            facts = Some(Facts::read(&row)?);
            Some(())
        };
        session.ask(&queries, read, || ()).await?;
        session.facts = facts.ok_or_else(|| classify::garbled(WHO))?;
        Ok(session)
    }

    /// A server with `require_secure_transport` refuses a plain login as if the password were wrong.
    fn refused(&self, error: Error) -> Error {
        if error.class() != Class::Denied || self.is_encrypted() {
            return error;
        }
        let message = format!(
            "{}; a server with `require_secure_transport` refuses whoever comes without TLS in the same \
             words",
            error.message()
        );
        error.with_message(message)
    }

    fn options(&self) -> Result<Opts, Error> {
        let settings = &self.settings;
        let admin = settings.admin.as_ref();
        let password = admin.and_then(|admin| admin.password.as_ref());
        let password = password.and_then(|secret| secret.expose_str());
        let mut opts = OptsBuilder::default()
            .ip_or_hostname(settings.host.as_str())
            .tcp_port(settings.port)
            .user(admin.map(|admin| admin.user.as_str()))
            .pass(password)
            // Never by a socket that the server names: it may be another server's.
            .prefer_socket(false)
            .stmt_cache_size(0)
            .max_allowed_packet(Some(PACKET))
            .wait_timeout(Some(24 * 60 * 60));
        if self.is_encrypted() {
            opts = opts.ssl_opts(self.encryption()?);
        }
        Ok(Opts::from(opts))
    }

    fn encryption(&self) -> Result<SslOpts, Error> {
        let trusted = tls::trusted(&self.settings.tls)?;
        let trusted = trusted.into_iter().map(|der| der.to_vec().into());
        let ssl = SslOpts::default()
            .with_root_certs(trusted.collect())
            .with_disable_built_in_roots(true)
            .with_danger_accept_invalid_certs(self.settings.tls.dangerously_unverified);
        let Some((chain, key)) = &self.settings.tls.client_pem else {
            return Ok(ssl);
        };
        let identity = ClientIdentity::new(chain.clone().into(), key.expose().to_vec().into());
        Ok(ssl.with_client_identity(Some(identity)))
    }
}

impl Facts {
    fn read(row: &Row) -> Option<Self> {
        let number = |at| text(row, at).and_then(|text| text.parse::<f64>().ok());
        Some(Self {
            version: text(row, 0)?,
            whoami: text(row, 1)?,
            read_only: number(2)? != 0.0,
            open: number(3)? != 0.0,
            lower_case: number(4)? != 0.0,
            age: Age {
                now: number(5)? as i64,
                lifetime: number(6)? as i64,
            },
            started: format!("{:.0}", number(7)?),
        })
    }
    /// `MariaDB 10.11.19`, or what else it says it is.
    pub(super) fn title(&self) -> String {
        match self.version.split_once("-MariaDB") {
            Some((number, _)) => format!("MariaDB {number}"),
            None => self.version.clone(),
        }
    }
}

/// A column of a row as text.
pub(super) fn text(row: &Row, at: usize) -> Option<String> {
    match row.as_ref(at)? {
        mysql_async::Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

impl Session {
    /// Carries one statement out.
    pub(super) async fn run(&mut self, what: &str, sql: &str) -> Result<(), Error> {
        let done = self.conn.query_drop(sql).await;
        done.map_err(|error| classify::failed(what, &error))
    }

    /// All rows of one query. `sign` is called now and then while they come.
    pub(super) async fn rows(
        &mut self,
        what: &str,
        sql: &str,
        sign: impl Fn(),
    ) -> Result<Vec<Row>, Error> {
        let failed = |error| classify::failed(what, &error);
        let mut result = self.conn.query_iter(sql).await.map_err(failed)?;
        let mut rows = Vec::new();
        while let Some(row) = result.next().await.map_err(failed)? {
            rows.push(row);
            if rows.len() % 1024 == 0 {
                sign();
            }
        }
        sign();
        Ok(rows)
    }

    /// Several statements in one packet, the last of which has rows. Each row is handed over as it comes, with
    /// the place of its query; one that `put` does not understand ends it all, and so does a query that
    /// fails. `sign` is called now and then.
    pub(super) async fn ask(
        &mut self,
        queries: &[Query],
        mut put: impl FnMut(usize, Row) -> Option<()>,
        sign: impl Fn(),
    ) -> Result<(), Error> {
        let all: Vec<&str> = queries.iter().map(|query| query.sql.as_str()).collect();
        let begun = self.conn.query_iter(all.join("; ")).await;
        let what = queries.first().map_or("ask", |query| query.what);
        let mut result = begun.map_err(|error| classify::failed(what, &error))?;
        for (at, Query { what, .. }) in queries.iter().enumerate() {
            // The client has nothing here when the query failed, and says why when it is asked for rows.
            let (is_missing, mut rows) = (result.is_empty(), 0_usize);
            let failed = |error| classify::failed(what, &error);
            while let Some(row) = result.next().await.map_err(failed)? {
                put(at, row).ok_or_else(|| classify::garbled(what))?;
                rows += 1;
                if rows.is_multiple_of(1024) {
                    sign();
                }
            }
            if is_missing {
                return Err(classify::garbled(what));
            }
            sign();
        }
        Ok(())
    }

    /// Many statements in one packet. Gives back how many were done, and why the next one was not.
    pub(super) async fn run_each(&mut self, what: &str, sql: &str) -> (usize, Option<Error>) {
        let mut result = match self.conn.query_iter(sql).await {
            Ok(result) => result,
            Err(error) => return (0, Some(classify::failed(what, &error))),
        };
        let mut done = 0;
        loop {
            // The client goes on to the next result by itself. Why that one failed it says only when it is
            // asked once more, and until then it looks as if there were none.
            let is_last = result.is_empty();
            match result.next().await {
                Ok(_) => done += 1,
                Err(error) => return (done, Some(classify::failed(what, &error))),
            }
            if is_last {
                return (done, None);
            }
        }
    }

    /// Whether the server still answers.
    pub(super) async fn ping(&mut self) -> Result<(), Error> {
        let answer = self.conn.ping().await;
        answer.map_err(|error| classify::failed("ask for a sign of life", &error))
    }
}
