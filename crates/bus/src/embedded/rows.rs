//! The statements: reading and writing rows, without a word about threads or files.

use mesh_sdk::bus::{Bucket, Entry, Epoch, Expect, Key, LogLine, Put, Rev, Snapshot, Write};
use mesh_sdk::time::Time;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

use super::schema::{from_stored, to_stored};

/// Epoch and newest revision.
pub(super) fn head(conn: &Connection) -> rusqlite::Result<Rev> {
    conn.prepare_cached("SELECT epoch, seq FROM _meta")?
        .query_row([], |row| rev(row, 0))
}

fn rev(row: &Row<'_>, at: usize) -> rusqlite::Result<Rev> {
    Ok(Rev {
        epoch: Epoch(from_stored(row.get(at)?)),
        seq: from_stored(row.get(at + 1)?),
    })
}

/// Sets the newest revision.
pub(super) fn set_head(conn: &Connection, seq: u64) -> rusqlite::Result<()> {
    conn.prepare_cached("UPDATE _meta SET seq = ?1")?
        .execute([to_stored(seq)])?;
    Ok(())
}

/// One value, and the epoch it was read in.
pub(super) fn get(
    conn: &Connection,
    bucket: Bucket,
    key: &Key,
) -> rusqlite::Result<(Epoch, Option<Entry>)> {
    let sql = "SELECT m.epoch, e.seq, e.value FROM _meta m
               LEFT JOIN entry e ON e.bucket = ?1 AND e.key = ?2";
    conn.prepare_cached(sql)?
        .query_row([bucket.as_str(), key.as_str()], |row| {
            let epoch = Epoch(from_stored(row.get(0)?));
            let seq: Option<i64> = row.get(1)?;
            let entry = match seq {
                None => None,
                Some(seq) => Some(Entry {
                    key: key.clone(),
                    rev: Rev {
                        epoch,
                        seq: from_stored(seq),
                    },
                    value: row.get(2)?,
                }),
            };
            Ok((epoch, entry))
        })
}

/// What lies under a prefix: the text itself, and from here to there. A dot comes right before a slash,
/// so no name that merely begins alike lies between.
struct Under {
    itself: String,
    from: String,
    to: String,
}

impl Under {
    /// `None` for everything.
    fn of(prefix: &Key) -> Option<Self> {
        let text = prefix.as_str();
        (!text.is_empty()).then(|| Self {
            itself: text.to_owned(),
            from: format!("{text}."),
            to: format!("{text}/"),
        })
    }
}

/// Everything under a prefix, in one read transaction.
pub(super) fn list(conn: &Connection, bucket: Bucket, prefix: &Key) -> rusqlite::Result<Snapshot> {
    let tx = conn.unchecked_transaction()?;
    let at = head(&tx)?;
    let mut entries = Vec::new();
    match Under::of(prefix) {
        None => {
            let sql = "SELECT key, seq, value FROM entry WHERE bucket = ?1 ORDER BY key";
            let mut all = tx.prepare_cached(sql)?;
            collect(&mut all, params![bucket.as_str()], at.epoch, &mut entries)?;
        }
        Some(under) => {
            let sql = "SELECT key, seq, value FROM entry WHERE bucket = ?1 AND key = ?2";
            let mut one = tx.prepare_cached(sql)?;
            let what = params![bucket.as_str(), under.itself];
            collect(&mut one, what, at.epoch, &mut entries)?;
            let sql = "SELECT key, seq, value FROM entry
                       WHERE bucket = ?1 AND key >= ?2 AND key < ?3 ORDER BY key";
            let mut below = tx.prepare_cached(sql)?;
            let what = params![bucket.as_str(), under.from, under.to];
            collect(&mut below, what, at.epoch, &mut entries)?;
        }
    }
    Ok(Snapshot { at, entries })
}

