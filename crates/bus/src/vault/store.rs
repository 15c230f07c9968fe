//! The rows of the secret store, and the thread that writes them.

use std::path::PathBuf;

use mesh_sdk::vault::VaultFault;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use tokio::sync::oneshot;

use crate::files::Identity;
use crate::sqlite::{self, Trouble};
use crate::worker::Work;

/// The schema that this program writes.
pub(super) const SCHEMA: u32 = 1;

/// About so many bytes go to the log before they are moved into the file.
const CHECKPOINT: usize = 1 << 20;
/// The pages that any commit writes.
const PAGES: usize = 32 << 10;

const TABLES: &str = "
    CREATE TABLE _meta (
        id     INTEGER PRIMARY KEY CHECK (id = 1),
        key_id BLOB NOT NULL
    ) STRICT;
    CREATE TABLE secret (
        n        INTEGER PRIMARY KEY AUTOINCREMENT,
        provider TEXT NOT NULL,
        consumer TEXT NOT NULL,
        id       TEXT NOT NULL UNIQUE,
        envelope BLOB NOT NULL
    ) STRICT;
    CREATE INDEX secret_of ON secret (provider, consumer, n);
";

/// The key that seals what is in there; `None` if nothing was begun.
pub(super) fn key_id(conn: &Connection) -> rusqlite::Result<Option<Vec<u8>>> {
    let begun = conn
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE name = '_meta'",
            [],
            |_| Ok(()),
        )
        .optional()?;
    if begun.is_none() {
        return Ok(None);
    }
    conn.query_row("SELECT key_id FROM _meta", [], |row| row.get(0))
        .map(Some)
}

/// Makes the tables, sealed by this key.
pub(super) fn begin(conn: &Connection, key_id: &[u8]) -> rusqlite::Result<()> {
    conn.execute_batch(TABLES)?;
    conn.execute("INSERT INTO _meta (id, key_id) VALUES (1, ?1)", [key_id])?;
    conn.pragma_update(None, "user_version", SCHEMA)
}

/// The installation's id, if it was kept here. Stores from before it was kept have no such table.
pub(super) fn installation(conn: &Connection) -> rusqlite::Result<Option<String>> {
    let there = conn
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE name = 'installation'",
            [],
            |_| Ok(()),
        )
        .optional()?;
    if there.is_none() {
        return Ok(None);
    }
    conn.query_row("SELECT id FROM installation", [], |row| row.get(0))
        .optional()
}

/// Keeps the installation's id in place of any other. A table beside those of the schema, which programs
/// that do not know it leave alone.
fn keep_installation(conn: &Connection, id: &str) -> rusqlite::Result<()> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS installation (
            one INTEGER PRIMARY KEY CHECK (one = 1),
            id  TEXT NOT NULL
        ) STRICT;",
    )?;
    conn.execute(
        "INSERT OR REPLACE INTO installation (one, id) VALUES (1, ?1)",
        [id],
    )
    .map(drop)
}

/// One sealed secret, as it lies in the store.
pub(super) struct Row {
    pub(super) provider: String,
    pub(super) consumer: String,
    pub(super) id: String,
    pub(super) envelope: Vec<u8>,
}

/// One envelope.
pub(super) fn envelope(
    conn: &Connection,
    provider: &str,
    consumer: &str,
    id: &str,
) -> rusqlite::Result<Option<Vec<u8>>> {
    conn.prepare_cached(
        "SELECT envelope FROM secret WHERE id = ?1 AND provider = ?2 AND consumer = ?3",
    )?
    .query_row([id, provider, consumer], |row| row.get(0))
    .optional()
}

/// The ids of a place, newest first.
pub(super) fn ids(
    conn: &Connection,
    provider: &str,
    consumer: &str,
) -> rusqlite::Result<Vec<String>> {
    conn.prepare_cached(
        "SELECT id FROM secret WHERE provider = ?1 AND consumer = ?2 ORDER BY n DESC",
    )?
    .query_map([provider, consumer], |row| row.get(0))?
    .collect()
}

/// One row out of many: its number, consumer, id and envelope.
pub(super) type Numbered = (i64, String, String, Vec<u8>);

