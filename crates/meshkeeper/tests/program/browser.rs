//! The page in a real browser: Debian's Chromium, driven by `tests/browser/drive.mjs`, while a Redis dies under
//! it. `MESH_IMAGES=1` has the pictures of `docs/images` made anew.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::lab::{Lab, need};
use crate::redis::{Redis, free_port};
use crate::wait::until;

const HOSTILE: &str = "<script>window.pwned=1</script>\u{202e}x";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[expect(
    clippy::disallowed_methods,
    reason = "where the browser is, and whether pictures are asked for"
)]
fn variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

fn manifest(cache: &Redis, sessions: &Redis) -> String {
    let names = ["web", "api", "worker", "mail"];
    let mut text = crate::lab::cache(cache, "verify_every = \"1s\"", names);
    let lines = format!(
        "\n[provider.sessions]\nkind = \"redis\"\nurl = \"{}\"\nverify_every = \"1s\"\n",
        sessions.url()
    );
    text.push_str(&lines);
    // One whose login somebody else has already: a person must say whose it is.
    for name in ["api", "mail", "legacy"] {
        need(&mut text, name, "sessions", "");
    }
    need(
        &mut text,
        "evil",
        "sessions",
        &format!("login = '{HOSTILE}'"),
    );
    text
}

#[test]
fn s6_the_page_in_a_browser() {
    let (modules, chromium) = (root().join(".servers/page"), variable("MESH_TEST_CHROMIUM"));
    let chromium = chromium.unwrap_or_else(|| "/usr/bin/chromium".into());
    for needed in [&modules.join("node_modules/playwright-core"), &chromium] {
        assert!(
            needed.exists(),
            "{} is missing: scripts/test installs it",
            needed.display()
        );
    }
    let (lab, sessions) = (Lab::new(), Redis::start());
    let mut cache = Redis::start();
    sessions.set_user("legacy on >of-somebody-else ~legacy:* +@read");
    lab.manifest(&manifest(&cache, &sessions));
    let port = free_port();
    let mut up = lab.up(&["--listen", &format!("127.0.0.1:{port}")]);
    let stands = "LoginTaken sessions/legacy".to_owned();
    until("all is settled but one login", 60, || {
        let (states, conditions) = (lab.states(), lab.conditions());
        let held = states.iter().filter(|state| state.ends_with("=held"));
        match (held.count(), conditions.contains(&stands)) {
            (7, true) => Ok(()),
            _ => Err((states, conditions)),
        }
    });
    let token = std::fs::read_to_string(lab.data().join("page-token")).expect("token");
    let mut command = Command::new("node");
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/drive.mjs"))
        .env("MODULES", &modules)
        .env("CHROMIUM", &chromium)
        .env("URL", format!("http://127.0.0.1:{port}"))
        .env("TOKEN", token.trim())
        .env("HOME", lab.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if variable("MESH_IMAGES").is_some() {
        command.env("IMAGES", root().join("docs/images"));
    }
    let mut driver = command.spawn().expect("node drives the browser");
    let mut answers = driver.stdin.take().expect("stdin");
    let mut told = String::new();
    for line in BufReader::new(driver.stdout.take().expect("stdout")).lines() {
        let line = line.expect("a line");
        match line.strip_prefix("do: ") {
            Some("kill") => cache.kill(),
            Some("start") => drop(cache.start_again()),
            Some("stop") => drop(up.stop().ends(0)),
            Some(other) => panic!("nobody can do `{other}`"),
            None => {
                told += &line;
                told.push('\n');
                continue;
            }
        }
        writeln!(answers, "done").expect("answered");
    }
    let ended = driver.wait().expect("it ends");
    assert!(ended.success(), "{told}\n{}", up.log());
    assert!(told.contains("all is as it should be"), "{told}");
}
