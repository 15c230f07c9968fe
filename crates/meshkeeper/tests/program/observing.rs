//! What other programs see: metrics, the rules and the dashboard over them, with the real Prometheus as judge.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use mesh_conformance::servers::{PrometheusServer, promtool};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::lab::{Lab, Up};
use crate::redis::Redis;
use crate::serving::{get, serving};
use crate::wait::until;

const RULES: &str = "prometheus/mesh.rules.yml";

fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../contrib")
        .join(name)
        .canonicalize()
        .expect(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(contrib(name)).expect(name)
}

fn runtime() -> Runtime {
    Runtime::new().expect("a runtime")
}

/// A daemon that has passed, and its port.
fn measured(lab: &Lab, redis: &Redis) -> (Up, u16, String) {
    let lines = "verify_every = \"1s\"\nunknown_after = \"2s\"";
    lab.cache(redis, lines, ["web", "api"]);
    let (up, port) = serving(lab);
    let held = "mesh_provisions{provider=\"cache\",state=\"held\"} 2\n";
    let runs = "mesh_loops{state=\"running\"} 1\n";
    let text = until("both are counted", 30, || match get(port, "/metrics") {
        (200, text) if text.contains(held) && text.contains(runs) => Ok(text),
        other => Err(other),
    });
    (up, port, text)
}

/// The names of metrics in a query.
fn names(query: &str) -> BTreeSet<String> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words = words.filter(|word| word.starts_with("mesh_"));
    words.map(str::to_owned).collect()
}

/// The names that a scrape has.
fn scraped(text: &str) -> BTreeSet<String> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| line.split(['{', ' ']).next().unwrap_or("").to_owned())
        .collect()
}

/// Every query in a dashboard, wherever it stands.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == "expr" || key == "query" => {
                        found.push(text.clone());
                    }
                    other => queries(other, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

#[test]
fn s6_metrics_are_as_promtool_wants_them_and_name_no_consumer() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let (_up, port, text) = measured(&lab, &redis);
    let (content, said) = runtime()
        .block_on(promtool(&["check", "metrics"], &text))
        .expect("promtool");
    assert!(content && said.is_empty(), "{said}\n{text}");
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let told = line.contains("web") || line.contains("api");
        assert!(!told, "no consumer in a label: {line}");
    }
    for line in [
        "mesh_applies_total{provider=\"cache\"} 2",
        "mesh_heals_total{provider=\"cache\"} 0",
        "mesh_bus_readable 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} in {text}");
    }
    // A Prometheus asks for the newer form.
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connection");
    let ask = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
               Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n";
    stream.write_all(ask.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("application/openmetrics-text"), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
}

#[test]
fn s6_rules_and_dashboard_ask_for_what_there_is() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let (_up, _, text_of) = measured(&lab, &redis);
    let there = scraped(&text_of);
    let dashboard: Value =
        serde_json::from_str(&text("grafana/meshkeeper.json")).expect("a dashboard");
    let mut asked = Vec::new();
    queries(&dashboard, &mut asked);
    let rules = text(RULES);
    let exprs = rules.lines().filter_map(|line| line.split_once("expr:"));
    let exprs: Vec<String> = exprs.map(|(_, expr)| expr.to_owned()).collect();
    assert_eq!(exprs.len(), rules.matches("- alert:").count());
    assert!(asked.len() > 20, "{asked:?}");
    for query in asked.iter().chain(&exprs) {
        let missing: Vec<_> = names(query).difference(&there).cloned().collect();
        assert!(missing.is_empty(), "{missing:?} of {query} in {there:?}");
    }
    // And of what there is, each is on the dashboard.
    let shown: BTreeSet<String> = asked.iter().flat_map(|query| names(query)).collect();
    let parts = [
        "mesh_pass_duration_seconds_sum",
        "mesh_pass_duration_seconds_count",
    ];
    let rest = there.iter().filter(|name| !parts.contains(&name.as_str()));
    let hidden: Vec<_> = rest.filter(|name| !shown.contains(*name)).collect();
    // When the next pass is due is for the rules.
    assert_eq!(hidden, ["mesh_next_pass_timestamp_seconds"]);
}

