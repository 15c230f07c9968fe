//! A bus on real NATS servers, and folders of several hosts on it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    let mut text = format!(
        "[mesh]\nid = \"home\"\n{bus}\n\n[provider.cache]\nkind = \"redis\"\nurl = \"{}\"\n{lines}\n",
        redis.url()
    );
    for name in consumers {
        need(&mut text, name, "cache", "");
    }
    text
}

/// The words by which `mesh bus bootstrap` logs in where [`by_password`] was called.
pub(crate) const BY_BOOTSTRAP: [&str; 4] = [
    "--user",
    "bootstrap",
    "--password-file",
    "bootstrap.password",
];

/// Writes the passwords of the loops' login and of bootstrap's into a host's folder. Answers `[mesh.bus]` for it.
pub(crate) fn by_password(lab: &Lab, nats: &Nats) -> String {
    for role in ["loops", "bootstrap"] {
        lab.write(&format!("{role}.password"), &format!("{role}-password\n"));
    }
    let port = nats.cluster.ports()[0];
    format!(
        "[mesh.bus]\nurl = \"nats://127.0.0.1:{port}\"\nuser = \"loops\"\npassword = {{ file = \"loops.password\" }}"
    )
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

/// A wire to a server that can be cut: what is sent then goes nowhere, and nobody is told.
pub(crate) struct Wire {
    port: u16,
    cut: Arc<AtomicBool>,
}

impl Wire {
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind");
        let port = listener.local_addr().expect("address").port();
        let cut = Arc::new(AtomicBool::new(false));
        let is_cut = Arc::clone(&cut);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                let back = (server.try_clone(), client.try_clone());
                let (Ok(from), Ok(to)) = back else { continue };
                carry(client, server, Arc::clone(&is_cut));
                carry(from, to, Arc::clone(&is_cut));
            }
        });
        Self { port, cut }
    }
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }
    pub(crate) fn mend(&self) {
        self.cut.store(false, Ordering::Relaxed);
    }
}

/// Carries what one says to the other, for as long as both live. What came while the wire was cut is lost,
/// and with it the connection once it was mended.
fn carry(mut from: TcpStream, mut to: TcpStream, cut: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let (mut bytes, mut lost) = ([0; 8192], false);
        while let Ok(n) = from.read(&mut bytes) {
            lost |= cut.load(Ordering::Relaxed);
            let ends = lost && !cut.load(Ordering::Relaxed);
            if n == 0 || ends || (!lost && to.write_all(&bytes[..n]).is_err()) {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
}
