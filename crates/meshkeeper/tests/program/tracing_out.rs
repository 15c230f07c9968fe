//! Traces that leave: over OTLP, read by OpenTelemetry's own messages, and in nobody's way.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::lab::Lab;
use crate::redis::{Redis, free_port};
use crate::restarting::settled;
use crate::serving::{get, serving};
use crate::wait::until;

/// A collector in Python, killed on drop.
struct Collector {
    folder: TempDir,
    port: String,
    child: Child,
}

impl Collector {
    fn start() -> Self {
        let folder = TempDir::new().expect("folder");
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (lines, port) = (folder.path().join("lines"), folder.path().join("port"));
        let child = Command::new("python3")
            .arg(here.join("tests/program/otlp_collector.py"))
            .args([&lines, &port])
            .env("PYTHONPATH", here.join("../../.servers"))
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("err")).expect("a file"))
            .spawn()
            .expect("python3, which scripts/test installs");
        let mut it = Self {
            folder,
            port: String::new(),
            child,
        };
        it.port = until("the collector listens", 60, || {
            let told = std::fs::read_to_string(&port);
            told.map_err(|_| std::fs::read_to_string(it.path("err")))
        });
        it
    }
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
    fn text(&self) -> String {
        std::fs::read_to_string(self.path("lines")).unwrap_or_default()
    }
    fn spans(&self) -> Vec<Value> {
        let text = self.text();
        let lines = text.lines().map(serde_json::from_str);
        lines.filter_map(Result::ok).collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn named<'s>(spans: &'s [Value], name: &str) -> Vec<&'s Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

#[test]
fn s2_a_collector_gets_passes_with_their_calls_and_no_password() {
    let (mut lab, redis, collector) = (Lab::new(), Redis::start(), Collector::start());
    let planted = "planted-password-7f3a";
    redis.ask(&["CONFIG", "SET", "requirepass", planted]);
    let redis = redis.with_password(planted);
    lab.write("admin.password", planted);
    let admin = "verify_every = \"1s\"\nadmin = { user = \"default\", password = { file = \"admin.password\" } }";
    lab.cache(&redis, admin, ["web", "api"]);
    lab.set("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint());
    lab.set("OTEL_EXPORTER_OTLP_HEADERS", "x-token=let%20me%20in");
    lab.set("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test");
    // Spans are in no log, however much it tells.
    lab.set("MESH_LOG", "trace");
    let mut up = lab.up(&[]);
    settled(&lab);
    let password = lab.password("web", "cache");
    redis.ask(&["ACL", "DELUSER", "web"]);
    until("it is healed", 30, || match lab.events("web") {
        kinds if kinds.contains(&"healed".to_owned()) => Ok(()),
        kinds => Err(kinds),
    });
    let log = up.stop().ends(0).err;
    assert!(!log.contains("pass{") && !log.contains("call{"), "{log}");
    assert!(!log.contains("let me in"), "{log}");

    // What was collected left before it ended.
    let spans = collector.spans();
    let healing = named(&spans, "pass").into_iter().find(|pass| {
        let of = &pass["attributes"];
        of["mesh.lost"] == 1 && of["mesh.applied"] == 1
    });
    let healing = healing.unwrap_or_else(|| panic!("no healing pass in {spans:#?}"));
    assert_eq!(healing["parent"], "");
    assert_eq!(healing["attributes"]["mesh.provider"], "cache");
    assert_eq!(healing["scope"], "mesh");
    assert_eq!(healing["path"], "/v1/traces");
    assert_eq!(healing["header"], "let me in");
    let resource = &healing["resource"];
    assert_eq!(resource["service.name"], "mesh");
    assert_eq!(resource["deployment.environment"], "test");
    // look, apply and store within it; the calls within those.
    let within = |parent: &Value| -> Vec<&Value> {
        let of = |span: &&Value| span["parent"] == parent["id"] && span["trace"] == parent["trace"];
        spans.iter().filter(of).collect()
    };
    let names = |spans: &[&Value]| -> Vec<String> {
        let name = |span: &&Value| span["name"].as_str().unwrap_or("?").to_owned();
        spans.iter().map(name).collect()
    };
    let parts = within(healing);
    assert_eq!(names(&parts), ["look", "apply", "store"], "{spans:#?}");
    let calls = within(parts[1]);
    assert!(names(&calls).iter().any(|name| name.starts_with("create")));
    for call in &calls {
        assert_eq!(call["kind"], 3, "a call on another program: {call:#}");
        let time = |span: &Value, what: &str| span[what].as_u64().expect("a time");
        assert!(time(call, "began") <= time(call, "ended"));
        assert!(time(call, "began") >= time(healing, "began"), "{call:#}");
        assert!(time(call, "ended") <= time(healing, "ended"), "{call:#}");
    }
    let text = collector.text();
    for secret in [planted, password.as_str()] {
        assert!(!text.contains(secret), "a password is in the traces");
    }
}

#[test]
fn h9_a_collector_that_takes_nothing_or_is_not_there_holds_up_no_pass() {
    let (mut lab, mut redis, collector) = (Lab::new(), Redis::start(), Collector::start());
    std::fs::write(collector.path("refuse"), "").expect("written");
    lab.cache(
        &redis,
        "verify_every = \"1s\"\nunknown_after = \"1s\"",
        ["web"],
    );
    lab.set("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint());
    let (up, port) = serving(&lab);
    up.says("the collector takes no traces");
    settled(&lab);
    redis.kill();
    until("it is not answered", 30, || match lab.conditions() {
        all if all.contains(&"BackendUnreachable cache".to_owned()) => Ok(()),
        all => Err(all),
    });
    std::fs::remove_file(collector.path("refuse")).expect("removed");
    up.says("the collector takes traces again");
    let failed = until("a call that failed is told", 30, || {
        let spans = collector.spans();
        let failed = spans.iter().find(|span| span["status"] == 2).cloned();
        failed.ok_or(spans)
    });
    assert_eq!(failed["attributes"]["error.type"], "unreachable");
    assert!(failed["error"].as_str().is_some_and(|why| !why.is_empty()));
    let (_, text) = get(port, "/metrics");
    let sent = "mesh_trace_spans_total{outcome=\"sent\"} ";
    let sent = text.lines().find_map(|line| line.strip_prefix(sent));
    assert!(sent.is_some_and(|count| count != "0"), "{text}");
    drop(up);

    let nobody = format!("http://127.0.0.1:{}", free_port());
    lab.set("OTEL_EXPORTER_OTLP_ENDPOINT", &nobody);
    redis.start_again();
    let mut up = lab.up(&[]);
    settled(&lab);
    up.stop().ends(0).warns("nothing else waits for it");
    // And what cannot be used at all is told, and stops nothing.
    lab.set("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let mut up = lab.up(&[]);
    settled(&lab);
    up.stop().ends(0).warns("only `http/protobuf` is spoken");
}
