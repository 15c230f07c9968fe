//! Setting up a bus on NATS servers, moving an installation there and back, and taking up one that was
//! restored: what `mesh bus` does. None of it runs while loops do.

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use mesh_bus::claim::{self, Ask, Lease};
use mesh_bus::embedded::{EmbeddedBus, Glimpse, Settings};
use mesh_bus::jetstream::{self, Adopted, JetstreamBus, Layout, Made, OpenFault, Role};
use mesh_bus::transfer::{self, Moved, TransferFault};
use mesh_bus::vault::{KeySource, SealedVault};
use mesh_sdk::bus::{Bus, Fault};
use mesh_sdk::clock::Clock;
use mesh_sdk::scrub::Scrubber;

use super::claimed::Claimed;
use super::installation::{
    Chosen, Claim, Claiming, Holder, InstallationFault, choose, has_own_store, id_for, in_store,
    in_vault, joined_vault, other_key,
};
use super::keyname::{self, Agreed};
use super::link::link;
use super::memory::Memory;
use super::sharing;
use crate::manifest::{BusChoice, Machine, Manifest, NatsBus};

/// Why a bus could not be set up or moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveFault {
    /// The data folder or the bus.
    #[error(transparent)]
    Installation(#[from] InstallationFault),
    /// The file, or what it was moved to.
    #[error(transparent)]
    Transfer(#[from] TransferFault),
    /// The manifest names the embedded store, and that needs none of this.
    #[error("the manifest says bus = \"embedded\"")]
    Embedded,
    /// Another host acts on the bus.
    #[error("`mesh {runner}` on {host} has the loops of this mesh")]
    Busy {
        /// What runs there.
        runner: String,
        /// The host.
        host: String,
    },
    /// Somebody set it up already.
    #[error("mesh {mesh} is on these servers already, as installation {installation}")]
    InUse {
        /// The mesh.
        mesh: String,
        /// Whose it is.
        installation: String,
    },
    /// The claim was lost meanwhile.
    #[error("the claim on the installation was lost meanwhile")]
    ClaimLost,
    /// A file that is there is not written over.
    #[error("there is a file {0} already")]
    Exists(String),
}

impl From<OpenFault> for MoveFault {
    fn from(fault: OpenFault) -> Self {
        MoveFault::Installation(InstallationFault::Nats(fault))
    }
}
impl From<Fault> for MoveFault {
    fn from(fault: Fault) -> Self {
        MoveFault::from(OpenFault::Bus(fault))
    }
}

/// What every one of them works with. The turn on the folder is this process's.
pub struct Mover<'m> {
    /// The data folder.
    pub folder: &'m Path,
    /// The manifest.
    pub manifest: &'m Manifest,
    /// The clock.
    pub clock: Clock,
    /// Hides secrets.
    pub scrubber: Arc<Scrubber>,
    /// What this process calls itself on the bus.
    pub me: Holder,
}

