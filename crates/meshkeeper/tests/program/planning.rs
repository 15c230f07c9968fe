//! `plan` tells and writes nothing anywhere; exit codes and shapes of the contract (section 9).

use std::collections::BTreeSet;
use std::path::Path;

use crate::lab::{Lab, cache, need};
use crate::redis::{Redis, free_port};

/// Every file under a folder with its bytes, but for the marks that a reader leaves in SQLite's index.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut all: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.expect("entry").path();
            let name = path
                .file_name()
                .expect("name")
                .to_string_lossy()
                .into_owned();
            (name, std::fs::read(&path).expect("file"))
        })
        .filter(|(name, _)| !name.ends_with("-shm"))
        .collect();
    all.sort();
    all
}

#[test]
fn h2_a_plan_before_the_first_apply_makes_no_folder_no_key_and_no_login() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web", "api"]);
    lab.mesh(&["plan"]).ends(2).says("create").says("2 to do");
    let json = lab.mesh(&["plan", "--json"]).ends(2).json();
    assert_eq!(json["changes"].as_array().expect("changes").len(), 2);
    assert!(!lab.data().exists());
    assert_eq!(redis.writes(), 0, "{:?}", redis.calls());
    let names: BTreeSet<String> = files(lab.path())
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, BTreeSet::from(["mesh.toml".to_owned()]));
}

#[test]
fn h2_a_plan_adopts_nothing_and_changes_no_file() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web", "api"]);
    lab.mesh(&["apply"]).ends(0);
    redis.ask(&["ACL", "DELUSER", "web"]);
    lab.cache(&redis, "", ["web", "new"]);
    let (before, writes) = (files(&lab.data()), redis.writes());
    let plan = lab.mesh(&["plan", "--json"]).ends(2).json();
    let actions: Vec<(&str, &str)> = plan["changes"]
        .as_array()
        .expect("changes")
        .iter()
        .map(|c| {
            let text = |key: &str| c[key].as_str().expect("text");
            (text("consumer"), text("action"))
        })
        .collect();
    assert_eq!(
        BTreeSet::from_iter(actions),
        BTreeSet::from([("web", "heal"), ("new", "create")])
    );
    for word in [
        &["status"][..],
        &["explain", "web"],
        &["conditions"],
        &["loops"],
        &["events"],
    ] {
        lab.mesh(word);
    }
    assert_eq!(files(&lab.data()), before);
    assert_eq!(redis.writes(), writes);
}

#[test]
fn h7_a_plan_that_cannot_ask_ends_with_1_and_prints_what_it_knows() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let mut text = cache(&redis, "", ["web"]);
    text.push_str(&format!(
        "\n[provider.away]\nkind = \"redis\"\nurl = \"redis://127.0.0.1:{}\"\n",
        free_port()
    ));
    need(&mut text, "api", "away", "");
    lab.manifest(&text);
    let ran = lab.mesh(&["plan"]).ends(1);
    let ran = ran.says("create").says("web").says("unknown").says("api");
    assert!(ran.out.contains("refused"), "{ran:#?}");
    let json = lab.mesh(&["plan", "--json"]).ends(1).json();
    assert_eq!(json["changes"][0]["consumer"], "web");
    assert_eq!(json["unknown"][0]["consumer"], "api");
}

#[test]
fn h7_an_apply_with_one_server_away_serves_the_others_and_ends_with_3() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let mut text = cache(&redis, "", ["web"]);
    text.push_str(&format!(
        "\n[provider.away]\nkind = \"redis\"\nurl = \"redis://127.0.0.1:{}\"\n",
        free_port()
    ));
    need(&mut text, "api", "away", "");
    lab.manifest(&text);
    lab.mesh(&["apply"]).ends(3);
    assert_eq!(redis.users(), BTreeSet::from(["web".to_owned()]));
    let ran = lab.mesh(&["status", "--json"]).ends(3);
    let states = crate::lab::states(&ran.json());
    assert_eq!(states, ["api=unknown", "web=held"]);
    lab.mesh(&["status", "--check"])
        .ends(3)
        .says("NOT WELL: 1 of 2 held");
}

#[test]
fn usage_mistakes_end_with_64_and_what_cannot_run_with_1() {
    let lab = Lab::new();
    for args in [
        &["fly"][..],
        &["status", "--fly"],
        &["explain"],
        &["pause", "web", "--for", "never"],
        &["rotate"],
        &["up", "--listen", "nowhere"],
    ] {
        lab.mesh(args).ends(64);
    }
    // No manifest, and a manifest without a data folder.
    for args in [&["plan"][..], &["apply"], &["status"], &["up"]] {
        lab.mesh(args).ends(1);
    }
    let redis = Redis::start();
    lab.cache(&redis, "", ["web"]);
    lab.mesh(&["status"]).ends(1).warns("mesh apply");
    lab.mesh(&["pause", "web"]).ends(1);
    assert!(!lab.data().exists());
}

#[test]
fn the_picture_has_the_contracts_fields_and_times_in_rfc_3339() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web"]);
    lab.mesh(&["apply"]).ends(0);
    let status = lab.mesh(&["status", "--json"]).ends(0).json();
    let keys = |value: &serde_json::Value| -> BTreeSet<String> {
        value.as_object().expect("object").keys().cloned().collect()
    };
    let has = |value: &serde_json::Value, wanted: &[&str]| {
        let found = keys(value);
        for key in wanted {
            assert!(found.contains(*key), "no {key} in {value:#}");
        }
    };
    has(
        &status,
        &[
            "mesh",
            "at",
            "loops",
            "provisions",
            "conditions",
            "deliveries",
            "rotations",
            "hosts",
            "leftovers",
            "strangers",
        ],
    );
    has(
        &status["loops"][0],
        &["name", "class", "state", "last_pass", "next_pass"],
    );
    let provision = &status["provisions"][0];
    has(
        provision,
        &[
            "provider",
            "consumer",
            "login",
            "state",
            "proof",
            "checked_at",
            "applied_at",
            "why",
        ],
    );
    assert_eq!(provision["state"], "held");
    assert_eq!(provision["proof"], "verifier");
    has(
        &status["conditions"][0],
        &[
            "type",
            "subject",
            "owner",
            "status",
            "severity",
            "reason",
            "message",
            "action",
            "since",
            "last_seen",
            "observed_generation",
            "count",
        ],
    );
    let times = [
        &status["at"],
        &status["loops"][0]["last_pass"],
        &provision["checked_at"],
        &provision["applied_at"],
        &status["conditions"][0]["since"],
        &status["conditions"][0]["last_seen"],
    ];
    for time in times {
        let text = time.as_str().unwrap_or_else(|| panic!("no time: {time}"));
        assert!(text.parse::<jiff::Timestamp>().is_ok(), "{text}");
        assert!(text.ends_with('Z') && text.contains('T'), "{text}");
    }
    // Without a daemon nothing is due.
    assert_eq!(status["loops"][0]["state"], "stopped");
    assert!(status["loops"][0]["next_pass"].is_null());
}
