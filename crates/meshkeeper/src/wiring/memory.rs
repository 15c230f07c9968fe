//! What a data folder remembers of a bus beyond it: where that is and whose, so that words work while the
//! manifest cannot be read, and so that another bus in its place is not taken for it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::installation::InstallationFault;
use crate::manifest::NatsBus;

/// Its file. It holds places of secrets, and no secret.
const FILE: &str = "bus.json";
/// The form that this program writes.
const FORM: u32 = 1;

/// The bus on NATS that a data folder uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    form: u32,
    /// The mesh's id, which names its streams.
    pub mesh: String,
    /// The installation.
    pub installation: String,
    /// How it is reached, with whole paths.
    pub nats: NatsBus,
}

fn fault(folder: &Path, why: impl std::fmt::Display) -> InstallationFault {
    InstallationFault::Folder {
        folder: folder.to_owned(),
        why: format!("{FILE}: {why}"),
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

impl Memory {
    /// Of a bus that is used from now on.
    pub fn of(mesh: &str, installation: &str, nats: &NatsBus) -> Self {
        Self {
            form: FORM,
            mesh: mesh.to_owned(),
            installation: installation.to_owned(),
            nats: nats.absolute(),
        }
    }
    /// What a folder remembers; `None` if it uses no bus beyond it.
    pub fn read(folder: &Path) -> Result<Option<Self>, InstallationFault> {
        let bytes = match fs::read(path(folder)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fault(folder, error)),
        };
        let memory: Self = serde_json::from_slice(&bytes).map_err(|e| fault(folder, e))?;
        if memory.form > FORM {
            return Err(fault(folder, "it was written by a newer program: use that"));
        }
        Ok(Some(memory))
    }
    /// Remembers it, synced, unless it is remembered already.
    pub fn keep(&self, folder: &Path) -> Result<(), InstallationFault> {
        if Self::read(folder).is_ok_and(|known| known.as_ref() == Some(self)) {
            return Ok(());
        }
        self.write(folder).map_err(|error| fault(folder, error))
    }
    fn write(&self, folder: &Path) -> io::Result<()> {
        let (file, beside) = (path(folder), folder.join("bus.json.tmp"));
        let mut text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        text.push(b'\n');
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(true).mode(0o600);
        let mut to = options.open(&beside)?;
        to.write_all(&text)?;
        to.sync_all()?;
        fs::rename(&beside, &file)?;
        File::open(folder)?.sync_all()
    }
    /// Forgets it: from now on the folder uses its own store.
    pub fn forget(folder: &Path) -> Result<(), InstallationFault> {
        match fs::remove_file(path(folder)) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(fault(folder, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    //! S-7: places of secrets are remembered, whole, and come back as they were.
    use super::*;
    use crate::manifest::{BusLogin, BusServer, SecretRef};

    #[test]
    fn s7_a_folder_remembers_where_its_bus_is_and_no_secret() {
        let folder = std::env::temp_dir().join(format!("mesh-memory-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("folder");
        let server = BusServer {
            host: "nats.example".to_owned(),
            port: 4222,
            tls: true,
        };
        let nats = NatsBus {
            servers: vec![server],
            login: BusLogin::Creds(SecretRef::File("mesh.creds".into())),
            tls: Default::default(),
            dangerously_plain: false,
            inbox: None,
        };
        assert_eq!(Memory::read(&folder).expect("read"), None);
        let memory = Memory::of("home", "inst1", &nats);
        memory.keep(&folder).expect("kept");
        let read = Memory::read(&folder).expect("read").expect("there");
        assert_eq!(read, memory);
        let BusLogin::Creds(SecretRef::File(place)) = read.nats.login else {
            panic!("another login");
        };
        assert!(place.is_absolute(), "{place:?}");
        Memory::forget(&folder).expect("forgotten");
        assert_eq!(Memory::read(&folder).expect("read"), None);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
