//! A folder of files. Files in it that are not ours are left.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use mesh_sdk::Secret;

use super::super::decide::Found;
use super::{Access, PlaceFault, file};

/// Whoever may read the files may enter.
fn mode_of(access: &Access) -> u32 {
    0o700 | (access.mode & 0o444) | ((access.mode & 0o444) >> 2)
}

/// Compares the folder and each file in it.
pub(super) fn look(
    folder: &Path,
    files: &[(PathBuf, Secret)],
    access: &Access,
) -> Result<Found, PlaceFault> {
    let data = match fs::metadata(folder) {
        Ok(data) => data,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Absent),
        Err(error) => return Err(PlaceFault::of("cannot look at", folder, &error)),
    };
    if !data.is_dir() {
        let error = io::Error::other("it is no folder");
        return Err(PlaceFault::of("cannot look at", folder, &error));
    }
    let owned = access.user.is_none_or(|user| data.uid() == user)
        && access.group.is_none_or(|group| data.gid() == group);
    let fits = data.mode() & 0o777 == mode_of(access) && owned;
    let found = file::look_all(files, access)?;
    Ok(match found {
        Found::Same if !fits => Found::Loose,
        found => found,
    })
}

/// Makes it, or gives it its mode and owner.
pub(super) fn make(folder: &Path, access: &Access) -> Result<(), PlaceFault> {
    let told = |error: io::Error| PlaceFault::of("cannot make", folder, &error);
    let mode = mode_of(access);
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => file::sync_folder(folder).map_err(told)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(told(error)),
    }
    if access.user.is_some() || access.group.is_some() {
        chown(folder, access.user, access.group).map_err(told)?;
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(mode)).map_err(told)
}
