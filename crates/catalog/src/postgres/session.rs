//! A session of the admin's: what is said on it, and what the server says of itself there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mesh_sdk::{Class, Error};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_postgres::error::DbError;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, SimpleQueryMessage, SimpleQueryRow};

use super::classify;
use super::kept::{Idle, Kept};

/// How long a session that was kept may take to say who it is: one that a firewall forgot says nothing.
const SIGN_OF_LIFE: Duration = Duration::from_secs(3);

/// What is asked whenever a session is used, in one row: all of it may have changed since the last time.
pub(super) const FACTS: &str = "SELECT current_setting('server_version_num'), current_setting('server_version'), \
       pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on', \
       rolsuper, has_table_privilege('pg_catalog.pg_authid', 'SELECT'), \
       extract(epoch FROM pg_postmaster_start_time())::text, \
       extract(epoch FROM pg_conf_load_time())::text, current_setting('max_connections') \
     FROM pg_catalog.pg_roles WHERE rolname = current_user";
/// Its columns.
const COLUMNS: usize = 9;

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
    /// Changes with each start, and from server to server.
    pub(super) started: String,
    /// Changes with each start and each reading of the configuration.
    pub(super) configured: String,
    /// How many sessions it takes, of everybody.
    pub(super) most: usize,
}

/// A connection that is logged in. Dropped, it is closed at once; [`Line::part`] says good-bye.
pub(super) struct Line {
    client: Client,
    task: Option<JoinHandle<()>>,
    born: Instant,
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Line {
    pub(super) fn new(client: Client, task: JoinHandle<()>) -> Self {
        let born = Instant::now();
        Self {
            client,
            task: Some(task),
            born,
        }
    }
    pub(super) fn age(&self) -> Duration {
        self.born.elapsed()
    }
    pub(super) fn is_over(&self) -> bool {
        self.client.is_closed()
    }
    /// Says good-bye and does not wait for an answer; what is given back ends with the connection.
    pub(super) fn part(mut self) -> Option<JoinHandle<()>> {
        self.task.take()
    }
}

/// A session that a call has for itself. Dropped, it is closed at once, whatever the server is doing;
/// [`Session::close`] keeps it for the next call.
pub(super) struct Session {
    line: Line,
    pub(super) facts: Facts,
    database: Arc<str>,
    /// An earlier call had it, too.
    was_kept: bool,
    /// The facts are of this call.
    asked: bool,
    /// Something failed on it: no other call gets it.
    spoiled: AtomicBool,
    home: Home,
    permit: Option<OwnedSemaphorePermit>,
}

/// Where a session goes when its call is done.
#[derive(Clone)]
pub(super) struct Home {
    pub(super) kept: Arc<Kept>,
    pub(super) most: usize,
    /// It is in the database that every call begins in.
    pub(super) goes_first: bool,
}

/// A parameter of a query.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

impl Facts {
    pub(super) fn unknown() -> Self {
        Self {
            version: String::new(),
            major: 0,
            read_only: None,
            superuser: false,
            verifiers: false,
            started: String::new(),
            configured: String::new(),
            most: 0,
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
            most: text(8)?.parse().ok()?,
        })
    }
}

