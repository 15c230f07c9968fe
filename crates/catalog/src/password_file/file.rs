//! Reading the file and replacing it whole: nobody ever reads half of it, and nobody's change is lost.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mesh_sdk::{Class, Error};
use rustix::fs::{Access, CWD, RenameFlags, access, renameat_with};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::failed::{class_of, failed};

/// How long another writer of ours may keep the folder locked.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often somebody else may change the file while we write, before that is told.
const TRIES: usize = 8;

/// Where the file is.
#[derive(Debug, Clone)]
pub(super) struct PasswordFile {
    path: PathBuf,
    /// Of a file that is made anew.
    mode: u32,
    /// Its reader looks at it anew only when the second of its last change, or its size, is another.
    by_second: bool,
}

/// The file's place, with links followed, and its folder.
struct Place {
    file: PathBuf,
    folder: PathBuf,
    new: PathBuf,
}

impl PasswordFile {
    pub(super) fn new(path: &str, mode: u32, by_second: bool) -> Self {
        Self {
            path: PathBuf::from(path),
            mode,
            by_second,
        }
    }
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What stands in it; nothing if there is no file in its folder yet.
    pub(super) async fn read(&self) -> Result<Vec<u8>, Error> {
        let this = self.clone();
        let bytes = blocking(move || this.place().and_then(|place| this.bytes(&place))).await?;
        Ok(bytes.unwrap_or_default())
    }

    /// Why the file takes no changes, if it does not.
    pub(super) async fn unwritable(&self) -> Result<Option<Error>, Error> {
        let this = self.clone();
        blocking(move || {
            let place = this.place()?;
            let allowed = access(&place.folder, Access::WRITE_OK | Access::EXEC_OK);
            let why = allowed.map_err(io::Error::from);
            Ok(why
                .err()
                .map(|error| failed("write in", &place.folder, &error)))
        })
        .await
    }

    /// The mode of the file, if there is one.
    pub(super) async fn mode(&self) -> Result<Option<u32>, Error> {
        let this = self.clone();
        blocking(move || {
            let place = this.place()?;
            Ok(std::fs::metadata(place.file)
                .ok()
                .map(|data| data.mode() & 0o7777))
        })
        .await
    }

    /// Makes new content of what stands there, under the lock, and replaces the file if it differs. `change`
    /// is called again when somebody else changed the file meanwhile.
    pub(super) async fn edit(
        &self,
        change: impl Fn(&[u8]) -> Result<Vec<u8>, Error> + Send + 'static,
    ) -> Result<(), Error> {
        let this = self.clone();
        let place = blocking(move || this.place()).await?;
        let lock = lock(&place.folder).await?;
        let this = self.clone();
        blocking(move || {
            let outcome = this.replace(&place, &change);
            drop(lock);
            outcome
        })
        .await
    }

