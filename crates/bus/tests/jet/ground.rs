//! Meshes on running servers, and short ways to write and read.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mesh_bus::jetstream::{
    Found, JetstreamBus, Layout, Link, Login, OpenFault, Opened, Server, bootstrap,
};
use mesh_conformance::servers::{JetCluster, JetOptions};
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put, Rev, Rung, Watch, Write};
use mesh_sdk::clock::Clock;
use tempfile::TempDir;

/// What takes longer than this has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn link(ports: &[u16]) -> Link {
    let server = |port: &u16| Server {
        host: "127.0.0.1".to_owned(),
        port: *port,
        tls: false,
    };
    Link {
        servers: ports.iter().map(server).collect(),
        ..Link::default()
    }
}

pub(crate) fn as_user(mut link: Link, user: &str, password: &str) -> Link {
    link.login = Login::Password {
        user: user.to_owned(),
        password: mesh_sdk::secret::Secret::new(password.as_bytes()),
    };
    link
}

/// A mesh's name that no other test has.
pub(crate) fn new_mesh() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("m{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Servers, a mesh on them, and its data folder.
pub(crate) struct Ground {
    pub(crate) cluster: JetCluster,
    pub(crate) link: Link,
    pub(crate) mesh: String,
    pub(crate) folder: TempDir,
}

impl Ground {
    pub(crate) async fn of(servers: usize) -> Self {
        let options = JetOptions {
            servers,
            ..JetOptions::default()
        };
        Self::with(options).await
    }
    pub(crate) async fn with(options: JetOptions) -> Self {
        let cluster = JetCluster::start(options).await.expect("servers");
        let ground = Self {
            link: link(&cluster.ports()),
            cluster,
            mesh: new_mesh(),
            folder: tempfile::tempdir().expect("folder"),
        };
        ground.bootstrap().await.expect("bootstrap");
        ground
    }
    pub(crate) fn layout(&self) -> Layout {
        Layout {
            replicas: u8::try_from(self.cluster.ports().len()).expect("few"),
            max_bytes: None,
        }
    }
    pub(crate) async fn bootstrap(&self) -> Result<Vec<String>, OpenFault> {
        let folder = self.folder.path();
        let layout = self.layout();
        let clock = Clock::system();
        let made = bootstrap(&self.link, &self.mesh, folder, "inst1", &layout, clock).await?;
        assert_eq!(made.installation, "inst1");
        Ok(made.streams)
    }
    pub(crate) async fn open(&self) -> Opened {
        self.open_in(self.folder.path()).await.expect("open")
    }
    pub(crate) async fn open_in(&self, folder: &Path) -> Result<Opened, OpenFault> {
        JetstreamBus::open(&self.link, &self.mesh, folder).await
    }
    pub(crate) async fn open_known(&self) -> JetstreamBus {
        let opened = self.open().await;
        assert_eq!(opened.found, Found::Known);
        opened.bus
    }
    pub(crate) fn state(&self) -> String {
        format!("KV_mesh_{}", self.mesh)
    }
    /// Deletes the stream of the buckets, as an administrator by mistake does.
    pub(crate) async fn delete_stream(&self) {
        let mut admin = self.cluster.admin(0).await.expect("admin");
        let what = format!("$JS.API.STREAM.DELETE.{}", self.state());
        let gone = admin.json(&what, "").await.expect("answer");
        assert_eq!(gone["success"], true, "{gone}");
    }
}

pub(crate) async fn put(
    bus: &dyn Bus,
    key: &str,
    expect: Expect,
    value: &str,
) -> Result<Put, Fault> {
    let write = Write {
        key: Key::of(&[key]),
        expect,
        value: value.as_bytes().to_vec(),
    };
    bus.put_if(Bucket::Record, write).await
}

pub(crate) async fn done(bus: &dyn Bus, key: &str, value: &str) -> Rev {
    let now = bus.get(Bucket::Record, &Key::of(&[key])).await;
    let now = now.expect("get");
    let expect = now.map_or(Expect::Absent, |entry| Expect::At(entry.rev));
    match put(bus, key, expect, value).await {
        Ok(Put::Done(rev)) => rev,
        other => panic!("writing {key} gave {other:?}"),
    }
}

pub(crate) async fn value(bus: &dyn Bus, key: &str) -> Option<String> {
    let entry = bus.get(Bucket::Record, &Key::of(&[key])).await;
    let entry = entry.expect("get");
    entry.map(|entry| String::from_utf8(entry.value).expect("text"))
}

/// Writes a key, again and again, until it is done: what a caller does who reads back what it does not
/// know. Answers how often it was not done at once.
pub(crate) async fn done_in_the_end(bus: &dyn Bus, key: &str, text: &str) -> usize {
    let mut troubles = 0;
    let patient = async {
        loop {
            if let Ok(entry) = bus.get(Bucket::Record, &Key::of(&[key])).await {
                if entry.as_ref().is_some_and(|e| e.value == text.as_bytes()) {
                    return;
                }
                let expect = entry.map_or(Expect::Absent, |entry| Expect::At(entry.rev));
                if let Ok(Put::Done(_)) = put(bus, key, expect, text).await {
                    return;
                }
            }
            troubles += 1;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, patient).await;
    ended.expect("the bus takes writes again");
    troubles
}

/// Waits for a ring for this key, or a gap.
pub(crate) async fn rings(watch: &mut dyn Watch, key: &str) {
    let wanted = Key::of(&[key]);
    let heard = async {
        loop {
            match watch.next().await {
                Rung::Changed(key) if key == wanted => return,
                Rung::Gap => return,
                Rung::Changed(_) => {}
            }
        }
    };
    let heard = tokio::time::timeout(PATIENCE, heard).await;
    heard.unwrap_or_else(|_| panic!("no ring for {key}"));
}
