//! The writer: one thread, one connection, and one synced commit for all that waits.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mesh_sdk::bus::{Bucket, Epoch, Fault, Key, Put, Write};
use mesh_sdk::clock::Clock;
use mesh_sdk::time::Time;
use rusqlite::{Connection, Transaction};
use tokio::sync::{broadcast, oneshot};

use super::highwater::{self, Edge, HighWater};
use super::{fault, rows, schema, sql_fault};
use crate::files::Identity;
use crate::sqlite;
use crate::watch::{Change, LOOK, MOST};
use crate::worker::Work;

/// Lines kept of one subject, and some more until it is trimmed.
const LINES_OF_SUBJECT: u64 = 200;
/// Lines kept in all.
const LINES: u64 = 250_000;
/// How long a line is kept.
const AGE: Duration = Duration::from_secs(400 * 24 * 3600);
/// So many lines come in before the whole history is looked over.
const LOOK_OVER: u64 = 1024;
/// The lower edge of the high-water mark is moved at most this often.
const MARK_EVERY: Duration = Duration::from_secs(10);
/// About so many bytes go to the log before they are moved into the file.
const CHECKPOINT: usize = 4 << 20;

/// What the writer is asked for.
pub(super) enum Job {
    /// Writes to a bucket.
    Put {
        bucket: Bucket,
        writes: Vec<Write>,
        reply: oneshot::Sender<Result<Vec<Put>, Fault>>,
    },
    /// Lines for the history.
    Append {
        lines: Vec<(Key, String)>,
        reply: oneshot::Sender<Result<(), Fault>>,
    },
    /// The replacement was told.
    Told {
        reply: oneshot::Sender<Result<(), Fault>>,
    },
    /// Somebody watches now.
    Wake,
}

impl Job {
    /// How many revisions it may take.
    fn revisions(&self) -> u64 {
        let count = match self {
            Job::Put { writes, .. } => writes.len(),
            Job::Append { lines, .. } => lines.len(),
            Job::Told { .. } | Job::Wake => 0,
        };
        u64::try_from(count).unwrap_or(u64::MAX)
    }
    /// About how many bytes it writes.
    fn bytes(&self) -> usize {
        match self {
            Job::Put { writes, .. } => writes.iter().map(|w| 128 + w.value.len()).sum(),
            Job::Append { lines, .. } => lines.iter().map(|(_, text)| 128 + text.len()).sum(),
            Job::Told { .. } | Job::Wake => 0,
        }
    }
}

/// What the writer shares with those that ask.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    /// The newest revision that it knows.
    pub(super) seq: AtomicU64,
    /// Whether its last write worked.
    pub(super) writable: AtomicBool,
}

/// The writer's state.
pub(super) struct Engine {
    pub(super) conn: Connection,
    pub(super) folder: PathBuf,
    pub(super) file: PathBuf,
    pub(super) identity: Identity,
    pub(super) installation: String,
    pub(super) epoch: Epoch,
    pub(super) clock: Clock,
    pub(super) changes: broadcast::Sender<Arc<Change>>,
    pub(super) gauge: Arc<Gauge>,
    pub(super) counts: Counts,
}

/// What it counts and remembers from one commit to the next.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// The newest revision that it has seen.
    seen: u64,
    /// No revision up to this one is given out: an earlier process may have.
    floor: u64,
    /// The connection's own counter of other processes' commits.
    version: i64,
    /// Bytes in the log, about.
    logged: usize,
    /// Lines since the history was looked over.
    lines: u64,
    /// When the mark was last moved.
    marked: Option<Time>,
}

impl Counts {
    /// Of a writer that begins at this revision and gives out none up to `floor`.
    pub(super) fn starting_at(seen: u64, floor: u64) -> Self {
        Self {
            seen,
            floor,
            ..Self::default()
        }
    }
}

/// What one commit brought.
struct Committed {
    outcomes: Vec<Vec<Put>>,
    change: Change,
    seq: u64,
    wrote: bool,
}

/// Why there was none.
enum Failed {
    /// Nothing was written.
    Undone(Fault),
    /// Nobody can tell.
    Unknown(String),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Failed::Undone(sql_fault(&error))
    }
}

impl Work for Engine {
    type Job = Job;

