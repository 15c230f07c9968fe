//! A bus on real NATS servers, and folders of several hosts on it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use mesh_conformance::servers::{JetCluster, JetOptions};
use tokio::runtime::Runtime;

use crate::lab::{Lab, need};
use crate::redis::Redis;

/// Servers with JetStream.
pub(crate) struct Nats {
    pub(crate) cluster: JetCluster,
    pub(crate) runtime: Runtime,
}

impl Nats {
    pub(crate) fn start(servers: usize) -> Self {
        Self::with(JetOptions {
            servers,
            ..JetOptions::default()
        })
    }
    pub(crate) fn with(options: JetOptions) -> Self {
        let runtime = Runtime::new().expect("runtime");
        let cluster = runtime.block_on(JetCluster::start(options));
        let cluster = cluster.expect("servers");
        Self { cluster, runtime }
    }
    /// `bus = …` as a manifest names these servers.
    pub(crate) fn line(&self) -> String {
        let urls = self.cluster.ports().into_iter();
        let urls: Vec<String> = urls
            .map(|port| format!("\"nats://127.0.0.1:{port}\""))
            .collect();
        match urls.as_slice() {
            [one] => format!("bus = {one}"),
            many => format!("bus = {{ urls = [{}] }}", many.join(", ")),
        }
    }
    /// As many copies as there are servers.
    pub(crate) fn replicas(&self) -> String {
        self.cluster.ports().len().to_string()
    }
}

/// The manifest of one Redis on this bus.
pub(crate) fn manifest(bus: &str, redis: &Redis, lines: &str, consumers: &[&str]) -> String {
    let mut text = String::new();
    write!(
        text,
        "[mesh]\nid = \"home\"\n{bus}\n\n[provider.cache]\nkind = \"redis\"\nurl = \"{}\"\n{lines}\n",
        redis.url()
    )
    .expect("text");
    for name in consumers {
        need(&mut text, name, "cache", "");
    }
    text
}

/// A host's folder.
pub(crate) fn host(name: &str) -> Lab {
    let mut lab = Lab::new();
    lab.set("MESH_HOST", name);
    lab
}

/// The first host of a mesh on this bus: its streams are made.
pub(crate) fn first(nats: &Nats, redis: &Redis, lines: &str, consumers: &[&str]) -> Lab {
    let lab = host("one");
    lab.manifest(&manifest(&nats.line(), redis, lines, consumers));
    lab.mesh(&["bus", "bootstrap", "--replicas", &nats.replicas()])
        .ends(0)
        .says("made KV_mesh_home and MESH_LOG_home");
    lab
}

/// A further host: it has the manifest and the key, and nothing else.
pub(crate) fn joined(name: &str, of: &Lab) -> Lab {
    let lab = host(name);
    lab.manifest(&fs::read_to_string(of.path().join("mesh.toml")).expect("manifest"));
    bring_key(of, &lab);
    lab.mesh(&["bus", "adopt"])
        .ends(0)
        .says("uses it from now on");
    lab
}

/// Copies the installation's key.
pub(crate) fn bring_key(from: &Lab, to: &Lab) {
    fs::create_dir_all(to.data()).expect("folder");
    copy(&from.data(), &to.data(), "installation.key");
}

pub(crate) fn copy(from: &Path, to: &Path, name: &str) {
    fs::copy(from.join(name), to.join(name)).expect("copied");
}
