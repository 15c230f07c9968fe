//! SQLite as both stores use it: how a file is opened, read beside a writer, and what its errors mean.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::ffi;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::files::{self, Identity, Stamp};

/// How long one waits for another process that holds the file.
const BUSY: Duration = Duration::from_secs(5);

/// What an error of the database means for a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It takes no more.
    Full(String),
    /// It cannot be opened or reached now.
    Unreachable(String),
    /// What is stored cannot be read.
    Corrupt(String),
    /// Another file, or none, lies where the one that was opened lay.
    Replaced,
}

/// Judges an error. Its text names no value that was bound.
pub(crate) fn trouble(error: &rusqlite::Error) -> Trouble {
    let text = error.to_string();
    let rusqlite::Error::SqliteFailure(code, _) = error else {
        // A row of another shape than this program writes.
        return Trouble::Corrupt(text);
    };
    match code.code {
        ErrorCode::DiskFull | ErrorCode::ReadOnly => Trouble::Full(text),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Trouble::Corrupt(text),
        ErrorCode::SystemIoFailure => match code.extended_code {
            ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_LOCK => Trouble::Unreachable(text),
            ffi::SQLITE_IOERR_SHORT_READ | ffi::SQLITE_IOERR_CORRUPTFS => Trouble::Corrupt(text),
            _ => Trouble::Full(text),
        },
        _ => Trouble::Unreachable(text),
    }
}

/// Judges an error of the file system.
pub(crate) fn file_trouble(error: &std::io::Error) -> Trouble {
    if files::is_full(error) {
        Trouble::Full(error.to_string())
    } else {
        Trouble::Unreachable(error.to_string())
    }
}

/// Errors: [`Trouble::Replaced`] if another file, or none, lies where this one was. Whoever went on would
/// write to a file that nobody finds again.
pub(crate) fn same_file(path: &Path, identity: Identity) -> Result<(), Trouble> {
    match Identity::of(path) {
        Ok(now) if now == identity => Ok(()),
        Ok(_) => Err(Trouble::Replaced),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Trouble::Replaced),
        Err(error) => Err(file_trouble(&error)),
    }
}

/// Whether a commit that ended with this error surely left nothing behind.
///
/// The last page of a commit carries its seal. If writing the pages failed, the seal is not there. If
/// only the sync failed, it may be, and a crash may bring it back.
pub(crate) fn surely_undone(error: &rusqlite::Error) -> bool {
    let rusqlite::Error::SqliteFailure(code, _) = error else {
        return false;
    };
    matches!(
        code.code,
        ErrorCode::DiskFull | ErrorCode::ReadOnly | ErrorCode::DatabaseBusy
    ) || code.extended_code == ffi::SQLITE_IOERR_WRITE
}

/// Opens a file for writing, made with mode 0600 if it is missing: write-ahead log, every commit synced.
/// Checkpoints are the writer's own to do, after it has answered.
pub(crate) fn open_writer(path: &Path, known: u32) -> Result<Connection, OpenFault> {
    files::make_private(path).map_err(|e| OpenFault::Trouble(file_trouble(&e)))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY)?;
    refuse_newer(&conn, known)?;
    conn.execute_batch("PRAGMA page_size = 8192;")?;
    conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    conn.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -16384; PRAGMA journal_size_limit = 67108864;",
    )?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

/// Why a file could not be opened.
#[derive(Debug)]
pub(crate) enum OpenFault {
    /// The database or the file system says so.
    Trouble(Trouble),
    /// A newer program wrote it; the schema found.
    Newer(u32),
}

impl From<rusqlite::Error> for OpenFault {
    fn from(error: rusqlite::Error) -> Self {
        OpenFault::Trouble(trouble(&error))
    }
}

/// The schema number of a file; 0 of an empty one.
pub(crate) fn schema_of(conn: &Connection) -> rusqlite::Result<u32> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Refuses a file that a newer program wrote, before anything of it is touched.
pub(crate) fn refuse_newer(conn: &Connection, known: u32) -> Result<(), OpenFault> {
    match schema_of(conn)? {
        found if found > known => Err(OpenFault::Newer(found)),
        _ => Ok(()),
    }
}

/// Moves what the log holds into the file, as far as no reader is in the way.
pub(crate) fn checkpoint(conn: &Connection) -> rusqlite::Result<()> {
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    // Mass writes fill the cache with pages that nobody asks for again.
    conn.execute_batch("PRAGMA shrink_memory")
}

/// How a file is read.
pub(crate) enum Reads {
    /// Beside our own writer: the log is there, connections are kept.
    Beside {
        /// The file.
        path: PathBuf,
        /// Which file that was.
        identity: Identity,
        /// Connections that nobody uses now.
        idle: Mutex<Vec<Connection>>,
    },
    /// From a process that only reads.
    Alone(PathBuf),
}

