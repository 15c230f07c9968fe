//! Whose turn it is to run loops on a data folder, on this host.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use super::installation::InstallationFault;

/// Held by the one process that runs loops on a data folder.
const LOCK: &str = "loops.lock";

/// What kind of process runs loops on a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// `mesh up`: it hears words.
    Daemon,
    /// `mesh apply`: it makes one pass and ends.
    OneShot,
}

impl Runner {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Runner::Daemon => "up",
            Runner::OneShot => "apply",
        }
    }
}

/// Whether this process may run loops on a folder.
pub enum Turn {
    /// It may, for as long as this is kept.
    Mine(File),
    /// Another process does.
    Taken(Runner),
}

/// Who only looks whether somebody runs holds the lock for a moment, too: it is asked for so often.
const TRIES: usize = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// Asks for the one right to run loops on a folder.
pub async fn take_turn(folder: &Path, runner: Runner) -> Result<Turn, InstallationFault> {
    let fault = |error: std::io::Error| InstallationFault::Folder {
        folder: folder.to_owned(),
        why: error.to_string(),
    };
    make_folder(folder).map_err(fault)?;
    let path = folder.join(LOCK);
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .map_err(fault)?;
    for _ in 0..TRIES {
        match file.try_lock() {
            Ok(()) => {
                // On a full disk it stays unsaid, and others take this for a daemon.
                let said = file
                    .set_len(0)
                    .and_then(|()| writeln!(file, "{}", runner.as_str()));
                drop(said);
                return Ok(Turn::Mine(file));
            }
            Err(TryLockError::WouldBlock) => tokio::time::sleep(BETWEEN_TRIES).await,
            Err(TryLockError::Error(error)) => return Err(fault(error)),
        }
    }
    Ok(Turn::Taken(runner_of(&mut file)))
}

/// Who runs loops on a folder now. Makes nothing.
pub fn running(folder: &Path) -> Option<Runner> {
    let mut file = File::open(folder.join(LOCK)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(runner_of(&mut file)),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

fn runner_of(file: &mut File) -> Runner {
    let mut word = String::new();
    let read = file.read_to_string(&mut word);
    match read {
        Ok(_) if word.trim_end() == Runner::OneShot.as_str() => Runner::OneShot,
        _ => Runner::Daemon,
    }
}

fn make_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}
