//! The bus suite, on one server and on three.

use std::sync::Arc;

use async_trait::async_trait;
use mesh_bus::jetstream::{Found, JetstreamBus};
use mesh_conformance::bus::{Factory, Store, run};
use mesh_conformance::servers::{JetCluster, JetOptions};
use mesh_sdk::bus::Bus;
use tempfile::TempDir;

use crate::ground::{link, new_mesh};

struct Servers(Arc<JetCluster>);

struct JetStore {
    cluster: Arc<JetCluster>,
    mesh: String,
    folder: TempDir,
    bus: Option<Arc<JetstreamBus>>,
}

impl JetStore {
    async fn open(&self) -> Result<Arc<JetstreamBus>, String> {
        let link = link(&self.cluster.ports());
        let opened = JetstreamBus::open(&link, &self.mesh, self.folder.path()).await;
        let opened = opened.map_err(|fault| fault.to_string())?;
        if opened.found != Found::Known {
            return Err(format!("it was found {:?}", opened.found));
        }
        Ok(Arc::new(opened.bus))
    }
}

#[async_trait]
impl Factory for Servers {
    async fn fresh(&self) -> Result<Box<dyn Store>, String> {
        let mut store = JetStore {
            cluster: Arc::clone(&self.0),
            mesh: new_mesh(),
            folder: tempfile::tempdir().map_err(|e| e.to_string())?,
            bus: None,
        };
        let layout = mesh_bus::jetstream::Layout {
            replicas: u8::try_from(self.0.ports().len()).expect("few"),
            max_bytes: None,
        };
        let link = link(&self.0.ports());
        let made = mesh_bus::jetstream::bootstrap(
            &link,
            &store.mesh,
            store.folder.path(),
            "inst1",
            &layout,
            mesh_sdk::clock::Clock::system(),
        );
        made.await.map_err(|fault| fault.to_string())?;
        store.bus = Some(store.open().await?);
        Ok(Box::new(store))
    }
}

#[async_trait]
impl Store for JetStore {
    fn bus(&self) -> Arc<dyn Bus> {
        Arc::clone(self.bus.as_ref().expect("open")) as Arc<dyn Bus>
    }
    fn limit(&self) -> usize {
        self.bus.as_ref().expect("open").limit()
    }
    async fn reopen(&mut self) -> Result<(), String> {
        let bus = self.bus.take().expect("open");
        let last = Arc::strong_count(&bus) == 1;
        drop(bus);
        self.bus = Some(self.open().await?);
        last.then_some(())
            .ok_or_else(|| "a handle was kept".to_owned())
    }
    async fn second(&self) -> Result<Arc<dyn Bus>, String> {
        Ok(self.open().await? as Arc<dyn Bus>)
    }
}

async fn suite_on(servers: usize) {
    let options = JetOptions {
        servers,
        ..JetOptions::default()
    };
    let cluster = JetCluster::start(options).await.expect("servers");
    let report = run(&Servers(Arc::new(cluster))).await;
    eprintln!("{report}");
    report.assert_all_ran();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b2_b5_b7_b9_one_server_passes_the_bus_suite() {
    suite_on(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b2_b5_b7_b9_three_servers_pass_the_bus_suite() {
    suite_on(3).await;
}
