//! Real containers, with Podman: made, kept, and made again once, for the right reason; a stranger is left alone.

#![allow(clippy::expect_used, reason = "helpers of tests fail loudly")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mesh_conformance::servers::{PodmanServer, until};
use mesh_loops::host::engine::Engines;
use mesh_loops::host::engine::docker::Docker;
use mesh_loops::host::engine::systemd::Systemd;
use mesh_loops::host::order::{Container, Mount, Order, Restart, Thing};
use mesh_loops::host::record::{Record, State};
use mesh_loops::host::{Host, Is, Parts, read_all};
use mesh_sdk::bus::Bucket;
use mesh_sdk::clock::Clock;
use mesh_sdk::scrub::Scrubber;
use mesh_sdk::testing::{MemoryBus, Trace};
use mesh_sdk::{MeshId, Secret};

use brought::{Held, PERIOD, order, web};

mod brought;

const IMAGE: &str = "localhost/probe:1";
/// Tells which image and which credentials it runs with, and ends when it is asked to.
const SCRIPT: &str =
    "trap 'exit 0' TERM; cat /release /run/web/web.env > /out/ran; while :; do sleep 0.1; done";

struct Scene {
    podman: PodmanServer,
    bus: Arc<MemoryBus>,
    held: Arc<Held>,
    folder: tempfile::TempDir,
    clock: Clock,
}

impl Scene {
    async fn new() -> Self {
        let podman = PodmanServer::start().await.expect("podman");
        podman.import(IMAGE, "first").await.expect("image");
        let scene = Self {
            podman,
            bus: Arc::new(MemoryBus::new(Trace::default())),
            held: Arc::default(),
            folder: tempfile::tempdir().expect("folder"),
            clock: Clock::system(),
        };
        for name in ["in", "out"] {
            std::fs::create_dir(scene.folder.path().join(name)).expect("folder");
        }
        scene.bring("kd83").await;
        scene
    }
    fn place(&self) -> PathBuf {
        self.folder.path().join("in/web.env")
    }
    /// Has delivery bring this password.
    async fn bring(&self, password: &str) {
        self.held.set(password);
        let mut delivery = brought::delivery(&self.bus, &self.held, self.clock).await;
        delivery.set_orders(vec![order(&self.place())], 1);
        delivery.one_pass().await.expect("pass");
    }
    fn container(&self) -> Container {
        let inner = |name: &str| self.folder.path().join(name).display().to_string();
        let mount = |source: String, target: &str, read_only| Mount {
            source,
            target: target.to_owned(),
            read_only,
        };
        Container {
            name: "web".to_owned(),
            engine: self.podman.socket(),
            image: IMAGE.to_owned(),
            command: ["sh", "-c", SCRIPT].map(str::to_owned).to_vec(),
            env: BTreeMap::from([("LOG".to_owned(), "info".to_owned())]),
            env_files: BTreeSet::new(),
            mounts: vec![
                mount(inner("in"), "/run/web", true),
                mount(inner("out"), "/out", false),
                mount("kept".to_owned(), "/kept", false),
            ],
            ports: Vec::new(),
            network: None,
            user: None,
            restart: Restart::UnlessStopped,
        }
    }
    fn order(&self, container: Container) -> Order {
        let place = format!("env_file {}", self.place().display());
        Order {
            consumer: web(),
            thing: Thing::Container(Box::new(container)),
            places: BTreeMap::from([(place, Some(self.place()))]),
        }
    }
    async fn host(&self, container: Container) -> Host {
        let engines = Engines {
            docker: Docker {
                mesh: MeshId::new("home").expect("name"),
                key: Secret::from("key"),
            },
            systemd: Systemd,
        };
        let parts = Parts {
            name: "host/here".to_owned(),
            host: "here".to_owned(),
            bus: self.bus.clone(),
            engine: Arc::new(engines),
            clock: self.clock,
            scrubber: Arc::new(Scrubber::default()),
            key: Secret::from("key"),
            period: PERIOD,
            window: Duration::ZERO,
        };
        let mut host = Host::open(parts).await.expect("open");
        host.set_orders(vec![self.order(container)], 1);
        host
    }
    /// One pass by a process of its own.
    async fn pass(&self, container: Container) {
        let mut host = self.host(container).await;
        host.one_pass().await.expect("pass");
    }
    /// A pass restarted it once, for these reasons; and again changes nothing.
    async fn restarts(&self, container: &Container, reasons: &[&str]) -> Record {
        let before = self.restarts_told();
        self.pass(container.clone()).await;
        let record = self.record().await;
        assert_eq!(record.reasons.len(), reasons.len(), "{record:?}");
        for (is, wanted) in record.reasons.iter().zip(reasons) {
            assert!(is.contains(wanted), "{is} is not {wanted}");
        }
        assert_eq!(record.state, State::Running, "{record:?}");
        let id = self.id().await;
        for _ in 0..2 {
            self.pass(container.clone()).await;
        }
        assert_eq!(self.restarts_told(), before + 1);
        assert_eq!(self.id().await, id, "again changes nothing");
        assert_eq!(self.conditions(), Vec::<String>::new());
        let host = self.host(container.clone()).await;
        assert!(host.look_only().await.expect("look").is_empty());
        record
    }
    fn restarts_told(&self) -> usize {
        let lines = self.bus.lines();
        lines
            .iter()
            .filter(|line| line.value.contains("\"restarted\""))
            .count()
    }
    async fn record(&self) -> Record {
        let all = read_all(self.bus.as_ref()).await.expect("read");
        all.into_iter().next().expect("one")
    }
    async fn id(&self) -> String {
        let args = ["inspect", "--format", "{{.Id}}", "web"];
        self.podman.run(&args).await.expect("inspect")
    }
    /// What the container wrote of its image and credentials.
    async fn ran(&self, wanted: &[&str]) {
        let path = self.folder.path().join("out/ran");
        until("what it ran with", Duration::from_secs(20), || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let all = wanted.iter().all(|part| text.contains(part));
            async move { all.then_some(()).ok_or(text) }
        })
        .await
        .expect("ran");
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

#[tokio::test]
async fn h6_it_is_made_again_once_for_the_right_reason_and_again_changes_nothing() {
    let scene = Scene::new().await;
    let container = scene.container();
    scene.restarts(&container, &["new"]).await;
    scene.ran(&["first", "kd83"]).await;
    let run = |args: &'static [&'static str]| scene.podman.run(args);