    /// Follows links, so that what is replaced is the file and not the link to it.
    fn place(&self) -> Result<Place, Error> {
        let named = |path: &Path| {
            let name = path.file_name()?.to_owned();
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
                _ => PathBuf::from("."),
            };
            Some((folder, name))
        };
        let wrong = || Error::new(Class::RefusedValue, "the path names no file");
        let (folder, name) = match std::fs::canonicalize(&self.path) {
            Ok(path) => named(&path).ok_or_else(wrong)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.path.is_symlink() => {
                let (folder, name) = named(&self.path).ok_or_else(wrong)?;
                let folder = std::fs::canonicalize(&folder)
                    .map_err(|error| failed("find the folder", &folder, &error))?;
                (folder, name)
            }
            Err(error) => return Err(failed("find", &self.path, &error)),
        };
        let mut new = std::ffi::OsString::from(".");
        new.push(&name);
        new.push(".mesh-new");
        Ok(Place {
            file: folder.join(&name),
            new: folder.join(new),
            folder,
        })
    }

    fn bytes(&self, place: &Place) -> Result<Option<Vec<u8>>, Error> {
        match std::fs::read(&place.file) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read", &place.file, &error)),
        }
    }

    fn replace(
        &self,
        place: &Place,
        change: &impl Fn(&[u8]) -> Result<Vec<u8>, Error>,
    ) -> Result<(), Error> {
        // What a writer that was killed left behind; under the lock nobody is at it.
        remove(&place.new)?;
        for _ in 0..TRIES {
            let old = self.bytes(place)?;
            let new = change(old.as_deref().unwrap_or_default())?;
            if new == old.as_deref().unwrap_or_default() {
                return Ok(());
            }
            let written = self.write_new(place, &new);
            let swapped = written.and_then(|()| self.swap(place, old.as_deref()));
            match swapped {
                Ok(true) => return Ok(()),
                Ok(false) => remove(&place.new)?,
                Err(error) => {
                    let _ = remove(&place.new);
                    return Err(error);
                }
            }
        }
        let message = format!(
            "{}: somebody else changes it all the time",
            place.file.display()
        );
        Err(Error::new(Class::Busy, message))
    }

    /// The new content beside the file, on the disk, with its owner and mode.
    fn write_new(&self, place: &Place, bytes: &[u8]) -> Result<(), Error> {
        let tell = |error: io::Error| failed("write", &place.new, &error);
        let old = match std::fs::metadata(&place.file) {
            Ok(data) => Some(data),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed("look at", &place.file, &error)),
        };
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&place.new)
            .map_err(tell)?;
        file.write_all(bytes).map_err(tell)?;
        if let Some(data) = old.as_ref().filter(|_| self.by_second) {
            another_second(&file, data).map_err(tell)?;
        }
        let mode = old.as_ref().map_or(self.mode, |data| data.mode() & 0o7777);
        if let Some(data) = old {
            keep_owner(&file, &data).map_err(|error| {
                let message = format!(
                    "{}: its owner cannot be kept ({error}); run as its owner, or as root",
                    place.file.display()
                );
                Error::new(class_of(error.kind()), message)
            })?;
        }
        let mode = std::fs::Permissions::from_mode(mode);
        file.set_permissions(mode).map_err(tell)?;
        file.sync_all().map_err(tell)
    }

    /// Puts the new file in the place of the old one in one step. If what it takes the place of is not what
    /// was read, it is put back, and the answer is false.
    fn swap(&self, place: &Place, old: Option<&[u8]>) -> Result<bool, Error> {
        // Mostly seen here, so that hardly ever something has to be put back.
        if self.bytes(place)?.as_deref() != old {
            return Ok(false);
        }
        let flags = match old {
            Some(_) => RenameFlags::EXCHANGE,
            None => RenameFlags::NOREPLACE,
        };
        match renameat_with(CWD, &place.new, CWD, &place.file, flags) {
            Ok(()) => {}
            // Somebody made or dropped the file meanwhile.
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOENT) => return Ok(false),
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                return self.plain_swap(place);
            }
            Err(error) => return Err(failed("replace", &place.file, &error.into())),
        }
        if let Some(old) = old {
            let taken = std::fs::read(&place.new);
            let taken = taken.map_err(|error| failed("read", &place.new, &error))?;
            if taken != old {
                let back = renameat_with(CWD, &place.new, CWD, &place.file, flags);
                back.map_err(|error| failed("put back", &place.file, &error.into()))?;
                return Ok(false);
            }
        }
        remove(&place.new)?;
        settle(&place.folder)?;
        Ok(true)
    }

    /// Where the file system cannot exchange two names: over it.
    fn plain_swap(&self, place: &Place) -> Result<bool, Error> {
        std::fs::rename(&place.new, &place.file)
            .map_err(|error| failed("replace", &place.file, &error))?;
        settle(&place.folder)?;
        Ok(true)
    }
}

/// Gives a new file a time of change in a later second than the one whose place it takes, if it has not one by
/// itself: what is changed twice in a second would otherwise never be looked at again.
fn another_second(file: &File, old: &std::fs::Metadata) -> io::Result<()> {
    if file.metadata()?.mtime() > old.mtime() {
        return Ok(());
    }
    let second = u64::try_from(old.mtime()).unwrap_or_default() + 1;
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(second))
}

fn keep_owner(file: &File, old: &std::fs::Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    if (new.uid(), new.gid()) == (old.uid(), old.gid()) {
        return Ok(());
    }
    fchown(file, Some(old.uid()), Some(old.gid()))
}

fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("clear away", path, &error))
        }
        _ => Ok(()),
    }
}

/// Has the folder's entries on the disk.
fn settle(folder: &Path) -> Result<(), Error> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| failed("keep", folder, &error))
}

/// Locks the folder against other writers of ours, here and in other processes. It leaves no file behind,
/// and ends with the process.
async fn lock(folder: &Path) -> Result<File, Error> {
    let end = Instant::now() + PATIENCE;
    loop {
        let path = folder.to_owned();
        let tried = blocking(move || {
            let file = File::open(&path).map_err(|error| failed("open", &path, &error))?;
            Ok(match file.try_lock() {
                Err(TryLockError::WouldBlock) => None,
                // A file system that knows no locks: the swap itself still loses nobody's change.
                Ok(()) | Err(TryLockError::Error(_)) => Some(file),
            })
        });
        if let Some(file) = tried.await? {
            return Ok(file);
        }
        if Instant::now() >= end {
            let message = format!("{} is locked by another writer", folder.display());
            return Err(Error::new(Class::Busy, message));
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Work that waits for a disk, away from those that wait for a network.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => Err(Error::new(Class::Bug, "work on the file ended midway")),
    }
}