/// At most so many of those under a prefix that come after a key, in one read transaction.
pub(super) fn list_part(
    conn: &Connection,
    bucket: Bucket,
    prefix: &Key,
    after: Option<&Key>,
    most: usize,
) -> rusqlite::Result<Snapshot> {
    let tx = conn.unchecked_transaction()?;
    let at = head(&tx)?;
    let mut entries = Vec::new();
    // No key lies between one and the same with a NUL behind it.
    let next = after.map(|after| format!("{after}\0"));
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    match Under::of(prefix) {
        None => {
            let sql = "SELECT key, seq, value FROM entry
                       WHERE bucket = ?1 AND key >= ?2 ORDER BY key LIMIT ?3";
            let mut all = tx.prepare_cached(sql)?;
            let what = params![bucket.as_str(), next.unwrap_or_default(), limit];
            collect(&mut all, what, at.epoch, &mut entries)?;
        }
        Some(Under { itself, from, to }) => {
            let sql = "SELECT key, seq, value FROM entry
                       WHERE bucket = ?1 AND key >= ?2 AND key < ?3 AND (key = ?4 OR key >= ?5)
                       ORDER BY key LIMIT ?6";
            let mut below = tx.prepare_cached(sql)?;
            let start = next.unwrap_or_else(|| itself.clone());
            let what = params![bucket.as_str(), start, to, itself, from, limit];
            collect(&mut below, what, at.epoch, &mut entries)?;
        }
    }
    Ok(Snapshot { at, entries })
}

fn collect(
    statement: &mut CachedStatement<'_>,
    params: &[&dyn rusqlite::ToSql],
    epoch: Epoch,
    entries: &mut Vec<Entry>,
) -> rusqlite::Result<()> {
    let mut rows = statement.query(params)?;
    while let Some(row) = rows.next()? {
        entries.push(Entry {
            key: Key::from_stored(row.get(0)?),
            rev: Rev {
                epoch,
                seq: from_stored(row.get(1)?),
            },
            value: row.get(2)?,
        });
    }
    Ok(())
}

/// The keys that changed after a revision; `None` if there are more than `most`.
pub(super) fn changed_since(
    conn: &Connection,
    seq: u64,
    most: usize,
) -> rusqlite::Result<Option<Vec<(Bucket, Key)>>> {
    let mut statement =
        conn.prepare_cached("SELECT bucket, key FROM entry WHERE seq > ?1 LIMIT ?2")?;
    let limit = i64::try_from(most).unwrap_or(i64::MAX).saturating_add(1);
    let mut rows = statement.query([to_stored(seq), limit])?;
    let mut changed = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let bucket = Bucket::ALL.into_iter().find(|b| b.as_str() == name);
        if let Some(bucket) = bucket {
            changed.push((bucket, Key::from_stored(row.get(1)?)));
        }
    }
    Ok((changed.len() <= most).then_some(changed))
}

/// Writes one after the other, each if it finds what it expects. `next` is the last revision given out,
/// and is moved on.
pub(super) fn put_each(
    conn: &Connection,
    bucket: Bucket,
    writes: &[Write],
    epoch: Epoch,
    last: &mut u64,
) -> rusqlite::Result<Vec<Put>> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO entry (bucket, key, seq, value) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
    )?;
    let mut update = conn.prepare_cached(
        "UPDATE entry SET seq = ?3, value = ?4 WHERE bucket = ?1 AND key = ?2 AND seq = ?5",
    )?;
    let bucket = bucket.as_str();
    let mut outcomes = Vec::with_capacity(writes.len());
    for write in writes {
        let seq = *last + 1;
        let (key, value, stored) = (write.key.as_str(), &write.value, to_stored(seq));
        let hits = match write.expect {
            Expect::Absent => insert.execute(params![bucket, key, stored, value])?,
            Expect::At(rev) if rev.epoch == epoch => {
                update.execute(params![bucket, key, stored, value, to_stored(rev.seq)])?
            }
            Expect::At(_) => 0,
        };
        outcomes.push(if hits == 1 {
            *last = seq;
            Put::Done(Rev { epoch, seq })
        } else {
            Put::Conflict
        });
    }
    Ok(outcomes)
}

