//! `cargo xtask ci`: every gate, one after the other, each with its time; none hides another.

use crate::{docs, printer, root, tidy};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Runs the gates, tests last; gives whether all passed.
pub(crate) fn run(no_tests: bool) -> Result<bool> {
    let root = root::workspace()?;
    let mut failed = Vec::new();
    let mut gate = |name: &'static str, work: &dyn Fn() -> Result<bool>| {
        if !timed(name, work) {
            failed.push(name);
        }
    };
    gate("fmt", &|| cargo(&root, &["fmt", "--all", "--check"]));
    gate("clippy", &|| {
        let lints = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--quiet",
        ];
        cargo(&root, &[&lints[..], &["--", "-D", "warnings"]].concat())
    });
    gate("tidy", &|| tidy::run(true));
    gate("docs", &|| docs::run(true));
    gate("doctests", &|| {
        cargo(
            &root,
            &["test", "--workspace", "--doc", "--locked", "--quiet"],
        )
    });
    if !no_tests {
        gate("tests", &|| cargo(&root, tests(&root)));
    }
    if failed.is_empty() {
        return Ok(true);
    }
    printer::problem(&format!("failed: {}", failed.join(", ")));
    Ok(false)
}

/// nextest where it is installed, else the runner that comes with cargo.
fn tests(root: &Path) -> &'static [&'static str] {
    let nextest = Command::new(env!("CARGO"))
        .args(["nextest", "--version"])
        .current_dir(root)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if nextest.is_ok_and(|status| status.success()) {
        &["nextest", "run", "--workspace", "--locked"]
    } else {
        &[
            "test",
            "--workspace",
            "--lib",
            "--bins",
            "--tests",
            "--locked",
            "--no-fail-fast",
        ]
    }
}

fn cargo(root: &Path, words: &[&str]) -> Result<bool> {
    let status = Command::new(env!("CARGO"))
        .args(words)
        .current_dir(root)
        .status()
        .with_context(|| format!("cargo {}", words.join(" ")))?;
    Ok(status.success())
}

#[expect(
    clippy::disallowed_methods,
    reason = "xtask says how long its gates took; no product code runs here"
)]
fn timed(name: &str, work: &dyn Fn() -> Result<bool>) -> bool {
    let begun = Instant::now();
    let passed = work().unwrap_or_else(|error| {
        printer::problem(&format!("{error:#}"));
        false
    });
    let word = if passed { "passed" } else { "FAILED" };
    let seconds = begun.elapsed().as_secs_f64();
    printer::problem(&format!("{name}: {word} in {seconds:.1} s"));
    passed
}
