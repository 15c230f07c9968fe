//! Containers that run for a consumer, by the program, with a real Podman: planned, made, restarted once for the right
//! reason, shown with the chain back to the wish.

use mesh_conformance::servers::{PodmanServer, SystemdManager};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::lab::{Lab, cache};
use crate::redis::Redis;
use crate::wait::until_true;

const IMAGE: &str = "localhost/app:1";
const SCRIPT: &str =
    "trap 'exit 0' TERM; cat /run/web/web.env > /out/ran; while :; do sleep 0.1; done";

/// Podman, and what waits for it.
struct Engine {
    runtime: Runtime,
    podman: PodmanServer,
}

impl Engine {
    fn start() -> Self {
        let runtime = Runtime::new().expect("runtime");
        let podman = runtime.block_on(PodmanServer::start()).expect("podman");
        let this = Self { runtime, podman };
        this.import("one");
        this
    }
    fn import(&self, release: &str) {
        let made = self.podman.import(IMAGE, release);
        self.runtime.block_on(made).expect("image");
    }
    fn run(&self, args: &[&str]) -> String {
        self.runtime
            .block_on(self.podman.run(args))
            .expect("podman")
    }
    fn id(&self) -> String {
        self.run(&["inspect", "--format", "{{.Id}}", "web"])
    }
}

fn manifest(lab: &Lab, redis: &Redis, engine: &Engine, lines: &str) -> String {
    for name in ["in", "out"] {
        std::fs::create_dir_all(lab.path().join(name)).expect("folder");
    }
    let mut text = cache(redis, "", ["web"]);
    text = text.replace("keys =", "password = { file = \"given\" }\nkeys =");
    text.push_str("\n[[consumer.web.deliver]]\nenv_file = \"in/web.env\"\n");
    text.push_str(&format!(
        "\n[[consumer.web.container]]\nengine = \"{}\"\nimage = \"{IMAGE}\"\n\
         command = [\"sh\", \"-c\", \"{SCRIPT}\"]\nmounts = [\"./in:/run/web:ro\", \"./out:/out\"]\n{lines}\n",
        engine.podman.socket().display()
    ));
    text
}

/// What `status` says of the container.
fn shown(lab: &Lab) -> Value {
    lab.status()["hosts"][0].clone()
}

fn because(lab: &Lab, reasons: &[&str]) {
    let one = shown(lab);
    let told = one["reasons"].as_array().cloned().unwrap_or_default();
    assert_eq!(told.len(), reasons.len(), "{one}");
    for (told, wanted) in told.iter().zip(reasons) {
        assert!(
            told.as_str().is_some_and(|told| told.contains(wanted)),
            "{one}"
        );
    }
    assert_eq!(one["state"], "running", "{one}");
    assert!(one["recreated_at"].is_string(), "{one}");
}

fn restarts(lab: &Lab) -> usize {
    let events = lab.events("web");
    events.iter().filter(|kind| *kind == "restarted").count()
}

#[test]
fn h6_a_container_is_planned_made_and_restarted_once_for_the_right_reason() {
    let (lab, redis, engine) = (Lab::new(), Redis::start(), Engine::start());
    lab.write("given", "first-password-1\n");
    let text = manifest(&lab, &redis, &engine, "");
    lab.manifest(&text);
    lab.mesh(&["check"]).ends(0);
    lab.mesh(&["plan"]).ends(2).says("container web: new");
    lab.mesh(&["apply"]).ends(0);
    because(&lab, &["new"]);
    let ran = || std::fs::read_to_string(lab.path().join("out/ran")).unwrap_or_default();
    until_true("it runs", 20, || {
        (ran().contains("first-password-1"), ran())
    });
    let again = || {
        let (id, before) = (engine.id(), restarts(&lab));
        lab.mesh(&["plan"]).ends(0).says("Nothing to do.");
        lab.mesh(&["apply"]).ends(0);
        assert_eq!((engine.id(), restarts(&lab)), (id, before));
    };
    again();

    // A changed password: delivery brings it, and the container is made again, by one `apply`.
    lab.write("given", "second-password-2\n");
    lab.mesh(&["apply"]).ends(0);
    because(&lab, &["credentials of cache, version"]);
    until_true("it runs", 20, || {
        (ran().contains("second-password-2"), ran())
    });
    again();

    engine.run(&["rm", "-f", "-t", "0", "web"]);
    lab.mesh(&["plan"]).ends(2).says("container web: vanished");
    lab.mesh(&["apply"]).ends(0);
    because(&lab, &["vanished"]);

    engine.import("two");
    lab.manifest(&text.replace("engine =", "env = { LOG = \"debug\" }\nengine ="));
    lab.mesh(&["plan"])
        .ends(2)
        .says("image changed: localhost/app:1");
    lab.mesh(&["apply"]).ends(0);
    because(&lab, &["the manifest asks", "image changed"]);
    again();
    lab.mesh(&["status"])
        .ends(0)
        .says("container web")
        .says("image changed");
    lab.mesh(&["explain", "web"])
        .ends(0)
        .says("container web made: vanished")
        .says("← delivery to env_file ")
        .says("in/web.env");
    lab.mesh(&["loops"]).ends(0).says("host/");
    assert_eq!(restarts(&lab), 4);
    let everything = format!("{:?}{}", lab.status(), engine.run(&["inspect", "web"]));
    assert!(!everything.contains("second-password-2"));

    // Law 3: what is asked for no more stays.
    let id = engine.id();
    lab.manifest(&cache(&redis, "", ["web"]));
    lab.mesh(&["apply"]).ends(0);
    assert_eq!(engine.id(), id);
    lab.mesh(&["status"]).ends(0).says("no more asked for");
}

