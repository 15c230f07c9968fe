//! What the writer keeps of the history, and what it says when a commit fails.

use std::path::Path;

use rusqlite::ffi;

use super::*;
use crate::embedded::schema::locked;

fn store(folder: &Path) -> Connection {
    let mut conn = sqlite::open_writer(&folder.join("mesh.db"), schema::SCHEMA).expect("open");
    schema::settle(&mut conn, folder, "inst1").expect("begun");
    conn
}

fn subject(n: usize) -> Key {
    Key::of(&["adv", &n.to_string()])
}

#[test]
fn c5_the_history_of_a_subject_is_bounded_however_it_is_written() {
    let folder = tempfile::tempdir().expect("folder");
    let mut conn = store(folder.path());
    let tx = locked(&mut conn).expect("lock");
    let mut last = 1;
    // In turns with 15 others, and one by one.
    for n in 0..16 * 700 {
        let (reply, _answer) = oneshot::channel();
        let lines = vec![(subject(n % 16), n.to_string())];
        let job = Job::Append { lines, reply };
        carry_out(&tx, &job, Epoch(1), Time::default(), &mut last).expect("append");
    }
    for n in 0..16 {
        let lines = rows::history(&tx, &subject(n), 0, 10_000).expect("history");
        assert!(
            (200..=400).contains(&lines.len()),
            "{} of {n} are kept",
            lines.len()
        );
        let newest = lines.last().map(|line| line.value.clone());
        assert_eq!(newest, Some((16 * 699 + n).to_string()));
    }
}

#[test]
fn c5_the_whole_history_is_bounded_by_number_and_by_age() {
    let folder = tempfile::tempdir().expect("folder");
    let mut conn = store(folder.path());
    let tx = locked(&mut conn).expect("lock");
    for n in 0..1000u64 {
        let at = Time::from_millis(i64::try_from(n).expect("small"));
        rows::append(&tx, n + 1, at, &Key::of(&["adv"]), "x").expect("append");
    }
    let count = |after| {
        rows::history(&tx, &Key::everything(), after, 10_000)
            .expect("history")
            .len()
    };
    rows::trim_all(&tx, 900, Time::from_millis(0), 50).expect("trim");
    assert_eq!(count(0), 950, "no more than 50 in one go");
    rows::trim_all(&tx, 900, Time::from_millis(0), 500).expect("trim");
    assert_eq!((count(0), count(100)), (900, 900), "the oldest went");
    rows::trim_all(&tx, 900, Time::from_millis(150), 500).expect("trim");
    assert_eq!(
        (count(0), count(150)),
        (850, 850),
        "those from before the cutoff went"
    );
}

#[test]
fn b5_a_commit_that_failed_to_write_is_undone_and_one_that_failed_to_sync_may_not_be() {
    let error = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
    for code in [
        ffi::SQLITE_FULL,
        ffi::SQLITE_IOERR_WRITE,
        ffi::SQLITE_BUSY,
        ffi::SQLITE_READONLY,
    ] {
        assert!(sqlite::surely_undone(&error(code)), "{code}");
    }
    for code in [
        ffi::SQLITE_IOERR,
        ffi::SQLITE_IOERR_FSYNC,
        ffi::SQLITE_IOERR_SHMMAP,
    ] {
        assert!(!sqlite::surely_undone(&error(code)), "{code}");
    }
    for code in [
        ffi::SQLITE_FULL,
        ffi::SQLITE_IOERR_WRITE,
        ffi::SQLITE_IOERR_FSYNC,
        ffi::SQLITE_READONLY,
    ] {
        assert!(matches!(sql_fault(&error(code)), Fault::Full(_)), "{code}");
    }
    for code in [
        ffi::SQLITE_CORRUPT,
        ffi::SQLITE_NOTADB,
        ffi::SQLITE_IOERR_SHORT_READ,
    ] {
        assert!(
            matches!(sql_fault(&error(code)), Fault::Corrupt(_)),
            "{code}"
        );
    }
    for code in [ffi::SQLITE_BUSY, ffi::SQLITE_CANTOPEN, ffi::SQLITE_PERM] {
        assert!(
            matches!(sql_fault(&error(code)), Fault::Unreachable(_)),
            "{code}"
        );
    }
}

#[tokio::test]
async fn b5_an_outcome_that_is_not_known_is_told_as_such() {
    let (reply, answer) = oneshot::channel();
    let write = |n| Write {
        key: subject(n),
        expect: mesh_sdk::bus::Expect::Absent,
        value: Vec::new(),
    };
    let job = Job::Put {
        bucket: Bucket::Record,
        writes: vec![write(1), write(2)],
        reply,
    };
    let (reply, appended) = oneshot::channel();
    let append = Job::Append {
        lines: Vec::new(),
        reply,
    };
    refuse(vec![job, append], &Failed::Unknown("sync".to_owned()));
    assert_eq!(answer.await, Ok(Ok(vec![Put::Unknown, Put::Unknown])));
    assert!(matches!(appended.await, Ok(Err(Fault::Unreachable(_)))));
}

#[test]
fn b5_a_failed_sync_is_settled_by_the_next_commit() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("mesh.db");
    let conn = store(folder.path());
    let identity = Identity::of(&file).expect("file");
    let mut engine = Engine {
        conn,
        folder: folder.path().to_owned(),
        file: file.clone(),
        identity,
        installation: "inst1".to_owned(),
        epoch: Epoch(1),
        clock: Clock::starting_at(Time::default()),
        changes: broadcast::channel(1).0,
        gauge: Arc::default(),
        counts: Counts::starting_at(1, 1),
    };
    let code = ffi::Error::new(ffi::SQLITE_IOERR_FSYNC);
    let error = rusqlite::Error::SqliteFailure(code, None);
    let settled = engine.after_failed_commit(&error);
    assert!(matches!(settled, Failed::Undone(Fault::Full(_))));
    // Nobody can write: nobody can tell.
    let other = Connection::open(&file).expect("open");
    other.execute_batch("BEGIN IMMEDIATE").expect("lock");
    engine.conn.busy_timeout(Duration::ZERO).expect("timeout");
    assert!(matches!(
        engine.after_failed_commit(&error),
        Failed::Unknown(_)
    ));
}
