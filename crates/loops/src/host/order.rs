//! What the manifest asks of a host: containers and systemd units.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use mesh_sdk::mark::keyed;
use mesh_sdk::{ConsumerName, MeshId, Secret};
use serde::Serialize;

/// One thing that runs for a consumer.
#[derive(Debug, Clone)]
pub struct Order {
    /// Whose.
    pub consumer: ConsumerName,
    /// What.
    pub thing: Thing,
    /// Where the consumer's credentials are brought on this host, each with its path: what runs is restarted when
    /// they changed.
    pub places: BTreeMap<String, Option<PathBuf>>,
}

/// The two kinds.
#[derive(Debug, Clone)]
pub enum Thing {
    /// A container of Docker or Podman.
    Container(Container),
    /// A unit of systemd, which somebody else wrote.
    Unit(Unit),
}

/// A container as it is asked for.
#[derive(Debug, Clone, Serialize)]
pub struct Container {
    /// Its name on the engine.
    pub name: String,
    /// The engine's socket. Another socket may lead to the same engine: it is no part of the digest.
    #[serde(skip)]
    pub engine: PathBuf,
    /// The image, as the engine resolves it on this host. Nothing is pulled.
    pub image: String,
    /// Instead of the image's own command; empty: the image's.
    pub command: Vec<String>,
    /// Variables in plain; whoever may ask the engine sees them.
    pub env: BTreeMap<String, String>,
    /// Delivered env files whose variables it gets; whoever may ask the engine sees them.
    pub env_files: BTreeSet<PathBuf>,
    /// What of the host it sees.
    pub mounts: Vec<Mount>,
    /// What of it the host's network sees.
    pub ports: Vec<Port>,
    /// The network; `None`: the engine's own.
    pub network: Option<String>,
    /// The user inside; `None`: the image's.
    pub user: Option<String>,
    /// When the engine starts it again by itself.
    pub restart: Restart,
}

/// A path or volume in a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// A path of the host, or a volume's name.
    pub source: String,
    /// The path inside.
    pub target: String,
    /// It cannot be written from inside.
    pub read_only: bool,
}

impl Mount {
    /// Whether the source is a path of the host, and not a volume.
    pub fn is_path(&self) -> bool {
        self.source.starts_with('/')
    }
}

/// A port of the host that leads into a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Port {
    /// The host's address; empty: every address.
    pub address: String,
    /// The host's port.
    pub host: u16,
    /// The port inside.
    pub inside: u16,
    /// `tcp` or `udp`.
    pub protocol: String,
}

/// When an engine starts a container again by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Restart {
    /// Never: only Meshkeeper starts it again.
    No,
    /// When it fails.
    OnFailure,
    /// Always.
    Always,
    /// Always but when somebody stopped it.
    UnlessStopped,
}

impl Restart {
    /// Every one.
    pub const ALL: [Restart; 4] = [
        Restart::No,
        Restart::OnFailure,
        Restart::Always,
        Restart::UnlessStopped,
    ];
    /// As the manifest and the engine name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Restart::No => "no",
            Restart::OnFailure => "on-failure",
            Restart::Always => "always",
            Restart::UnlessStopped => "unless-stopped",
        }
    }
}

/// A unit of systemd.
#[derive(Debug, Clone)]
pub struct Unit {
    /// Its name.
    pub name: String,
    /// Whose manager it is under.
    pub manager: Manager,
}

/// Which of systemd's managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manager {
    /// The machine's.
    System,
    /// That of the user who runs Meshkeeper.
    User,
}

impl Manager {
    /// Every one.
    pub const ALL: [Manager; 2] = [Manager::System, Manager::User];
    /// As the manifest names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Manager::System => "system",
            Manager::User => "user",
        }
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Thing::Container(container) => write!(f, "container {}", container.name),
            Thing::Unit(unit) => write!(f, "unit {}", unit.name),
        }
    }
}

impl Thing {
    /// The name without its kind.
    pub fn name(&self) -> &str {
        match self {
            Thing::Container(container) => &container.name,
            Thing::Unit(unit) => &unit.name,
        }
    }
    /// The image that is asked for.
    pub fn image(&self) -> Option<&str> {
        match self {
            Thing::Container(container) => Some(&container.image),
            Thing::Unit(_) => None,
        }
    }
}

impl Container {
    /// Tells one way to ask from another. What is in env files is not in it: the version of the credentials says that.
    pub fn digest(&self, key: &Secret) -> String {
        // A struct of texts always can be.
        let text = serde_json::to_vec(self).unwrap_or_default();
        hex(&keyed(key, b"container", &[&text]), 8)
    }
    /// The mark of a container that this installation made for this consumer.
    pub fn mark(&self, mesh: &MeshId, consumer: &ConsumerName, key: &Secret) -> String {
        let parts = [mesh.as_str(), consumer.as_str(), &self.name].map(str::as_bytes);
        hex(&keyed(key, b"host", &parts), 15)
    }
    /// Whether it gets the variables of this file.
    pub fn reads(&self, path: &Path) -> bool {
        self.env_files.contains(path)
    }
}

pub(super) fn hex(bytes: &[u8], most: usize) -> String {
    let bytes = bytes.iter().take(most);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}
