//! Manners of every Rust file: how it opens, and which doors only one module may go through.

use super::Finding;
use super::source::{Path, Source};

/// All of them.
pub(super) fn check(sources: &[Source<'_>]) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in sources {
        found.extend(opening(source));
        found.extend(unfinished(source));
        found.extend(printing(source));
        found.extend(anyhow(source));
        found.extend(environment(source));
        found.extend(clock(source));
    }
    found
}

/// Every file says in its first line what it is.
fn opening(source: &Source<'_>) -> Option<Finding> {
    let opens = source.text.lines().next().is_some_and(|line| {
        line.strip_prefix("//!")
            .is_some_and(|rest| !rest.trim().is_empty())
    });
    let what = "does not open with a `//!` line that says what it is";
    (!opens).then(|| Finding::new("opening", source.path, 1, what))
}

/// No `todo!`, no `#[ignore]`: what is not done is not there, and what is a test runs.
fn unfinished(source: &Source<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, line) in source.macros() {
        if matches!(name, "todo" | "unimplemented" | "dbg") {
            found.push(Finding::new(
                "unfinished",
                source.path,
                line,
                format!("`{name}!`"),
            ));
        }
    }
    for w in source.tokens.windows(3) {
        if w[0].is_sign("#") && w[1].is_sign("[") && w[2].is_word("ignore") {
            let what = "`#[ignore]`: a test runs, or it is not there";
            found.push(Finding::new("unfinished", source.path, w[0].line, what));
        }
    }
    found
}

/// Output goes through `printer`.
fn printing(source: &Source<'_>) -> Vec<Finding> {
    if is_module(source.path, "printer") {
        return Vec::new();
    }
    source
        .macros()
        .into_iter()
        .filter(|(name, _)| matches!(*name, "print" | "println" | "eprint" | "eprintln"))
        .filter(|(_, line)| !source.is_test(*line))
        .map(|(name, line)| {
            let what = format!("`{name}!` outside the printer");
            Finding::new("print", source.path, line, what)
        })
        .collect()
}

/// Errors are typed everywhere but in the program, here and in tests.
fn anyhow(source: &Source<'_>) -> Vec<Finding> {
    let may = ["crates/meshkeeper/", "xtask/"];
    if may.iter().any(|prefix| source.path.starts_with(prefix)) {
        return Vec::new();
    }
    refused(
        source,
        "anyhow",
        "belongs to the program, xtask and tests",
        |path| path.parts.first() == Some(&"anyhow"),
    )
}

/// The environment is read where settings are settled, and where a manifest names a variable.
fn environment(source: &Source<'_>) -> Vec<Finding> {
    let path = source.path;
    let may = path.starts_with("xtask/")
        || path.starts_with("crates/conformance/src/servers")
        || is_module(path, "settings")
        || (path.contains("/manifest/")
            && path
                .rsplit('/')
                .next()
                .is_some_and(|n| n.contains("secret")));
    if may {
        return Vec::new();
    }
    let what = "reads the environment outside `settings` and the manifest's secret source";
    refused(source, "env", what, |path| {
        let std_env = path.starts_with(&["std", "env"]) && path.parts.get(2) != Some(&"consts");
        std_env || path.starts_with(&["env"])
    })
}

/// The clock is read in one file; tokio's own clock is let through, since tests can pause it.
fn clock(source: &Source<'_>) -> Vec<Finding> {
    if is_clock(source.path) {
        return Vec::new();
    }
    let paths = source.paths();
    let paused = paths
        .iter()
        .any(|p| p.starts_with(&["tokio", "time", "Instant"]));
    let what = "reads the clock outside crates/sdk/src/clock.rs";
    refused(source, "clock", what, |path| match path.parts.as_slice() {
        [
            ..,
            "SystemTime" | "Timestamp" | "Zoned" | "Utc" | "Local",
            "now",
        ] => true,
        ["tokio", ..] => false,
        ["Instant", "now"] => !paused,
        ["time", "Instant", "now"] => false,
        [.., "Instant", "now"] => true,
        _ => false,
    })
}

fn is_clock(path: &str) -> bool {
    path == "crates/sdk/src/clock.rs" || path.starts_with("crates/sdk/src/clock/")
}

/// Whether `path` is the module `name`: `name.rs`, or in a folder `name/`.
fn is_module(path: &str, name: &str) -> bool {
    path.ends_with(&format!("/{name}.rs")) || path.contains(&format!("/{name}/"))
}