    fn run(&mut self, jobs: Vec<Job>) {
        if jobs.iter().all(|job| matches!(job, Job::Wake)) {
            return self.look();
        }
        match self.commit(&jobs) {
            Ok(done) => self.tell(jobs, done),
            Err(failed) => {
                self.gauge.writable.store(false, Ordering::Relaxed);
                refuse(jobs, &failed);
            }
        }
        if self.counts.logged >= CHECKPOINT && sqlite::checkpoint(&self.conn).is_ok() {
            self.counts.logged = 0;
        }
    }

    fn rest(&self) -> Option<Duration> {
        (self.changes.receiver_count() > 0).then_some(LOOK)
    }

    fn look(&mut self) {
        let found = self.others();
        let change = match found {
            Ok(None) => return,
            Ok(Some(change)) => change,
            Err(_) => Change::anything(),
        };
        // Nobody listening is no fault.
        let _ = self.changes.send(Arc::new(change));
    }

    fn finish(&mut self) {
        let Ok(tx) = schema::locked(&mut self.conn) else {
            return;
        };
        let ours = sqlite::same_file(&self.file, self.identity).is_ok();
        if let (true, Ok(head)) = (ours, rows::head(&tx))
            && head.epoch == self.epoch
        {
            let mark = HighWater {
                installation: self.installation.clone(),
                epoch: head.epoch.0,
                reached: head.seq,
                reserved: head.seq,
            };
            if let Err(error) = highwater::write(&self.folder, &mark) {
                tracing::warn!(%error, "the high-water mark of the bus was not written");
            }
        }
    }
}

impl Engine {
    /// One transaction for all of these.
    fn commit(&mut self, jobs: &[Job]) -> Result<Committed, Failed> {
        sqlite::same_file(&self.file, self.identity).map_err(|e| Failed::Undone(fault(e)))?;
        let now = self.clock.now();
        let tx = schema::locked(&mut self.conn)?;
        let head = rows::head(&tx)?;
        if head.epoch != self.epoch || head.seq < self.counts.seen {
            return Err(Failed::Undone(Fault::EpochChanged));
        }
        let mut keys = match rows_of_others(&tx, head.seq, self.counts.seen)? {
            Change::Keys(keys) => Some(keys),
            Change::Gap(_) => None,
        };
        let first = head.seq.max(self.counts.floor);
        let wanted: u64 = jobs.iter().map(Job::revisions).sum();
        let due = (self.counts.marked).is_none_or(|at| now.since(at) >= MARK_EVERY);
        let mark = Edge {
            installation: &self.installation,
            epoch: self.epoch,
            reached: head.seq,
            wanted: first + wanted,
        };
        if mark.keep(&self.folder, due).map_err(Failed::Undone)? {
            self.counts.marked = Some(now);
        }
        let mut last = first;
        let mut outcomes = Vec::with_capacity(jobs.len());
        for job in jobs {
            let done = carry_out(&tx, job, self.epoch, now, &mut last)?;
            if let (Some(keys), Job::Put { bucket, writes, .. }) = (&mut keys, job) {
                let hits = writes.iter().zip(&done);
                let hits = hits.filter(|(_, put)| matches!(put, Put::Done(_)));
                keys.extend(hits.map(|(write, _)| (*bucket, write.key.clone())));
            }
            outcomes.push(done);
        }
        self.counts.lines += lines_in(jobs);
        if self.counts.lines >= LOOK_OVER {
            rows::trim_all(&tx, LINES, now - AGE, 4 * LOOK_OVER)?;
            self.counts.lines = 0;
        }
        let wrote = last > first || jobs.iter().any(|job| matches!(job, Job::Told { .. }));
        let seq = if last > first { last } else { head.seq };
        if wrote {
            rows::set_head(&tx, seq)?;
            if let Err(error) = tx.commit() {
                return Err(self.after_failed_commit(&error));
            }
        }
        Ok(Committed {
            outcomes,
            change: keys.map_or_else(Change::anything, Change::of),
            seq,
            wrote,
        })
    }

    /// A commit whose sync failed may come back after a crash, unless another one takes its place in
    /// the log: so an empty one is tried at once.
    fn after_failed_commit(&mut self, error: &rusqlite::Error) -> Failed {
        let mut over = || -> rusqlite::Result<()> {
            let tx = schema::locked(&mut self.conn)?;
            let head = rows::head(&tx)?;
            rows::set_head(&tx, head.seq)?;
            tx.commit()
        };
        if sqlite::surely_undone(error) || over().is_ok() {
            return Failed::Undone(sql_fault(error));
        }
        Failed::Unknown(error.to_string())
    }

