//! Folders and files that only their owner may read, and small files that are written whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Only the owner reads and writes.
const OWNER: u32 = 0o600;

/// Makes the data folder, mode 0700, if it is missing. One that is there keeps its mode.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Makes an empty file, mode 0600, if it is missing, and takes other people's rights from one that is there.
///
/// One that is there is not opened: closing it again would drop every lock that this process has on it.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    if path.try_exists()? {
        return keep_private(path);
    }
    let made = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(OWNER)
        .open(path);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => keep_private(path),
        made => made.map(drop),
    }
}

/// Takes other people's rights from a file.
pub(crate) fn keep_private(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    tracing::warn!(path = %path.display(), "other users had rights on this file; now only its owner has");
    fs::set_permissions(path, fs::Permissions::from_mode(OWNER))
}

/// Writes a small file whole: beside it, synced, then moved over it, and the folder synced.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("tmp");
    let mut file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(OWNER)
        .open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    sync_folder_of(path)
}

/// Makes what was made or moved in a file's folder last.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// Which file a path leads to, so that one put in its place is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// Of the file at a path.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let meta = fs::metadata(path)?;
        Ok(Self {
            device: meta.dev(),
            inode: meta.ino(),
        })
    }
}

/// A file's identity, length and last change: what any write to it moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    identity: Identity,
    length: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// Of the file at a path; `None` if there is none.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Self>> {
        let meta = match fs::metadata(path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(Self {
            identity: Identity {
                device: meta.dev(),
                inode: meta.ino(),
            },
            length: meta.len(),
            changed: (meta.mtime(), meta.mtime_nsec()),
        }))
    }
    /// Whether the file holds nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// Whether an error says that nothing more can be written here.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(
        error.kind(),
        StorageFull | QuotaExceeded | ReadOnlyFilesystem | FileTooLarge
    )
}