impl Mover<'_> {
    fn mesh(&self) -> &str {
        self.manifest.mesh.as_str()
    }
    fn nats(&self) -> Result<&NatsBus, MoveFault> {
        match &self.manifest.bus {
            BusChoice::Nats(nats) => Ok(nats),
            BusChoice::Embedded => Err(MoveFault::Embedded),
        }
    }
    fn link(&self, nats: &NatsBus, role: Role) -> Result<jetstream::Link, MoveFault> {
        let link = link(nats, self.mesh(), role, &Machine, &self.scrubber);
        Ok(link.map_err(InstallationFault::Login)?)
    }
    /// The installation that the folder belongs to, on whatever bus.
    fn installation(&self) -> Result<Option<String>, MoveFault> {
        if let Some(memory) = Memory::read(self.folder)? {
            return Ok(Some(memory.installation));
        }
        let glimpse = EmbeddedBus::open_read_only(self.folder).map_err(in_store(self.folder))?;
        if let Glimpse::Open(opened) = glimpse {
            return Ok(Some(opened.bus.installation().to_owned()));
        }
        let marked = jetstream::installation_of(self.folder);
        Ok(marked.map_err(|error| InstallationFault::Folder {
            folder: self.folder.to_owned(),
            why: error.to_string(),
        })?)
    }

    /// Makes the streams of the mesh. A folder that nothing was applied from uses them from now on; one
    /// that has a store of its own does once that was moved.
    pub async fn bootstrap(&self, login: &NatsBus, layout: &Layout) -> Result<Made, MoveFault> {
        let nats = self.nats()?;
        let link = self.link(login, Role::Bootstrap)?;
        let known = self.installation()?;
        let begins = known.is_none() || Memory::read(self.folder)?.is_some();
        // Nothing is made in the folder, no key either, for a bus that is another installation's.
        if known.is_none()
            && let Some(installation) = jetstream::owner(&link, self.mesh()).await?
        {
            let mesh = self.mesh().to_owned();
            return Err(MoveFault::InUse { mesh, installation });
        }
        let vault = SealedVault::open(self.folder, &KeySource::Folder);
        let vault = vault.map_err(in_vault(self.folder))?;
        let installation = match known {
            Some(id) => id,
            None => id_for(self.folder, vault.installation())?,
        };
        if begins {
            // Before anything is made there: after a crash the same installation goes on.
            Memory::of(self.mesh(), &installation, nats).keep(self.folder)?;
        }
        let made = jetstream::bootstrap(
            &link,
            self.mesh(),
            self.folder,
            &installation,
            layout,
            self.clock,
        );
        let made = made.await?;
        let opened = JetstreamBus::open(&link, self.mesh(), self.folder).await?;
        self.same_key(&opened.bus, &vault).await?;
        Ok(made)
    }

    async fn same_key(&self, bus: &dyn Bus, vault: &SealedVault) -> Result<(), MoveFault> {
        match keyname::agree(bus, &vault.key_name()).await? {
            Agreed::Yes | Agreed::Made => Ok(()),
            Agreed::No => Err(other_key(self.folder).into()),
        }
    }

    /// Writes everything on the bus that the folder uses into a new file.
    pub async fn export(&self, file: &Path) -> Result<(Moved, String), MoveFault> {
        if file.exists() {
            return Err(MoveFault::Exists(file.display().to_string()));
        }
        let (nats, installation) = match choose(self.folder, None)? {
            Chosen::Nats(nats, installation) => (nats, installation),
            Chosen::Embedded => {
                let glimpse = EmbeddedBus::open_read_only(self.folder);
                return match glimpse.map_err(in_store(self.folder))? {
                    Glimpse::Open(opened) => {
                        let id = opened.bus.installation().to_owned();
                        Ok((write_out(&opened.bus, &id, file).await?, id))
                    }
                    _ => Err(InstallationFault::NotThere {
                        folder: self.folder.to_owned(),
                    }
                    .into()),
                };
            }
        };
        let link = self.link(&nats, Role::Loops)?;
        let opened = JetstreamBus::open(&link, self.mesh(), self.folder).await?;
        let moved = self
            .alone(Arc::new(opened.bus), async |bus| {
                Ok(write_out(bus, &installation, file).await?)
            })
            .await?;
        Ok((moved, installation))
    }

    /// Writes a file onto the bus that the manifest names, and has the folder use that from now on.
    pub async fn import(&self, file: &Path) -> Result<(Moved, String), MoveFault> {
        match &self.manifest.bus {
            BusChoice::Nats(nats) => self.import_there(nats, file).await,
            BusChoice::Embedded => self.import_here(file).await,
        }
    }
    async fn import_there(
        &self,
        nats: &NatsBus,
        file: &Path,
    ) -> Result<(Moved, String), MoveFault> {
        let vault = joined_vault(self.folder)?;
        let link = self.link(nats, Role::Loops)?;
        let opened = JetstreamBus::open(&link, self.mesh(), self.folder).await?;
        let found = opened.bus.installation().to_owned();
        if let Some(ours) = self.installation()?
            && found != ours
        {
            return Err(OpenFault::Taken { found, ours }.into());
        }
        let moved = self
            .alone(Arc::new(opened.bus), async |bus| {
                self.same_key(bus, &vault).await?;
                let mut from = BufReader::new(File::open(file).map_err(TransferFault::File)?);
                Ok(transfer::import(bus, &found, &mut from).await?)
            })
            .await?;
        Memory::of(self.mesh(), &found, nats).keep(self.folder)?;
        Ok((moved, found))
    }
    async fn import_here(&self, file: &Path) -> Result<(Moved, String), MoveFault> {
        let comes_back = Memory::read(self.folder)?.is_some();
        let installation = match self.installation()? {
            Some(id) => id,
            None => {
                let vault = SealedVault::open_read_only(self.folder, &KeySource::Folder);
                let vault = vault.map_err(in_vault(self.folder))?;
                let kept = vault.as_ref().and_then(SealedVault::installation);
                id_for(self.folder, kept)?
            }
        };
        if comes_back {
            self.set_aside()?;
        }
        let settings = Settings {
            installation: installation.clone(),
            clock: self.clock,
        };
        let opened = EmbeddedBus::open(self.folder, &settings).map_err(in_store(self.folder))?;
        let mut from = BufReader::new(File::open(file).map_err(TransferFault::File)?);
        let moved = transfer::import(&opened.bus, &installation, &mut from).await?;
        Memory::forget(self.folder)?;
        Ok((moved, installation))
    }
    /// What the folder's own store held before it used another bus is out of date: it is put aside.
    fn set_aside(&self) -> Result<(), MoveFault> {
        let now = self.clock.now().as_millis();
        for name in ["mesh.db", "mesh.db-wal", "mesh.db-shm", "epoch.json"] {
            let from = self.folder.join(name);
            if from.exists() {
                let to = self.folder.join(format!("{name}.before-{now}"));
                fs::rename(from, to).map_err(|error| InstallationFault::Folder {
                    folder: self.folder.to_owned(),
                    why: error.to_string(),
                })?;
            }
        }
        Ok(())
    }

    /// Takes up the bus that the manifest names as it is now. On the embedded store: leaves the one on NATS
    /// behind. Nobody counts as new in the first run on a bus that is not known to be the newest (H-22).
    pub async fn adopt(&self) -> Result<(Adopted, String), MoveFault> {
        let BusChoice::Nats(nats) = &self.manifest.bus else {
            return self.adopt_own();
        };
        let vault = joined_vault(self.folder)?;
        let ours = self.installation()?;
        let link = self.link(nats, Role::Loops)?;
        let seen = JetstreamBus::open_read_only(&link, self.mesh(), self.folder).await?;
        if !keyname::fits(&seen.bus, &vault.key_name()).await? {
            return Err(other_key(self.folder).into());
        }
        drop(seen);
        let adopted = jetstream::adopt(&link, self.mesh(), self.folder, ours.as_deref()).await?;
        Memory::of(self.mesh(), &adopted.1, nats).keep(self.folder)?;
        Ok(adopted)
    }
    fn adopt_own(&self) -> Result<(Adopted, String), MoveFault> {
        let Some(memory) = Memory::read(self.folder)? else {
            return Err(MoveFault::Embedded);
        };
        let id = memory.installation;
        let settings = Settings {
            installation: id.clone(),
            clock: self.clock,
        };
        drop(EmbeddedBus::open(self.folder, &settings).map_err(in_store(self.folder))?);
        // Without its mark the next run cannot take it for the newest state, and it is not.
        let mark = self.folder.join("epoch.json");
        fs::remove_file(mark).map_err(|error| InstallationFault::Folder {
            folder: self.folder.to_owned(),
            why: error.to_string(),
        })?;
        Memory::forget(self.folder)?;
        Ok((Adopted::Joined, id))
    }

    /// Does something on a bus while no host acts on it.
    async fn alone<T>(
        &self,
        bus: Arc<JetstreamBus>,
        what: impl AsyncFnOnce(&dyn Bus) -> Result<T, MoveFault>,
    ) -> Result<T, MoveFault> {
        let bus = bus as Arc<dyn Bus>;
        let claim = self.take(&bus, Lease::Installation).await?;
        let claimed = Claimed {
            bus: Arc::clone(&bus),
            claim: Arc::clone(&claim),
        };
        let doing = async {
            self.nobody_has_loops(&bus).await?;
            what(&claimed).await
        };
        let done = tokio::select! {
            done = doing => done,
            () = claim.lost() => Err(MoveFault::ClaimLost),
        };
        claim.give_back().await;
        done
    }
    async fn take(&self, bus: &Arc<dyn Bus>, lease: Lease) -> Result<Arc<Claim>, MoveFault> {
        let ask = Ask::new(lease, self.me.clone());
        match claim::take(Arc::clone(bus), ask).await? {
            Claiming::Mine(claim) => Ok(Arc::new(claim)),
            Claiming::Other(other) => Err(MoveFault::Busy {
                runner: other.runner,
                host: other.host,
            }),
        }
    }
    /// While this process has the claim, no host takes a provider's lease; and none has one still.
    async fn nobody_has_loops(&self, bus: &Arc<dyn Bus>) -> Result<(), MoveFault> {
        for (provider, holder) in sharing::held(bus.as_ref()).await?.unwrap_or_default() {
            if holder.is_some() {
                let lease = self.take(bus, Lease::Provider(provider)).await?;
                lease.give_back().await;
            }
        }
        Ok(())
    }
}

