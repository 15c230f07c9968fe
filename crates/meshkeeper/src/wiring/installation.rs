//! A data folder, open: the bus, the secret store, their keys, and whose turn it is to write.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mesh_bus::embedded::{EmbeddedBus, Found, Glimpse, Settings};
use mesh_bus::mint;
use mesh_bus::vault::{KeySource, SealedVault};
use mesh_sdk::bus::{Bus, Fault};
use mesh_sdk::clock::Clock;
use mesh_sdk::mark::keyed;
use mesh_sdk::scrub::Scrubber;
use mesh_sdk::vault::VaultFault;
use mesh_sdk::{Marker, MeshId, ProviderName, Secret};

use super::secrets::Secrets;

/// Held by the one process that runs loops on a data folder.
const LOCK: &str = "loops.lock";

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InstallationFault {
    /// The store.
    #[error("the store in {}: {fault}", folder.display())]
    Bus {
        /// The folder.
        folder: PathBuf,
        /// Why.
        fault: Fault,
    },
    /// The secret store.
    #[error("the secret store in {}: {fault}", folder.display())]
    Vault {
        /// The folder.
        folder: PathBuf,
        /// Why.
        fault: VaultFault,
    },
    /// The lock file.
    #[error("the data folder {} cannot be used: {why}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// There is nothing yet.
    #[error("nothing was ever applied here: {} holds no store; `mesh apply` begins one", folder.display())]
    NotThere {
        /// The folder.
        folder: PathBuf,
    },
    /// No random bytes.
    #[error("the system gives no random bytes, and nothing is made from anything else")]
    NoRandom,
}

/// An open data folder.
pub struct Installation {
    /// The folder.
    pub folder: PathBuf,
    /// The bus.
    pub bus: Arc<dyn Bus>,
    /// Passwords.
    pub secrets: Arc<Secrets>,
    /// Why this run must not take anyone for new: the store is not the one that was used last.
    pub replaced: Option<String>,
    embedded: Arc<EmbeddedBus>,
    mesh: MeshId,
    mark_key: Secret,
}

/// What kind of process runs loops on a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// `mesh up`: it hears words.
    Daemon,
    /// `mesh apply`: it makes one pass and ends.
    OneShot,
}

impl Runner {
    const fn as_str(self) -> &'static str {
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

impl Installation {
    /// Opens a data folder for reading and writing, making what is missing (S-3: never a lost key).
    pub fn open(
        folder: &Path,
        mesh: &MeshId,
        clock: Clock,
        scrubber: Arc<Scrubber>,
    ) -> Result<Self, InstallationFault> {
        let bus_fault = |fault| InstallationFault::Bus {
            folder: folder.to_owned(),
            fault,
        };
        let vault_fault = |fault| InstallationFault::Vault {
            folder: folder.to_owned(),
            fault,
        };
        let settings = Settings {
            installation: new_id()?,
            clock,
        };
        let vault = SealedVault::open(folder, &KeySource::Folder).map_err(vault_fault)?;
        let opened = EmbeddedBus::open(folder, &settings).map_err(bus_fault)?;
        let replaced = match opened.found {
            Found::Replaced(why) => Some(why.to_string()),
            Found::Created | Found::Known => None,
        };
        Ok(Self::of(
            folder, mesh, opened.bus, vault, replaced, scrubber,
        ))
    }

    /// Opens a data folder for reading only, and makes nothing. [`InstallationFault::NotThere`] if
    /// nothing was ever applied.
    pub fn open_read_only(
        folder: &Path,
        mesh: &MeshId,
        scrubber: Arc<Scrubber>,
    ) -> Result<Self, InstallationFault> {
        let not_there = || InstallationFault::NotThere {
            folder: folder.to_owned(),
        };
        let bus_fault = |fault| InstallationFault::Bus {
            folder: folder.to_owned(),
            fault,
        };
        let vault_fault = |fault| InstallationFault::Vault {
            folder: folder.to_owned(),
            fault,
        };
        let glimpse = EmbeddedBus::open_read_only(folder).map_err(bus_fault)?;
        let opened = match glimpse {
            Glimpse::Open(opened) => opened,
            Glimpse::NotThere => return Err(not_there()),
            Glimpse::Wiped => {
                let why = "the store that was used last is gone; `mesh apply` begins a new one"
                    .to_owned();
                return Err(bus_fault(Fault::Unreachable(why)));
            }
        };
        let vault = SealedVault::open_read_only(folder, &KeySource::Folder).map_err(vault_fault)?;
        let vault = vault.ok_or_else(not_there)?;
        let replaced = match opened.found {
            Found::Replaced(why) => Some(why.to_string()),
            Found::Created | Found::Known => None,
        };
        Ok(Self::of(
            folder, mesh, opened.bus, vault, replaced, scrubber,
        ))
    }

    /// The same without a manifest: the store says which mesh it is of.
    pub async fn open_to_read(
        folder: &Path,
        scrubber: Arc<Scrubber>,
    ) -> Result<(Self, MeshId), InstallationFault> {
        let not_there = || InstallationFault::NotThere {
            folder: folder.to_owned(),
        };
        let nameless = MeshId::new("nameless").map_err(|_| not_there())?;
        let mut installation = Self::open_read_only(folder, &nameless, scrubber)?;
        let head = super::publish::head(installation.bus.as_ref()).await;
        let head = head.map_err(|fault| InstallationFault::Bus {
            folder: folder.to_owned(),
            fault,
        })?;
        // No wish was ever put in force here.
        let mesh = MeshId::new(&head.mesh).map_err(|_| not_there())?;
        installation.mesh = mesh.clone();
        Ok((installation, mesh))
    }

    fn of(
        folder: &Path,
        mesh: &MeshId,
        bus: EmbeddedBus,
        vault: SealedVault,
        replaced: Option<String>,
        scrubber: Arc<Scrubber>,
    ) -> Self {
        let (mark_key, digest_key) = (vault.mark_key(), vault.digest_key());
        let embedded = Arc::new(bus);
        let bus: Arc<dyn Bus> = Arc::clone(&embedded) as Arc<dyn Bus>;
        let secrets = Secrets::new(Arc::new(vault), Arc::clone(&bus), digest_key, scrubber);
        Self {
            folder: folder.to_owned(),
            bus,
            secrets: Arc::new(secrets),
            replaced,
            embedded,
            mesh: mesh.clone(),
            mark_key,
        }
    }

    /// The installation's id.
    pub fn id(&self) -> &str {
        self.embedded.installation()
    }
    /// Makes a marker for each provider.
    pub fn marker(&self) -> Arc<dyn Fn(&ProviderName) -> Marker + Send + Sync> {
        let (mesh, id, key) = (
            self.mesh.clone(),
            self.id().to_owned(),
            self.mark_key.clone(),
        );
        Arc::new(move |provider| Marker::new(mesh.clone(), &id, provider.clone(), key.clone()))
    }
    /// A number that stands for chance: the same for one installation, so that its loops keep their
    /// places beside each other, and another one for every other installation.
    pub fn seed(&self) -> u64 {
        let digest = keyed(&self.mark_key, b"seed", &[]);
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        u64::from_be_bytes(first)
    }
    /// The replaced store was told where people see it, and a whole pass was made on it.
    pub async fn replacement_told(&self) -> Result<(), Fault> {
        if self.replaced.is_some() {
            self.embedded.replacement_told().await
        } else {
            Ok(())
        }
    }
}

fn new_id() -> Result<String, InstallationFault> {
    let mut bytes = [0; 5];
    mint::os_random(&mut bytes).map_err(|_| InstallationFault::NoRandom)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
