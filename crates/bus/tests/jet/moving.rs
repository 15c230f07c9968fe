//! From the embedded store to NATS and back: the same installation, and a file without a secret.

use std::sync::Arc;

use mesh_bus::claim::{Answer, Ask, Holder, Lease, take};
use mesh_bus::embedded::{EmbeddedBus, Settings};
use mesh_bus::transfer::{export, import};
use mesh_sdk::bus::{Bucket, Bus, Expect, Key, Write};
use mesh_sdk::clock::Clock;

use crate::ground::Ground;

fn embedded(folder: &std::path::Path) -> EmbeddedBus {
    let settings = Settings {
        installation: "inst1".to_owned(),
        clock: Clock::system(),
    };
    EmbeddedBus::open(folder, &settings).expect("open").bus
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b9_an_installation_moves_to_nats_and_back_unchanged() {
    let ground = Ground::of(1).await;
    let folder = tempfile::tempdir().expect("folder");
    let old = embedded(folder.path());
    let writes = (0..2500).map(|n| Write {
        key: Key::of(&["cache", &n.to_string()]),
        expect: Expect::Absent,
        value: format!("{{\"n\":{n}}}").into_bytes(),
    });
    let puts = old.put_each(Bucket::Record, writes.collect()).await;
    assert_eq!(puts.expect("put").len(), 2500);
    let line = |n: u32| (Key::of(&["adv", &n.to_string()]), format!("line {n}"));
    old.append((0..300).map(line).collect())
        .await
        .expect("append");
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let moved = export(&old, old.installation(), &mut there).await;
    let moved = moved.expect("export");
    let nats = ground.open_known().await;
    for _ in 0..2 {
        let imported = import(&nats, nats.installation(), &mut there.as_slice()).await;
        assert_eq!(imported.expect("import"), moved);
    }
    let exported = export(&nats, nats.installation(), &mut back).await;
    assert_eq!(exported.expect("export"), moved);
    assert!(there == back, "it came back as another");
    let new_folder = tempfile::tempdir().expect("folder");
    let new = embedded(new_folder.path());
    let imported = import(&new, "inst1", &mut back.as_slice()).await;
    assert_eq!(imported.expect("import"), moved);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_two_hosts_on_one_bus_have_one_claim() {
    let ground = Ground::of(1).await;
    let other = tempfile::tempdir().expect("folder");
    let one: Arc<dyn Bus> = Arc::new(ground.open_known().await);
    let two: Arc<dyn Bus> = Arc::new(ground.open_in(other.path()).await.expect("open").bus);
    let holder = |host: &str| Holder {
        host: host.to_owned(),
        start: host.to_owned(),
        runner: "up".to_owned(),
    };
    let ask = |host: &str| Ask::new(Lease::Installation, holder(host));
    let Ok(Answer::Mine(claim)) = take(one, ask("one")).await else {
        panic!("nobody has it");
    };
    match take(Arc::clone(&two), ask("two")).await {
        Ok(Answer::Other(other)) => assert_eq!(other, holder("one")),
        _ => panic!("both have it"),
    }
    claim.give_back().await;
    let second = take(two, ask("two")).await;
    assert!(matches!(second, Ok(Answer::Mine(_))));
}
