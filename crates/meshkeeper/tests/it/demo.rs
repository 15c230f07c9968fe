//! `mesh demo` on a real server: each step is seen, nothing stays behind, no password is told.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

fn demo(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mesh"));
    command
        .arg("demo")
        .args(args)
        .current_dir(folder)
        .env("TMPDIR", folder)
        .env_remove("MESH_LOG")
        .env_remove("RUST_LOG");
    command
}

/// Processes whose working folder lies in this one.
fn left_behind(folder: &Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let there = processes.filter(|process| {
        let at = std::fs::read_link(process.path().join("cwd"));
        // A folder that is gone ends with a word about that.
        at.is_ok_and(|at| at.starts_with(folder) && at != folder)
    });
    there
        .map(|process| process.file_name().to_string_lossy().into_owned())
        .collect()
}

fn assert_nothing_stays(folder: &Path) {
    assert_eq!(left_behind(folder), Vec::<String>::new());
    let entries = std::fs::read_dir(folder).expect("folder").count();
    assert_eq!(entries, 0, "the demo's folder is gone");
}

/// Minted passwords are 32 capital and small letters and digits; the server keeps 64 hexadecimal digits.
fn assert_no_password(text: &str) {
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()) {
        let is_minted = word.len() >= 32 && word.contains(|c: char| c.is_ascii_uppercase());
        assert!(!is_minted && word.len() != 64, "{word}");
    }
    assert!(!text.contains("somebody-elses-password"));
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn h14_the_demo_sees_every_step_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("folder");
    let output = demo(folder.path(), &[]).output().expect("it runs");
    let (out, err) = texts(&output);
    assert_eq!((output.status.code(), err.as_str()), (Some(0), ""), "{out}");
    for line in [
        "1. Five consumers are provisioned",
        "nightly  logs in as nightly-job",
        "5 of 5 logins are refused",
        "5 of 5 log in again",
        "mesh: web: was lost: absent; applied again",
        "mesh: web: was lost: other password; applied again",
        "mesh: reports: was lost: grants missing",
        "mesh: worker: was lost: disabled; applied again",
        "everybody was looked at twice more, and held",
        "5 held",
        "`mesh init`",
    ] {
        assert!(out.contains(line), "{line} is missing in {out}");
    }
    assert!(!out.contains('\u{1b}'), "no colours without a terminal");
    assert_no_password(&out);
    assert_nothing_stays(folder.path());
}

#[test]
fn the_demo_as_json_is_one_object_a_step() {
    let folder = tempfile::tempdir().expect("folder");
    let output = demo(folder.path(), &["--json"]).output().expect("it runs");
    let (out, err) = texts(&output);
    assert_eq!((output.status.code(), err.as_str()), (Some(0), ""), "{out}");
    let objects: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect();
    let steps: Vec<&str> = objects.iter().filter_map(|o| o["step"].as_str()).collect();
    let wanted = [
        "provisioned",
        "restarted",
        "changed",
        "disabled",
        "still",
        "status",
    ];
    assert_eq!(steps, wanted);
    assert!(objects.iter().all(|object| object["observed"] == true));
    assert_eq!(objects[5]["status"]["mesh"], "demo");
    assert_no_password(&out);
    assert_nothing_stays(folder.path());
}

#[test]
fn a_demo_that_is_stopped_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("folder");
    let mut running = demo(folder.path(), &["--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    wait_for_server(folder.path());
    let pid = running.id().to_string();
    let told = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(told.expect("kill").success());
    assert_eq!(exit_code(&mut running), Some(1));
    assert_nothing_stays(folder.path());
}

fn wait_for_server(folder: &Path) {
    for _ in 0..1_000 {
        if !left_behind(folder).is_empty() {
            return;
        }
        pause();
    }
    panic!("the demo starts no server");
}

fn exit_code(running: &mut Child) -> Option<i32> {
    for _ in 0..2_000 {
        if let Some(status) = running.try_wait().expect("a status") {
            return status.code();
        }
        pause();
    }
    running.kill().expect("killed");
    panic!("the demo does not stop");
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for")]
fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

#[test]
fn without_a_server_on_the_path_the_demo_says_what_to_install() {
    let folder = tempfile::tempdir().expect("folder");
    let output = demo(folder.path(), &[]).env("PATH", folder.path()).output();
    let output = output.expect("it runs");
    let (out, err) = texts(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("apt-get install redis-server"), "{err}");
    assert_nothing_stays(folder.path());
}