    /// Remembers what was committed, tells the watchers, and answers.
    fn tell(&mut self, jobs: Vec<Job>, done: Committed) {
        self.counts.seen = done.seq;
        self.gauge.seq.store(done.seq, Ordering::Relaxed);
        if done.wrote {
            self.gauge.writable.store(true, Ordering::Relaxed);
            self.counts.logged += 8192 + jobs.iter().map(Job::bytes).sum::<usize>();
        }
        if !done.change.is_nothing() {
            let _ = self.changes.send(Arc::new(done.change));
        }
        for (job, outcome) in jobs.into_iter().zip(done.outcomes) {
            // A caller that went away needs no answer.
            match job {
                Job::Put { reply, .. } => drop(reply.send(Ok(outcome))),
                Job::Append { reply, .. } | Job::Told { reply } => drop(reply.send(Ok(()))),
                Job::Wake => {}
            }
        }
    }

    /// What other processes changed since the last look; `None`: nothing.
    fn others(&mut self) -> Result<Option<Change>, Fault> {
        sqlite::same_file(&self.file, self.identity).map_err(fault)?;
        let sql = |e: rusqlite::Error| sql_fault(&e);
        let version = (self.conn.prepare_cached("PRAGMA data_version"))
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(sql)?;
        if version == self.counts.version {
            return Ok(None);
        }
        let tx = self.conn.unchecked_transaction().map_err(sql)?;
        let head = rows::head(&tx).map_err(sql)?;
        if head.epoch != self.epoch || head.seq < self.counts.seen {
            return Ok(Some(Change::anything()));
        }
        let change = rows_of_others(&tx, head.seq, self.counts.seen).map_err(sql)?;
        self.counts.version = version;
        self.counts.seen = head.seq;
        self.gauge.seq.store(head.seq, Ordering::Relaxed);
        Ok((!change.is_nothing()).then_some(change))
    }
}

fn rows_of_others(tx: &Connection, head: u64, seen: u64) -> rusqlite::Result<Change> {
    if head == seen {
        return Ok(Change::Keys(Vec::new()));
    }
    let keys = rows::changed_since(tx, seen, MOST)?;
    Ok(keys.map_or_else(Change::anything, Change::Keys))
}

fn carry_out(
    tx: &Transaction<'_>,
    job: &Job,
    epoch: Epoch,
    now: Time,
    last: &mut u64,
) -> rusqlite::Result<Vec<Put>> {
    match job {
        Job::Put { bucket, writes, .. } => rows::put_each(tx, *bucket, writes, epoch, last),
        Job::Append { lines, .. } => {
            for (subject, text) in lines {
                *last += 1;
                rows::append(tx, *last, now, subject, text)?;
                if is_turn(*last) {
                    rows::trim_subject(tx, subject, LINES_OF_SUBJECT)?;
                }
            }
            Ok(Vec::new())
        }
        Job::Told { .. } => schema::forget_replacement(tx).map(|()| Vec::new()),
        Job::Wake => Ok(Vec::new()),
    }
}

/// Whether the line of this number trims its subject: about one in sixteen, scattered, so that no way of
/// writing in turns leaves a subject out.
const fn is_turn(seq: u64) -> bool {
    seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60 == 0
}

fn lines_in(jobs: &[Job]) -> u64 {
    let appended = jobs.iter().filter(|job| matches!(job, Job::Append { .. }));
    appended.map(Job::revisions).sum()
}

fn refuse(jobs: Vec<Job>, failed: &Failed) {
    let fault = match failed {
        Failed::Undone(fault) => fault.clone(),
        Failed::Unknown(why) => Fault::Unreachable(format!("whether it wrote is not known: {why}")),
    };
    for job in jobs {
        match job {
            Job::Put { writes, reply, .. } => drop(reply.send(match failed {
                Failed::Undone(fault) => Err(fault.clone()),
                Failed::Unknown(_) => Ok(vec![Put::Unknown; writes.len()]),
            })),
            Job::Append { reply, .. } | Job::Told { reply } => drop(reply.send(Err(fault.clone()))),
            Job::Wake => {}
        }
    }
}

#[cfg(test)]
mod tests;