#[test]
fn the_rules_fire_when_they_should_by_promtools_own_tests() {
    let runtime = runtime();
    for words in [
        ["check", "rules", RULES],
        ["check", "config", "prometheus/prometheus.yml"],
        ["test", "rules", "prometheus/tests/mesh_test.yml"],
    ] {
        let file = contrib(words[2]).display().to_string();
        let (content, said) = runtime
            .block_on(promtool(&[words[0], words[1], &file], ""))
            .expect("promtool");
        assert!(content, "{words:?}: {said}");
    }
    let (rules, tests) = (text(RULES), text("prometheus/tests/mesh_test.yml"));
    for alert in rules
        .lines()
        .filter_map(|l| l.trim().strip_prefix("- alert: "))
    {
        let named = format!("alertname: {alert}\n");
        let fires = tests.match_indices(&named);
        let fires = fires.filter(|(at, _)| {
            let rest = tests[*at..].lines().nth(1).unwrap_or_default();
            rest.trim() == "exp_alerts:"
        });
        assert!(fires.count() > 0, "no test makes {alert} fire");
    }
}

/// The names of alerts that fire, with their labels.
fn firing(runtime: &Runtime, prometheus: &PrometheusServer) -> Vec<String> {
    let told = runtime.block_on(prometheus.api("alerts")).expect("alerts");
    let alerts = told["alerts"].as_array().expect("a list").iter();
    let fire = alerts.filter(|alert| alert["state"] == "firing");
    let name = |alert: &Value| {
        let label = |name: &str| {
            alert["labels"][name]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let about = label("provider") + &label("type");
        format!("{} {about}", label("alertname"))
    };
    fire.map(name).collect()
}

#[test]
fn a_backend_that_dies_fires_the_alerts_of_a_real_prometheus_and_ends_them_when_it_is_back() {
    let (lab, mut redis, runtime) = (Lab::new(), Redis::start(), runtime());
    let (_up, port, _) = measured(&lab, &redis);
    // The rules as they are, but for their patience: that is tested by promtool.
    let rules = text(RULES);
    let quick: Vec<String> = rules
        .lines()
        .map(|line| match line.split_once("for: ") {
            Some((before, _)) => format!("{before}for: 1s"),
            None => line.to_owned(),
        })
        .collect();
    let quick = lab.write("quick.rules.yml", &(quick.join("\n") + "\n"));
    let start = PrometheusServer::start(port, &quick);
    let prometheus = runtime.block_on(start).expect("Prometheus");
    until("it has scraped, and nothing fires", 60, || {
        let held = "query?query=mesh_provisions%7Bstate%3D%22held%22%7D";
        let told = runtime.block_on(prometheus.api(held)).expect("a query");
        let value = told["result"][0]["value"][1].clone();
        let fires = firing(&runtime, &prometheus);
        match value == "2" && fires.is_empty() {
            true => Ok(()),
            false => Err((value, fires)),
        }
    });
    redis.kill();
    let wanted = [
        "MeshProviderUnanswered cache",
        "MeshConditionError BackendUnreachable",
    ];
    until("the alerts fire", 60, || {
        let fires = firing(&runtime, &prometheus);
        let all = wanted.iter().all(|name| fires.iter().any(|f| f == name));
        if all { Ok(()) } else { Err(fires) }
    });
    redis.start_again();
    until("they end", 90, || match firing(&runtime, &prometheus) {
        fires if fires.is_empty() => Ok(()),
        fires => Err(fires),
    });
    // Everybody was lost with the server, and healed: counted, and seen by the other side.
    until("the heals are counted", 30, || {
        let told = runtime.block_on(prometheus.api("query?query=mesh_heals_total"));
        let told = told.expect("a query");
        match told["result"][0]["value"][1] == "2" {
            true => Ok(()),
            false => Err(told),
        }
    });
}