/// What a provider has after a number, oldest first, at most so many.
pub(super) fn part_of(
    conn: &Connection,
    provider: &str,
    after: i64,
    most: usize,
) -> rusqlite::Result<Vec<Numbered>> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    conn.prepare_cached(
        "SELECT n, consumer, id, envelope FROM secret WHERE provider = ?1 AND n > ?2
         ORDER BY n LIMIT ?3",
    )?
    .query_map(params![provider, after, most], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?
    .collect()
}

/// The newest of each consumer of a provider: consumer and id.
pub(super) fn newest(conn: &Connection, provider: &str) -> rusqlite::Result<Vec<(String, String)>> {
    // Beside max() the other columns are those of that row (sqlite.org/lang_select.html, bare columns).
    conn.prepare_cached(
        "SELECT consumer, id, max(n) FROM secret WHERE provider = ?1 GROUP BY consumer",
    )?
    .query_map([provider], |row| Ok((row.get(0)?, row.get(1)?)))?
    .collect()
}

/// What the writer is asked for.
pub(super) enum Job {
    /// Keeps these, all or none.
    Keep {
        rows: Vec<Row>,
        reply: oneshot::Sender<Result<(), VaultFault>>,
    },
    /// Lets one go.
    Discard {
        row: Row,
        reply: oneshot::Sender<Result<(), VaultFault>>,
    },
    /// Keeps the installation's id.
    Belong {
        installation: String,
        reply: oneshot::Sender<Result<(), VaultFault>>,
    },
}

impl Job {
    /// About how many bytes it writes.
    fn bytes(&self) -> usize {
        match self {
            Job::Keep { rows, .. } => rows.iter().map(|row| 256 + row.envelope.len()).sum(),
            Job::Discard { .. } | Job::Belong { .. } => 256,
        }
    }
}

/// The writer's state.
pub(super) struct Writer {
    pub(super) conn: Connection,
    pub(super) file: PathBuf,
    pub(super) identity: Identity,
    /// Bytes in the log, about.
    pub(super) logged: usize,
}

impl Work for Writer {
    type Job = Job;

    fn run(&mut self, jobs: Vec<Job>) {
        let done = self.commit(&jobs);
        self.logged += PAGES + jobs.iter().map(Job::bytes).sum::<usize>();
        for job in jobs {
            let (Job::Keep { reply, .. } | Job::Discard { reply, .. } | Job::Belong { reply, .. }) =
                job;
            // A caller that went away needs no answer.
            let _ = reply.send(done.clone());
        }
        if self.logged >= CHECKPOINT && sqlite::checkpoint(&self.conn).is_ok() {
            self.logged = 0;
        }
    }
}

impl Writer {
    fn commit(&mut self, jobs: &[Job]) -> Result<(), VaultFault> {
        sqlite::same_file(&self.file, self.identity).map_err(fault)?;
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|e| sql_fault(&e))?;
        for job in jobs {
            carry_out(&tx, job).map_err(|e| sql_fault(&e))?;
        }
        // If it is not known whether this worked, the caller is told that it did not: a sealed secret
        // that nothing refers to harms nobody.
        tx.commit().map_err(|e| sql_fault(&e))
    }
}

fn carry_out(conn: &Connection, job: &Job) -> rusqlite::Result<()> {
    match job {
        Job::Keep { rows, .. } => {
            let mut insert = conn.prepare_cached(
                "INSERT INTO secret (provider, consumer, id, envelope) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (id) DO NOTHING",
            )?;
            for row in rows {
                insert.execute(params![row.provider, row.consumer, row.id, row.envelope])?;
            }
        }
        Job::Discard { row, .. } => {
            conn.prepare_cached(
                "DELETE FROM secret WHERE id = ?1 AND provider = ?2 AND consumer = ?3",
            )?
            .execute(params![row.id, row.provider, row.consumer])?;
        }
        Job::Belong { installation, .. } => keep_installation(conn, installation)?,
    }
    Ok(())
}

pub(super) fn fault(trouble: Trouble) -> VaultFault {
    match trouble {
        Trouble::Full(text) => VaultFault::Full(text),
        Trouble::Unreachable(text) => VaultFault::Unusable(text),
        Trouble::Corrupt(text) => VaultFault::Unusable(format!("it is damaged: {text}")),
        Trouble::Replaced => VaultFault::Unusable("it was replaced while in use".to_owned()),
    }
}
pub(super) fn sql_fault(error: &rusqlite::Error) -> VaultFault {
    fault(sqlite::trouble(error))
}
