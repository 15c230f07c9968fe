//! A data folder, open: the bus that it uses, the secret store, their keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mesh_bus::claim::{self, Ask, Lease};
use mesh_bus::embedded::{self, EmbeddedBus, Found, Glimpse, Settings};
use mesh_bus::jetstream::{self, OpenFault, Opened, Role};
use mesh_bus::vault::{KeySource, SealedVault};
use mesh_bus::{JetstreamBus, mint};
use mesh_loops::rotation::store::Journals;
use mesh_sdk::bus::{Bus, Fault};
use mesh_sdk::clock::Clock;
use mesh_sdk::harness::Observer;
use mesh_sdk::mark::keyed;
use mesh_sdk::scrub::Scrubber;
use mesh_sdk::vault::VaultFault;
use mesh_sdk::{Marker, MeshId, ProviderName, Secret};

use super::claimed::Claimed;
use super::hints::Hints;
use super::keyname::{self, Agreed};
use super::link::link;
use super::memory::Memory;
use super::secrets::{Beyond, Secrets};
use crate::manifest::{BusChoice, Machine, NatsBus, SecretTrouble};

pub use mesh_bus::claim::{Answer as Claiming, Claim, Holder};

pub use super::turn::{Runner, Turn, running, take_turn};

/// Whoever only looks waits no longer for a bus beyond this machine than so.
const LOOK: Duration = Duration::from_secs(8);
/// Whoever runs loops waits for a new leader, too.
const OPEN: Duration = Duration::from_secs(20);

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
    /// The bus on NATS.
    #[error("{0}")]
    Nats(OpenFault),
    /// It took too long.
    #[error("the bus at {servers} did not answer within {seconds} s")]
    Slow {
        /// The servers.
        servers: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// How to log in to it cannot be read.
    #[error("the bus: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Login(Vec<SecretTrouble>),
    /// A bus that this folder does not use yet.
    #[error("the data folder {} does not use the bus at {servers} yet", folder.display())]
    NotJoined {
        /// The folder.
        folder: PathBuf,
        /// The servers.
        servers: String,
    },
    /// The manifest names another bus than the folder used.
    #[error("the data folder {} used {used} until now, and the manifest names {named}", folder.display())]
    Moved {
        /// The folder.
        folder: PathBuf,
        /// What it used.
        used: String,
        /// What the manifest names.
        named: String,
    },
    /// A folder that joined a bus has no key.
    #[error("the data folder {} has no installation.key, and the installation on the bus has one", folder.display())]
    NoKey {
        /// The folder.
        folder: PathBuf,
    },
    /// Its key is another one than that of the other hosts.
    #[error("the installation.key in {} is not that of this installation", folder.display())]
    OtherKey {
        /// The folder.
        folder: PathBuf,
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

/// The bus that is open, by its kind.
#[derive(Clone)]
enum Store {
    Embedded(Arc<EmbeddedBus>),
    Nats(Arc<JetstreamBus>),
}

impl Store {
    fn bus(&self) -> Arc<dyn Bus> {
        match self {
            Store::Embedded(bus) => Arc::clone(bus) as Arc<dyn Bus>,
            Store::Nats(bus) => Arc::clone(bus) as Arc<dyn Bus>,
        }
    }
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
    store: Store,
    mesh: MeshId,
    mark_key: Secret,
}

/// The bus that a folder is to be opened with.
pub(super) enum Chosen {
    /// Its own store.
    Embedded,
    /// One on NATS, and the installation that the folder knows it by.
    Nats(Box<NatsBus>, String),
}

/// Compares what the manifest names with what the folder uses. Without a manifest the folder's own memory
/// counts. Another bus than the one that was used is never taken up by itself: what it holds may be old.
pub(super) fn choose(
    folder: &Path,
    wanted: Option<&BusChoice>,
) -> Result<Chosen, InstallationFault> {
    let moved = |used: String, named: String| InstallationFault::Moved {
        folder: folder.to_owned(),
        used,
        named,
    };
    let own = || "its own embedded store".to_owned();
    match (wanted, Memory::read(folder)?) {
        (None | Some(BusChoice::Embedded), None) => Ok(Chosen::Embedded),
        (None, Some(memory)) => Ok(Chosen::Nats(Box::new(memory.nats), memory.installation)),
        (Some(BusChoice::Nats(nats)), Some(memory)) => {
            Ok(Chosen::Nats(nats.clone(), memory.installation))
        }
        (Some(BusChoice::Embedded), Some(memory)) => {
            Err(moved(format!("the bus at {}", memory.nats.shown()), own()))
        }
        (Some(BusChoice::Nats(nats)), None) if has_own_store(folder) => {
            Err(moved(own(), format!("the bus at {}", nats.shown())))
        }
        (Some(BusChoice::Nats(nats)), None) => Err(InstallationFault::NotJoined {
            folder: folder.to_owned(),
            servers: nats.shown(),
        }),
    }
}

/// Whether an embedded store was ever used here.
pub(super) fn has_own_store(folder: &Path) -> bool {
    [mesh_bus::embedded::FILE, "epoch.json"]
        .iter()
        .any(|name| folder.join(name).exists())
}

/// Waits no longer than so for a bus beyond this machine.
pub(super) async fn in_time(
    nats: &NatsBus,
    patience: Duration,
    opening: impl Future<Output = Result<Opened, OpenFault>>,
) -> Result<Opened, InstallationFault> {
    match tokio::time::timeout(patience, opening).await {
        Ok(opened) => opened.map_err(InstallationFault::Nats),
        Err(_) => Err(InstallationFault::Slow {
            servers: nats.shown(),
            seconds: patience.as_secs(),
        }),
    }
}

impl Installation {
    /// Opens a data folder for reading and writing, with the bus that the manifest names or, without a
    /// manifest, the one that the folder uses. The folder's own store is made if it is missing (S-3: never
    /// a lost key); of a bus beyond it nothing is.
    pub async fn open(
        folder: &Path,
        mesh: &MeshId,
        wanted: Option<&BusChoice>,
        clock: Clock,
        scrubber: Arc<Scrubber>,
    ) -> Result<Self, InstallationFault> {
        let (nats, installation) = match choose(folder, wanted)? {
            Chosen::Nats(nats, installation) => (nats, installation),
            Chosen::Embedded => {
                return Self::open_embedded(folder, mesh, clock, scrubber).await;
            }
        };
        let vault = joined_vault(folder)?;
        let link = link(&nats, mesh.as_str(), Role::Loops, &Machine, &scrubber)
            .map_err(InstallationFault::Login)?;
        let opening = JetstreamBus::open(&link, mesh.as_str(), folder);
        let opened = in_time(&nats, OPEN, opening).await?;
        ours(&opened, &installation)?;
        let name = vault.key_name();
        match keyname::agree(&opened.bus, &name).await {
            Ok(Agreed::Yes | Agreed::Made) => {}
            Ok(Agreed::No) => return Err(other_key(folder)),
            Err(fault) => return Err(InstallationFault::Nats(fault.into())),
        }
        Memory::of(mesh.as_str(), &installation, &nats).keep(folder)?;
        vault
            .belong(&installation)
            .await
            .map_err(in_vault(folder))?;
        Ok(Self::of_nats(folder, mesh, opened, vault, scrubber))
    }

    async fn open_embedded(
        folder: &Path,
        mesh: &MeshId,
        clock: Clock,
        scrubber: Arc<Scrubber>,
    ) -> Result<Self, InstallationFault> {
        let vault = SealedVault::open(folder, &KeySource::Folder).map_err(in_vault(folder))?;
        if let Some(id) = vault.installation() {
            embedded::remind(folder, id).map_err(in_store(folder))?;
        }
        let settings = Settings {
            installation: id_for(folder, vault.installation())?,
            clock,
        };
        let opened = EmbeddedBus::open(folder, &settings).map_err(in_store(folder))?;
        let belonging = vault.belong(opened.bus.installation()).await;
        belonging.map_err(in_vault(folder))?;
        Ok(Self::of_embedded(
            folder,
            mesh,
            (opened.bus, opened.found),
            vault,
            scrubber,
        ))
    }

    /// Opens a data folder for reading only, and makes nothing. [`InstallationFault::NotThere`] if
    /// nothing was ever applied.
    pub async fn open_read_only(
        folder: &Path,
        mesh: &MeshId,
        wanted: Option<&BusChoice>,
        scrubber: Arc<Scrubber>,
    ) -> Result<Self, InstallationFault> {
        let (nats, installation) = match choose(folder, wanted)? {
            Chosen::Nats(nats, installation) => (nats, installation),
            Chosen::Embedded => return Self::look_embedded(folder, mesh, scrubber),
        };
        let vault = SealedVault::open_read_only(folder, &KeySource::Folder);
        let vault = vault.map_err(in_vault(folder))?;
        let vault = vault.ok_or_else(|| no_key(folder))?;
        let link = link(&nats, mesh.as_str(), Role::Loops, &Machine, &scrubber)
            .map_err(InstallationFault::Login)?;
        let opening = JetstreamBus::open_read_only(&link, mesh.as_str(), folder);
        let opened = in_time(&nats, LOOK, opening).await?;
        ours(&opened, &installation)?;
        let fits = keyname::fits(&opened.bus, &vault.key_name()).await;
        if !fits.map_err(|fault| InstallationFault::Nats(fault.into()))? {
            return Err(other_key(folder));
        }
        Ok(Self::of_nats(folder, mesh, opened, vault, scrubber))
    }

    fn look_embedded(
        folder: &Path,
        mesh: &MeshId,
        scrubber: Arc<Scrubber>,
    ) -> Result<Self, InstallationFault> {
        let not_there = || InstallationFault::NotThere {
            folder: folder.to_owned(),
        };
        let glimpse = EmbeddedBus::open_read_only(folder).map_err(in_store(folder))?;
        let opened = match glimpse {
            Glimpse::Open(opened) => opened,
            Glimpse::NotThere => return Err(not_there()),
            Glimpse::Wiped => {
                let why = "the store that was used last is gone; `mesh apply` begins a new one"
                    .to_owned();
                return Err(in_store(folder)(Fault::Unreachable(why)));
            }
        };
        let vault = SealedVault::open_read_only(folder, &KeySource::Folder);
        let vault = vault.map_err(in_vault(folder))?.ok_or_else(not_there)?;
        Ok(Self::of_embedded(
            folder,
            mesh,
            (opened.bus, opened.found),
            vault,
            scrubber,
        ))
    }

    /// The same without a manifest: the folder says which bus it uses, and the store which mesh it is of.
    pub async fn open_to_read(
        folder: &Path,
        scrubber: Arc<Scrubber>,
    ) -> Result<(Self, MeshId), InstallationFault> {
        let not_there = || InstallationFault::NotThere {
            folder: folder.to_owned(),
        };
        let known = Memory::read(folder)?.map(|memory| memory.mesh);
        let known = known.unwrap_or_else(|| "nameless".to_owned());
        let mesh = MeshId::new(&known).map_err(|_| not_there())?;
        let mut installation = Self::open_read_only(folder, &mesh, None, scrubber).await?;
        let head = super::publish::head(installation.bus.as_ref()).await;
        let head = head.map_err(|fault| installation.store_fault(fault))?;
        // No wish was ever put in force here.
        let mesh = MeshId::new(&head.mesh).map_err(|_| not_there())?;
        installation.mesh = mesh.clone();
        Ok((installation, mesh))
    }

    fn of_nats(
        folder: &Path,
        mesh: &MeshId,
        opened: Opened,
        vault: SealedVault,
        scrubber: Arc<Scrubber>,
    ) -> Self {
        let replaced = match &opened.found {
            jetstream::Found::Replaced(why) => Some(why.to_string()),
            jetstream::Found::Known => None,
        };
        let store = Store::Nats(Arc::new(opened.bus));
        Self::of(folder, mesh, store, vault, replaced, scrubber)
    }
    fn of_embedded(
        folder: &Path,
        mesh: &MeshId,
        (bus, found): (EmbeddedBus, Found),
        vault: SealedVault,
        scrubber: Arc<Scrubber>,
    ) -> Self {
        let replaced = match found {
            Found::Replaced(why) => Some(why.to_string()),
            Found::Created | Found::Known => None,
        };
        let store = Store::Embedded(Arc::new(bus));
        Self::of(folder, mesh, store, vault, replaced, scrubber)
    }
    fn of(
        folder: &Path,
        mesh: &MeshId,
        store: Store,
        vault: SealedVault,
        replaced: Option<String>,
        scrubber: Arc<Scrubber>,
    ) -> Self {
        let (mark_key, digest_key) = (vault.mark_key(), vault.digest_key());
        let bus = store.bus();
        let beyond = match &store {
            Store::Embedded(_) => Beyond::No,
            Store::Nats(_) => Beyond::Yes,
        };
        let journals = Journals::of(folder, !vault.reads_only());
        let secrets = Secrets::new(Arc::new(vault), Arc::clone(&bus), digest_key, scrubber);
        Self {
            folder: folder.to_owned(),
            bus,
            secrets: Arc::new(secrets.going(beyond).rotating(journals)),
            replaced,
            store,
            mesh: mesh.clone(),
            mark_key,
        }
    }

    /// The installation's id.
    pub fn id(&self) -> &str {
        match &self.store {
            Store::Embedded(bus) => bus.installation(),
            Store::Nats(bus) => bus.installation(),
        }
    }
    /// Whether other hosts may use the same bus.
    pub fn is_shared(&self) -> bool {
        matches!(self.store, Store::Nats(_))
    }
    /// The bus on NATS servers, where it is one: for what servers do beside keeping values.
    pub fn servers(&self) -> Option<Arc<JetstreamBus>> {
        match &self.store {
            Store::Embedded(_) => None,
            Store::Nats(bus) => Some(Arc::clone(bus)),
        }
    }
    /// Who hears of every pass beside those that the program itself has.
    pub fn observers(&self) -> Vec<Arc<dyn Observer>> {
        match &self.store {
            Store::Embedded(_) => Vec::new(),
            Store::Nats(bus) => vec![Arc::new(Hints(Arc::clone(bus)))],
        }
    }
    /// Asks for the one right to act on a bus that several hosts share. `None`: there are no others.
    pub async fn claim(&self, me: Holder) -> Result<Option<Claiming>, Fault> {
        match self.is_shared() {
            true => {
                let ask = Ask::new(Lease::Installation, me);
                claim::take(self.store.bus(), ask).await.map(Some)
            }
            false => Ok(None),
        }
    }
    /// Asks for the right to act on one provider.
    pub fn lease(
        &self,
        provider: &ProviderName,
        me: Holder,
    ) -> impl Future<Output = Result<Claiming, Fault>> + Send + use<> {
        let lease = Lease::Provider(provider.clone());
        claim::take(self.store.bus(), Ask::new(lease, me))
    }
    /// Who holds that right, if there are several hosts.
    pub async fn holder(&self) -> Result<Option<Holder>, Fault> {
        match self.is_shared() {
            true => claim::holder(self.bus.as_ref(), &Lease::Installation).await,
            false => Ok(None),
        }
    }
    /// The same, writing only while a lease is surely held.
    #[must_use]
    pub fn under(&self, claim: &Arc<Claim>) -> Self {
        let bus: Arc<dyn Bus> = Arc::new(Claimed {
            bus: self.store.bus(),
            claim: Arc::clone(claim),
        });
        Self {
            folder: self.folder.clone(),
            secrets: Arc::new(self.secrets.on(Arc::clone(&bus))),
            bus,
            replaced: self.replaced.clone(),
            store: self.store.clone(),
            mesh: self.mesh.clone(),
            mark_key: self.mark_key.clone(),
        }
    }
    /// A fault of its store, told with where that is.
    pub fn store_fault(&self, fault: Fault) -> InstallationFault {
        match self.store {
            Store::Embedded(_) => in_store(&self.folder)(fault),
            Store::Nats(_) => InstallationFault::Nats(fault.into()),
        }
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
        match &self.store {
            _ if self.replaced.is_none() => Ok(()),
            Store::Embedded(bus) => bus.replacement_told().await,
            Store::Nats(bus) => bus.replacement_told(),
        }
    }
}

/// The secret store of a folder that uses a bus beyond it. Its key was made when the bus was set up, or
/// brought along by a person: never here, where it would be another one than that of the other hosts.
pub(super) fn joined_vault(folder: &Path) -> Result<SealedVault, InstallationFault> {
    if !KeySource::Folder.path(folder).exists() {
        return Err(no_key(folder));
    }
    SealedVault::open(folder, &KeySource::Folder).map_err(in_vault(folder))
}

fn no_key(folder: &Path) -> InstallationFault {
    InstallationFault::NoKey {
        folder: folder.to_owned(),
    }
}
pub(super) fn other_key(folder: &Path) -> InstallationFault {
    InstallationFault::OtherKey {
        folder: folder.to_owned(),
    }
}

/// Sees to it that a bus is that of the installation which the folder knows.
fn ours(opened: &Opened, installation: &str) -> Result<(), InstallationFault> {
    if opened.bus.installation() == installation {
        return Ok(());
    }
    Err(InstallationFault::Nats(OpenFault::Taken {
        found: opened.bus.installation().to_owned(),
        ours: installation.to_owned(),
    }))
}

pub(super) fn in_store(folder: &Path) -> impl Fn(Fault) -> InstallationFault {
    let folder = folder.to_owned();
    move |fault| InstallationFault::Bus {
        folder: folder.clone(),
        fault,
    }
}
pub(super) fn in_vault(folder: &Path) -> impl Fn(VaultFault) -> InstallationFault {
    let folder = folder.to_owned();
    move |fault| InstallationFault::Vault {
        folder: folder.clone(),
        fault,
    }
}

/// The id of a store that is made now: that of the bus which the folder used, that which lies beside its
/// secrets (decision 0150), or a new one.
pub(super) fn id_for(folder: &Path, kept: Option<&str>) -> Result<String, InstallationFault> {
    match (jetstream::installation_of(folder), kept) {
        (Ok(Some(id)), _) => Ok(id),
        (_, Some(id)) => Ok(id.to_owned()),
        _ => new_id(),
    }
}

/// A new id.
pub fn new_id() -> Result<String, InstallationFault> {
    let mut bytes = [0; 5];
    mint::os_random(&mut bytes).map_err(|_| InstallationFault::NoRandom)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