/// Adds a line to the history.
pub(super) fn append(
    conn: &Connection,
    seq: u64,
    at: Time,
    subject: &Key,
    value: &str,
) -> rusqlite::Result<()> {
    conn.prepare_cached("INSERT INTO log (seq, at, subject, value) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![
            to_stored(seq),
            at.as_millis(),
            subject.as_str(),
            value
        ])?;
    Ok(())
}

/// Lets the oldest lines of a subject go, beyond the newest `keep`.
pub(super) fn trim_subject(conn: &Connection, subject: &Key, keep: u64) -> rusqlite::Result<()> {
    let oldest_kept = conn
        .prepare_cached(
            "SELECT seq FROM log WHERE subject = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2",
        )?
        .query_row(params![subject.as_str(), to_stored(keep)], |row| {
            row.get::<_, i64>(0)
        })
        .optional()?;
    if let Some(seq) = oldest_kept {
        conn.prepare_cached("DELETE FROM log WHERE subject = ?1 AND seq <= ?2")?
            .execute(params![subject.as_str(), seq])?;
    }
    Ok(())
}

/// Lets the oldest lines of all go: beyond the newest `keep`, and those from before `cutoff`; at most
/// `most` of each kind in one go, so that no commit waits long for it.
pub(super) fn trim_all(
    conn: &Connection,
    keep: u64,
    cutoff: Time,
    most: u64,
) -> rusqlite::Result<()> {
    let lines: i64 = conn.query_row("SELECT count(*) FROM log", [], |row| row.get(0))?;
    let surplus = from_stored(lines).saturating_sub(keep).min(most);
    if surplus > 0 {
        conn.execute(
            "DELETE FROM log WHERE seq IN (SELECT seq FROM log ORDER BY seq LIMIT ?1)",
            [to_stored(surplus)],
        )?;
    }
    conn.execute(
        "DELETE FROM log WHERE at < ?1 AND seq IN (SELECT seq FROM log ORDER BY seq LIMIT ?2)",
        [cutoff.as_millis(), to_stored(most)],
    )?;
    Ok(())
}

/// The newest `limit` lines above `after` under a prefix, oldest first.
pub(super) fn history(
    conn: &Connection,
    prefix: &Key,
    after: u64,
    limit: usize,
) -> rusqlite::Result<Vec<LogLine>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let line = |row: &Row<'_>| {
        Ok(LogLine {
            seq: from_stored(row.get(0)?),
            subject: row.get(1)?,
            value: row.get(2)?,
        })
    };
    let mut lines: Vec<LogLine> = match Under::of(prefix) {
        None => conn
            .prepare_cached(
                "SELECT seq, subject, value FROM log WHERE seq > ?1 ORDER BY seq DESC LIMIT ?2",
            )?
            .query_map(params![to_stored(after), limit], line)?
            .collect::<rusqlite::Result<_>>()?,
        // The index alone finds the numbers; only the lines that are asked for are read.
        Some(under) => conn
            .prepare_cached(
                "SELECT seq, subject, value FROM log WHERE seq IN (
                     SELECT seq FROM (
                         SELECT seq FROM log WHERE subject = ?1 AND seq > ?4
                         UNION ALL
                         SELECT seq FROM log WHERE subject >= ?2 AND subject < ?3 AND seq > ?4
                     ) ORDER BY seq DESC LIMIT ?5
                 ) ORDER BY seq DESC",
            )?
            .query_map(
                params![under.itself, under.from, under.to, to_stored(after), limit],
                line,
            )?
            .collect::<rusqlite::Result<_>>()?,
    };
    lines.reverse();
    Ok(lines)
}