    run(&["rm", "-f", "-t", "0", "web"]).await.expect("rm");
    scene.restarts(&container, &["vanished"]).await;

    run(&["stop", "-t", "0", "web"]).await.expect("stop");
    let id = scene.id().await;
    scene.restarts(&container, &["stopped: exited"]).await;
    assert_eq!(scene.id().await, id, "that one was started");

    // Credentials, as delivery brings them.
    scene.bring("new1").await;
    let why = ["credentials of cache, version"];
    let record = scene.restarts(&container, &why).await;
    assert!(record.reasons[0].contains("← delivery to env_file"));
    scene.ran(&["new1"]).await;

    // Another image under the name.
    scene.podman.import(IMAGE, "second").await.expect("image");
    scene
        .restarts(&container, &["image changed: localhost/probe:1"])
        .await;
    scene.ran(&["second", "new1"]).await;

    // The manifest, the image and the credentials: one restart.
    scene.podman.import(IMAGE, "third").await.expect("image");
    scene.bring("new2").await;
    let mut other = container.clone();
    other.env.insert("LOG".to_owned(), "debug".to_owned());
    let why = ["the manifest asks", "image changed", "credentials of cache"];
    scene.restarts(&other, &why).await;
    scene.ran(&["third", "new2"]).await;

    let volumes = run(&["volume", "ls", "-q"]).await.expect("volumes");
    assert_eq!(volumes, "kept", "it outlives every container");
    let shown = run(&["inspect", "web"]).await.expect("inspect");
    assert!(!shown.contains("new2"), "what is mounted is not shown");
}

