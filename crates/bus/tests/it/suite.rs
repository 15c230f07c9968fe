//! The bus suite, on the embedded store.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use mesh_bus::EmbeddedBus;
use mesh_bus::embedded::LIMIT;
use mesh_conformance::bus::{Factory, Guess, Op, Store, agrees_with_model, run};
use mesh_sdk::bus::Bus;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::{open, open_known};

struct Files;

struct FileStore {
    folder: TempDir,
    bus: Option<Arc<dyn Bus>>,
}

impl FileStore {
    fn path(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

#[async_trait]
impl Factory for Files {
    async fn fresh(&self) -> Result<Box<dyn Store>, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mut store = FileStore { folder, bus: None };
        store.bus = Some(Arc::new(open(&store.path()).bus));
        Ok(Box::new(store))
    }
}

#[async_trait]
impl Store for FileStore {
    fn bus(&self) -> Arc<dyn Bus> {
        Arc::clone(self.bus.as_ref().expect("open"))
    }
    fn limit(&self) -> usize {
        LIMIT
    }
    async fn reopen(&mut self) -> Result<(), String> {
        let bus = self.bus.take().expect("open");
        let last = Arc::strong_count(&bus) == 1;
        drop(bus);
        self.bus = Some(Arc::new(open_known(&self.path())));
        last.then_some(())
            .ok_or_else(|| "a handle was kept".to_owned())
    }
    async fn second(&self) -> Result<Arc<dyn Bus>, String> {
        Ok(Arc::new(open_known(&self.path())))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b2_b5_b7_b9_the_embedded_store_passes_the_bus_suite() {
    let report = run(&Files).await;
    eprintln!("{report}");
    report.assert_all_ran();
}

fn op() -> impl Strategy<Value = Op> {
    let guess = prop_oneof![
        3 => Just(Guess::Right),
        1 => Just(Guess::Absent),
        1 => Just(Guess::Stale),
    ];
    let value = proptest::collection::vec(any::<u8>(), 0..20);
    let write = (any::<u8>(), guess, value);
    prop_oneof![
        4 => proptest::collection::vec(write, 0..8).prop_map(Op::Put),
        1 => any::<u8>().prop_map(Op::Get),
        1 => proptest::option::of(any::<u8>()).prop_map(Op::List),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn b2_any_operations_agree_with_a_model(ops in proptest::collection::vec(op(), 1..60)) {
        let folder = tempfile::tempdir().expect("folder");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        let agreed = runtime.block_on(async {
            let bus: EmbeddedBus = open(folder.path()).bus;
            agrees_with_model(&bus, &ops).await
        });
        prop_assert_eq!(agreed, Ok(()));
    }
}
