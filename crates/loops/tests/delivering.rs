//! The whole loop on real files: what is asked for is brought, stays, and is told of.

#![allow(clippy::expect_used, reason = "helpers of tests fail loudly")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mesh_loops::delivery::decide::Shows;
use mesh_loops::delivery::hook::Hook;
use mesh_loops::delivery::order::{Has, Order, Target};
use mesh_loops::delivery::record::Record;
use mesh_loops::delivery::{Delivery, Told, read_all};
use mesh_sdk::Time;
use mesh_sdk::bus::Bucket;
use mesh_sdk::clock::Clock;
use mesh_sdk::harness::skeleton::Loop as _;
use mesh_sdk::testing::{MemoryBus, Trace};

use brought::{Held, PERIOD, delivery, order, web};

mod brought;

struct Scene {
    bus: Arc<MemoryBus>,
    held: Arc<Held>,
    folder: tempfile::TempDir,
    clock: Clock,
}

impl Scene {
    fn new() -> Self {
        Self {
            bus: Arc::new(MemoryBus::new(Trace::default())),
            held: Arc::default(),
            folder: tempfile::tempdir().expect("folder"),
            clock: Clock::starting_at(Time::from_millis(0)),
        }
    }
    async fn open(&self) -> Delivery {
        delivery(&self.bus, &self.held, self.clock).await
    }
    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("web.env")
    }
    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap_or_default()
    }
    fn order(&self) -> Order {
        order(&self.file())
    }
    fn hooked(&self, script: &str) -> Order {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        Order {
            hook: Some((Hook::Command(command), Duration::from_secs(20))),
            shows: Shows::Hook,
            ..self.order()
        }
    }
    async fn record(&self) -> Record {
        let all = read_all(self.bus.as_ref()).await.expect("read");
        all.into_iter().next().expect("one")
    }
    fn writes(&self) -> usize {
        [Bucket::Meta, Bucket::Condition]
            .map(|bucket| self.bus.writes(bucket))
            .iter()
            .sum::<usize>()
            + self.bus.lines().len()
    }
    fn conditions(&self) -> Vec<String> {
        let all = self.bus.values(Bucket::Condition).into_iter();
        let all = all.filter(|one| one["raised"] == true);
        all.map(|one| {
            one["condition"]["type"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
    }
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn h6_it_is_brought_kept_and_changed_and_again_changes_nothing() {
    let scene = Scene::new();
    scene.held.set("kd83");
    let mut delivery = scene.open().await;
    delivery.set_orders(vec![scene.order()], 1);
    delivery.one_pass().await.expect("pass");
    assert_eq!(scene.text(), "CACHE_PASSWORD=kd83\nCACHE_USER=web\n");
    assert!(scene.record().await.is_settled());
    let quiet = scene.writes();
    for _ in 0..5 {
        delivery.one_pass().await.expect("pass");
    }
    assert_eq!(scene.writes(), quiet, "in order, it writes nothing");

    // Behind our back, and by another process after it.
    fs::write(scene.file(), "CACHE_PASSWORD=other\n").expect("change");
    let mut delivery = scene.open().await;
    delivery.set_orders(vec![scene.order()], 1);
    delivery.one_pass().await.expect("pass");
    assert_eq!(scene.text(), "CACHE_PASSWORD=kd83\nCACHE_USER=web\n");
    scene.held.set("new1");
    delivery.one_pass().await.expect("pass");
    assert_eq!(scene.text(), "CACHE_PASSWORD=new1\nCACHE_USER=web\n");
    let quiet = scene.writes();
    delivery.one_pass().await.expect("pass");
    assert_eq!(scene.writes(), quiet);
    let told: Vec<String> = scene
        .bus
        .lines()
        .iter()
        .map(|line| line.value.clone())
        .collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[1].contains("it held something else"));
    let everything = format!("{told:?}{:?}", scene.bus.values(Bucket::Meta));
    assert!(!everything.contains("kd83") && !everything.contains("new1"));
}

#[tokio::test]
async fn h7_who_is_not_applied_or_cannot_be_told_of_keeps_what_it_has() {
    let scene = Scene::new();
    scene
        .held
        .say(Has::Nothing("it is not applied yet".to_owned()));
    let mut delivery = scene.open().await;
    delivery.set_orders(vec![scene.order()], 1);
    delivery.one_pass().await.expect("pass");
    assert!(!scene.file().exists());
    scene.held.set("kd83");
    delivery.one_pass().await.expect("pass");
    let before = scene.text();
    scene
        .held
        .say(Has::Nothing("its password is lost".to_owned()));
    delivery.one_pass().await.expect("pass");
    assert_eq!(scene.text(), before);
    // Law 3: what is asked for no more stays.
    delivery.set_orders(Vec::new(), 2);
    delivery.one_pass().await.expect("pass");
    assert_eq!(scene.text(), before);
    assert!(scene.record().await.retired);
    let quiet = scene.writes();
    delivery.one_pass().await.expect("pass");
    assert_eq!(scene.writes(), quiet);
}

#[tokio::test(start_paused = true)]
async fn c1_a_hook_is_run_once_for_each_version_and_its_failure_is_told_and_cleared() {
    let scene = Scene::new();
    scene.held.set("kd83");
    let (ran, broken) = (
        scene.folder.path().join("ran"),
        scene.folder.path().join("broken"),
    );
    let script = format!(
        "test ! -e {} || exit 4; echo x >> {}",
        broken.display(),
        ran.display()
    );
    let mut delivery = scene.open().await;
    delivery.set_orders(vec![scene.hooked(&script)], 1);
    tokio::time::resume();
    for _ in 0..3 {
        delivery.one_pass().await.expect("pass");
    }
    assert_eq!(lines(&ran), 1);
    assert!(scene.record().await.is_settled());

    fs::write(&broken, "").expect("break it");
    scene.held.set("new1");
    for _ in 0..3 {
        delivery.one_pass().await.expect("pass");
        tokio::time::pause();
        tokio::time::advance(PERIOD).await;
        tokio::time::resume();
    }
    assert_eq!(
        (lines(&ran), scene.conditions()),
        (1, vec!["DeliveryFailed".to_owned()])
    );
    assert!(
        !scene.record().await.is_settled(),
        "it lies there, and nobody was told"
    );
    fs::remove_file(&broken).expect("mend it");
    for _ in 0..3 {
        delivery.one_pass().await.expect("pass");
    }
    assert_eq!((lines(&ran), scene.conditions()), (2, Vec::new()));
    assert!(scene.record().await.is_settled());
}

#[tokio::test(start_paused = true)]
async fn c7_who_does_not_say_that_it_has_it_is_told_after_a_while_until_it_says_so() {
    let scene = Scene::new();
    scene.held.set("kd83");
    let says = scene.folder.path().join("has");
    let order = Order {
        shows: Shows::Itself,
        says: Some(says.clone()),
        ..scene.order()
    };
    let mut delivery = scene.open().await;
    delivery.set_orders(vec![order.clone()], 1);
    delivery.one_pass().await.expect("pass");
    assert!(scene.conditions().is_empty());
    tokio::time::advance(mesh_loops::delivery::DUE).await;
    delivery.one_pass().await.expect("pass");
    assert_eq!(scene.conditions(), ["DeliveryOutstanding"]);
    let wanted = scene.record().await.wanted.expect("wanted").version;
    fs::write(&says, format!("{}\n", wanted.0)).expect("say");
    for _ in 0..2 {
        delivery.one_pass().await.expect("pass");
    }
    assert!(scene.conditions().is_empty() && scene.record().await.is_settled());

    // The same by a person's word, for a version that was shown.
    scene.held.set("new1");
    delivery.one_pass().await.expect("pass");
    assert!(!scene.record().await.is_settled());
    delivery.hear(Told::Taken(web(), wanted));
    assert!(
        !scene.record().await.is_settled(),
        "that was the one before"
    );
    let wanted = scene.record().await.wanted.expect("wanted").version;
    delivery.hear(Told::Taken(web(), wanted));
    delivery.one_pass().await.expect("pass");
    assert!(scene.record().await.is_settled());
}

#[tokio::test]
async fn a_program_is_handed_each_version_once_as_json() {
    let scene = Scene::new();
    scene.held.set("p@ss \"'");
    let got = scene.folder.path().join("got");
    let words = ["sh", "-c", &format!("cat >> {}", got.display())]
        .map(str::to_owned)
        .to_vec();
    let order = Order {
        target: Target::Program(words),
        ..scene.order()
    };
    let mut delivery = scene.open().await;
    delivery.set_orders(vec![order.clone()], 1);
    for _ in 0..3 {
        delivery.one_pass().await.expect("pass");
    }
    let text = fs::read_to_string(&got).expect("got");
    let value: serde_json::Value = serde_json::from_str(&text).expect("one JSON value, once");
    assert_eq!(value["CACHE_PASSWORD"], "p@ss \"'");
    let mut delivery = scene.open().await;
    delivery.set_orders(vec![order], 1);
    delivery.one_pass().await.expect("pass");
    assert_eq!(
        fs::read_to_string(&got).expect("got"),
        text,
        "another process hands nothing over again"
    );
}

#[tokio::test]
async fn b6_a_bus_that_forgot_everything_changes_nothing_on_the_disk() {
    let scene = Scene::new();
    scene.held.set("kd83");
    let ran = scene.folder.path().join("ran");
    let order = scene.hooked(&format!("echo x >> {}", ran.display()));
    let mut delivery = scene.open().await;
    delivery.set_orders(vec![order.clone()], 1);
    delivery.one_pass().await.expect("pass");
    let before = fs::metadata(scene.file())
        .expect("metadata")
        .modified()
        .expect("time");
    scene.bus.wipe();
    let mut delivery = scene.open().await;
    delivery.set_orders(vec![order], 1);
    for _ in 0..2 {
        delivery.one_pass().await.expect("pass");
    }
    let after = fs::metadata(scene.file())
        .expect("metadata")
        .modified()
        .expect("time");
    assert_eq!(after, before);
    assert_eq!(
        lines(&ran),
        2,
        "whether it was told is known no more: it is told again, once"
    );
}
