//! `mesh conformance`, as an author of an adapter runs it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use mesh_conformance::servers::Example;
use serde_json::{Value, json};

/// Answers everything with "there, as asked": what the suite must not believe.
const LIAR: &str = r#"#!/usr/bin/env python3
import json, sys
sys.stdin.readline()
print('{"version":1,"name":"a liar","capabilities":["holds","find","purge"]}', flush=True)
for line in sys.stdin:
    r = json.loads(line)
    facts = {"found": True, "enabled": True, "password": "fits", "mark": r.get("mark")}
    print(json.dumps({"id": r["id"], "ok": facts}), flush=True)
"#;

fn conformance(exec: &Path, folder: &Path, more: &[&str]) -> Output {
    let settings = folder.join("settings.json");
    let text = json!({ "folder": folder.join("users"), "cost": 4 }).to_string();
    std::fs::write(&settings, text).unwrap();
    Command::new(env!("CARGO_BIN_EXE_mesh"))
        .arg("conformance")
        .arg("--exec")
        .arg(exec)
        .arg("--bench")
        .arg(Example::bench())
        .arg("--settings")
        .arg(&settings)
        .args(more)
        .current_dir(folder)
        .output()
        .unwrap()
}

#[test]
fn a9_the_word_tells_an_author_what_fails_with_3() {
    let folder = tempfile::tempdir().unwrap();
    let liar = folder.path().join("liar");
    std::fs::write(&liar, LIAR).unwrap();
    std::fs::set_permissions(&liar, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ran = conformance(&liar, folder.path(), &["--json"]);
    let err = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(3), "{err}");
    let report: Value = serde_json::from_slice(&ran.stdout).expect("one JSON object");
    let of = |name: &str| {
        let trials = report["trials"].as_array().unwrap().iter();
        let found = trials.clone().find(|trial| trial["trial"] == name);
        found.unwrap()["outcome"].clone()
    };
    assert_eq!(of("a6_a_new_login_is_made_and_held"), "failed");
    assert_eq!(of("h5_absent_is_told"), "failed");
    // It finds nobody, and deletes what somebody may use.
    assert_eq!(
        of("h18_what_is_found_can_be_adopted_as_it_stands"),
        "failed"
    );
    assert_eq!(of("r5_data_that_a_login_may_use_is_not_purged"), "failed");
    for not_declared in [
        "r1_a_list_is_whole_and_tells_whose_each_login_is",
        "r14_the_canary_is_listed_and_opens_nothing",
        "r6_a_login_in_use_is_told",
    ] {
        assert_eq!(of(not_declared), "skipped", "{not_declared}");
    }
    assert_eq!(
        report["trials"].as_array().unwrap().len(),
        report["expected"]
    );
}

#[test]
fn a9_a_good_program_passes_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let example = Example::Python.program().unwrap();
    let ran = conformance(example.path(), folder.path(), &[]);
    let out = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(
        ran.status.code(),
        Some(0),
        "{out}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(out.contains("ran      h9_a_server_that_hangs"), "{out}");
    assert!(out.contains("0 failed"), "{out}");
}

#[test]
fn a9_what_cannot_run_is_told_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let ran = conformance(Path::new("no-such-program"), folder.path(), &[]);
    assert_eq!((ran.status.code(), ran.stdout.len()), (Some(1), 0));
    let err = String::from_utf8_lossy(&ran.stderr);
    assert!(err.contains("no-such-program"), "{err}");
    let ran = Command::new(env!("CARGO_BIN_EXE_mesh"))
        .args(["conformance", "--exec", "x"])
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(64), "a bench is needed");
}
