//! One file: compared without following a link, replaced in one step.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use mesh_sdk::Secret;

use super::super::decide::Found;
use super::{Access, PlaceFault};

/// Nothing that is delivered is longer; of a longer file only so much is read.
const MOST: u64 = 16 << 20;

/// Compares several: the worst that was found, and `Absent` only if none is there.
pub(super) fn look_all(files: &[(PathBuf, Secret)], access: &Access) -> Result<Found, PlaceFault> {
    let mut all = Vec::with_capacity(files.len());
    for (path, bytes) in files {
        all.push(look(path, bytes, access)?);
    }
    Ok(match () {
        () if all.iter().all(|found| *found == Found::Same) => Found::Same,
        () if all.iter().all(|found| *found == Found::Absent) => Found::Absent,
        () if all
            .iter()
            .all(|found| matches!(found, Found::Same | Found::Loose)) =>
        {
            Found::Loose
        }
        () => Found::Other,
    })
}

/// Compares one.
pub(super) fn look(path: &Path, bytes: &Secret, access: &Access) -> Result<Found, PlaceFault> {
    let told = |error: io::Error| PlaceFault::of("cannot look at", path, &error);
    let data = match fs::symlink_metadata(path) {
        Ok(data) => data,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Absent),
        Err(error) => return Err(told(error)),
    };
    if data.is_symlink() {
        return Ok(Found::Other);
    }
    if !data.is_file() {
        return Err(told(io::Error::other("it is no file")));
    }
    let mut found = Vec::new();
    let file = File::open(path).map_err(told)?;
    file.take(MOST).read_to_end(&mut found).map_err(told)?;
    let same = Secret::new(found) == *bytes;
    let owned = access.user.is_none_or(|user| data.uid() == user)
        && access.group.is_none_or(|group| data.gid() == group);
    Ok(match (same, data.mode() & 0o7777 == access.mode && owned) {
        (true, true) => Found::Same,
        (true, false) => Found::Loose,
        (false, _) => Found::Other,
    })
}

/// Writes it beside its place and gives it its name once it is on the disk.
pub(super) fn write(path: &Path, bytes: &Secret, access: &Access) -> Result<(), PlaceFault> {
    let told = |error: io::Error| PlaceFault::of("cannot write", path, &error);
    let new = beside(path).ok_or_else(|| told(io::Error::other("the path names no file")))?;
    let written = fill(&new, bytes, access).and_then(|()| fs::rename(&new, path));
    if let Err(error) = written {
        // Half of it is nobody's. What cannot be cleared away is cleared before the next write.
        let _ = fs::remove_file(&new);
        return Err(told(error));
    }
    sync_folder(path).map_err(told)
}

fn beside(path: &Path) -> Option<PathBuf> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name()?);
    name.push(".mesh-new");
    Some(path.with_file_name(name))
}

/// Owner and mode stand before the first byte does.
fn fill(new: &Path, bytes: &Secret, access: &Access) -> io::Result<()> {
    match fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(new)?;
    if access.user.is_some() || access.group.is_some() {
        fchown(&file, access.user, access.group)?;
    }
    file.set_permissions(fs::Permissions::from_mode(access.mode))?;
    file.write_all(bytes.expose())?;
    file.sync_all()
}

pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}