#[tokio::test]
async fn h6_one_that_carries_our_mark_and_was_made_otherwise_is_changed_by_hand() {
    let scene = Scene::new().await;
    let container = scene.container();
    scene.restarts(&container, &["new"]).await;
    let format = "{{range $name, $value := .Config.Labels}}{{$name}}={{$value}}\n{{end}}";
    let inspect = ["inspect", "--format", format, "web"];
    let labels = scene.podman.run(&inspect).await.expect("labels");
    let mut args = vec!["create", "--name", "web"];
    args.extend(labels.lines().flat_map(|label| ["--label", label]));
    args.extend([
        IMAGE,
        "sh",
        "-c",
        "trap 'exit 0' TERM; while :; do sleep 0.1; done",
    ]);
    scene
        .podman
        .run(&["rm", "-f", "-t", "0", "web"])
        .await
        .expect("rm");
    scene.podman.run(&args).await.expect("create");
    scene.podman.run(&["start", "web"]).await.expect("start");
    let why = ["changed by hand: command, env, restart, mounts"];
    scene.restarts(&container, &why).await;
    scene.ran(&["first"]).await;
}

#[tokio::test]
async fn h18_a_strangers_container_is_left_alone_and_told() {
    let scene = Scene::new().await;
    let args = [
        "run",
        "-d",
        "--name",
        "web",
        "--label",
        "io.meshkeeper.mark=forged",
        IMAGE,
        "sleep",
        "1000",
    ];
    scene.podman.run(&args).await.expect("run");
    let id = scene.id().await;
    for _ in 0..3 {
        scene.pass(scene.container()).await;
    }
    assert_eq!(scene.id().await, id);
    assert_eq!(scene.conditions(), ["ContainerTaken"]);
    let looked = scene.host(scene.container()).await.look_only().await;
    assert!(matches!(&looked.expect("look")[..], [one] if matches!(one.is, Is::Amiss(_))));
    let state = ["inspect", "--format", "{{.State.Status}}", "web"];
    assert_eq!(scene.podman.run(&state).await.expect("state"), "running");
    // Once it is gone, ours is made, and the condition ends.
    scene
        .podman
        .run(&["rm", "-f", "-t", "0", "web"])
        .await
        .expect("rm");
    for _ in 0..3 {
        scene.pass(scene.container()).await;
    }
    assert_eq!(scene.record().await.state, State::Running);
    assert_eq!(scene.conditions(), Vec::<String>::new());
}

#[tokio::test]
async fn what_cannot_be_made_leaves_the_one_before_as_it_is_and_is_told() {
    let scene = Scene::new().await;
    let container = scene.container();
    scene.restarts(&container, &["new"]).await;
    let id = scene.id().await;
    let mut broken = container.clone();
    broken.mounts[0].source = scene.folder.path().join("none").display().to_string();
    for _ in 0..2 {
        scene.pass(broken.clone()).await;
    }
    assert_eq!(scene.id().await, id);
    let shown = format!("{:?}", scene.record().await.why);
    assert!(shown.contains("Failed"), "{shown}");

    let mut missing = container.clone();
    missing.image = "localhost/none:1".to_owned();
    scene.pass(missing).await;
    assert_eq!(scene.conditions(), ["ImageMissing"]);
    assert_eq!(scene.id().await, id);
    for _ in 0..2 {
        scene.pass(container.clone()).await;
    }
    assert_eq!(scene.conditions(), Vec::<String>::new());
    let state = ["inspect", "--format", "{{.State.Status}}", "web"];
    assert_eq!(scene.podman.run(&state).await.expect("state"), "running");
}

#[tokio::test]
async fn b6_a_bus_that_forgot_everything_restarts_nothing_and_an_env_file_is_read() {
    let scene = Scene::new().await;
    let mut container = scene.container();
    container.env_files = BTreeSet::from([scene.place()]);
    scene.restarts(&container, &["new"]).await;
    let format = ["inspect", "--format", "{{.Config.Env}}", "web"];
    let env = scene.podman.run(&format).await.expect("env");
    assert!(env.contains("CACHE_PASSWORD=kd83"), "{env}");
    let id = scene.id().await;
    scene.bus.wipe();
    scene.bring("kd83").await;
    for _ in 0..3 {
        scene.pass(container.clone()).await;
    }
    assert_eq!(scene.id().await, id);
    // Asked for no more: it stays (law 3).
    let mut host = scene.host(container).await;
    host.set_orders(Vec::new(), 2);
    host.one_pass().await.expect("pass");
    assert_eq!(scene.id().await, id);
    assert!(scene.record().await.retired);
}
