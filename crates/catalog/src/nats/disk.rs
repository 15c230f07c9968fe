//! Reading the file, and putting another in its place as a whole.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use mesh_sdk::{Class, Error};

/// More than a million users take.
const LARGEST: u64 = 1 << 30;

/// The file as it was at one moment.
pub(super) struct Snapshot {
    pub(super) text: String,
    /// When it was last changed or put in its place, in nanoseconds since 1970.
    pub(super) changed: i128,
    /// Who may do what with it.
    pub(super) mode: u32,
}

/// Reads it.
pub(super) fn read(path: &Path) -> Result<Snapshot, Error> {
    let failed = |error| broken("read", path, &error);
    let meta = fs::metadata(path).map_err(failed)?;
    if !meta.is_file() || meta.len() > LARGEST {
        let message = format!("{}: no file of users", path.display());
        return Err(Error::new(Class::RefusedValue, message));
    }
    let bytes = fs::read(path).map_err(failed)?;
    let text = String::from_utf8(bytes).map_err(|_| {
        let message = format!("{}: it is not UTF-8", path.display());
        Error::new(Class::RefusedValue, message)
    })?;
    let stamp = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    Ok(Snapshot {
        text,
        // A file that was moved here, or copied with its old time, has a new time of the second kind.
        changed: stamp(meta.mtime(), meta.mtime_nsec()).max(stamp(meta.ctime(), meta.ctime_nsec())),
        mode: meta.mode(),
    })
}

/// Puts `new` in the place of `old`, with the same owner and mode; whoever reads finds one or the other.
/// If somebody else wrote meanwhile, nothing is done.
pub(super) fn replace(path: &Path, old: &str, new: &str) -> Result<(), Error> {
    // Through links, so that the file itself is replaced and not the link to it.
    let path = fs::canonicalize(path).map_err(|error| broken("find", path, &error))?;
    let beside = beside(&path);
    let written = write_beside(&path, &beside, new);
    let outcome = written.and_then(|()| {
        let now = fs::read(&path).map_err(|error| broken("read", &path, &error))?;
        if now != old.as_bytes() {
            let message = format!("{}: somebody else is writing it", path.display());
            return Err(Error::new(Class::Busy, message));
        }
        fs::rename(&beside, &path).map_err(|error| broken("replace", &path, &error))
    });
    if outcome.is_err() {
        let _ = fs::remove_file(&beside);
        return outcome;
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| broken("keep", &path, &error))
}

/// The name of the file that is written first.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.meshkeeper"))
}

fn write_beside(path: &Path, beside: &Path, text: &str) -> Result<(), Error> {
    let failed = |error| broken("write beside", path, &error);
    // What an earlier one left behind when it was cut off.
    match fs::remove_file(beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let meta = fs::metadata(path).map_err(failed)?;
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(beside)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    let own = file.metadata().map_err(failed)?;
    if (own.uid(), own.gid()) != (meta.uid(), meta.gid()) {
        // Otherwise the server might not be able to read it any more.
        fchown(&file, Some(meta.uid()), Some(meta.gid())).map_err(failed)?;
    }
    let mode = fs::Permissions::from_mode(meta.mode() & 0o7777);
    file.set_permissions(mode).map_err(failed)?;
    file.sync_all().map_err(failed)
}

fn broken(what: &str, path: &Path, error: &std::io::Error) -> Error {
    let class = match error.kind() {
        ErrorKind::NotFound => Class::Gone,
        ErrorKind::PermissionDenied => Class::Denied,
        ErrorKind::ReadOnlyFilesystem => Class::ReadOnly,
        _ => Class::Busy,
    };
    Error::new(class, format!("{what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    //! All or nothing, and never over somebody else's change.
    use super::*;

    #[test]
    fn a6_a_file_is_replaced_whole_with_its_mode_and_only_if_nobody_else_wrote() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("users.conf"), folder.path().join("link"));
        fs::write(&path, "one").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        // Left behind by one that was cut off.
        fs::write(beside(&path), "half").expect("written");
        let before = read(&path).expect("read");
        replace(&link, "one", "two").expect("replaced");
        let after = read(&link).expect("read");
        assert_eq!((after.text.as_str(), after.mode & 0o777), ("two", 0o640));
        assert!(after.changed >= before.changed);
        let other = replace(&path, "one", "three").expect_err("somebody wrote");
        assert_eq!(other.class(), Class::Busy);
        assert_eq!(read(&path).expect("read").text, "two");
        let names = fs::read_dir(folder.path()).expect("a list").count();
        assert_eq!(names, 2, "something was left behind");
    }

    #[test]
    fn h7_a_file_that_is_not_there_is_an_error() {
        let class = |path: &str| read(Path::new(path)).err().map(|error| error.class());
        assert_eq!(class("/nowhere/users.conf"), Some(Class::Gone));
        assert_eq!(class("/"), Some(Class::RefusedValue));
    }
}