fn refused(
    source: &Source<'_>,
    check: &'static str,
    what: &str,
    is_refused: impl Fn(&Path<'_>) -> bool,
) -> Vec<Finding> {
    source
        .paths()
        .into_iter()
        .filter(|path| !source.is_test(path.line) && is_refused(path))
        .map(|path| {
            let what = format!("`{}` {what}", path.shown());
            Finding::new(check, source.path, path.line, what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::File;
    use crate::tidy::source::sources;

    fn checks(path: &str, code: &str) -> Vec<&'static str> {
        let text = format!("//! A file.\n{code}");
        check(&sources(&[File::new(path, &text)]))
            .into_iter()
            .map(|f| f.check)
            .collect()
    }

    #[test]
    fn a_file_opens_with_what_it_is() {
        let opens = |text: &str| check(&sources(&[File::new("a/tests/it/x.rs", text)])).is_empty();
        assert!(opens("//! What it is.\n"));
        assert!(!opens("fn f() {}\n"));
        assert!(!opens("//!\n"));
        assert!(!opens(""));
        assert!(!opens("// plain\n//! late\n"));
    }

    #[test]
    fn unfinished_code_and_sleeping_tests_are_refused() {
        assert_eq!(checks("a/src/x.rs", "fn f() { todo!() }"), ["unfinished"]);
        assert_eq!(
            checks("a/tests/it.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}"),
            ["unfinished"]
        );
        assert!(checks("a/src/x.rs", "// todo!()\n#[allow(dead_code)] fn todo() {}").is_empty());
    }

    #[test]
    fn only_the_printer_prints() {
        assert_eq!(
            checks("crates/a/src/x.rs", "fn f() { anstream::println!(\"x\") }"),
            ["print"]
        );
        assert!(checks("crates/a/src/printer.rs", "fn f() { println!(\"x\") }").is_empty());
        assert!(
            checks(
                "crates/a/src/printer/table.rs",
                "fn f() { println!(\"x\") }"
            )
            .is_empty()
        );
        assert!(checks("crates/a/tests/it.rs", "fn f() { println!(\"x\") }").is_empty());
    }

    #[test]
    fn anyhow_stays_in_the_program() {
        assert_eq!(
            checks("crates/sdk/src/x.rs", "use anyhow::Result;"),
            ["anyhow"]
        );
        assert!(checks("crates/meshkeeper/src/x.rs", "use anyhow::Result;").is_empty());
        assert!(checks("crates/sdk/tests/it.rs", "use anyhow::Result;").is_empty());
        assert!(
            checks(
                "crates/sdk/src/x.rs",
                "#[cfg(test)] mod tests { use anyhow::Result; }"
            )
            .is_empty()
        );
    }

    #[test]
    fn the_environment_has_two_doors() {
        for code in [
            "use std::env;",
            "use std::{fs, env::var};",
            "fn f() { env::var(\"X\") }",
        ] {
            assert_eq!(checks("crates/bus/src/x.rs", code), ["env"], "{code}");
            assert!(
                checks("crates/meshkeeper/src/settings.rs", code).is_empty(),
                "{code}"
            );
            assert!(
                checks("crates/meshkeeper/src/manifest/secret.rs", code).is_empty(),
                "{code}"
            );
            assert!(checks("crates/bus/tests/it.rs", code).is_empty(), "{code}");
        }
        assert!(checks("crates/bus/src/x.rs", "const A: &str = env!(\"X\");").is_empty());
        assert!(checks("crates/bus/src/x.rs", "use std::env::consts::OS;").is_empty());
    }

    #[test]
    fn the_clock_is_read_in_one_file() {
        for code in [
            "fn f() { std::time::SystemTime::now() }",
            "use std::time::Instant;\nfn f() { Instant::now() }",
            "fn f() { std::time::Instant::now() }",
            "fn f() { jiff::Timestamp::now() }",
        ] {
            assert_eq!(checks("crates/sdk/src/x.rs", code), ["clock"], "{code}");
            assert!(checks("crates/sdk/src/clock.rs", code).is_empty(), "{code}");
        }
    }

    #[test]
    fn the_clock_that_tests_can_pause_is_let_through() {
        for code in [
            "use tokio::time::{Duration, Instant};\nfn f() { Instant::now() }",
            "use tokio::time;\nfn f() { time::Instant::now() }",
            "fn f() { tokio::time::Instant::now() }",
        ] {
            assert!(
                checks("crates/sdk/src/harness/x.rs", code).is_empty(),
                "{code}"
            );
        }
    }
}