impl Session {
    /// One that has just been logged in.
    pub(super) fn new(line: Line, database: &str, home: Home) -> Self {
        let idle = Idle::new(line, database.into(), Facts::unknown());
        let mut session = Self::again(idle, home, None);
        session.was_kept = false;
        session
    }
    /// One that was kept. It may be dead, and nobody knows yet.
    pub(super) fn again(idle: Idle, home: Home, permit: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            line: idle.line,
            facts: idle.facts,
            database: idle.database,
            was_kept: true,
            asked: false,
            spoiled: AtomicBool::new(false),
            home,
            permit,
        }
    }
    pub(super) fn was_kept(&self) -> bool {
        self.was_kept
    }
    pub(super) fn give_permit(&mut self, permit: Option<OwnedSemaphorePermit>) {
        self.permit = permit;
    }
    pub(super) fn take_permit(&mut self) -> Option<OwnedSemaphorePermit> {
        self.permit.take()
    }

    /// Asks for the facts, after these statements and before those; gives the rows of the latter.
    pub(super) async fn greet(
        &mut self,
        before: &str,
        after: &str,
    ) -> Result<Vec<SimpleQueryRow>, Error> {
        const WHAT: &str = "ask who the server is";
        let statements = format!("{before}{FACTS}{after}");
        let asked = self.simple(WHAT, &statements);
        let mut rows = match self.was_kept {
            false => asked.await?,
            true => timeout(SIGN_OF_LIFE, asked)
                .await
                .map_err(|_| classify::late(WHAT))??,
        };
        let at = rows.iter().position(|row| row.len() == COLUMNS);
        let at = at.ok_or_else(|| classify::garbled(WHAT))?;
        let facts = Facts::read(&rows[at]);
        self.facts = facts.ok_or_else(|| classify::garbled(WHAT))?;
        self.asked = true;
        Ok(rows.split_off(at + 1))
    }

    /// Demands that it is of this run of the server: another one may have come to the same address. Costs
    /// no round trip of its own where more is asked behind it.
    pub(super) async fn must_be_of(&self, run: &str) -> Result<(), Error> {
        const WHAT: &str = "ask which run of the server this is";
        let other = || {
            let what = "the server was started anew, or is another one, while it was being asked";
            Error::new(Class::Unreachable, what)
        };
        if self.asked {
            return if self.facts.started == run {
                Ok(())
            } else {
                Err(other())
            };
        }
        let sql = "SELECT extract(epoch FROM pg_postmaster_start_time())::text";
        let asked = timeout(SIGN_OF_LIFE, self.query(WHAT, sql, &[])).await;
        let rows = asked.map_err(|_| classify::late(WHAT))??;
        let started = rows.first().map(|row| row.try_get::<_, &str>(0));
        match started {
            Some(Ok(started)) if started == run => Ok(()),
            Some(Ok(_)) => {
                self.spoil();
                Err(other())
            }
            _ => Err(classify::garbled(WHAT)),
        }
    }

    fn spoil(&self) {
        self.spoiled.store(true, Ordering::Relaxed);
    }

    fn spoilt(&self, what: &str, error: &tokio_postgres::Error) -> Error {
        self.spoil();
        classify::failed(what, error)
    }

    /// One query, in one round trip.
    pub(super) async fn query(
        &self,
        what: &str,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        let rows = self.line.client.query_typed(sql, params).await;
        rows.map_err(|error| self.spoilt(what, &error))
    }

    /// Statements without parameters; gives the rows of all of them.
    pub(super) async fn simple(&self, what: &str, sql: &str) -> Result<Vec<SimpleQueryRow>, Error> {
        let told = self.line.client.simple_query(sql).await;
        let told = told.map_err(|error| self.spoilt(what, &error))?;
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        };
        Ok(told.into_iter().filter_map(row).collect())
    }

    /// Statements whose failure is looked at more closely.
    pub(super) async fn run(&self, sql: &str) -> Result<(), Failed> {
        let done = self.line.client.batch_execute(sql).await;
        done.map_err(|error| {
            self.spoil();
            Failed::Said(error)
        })
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
        if let Some(task) = &mut self.line.task {
            let _ = task.await;
        }
    }

    /// How many sessions of ours wait for their next call at most.
    pub(super) fn most_kept(&self) -> usize {
        self.home.most.min(self.facts.most / 8)
    }

    /// Keeps it for the next call, if all went well and there is room; else says good-bye.
    pub(super) fn close(self) {
        if self.spoiled.load(Ordering::Relaxed) {
            drop(self.line.part());
            return;
        }
        let most = self.most_kept();
        let idle = Idle::new(self.line, self.database, self.facts);
        self.home.kept.put(idle, most, self.home.goes_first);
    }
}

/// How statements failed.
pub(super) enum Failed {
    /// What the client library met.
    Said(tokio_postgres::Error),
    /// Nothing was said, and why.
    Unsaid(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::Unsaid(error)
    }
}

impl Failed {
    pub(super) fn told(&self, what: &str) -> Error {
        match self {
            Failed::Said(error) => classify::failed(what, error),
            Failed::Unsaid(error) => error.clone(),
        }
    }
    fn db(&self) -> Option<&DbError> {
        match self {
            Failed::Said(error) => error.as_db_error().filter(|_| !error.is_closed()),
            Failed::Unsaid(_) => None,
        }
    }
    /// Whether the server said no, and goes on serving the connection.
    pub(super) fn is_refusal(&self) -> bool {
        self.db().is_some()
    }
    /// Whether the same works a moment later.
    pub(super) fn is_concurrent(&self) -> bool {
        let said = self.db();
        said.is_some_and(|db| classify::is_concurrent(db.code().code(), db.routine()))
    }
    /// Whether the server refused with a message that holds this word of ours.
    pub(super) fn says(&self, word: &str) -> bool {
        self.db().is_some_and(|db| db.message().contains(word))
    }
}