impl Reads {
    /// Reads beside the writer of this process.
    pub(crate) fn beside(path: &Path, identity: Identity) -> Self {
        Reads::Beside {
            path: path.to_owned(),
            identity,
            idle: Mutex::new(Vec::new()),
        }
    }
    /// Runs a read; `None` if the file is not there. `read` may run more than once.
    pub(crate) fn read<T>(
        &self,
        read: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, Trouble> {
        match self {
            Reads::Alone(path) => read_alone(path, read),
            Reads::Beside {
                path,
                identity,
                idle,
            } => {
                same_file(path, *identity)?;
                let kept = idle.lock().ok().and_then(|mut idle| idle.pop());
                let conn = match kept {
                    Some(conn) => conn,
                    None => open_reader(path).map_err(|e| trouble(&e))?,
                };
                let got = read(&conn).map_err(|e| trouble(&e))?;
                if let Ok(mut idle) = idle.lock()
                    && idle.len() < KEPT
                {
                    idle.push(conn);
                }
                Ok(Some(got))
            }
        }
    }
    /// Lets every kept connection go.
    pub(crate) fn close(&self) {
        if let Reads::Beside { idle, .. } = self
            && let Ok(mut idle) = idle.lock()
        {
            idle.clear();
        }
    }
}

/// So many reading connections are kept open.
const KEPT: usize = 4;
/// So often a lone read is tried while writers come and go.
const TRIES: usize = 20;

fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY)?;
    conn.set_prepared_statement_cache_capacity(32);
    Ok(conn)
}

fn open_still(path: &Path) -> rusqlite::Result<Connection> {
    let escaped: String = path
        .to_string_lossy()
        .chars()
        .map(|c| match c {
            '%' => "%25".to_owned(),
            '?' => "%3f".to_owned(),
            '#' => "%23".to_owned(),
            c => c.to_string(),
        })
        .collect();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags)
}

/// Reads without a trace. With a log beside the file there is a writer (or there was one that crashed),
/// and the ordinary way is taken, which touches locks and the log's index only. Without one the file is
/// read as it lies, making nothing; a writer that came meanwhile shows by its log or the file's stamp,
/// and what was read is thrown away.
fn read_alone<T>(
    path: &Path,
    read: impl Fn(&Connection) -> rusqlite::Result<T>,
) -> Result<Option<T>, Trouble> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let log = PathBuf::from(log);
    let there = |path: &Path| path.try_exists().map_err(|e| file_trouble(&e));
    let stamp = |path: &Path| Stamp::of(path).map_err(|e| file_trouble(&e));
    let mut last = Trouble::Unreachable("a writer keeps opening and closing it".to_owned());
    for _ in 0..TRIES {
        let Some(before) = stamp(path)? else {
            return Ok(None);
        };
        if there(&log)? {
            match open_reader(path).and_then(|conn| read(&conn)) {
                Ok(got) => return Ok(Some(got)),
                // The writer may have closed it and taken the log away just now.
                Err(error) if there(&log)? => return Err(trouble(&error)),
                Err(error) => last = trouble(&error),
            }
            continue;
        }
        let got = if before.is_empty() {
            None
        } else {
            Some(open_still(path).and_then(|conn| read(&conn)))
        };
        if !there(&log)? && stamp(path)? == Some(before) {
            return got.transpose().map_err(|e| trouble(&e));
        }
        pause();
    }
    Err(last)
}

/// A reader runs on a thread of its own; it lets the writer finish what it is at.
#[expect(
    clippy::disallowed_methods,
    reason = "blocking reads run on threads of their own"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

#[cfg(test)]
mod tests {
    //! A lone read never mixes two states.
    use std::cell::Cell;

    use super::*;

    fn write(path: &Path, n: i64) {
        let conn = open_writer(path, 1).expect("open");
        conn.execute_batch("CREATE TABLE IF NOT EXISTS t (n INTEGER)")
            .expect("table");
        conn.execute("DELETE FROM t", []).expect("empty");
        conn.execute("INSERT INTO t VALUES (?1)", [n])
            .expect("write");
    }

    #[test]
    fn b9_what_was_read_while_a_writer_came_and_went_is_thrown_away() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("t.db");
        write(&path, 1);
        for stays in [false, true] {
            let (looks, writer) = (Cell::new(0), Cell::new(None));
            let got = read_alone(&path, |conn| {
                let n: i64 = conn.query_row("SELECT n FROM t", [], |row| row.get(0))?;
                looks.set(looks.get() + 1);
                if looks.get() == 1 {
                    write(&path, n + 1);
                    writer.set(stays.then(|| open_writer(&path, 1).expect("open")));
                }
                Ok(n)
            });
            let now = if stays { 3 } else { 2 };
            assert_eq!((got, looks.get()), (Ok(Some(now)), 2));
        }
    }
}
