//! The tables, and what a store is found to be when it is opened.

use std::cmp::Ordering;
use std::path::Path;

use mesh_sdk::bus::Fault;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::highwater::{self, HighWater, Replaced, Seen};
use super::{io_fault, sql_fault};

/// The schema that this program writes.
pub(super) const SCHEMA: u32 = 1;
/// Marks the file as ours: "MESH".
const APPLICATION: i64 = 0x4d45_5348;

/// One row in `_meta`; entries by bucket and key, with a way to those that changed since a revision; and
/// the history.
const TABLES: &str = "
    CREATE TABLE _meta (
        id           INTEGER PRIMARY KEY CHECK (id = 1),
        installation TEXT NOT NULL,
        epoch        INTEGER NOT NULL,
        schema       INTEGER NOT NULL,
        seq          INTEGER NOT NULL,
        replaced     TEXT
    ) STRICT;
    CREATE TABLE entry (
        bucket TEXT NOT NULL,
        key    TEXT NOT NULL,
        seq    INTEGER NOT NULL,
        value  BLOB NOT NULL,
        PRIMARY KEY (bucket, key)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE log (
        seq     INTEGER PRIMARY KEY,
        at      INTEGER NOT NULL,
        subject TEXT NOT NULL,
        value   TEXT NOT NULL
    ) STRICT;
    CREATE INDEX log_subject ON log (subject, seq);
";

/// What a store says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meta {
    /// The installation.
    pub(super) installation: String,
    /// The epoch.
    pub(super) epoch: u64,
    /// The newest revision.
    pub(super) seq: u64,
    /// Why it has this epoch, until that was told.
    pub(super) replaced: Option<Replaced>,
}

/// Numbers are 64 bits without a sign here, and with one in the file.
pub(super) fn to_stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
/// The way back.
pub(super) fn from_stored(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Reads `_meta`; `None` from a file in which nothing was begun.
pub(super) fn read(conn: &Connection) -> rusqlite::Result<Option<Meta>> {
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
    conn.query_row(
        "SELECT installation, epoch, seq, replaced FROM _meta",
        [],
        |row| {
            let replaced: Option<String> = row.get(3)?;
            Ok(Some(Meta {
                installation: row.get(0)?,
                epoch: from_stored(row.get(1)?),
                seq: from_stored(row.get(2)?),
                replaced: replaced
                    .map(|text| serde_json::from_str(&text).unwrap_or(Replaced::DamagedMark)),
            }))
        },
    )
}

/// What a store that was opened is, and what it shall say of itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing is there: the tables are made, and begin with this.
    Begin(Meta),
    /// It is the one that this folder knows.
    Known(Meta),
    /// It is another one: it gets a new epoch.
    Redate(Meta),
}

/// Compares a store with the mark beside it. `fresh` is the installation's id if none is known.
pub(super) fn judge(store: Option<Meta>, mark: &Seen, fresh: &str) -> Verdict {
    let newest = match mark {
        Seen::Mark(mark) => mark.epoch,
        _ => 0,
    };
    let Some(store) = store else {
        let (installation, replaced) = match mark {
            Seen::Mark(mark) if mark.reached == 0 => (mark.installation.as_str(), None),
            Seen::Mark(mark) => (mark.installation.as_str(), Some(Replaced::Wiped)),
            Seen::Missing => (fresh, None),
            Seen::Damaged => (fresh, Some(Replaced::Wiped)),
        };
        return Verdict::Begin(Meta {
            installation: installation.to_owned(),
            epoch: if replaced.is_none() { 1 } else { newest + 1 },
            seq: 1,
            replaced,
        });
    };
    match difference(&store, mark) {
        None => Verdict::Known(store),
        Some(why) => Verdict::Redate(Meta {
            epoch: newest.max(store.epoch) + 1,
            replaced: Some(why),
            ..store
        }),
    }
}

fn difference(store: &Meta, mark: &Seen) -> Option<Replaced> {
    let mark = match mark {
        Seen::Missing => return Some(Replaced::NoMark),
        Seen::Damaged => return Some(Replaced::DamagedMark),
        Seen::Mark(mark) => mark,
    };
    if mark.installation != store.installation {
        let (before, now) = (mark.installation.clone(), store.installation.clone());
        return Some(Replaced::OtherInstallation { before, now });
    }
    // A store of a newer epoch than its mark is one whose new epoch was just begun: it goes on.
    match store.epoch.cmp(&mark.epoch) {
        Ordering::Greater => None,
        Ordering::Less => Some(Replaced::OlderEpoch {
            epoch: store.epoch,
            newest: mark.epoch,
        }),
        Ordering::Equal if store.seq < mark.reached => Some(Replaced::Older {
            seq: store.seq,
            reached: mark.reached,
        }),
        Ordering::Equal => None,
    }
}

/// Begins, takes or re-dates the store, under its write lock. Answers what it is now, and whether the
/// tables were made by this.
pub(super) fn settle(
    conn: &mut Connection,
    folder: &Path,
    fresh: &str,
) -> Result<(Meta, bool), Fault> {
    let sql = |e| sql_fault(&e);
    let tx = locked(conn).map_err(sql)?;
    let store = read(&tx).map_err(sql)?;
    let mark = highwater::read(folder).map_err(|e| io_fault(&e))?;
    let (meta, made) = match judge(store, &mark, fresh) {
        Verdict::Known(meta) => return Ok((meta, false)),
        Verdict::Redate(meta) => (meta, false),
        Verdict::Begin(meta) => {
            if meta.replaced.is_none() {
                // Before the store, so that one without a mark is always one that lost it.
                let mark = mark_of(&meta, 0);
                highwater::write(folder, &mark).map_err(|e| io_fault(&e))?;
            }
            begin(&tx).map_err(sql)?;
            (meta, true)
        }
    };
    write_meta(&tx, &meta).map_err(sql)?;
    tx.commit().map_err(sql)?;
    let _lock = locked(conn).map_err(sql)?;
    let mark = mark_of(&meta, meta.seq);
    highwater::write(folder, &mark).map_err(|e| io_fault(&e))?;
    Ok((meta, made))
}

/// A transaction that holds the write lock from its beginning.
pub(super) fn locked(conn: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    conn.transaction_with_behavior(TransactionBehavior::Immediate)
}

fn mark_of(meta: &Meta, reached: u64) -> HighWater {
    HighWater {
        installation: meta.installation.clone(),
        epoch: meta.epoch,
        reached,
        reserved: meta.seq,
    }
}

fn begin(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute_batch(TABLES)?;
    tx.pragma_update(None, "user_version", SCHEMA)?;
    tx.pragma_update(None, "application_id", APPLICATION)
}

fn write_meta(tx: &Transaction<'_>, meta: &Meta) -> rusqlite::Result<()> {
    let replaced = meta
        .replaced
        .as_ref()
        .and_then(|why| serde_json::to_string(why).ok());
    tx.execute(
        "INSERT OR REPLACE INTO _meta (id, installation, epoch, schema, seq, replaced) VALUES (1, ?1, ?2, ?3, ?4, ?5)",
        params![
            meta.installation,
            to_stored(meta.epoch),
            SCHEMA,
            to_stored(meta.seq),
            replaced
        ],
    )?;
    Ok(())
}

/// Notes that the replacement was told, so that the next opening does not tell it again.
pub(super) fn forget_replacement(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute("UPDATE _meta SET replaced = NULL", [])?;
    Ok(())
}
