//! The demo's folder: made for it alone, and gone at its end.

use std::fs::{DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use mesh_bus::mint;

use crate::errors::Fault;

/// A folder that only this user may read. Removed when it is dropped.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes it under the system's place for such folders.
    pub(super) fn make() -> Result<Self, Fault> {
        let mut bytes = [0; 6];
        mint::os_random(&mut bytes).map_err(|error| {
            Fault::failed(error.to_string(), "this machine cannot make passwords now")
        })?;
        let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = std::env::temp_dir().join(format!("mesh-demo-{name}"));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => Ok(Self(path)),
            Err(error) => Err(Fault::failed(
                format!("the folder {} cannot be made: {error}", path.display()),
                "look at its parent's rights, or name another with TMPDIR",
            )),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a new file that only this user may read.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Fault> {
        let path = self.0.join(name);
        let written = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(bytes));
        match written {
            Ok(()) => Ok(path),
            Err(error) => Err(Fault::failed(
                format!("{} cannot be written: {error}", path.display()),
                "look at the disk",
            )),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // There is nobody left to tell; a folder that stays does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