#[test]
fn h14_a_daemon_restarts_it_once_when_its_credentials_change() {
    let (lab, redis, engine) = (Lab::new(), Redis::start(), Engine::start());
    lab.write("given", "first-password-1\n");
    lab.manifest(&manifest(&lab, &redis, &engine, ""));
    let mut up = lab.up(&[]);
    let ran = || std::fs::read_to_string(lab.path().join("out/ran")).unwrap_or_default();
    until_true("the first", 40, || {
        (ran().contains("first-password-1"), ran())
    });
    lab.write("given", "second-password-2\n");
    until_true("the second", 60, || {
        (ran().contains("second-password-2"), ran())
    });
    until_true("it is told", 20, || {
        let one = shown(&lab);
        (one["state"] == "running" && restarts(&lab) == 2, one)
    });
    because(&lab, &["credentials of cache, version"]);
    up.stop();
    let id = engine.id();
    lab.mesh(&["apply"]).ends(0);
    assert_eq!((engine.id(), restarts(&lab)), (id, 2));
}

#[test]
fn h18_a_strangers_container_is_left_alone_and_mistakes_are_told() {
    let (lab, redis, engine) = (Lab::new(), Redis::start(), Engine::start());
    lab.write("given", "first-password-1\n");
    let args = ["run", "-d", "--name", "web", IMAGE, "sleep", "1000"];
    engine.run(&args);
    let id = engine.id();
    let text = manifest(&lab, &redis, &engine, "");
    lab.manifest(&text);
    lab.mesh(&["apply"]).ends(3);
    assert!(
        lab.conditions()
            .contains(&"ContainerTaken host/web".to_owned())
    );
    lab.mesh(&["plan"]).ends(1).says("it has no mark of ours");
    assert_eq!(engine.id(), id);
    engine.run(&["rm", "-f", "-t", "0", "web"]);

    lab.manifest(&text.replace(IMAGE, "localhost/none:1"));
    lab.mesh(&["apply"]).ends(3);
    assert!(
        lab.conditions()
            .contains(&"ImageMissing host/web".to_owned())
    );

    let twice =
        format!("{text}\n[[consumer.web.container]]\nimage = \"x\"\nenv_files = [\"no.env\"]\n");
    lab.manifest(&twice);
    lab.mesh(&["check"])
        .ends(1)
        .says("nothing delivers the env file");
    lab.manifest(&twice.replace("env_files = [\"no.env\"]", ""));
    lab.mesh(&["check"])
        .ends(1)
        .says("two tables ask for the container web");
    lab.mesh(&["apply"]).ends(3);
    assert!(lab.conditions().contains(&"Refused host/web".to_owned()));
    lab.manifest(&text);
    for _ in 0..2 {
        lab.mesh(&["apply"]);
    }
    lab.mesh(&["apply"]).ends(0);
    because(&lab, &["new"]);
}

/// A unit of a real systemd: started when it does not run, restarted once when its credentials changed.
#[test]
fn h6_a_unit_is_started_and_restarted_once_for_new_credentials() {
    let (mut lab, redis) = (Lab::new(), Redis::start());
    lab.write("given", "first-password-1\n");
    let folder = lab.path().display().to_string();
    let unit = format!(
        "[Unit]\nDefaultDependencies=no\n[Service]\nEnvironmentFile={folder}/web.env\n\
         ExecStart=/bin/sh -c 'echo $CACHE_PASSWORD >> {folder}/starts; exec sleep 1000'\n"
    );
    let runtime = Runtime::new().expect("runtime");
    let units = [("web.service", &*unit)];
    let manager = runtime.block_on(SystemdManager::start(&units));
    let manager = manager.expect("systemd");
    lab.set("XDG_RUNTIME_DIR", &manager.runtime().display().to_string());
    let mut text = cache(&redis, "", ["web"]);
    text = text.replace("keys =", "password = { file = \"given\" }\nkeys =");
    text.push_str("\n[[consumer.web.deliver]]\nenv_file = \"web.env\"\n");
    text.push_str("\n[[consumer.web.unit]]\nname = \"web.service\"\nmanager = \"user\"\n");
    lab.manifest(&text);
    let starts = || std::fs::read_to_string(lab.path().join("starts")).unwrap_or_default();
    let ran = |wanted: &'static str| {
        until_true("the unit", 20, || (starts() == wanted, starts()));
    };
    lab.mesh(&["apply"]).ends(0);
    ran("first-password-1\n");
    lab.mesh(&["plan"]).ends(0).says("Nothing to do.");
    lab.write("given", "second-password-2\n");
    lab.mesh(&["apply"]).ends(0);
    because(&lab, &["credentials of cache, version"]);
    ran("first-password-1\nsecond-password-2\n");
    for _ in 0..2 {
        lab.mesh(&["apply"]).ends(0);
    }
    assert_eq!(restarts(&lab), 2, "again changes nothing");
    lab.manifest(&text.replace("web.service", "none.service"));
    lab.mesh(&["apply"]).ends(3);
    assert!(
        lab.conditions()
            .contains(&"RestartFailed host/web".to_owned())
    );
    ran("first-password-1\nsecond-password-2\n");
}