/// Writes a file that only its owner reads: whole, or not at all.
async fn write_out(bus: &dyn Bus, installation: &str, file: &Path) -> Result<Moved, TransferFault> {
    let beside = file.with_extension("part");
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true).mode(0o600);
    let mut to = BufWriter::new(options.open(&beside)?);
    let moved = transfer::export(bus, installation, &mut to).await;
    if moved.is_err() {
        drop(fs::remove_file(&beside));
    }
    let moved = moved?;
    to.flush()?;
    to.get_ref().sync_all()?;
    fs::rename(&beside, file)?;
    Ok(moved)
}

/// Whether a folder has a store of its own that is not used while it uses another bus.
pub fn leaves_behind(folder: &Path) -> bool {
    has_own_store(folder)
}

/// What each role may do: its name, and its permissions as a NATS server reads them.
pub fn permissions(mesh: &str) -> Vec<RoleText> {
    let names = jetstream::Names::of(mesh);
    let one = |role: Role| RoleText {
        role: role.as_str(),
        inbox: role.inbox(&names),
        publish: role.publish(&names),
        subscribe: role.subscribe(&names),
        answers: role.answers(),
        text: jetstream::permissions(&names, role),
    };
    Role::ALL.into_iter().map(one).collect()
}

/// How the account with the streams lends agents that have another one what they need.
pub fn lending(mesh: &str, account: &str) -> jetstream::Lending {
    jetstream::lending(&jetstream::Names::of(mesh), account)
}

/// A role's permissions.
#[derive(Debug, serde::Serialize)]
pub struct RoleText {
    /// Its name.
    pub role: &'static str,
    /// The prefix of the subjects on which its answers come.
    pub inbox: String,
    /// What it may publish.
    pub publish: Vec<String>,
    /// What it may subscribe to.
    pub subscribe: Vec<String>,
    /// Whether it may answer whoever asks it.
    pub answers: bool,
    /// The same for a server's configuration.
    #[serde(skip)]
    pub text: String,
}
