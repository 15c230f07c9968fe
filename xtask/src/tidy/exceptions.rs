//! The named exceptions of `xtask/exceptions.toml`: each says why, and one that excuses nothing is refused.

use super::Finding;
use crate::root::File;
use serde::Deserialize;

const FILE: &str = "xtask/exceptions.toml";

/// Checks that take exceptions; a budget, a link or a missing rule test takes none.
const TAKES: [&str; 5] = ["anyhow", "clock", "env", "print", "wiring"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    exception: Vec<Exception>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    check: String,
    path: String,
    why: String,
}

/// Leaves out of `found` what is excused, and adds what is wrong with the excuses.
pub(super) fn apply(files: &[File], found: Vec<Finding>) -> Vec<Finding> {
    let text = files
        .iter()
        .find(|f| f.path == FILE)
        .map_or("", |f| &f.text);
    let written: Written = match toml::from_str(text) {
        Ok(written) => written,
        Err(error) => {
            let mut all = found;
            all.push(Finding::new("exceptions", FILE, 0, error.to_string()));
            return all;
        }
    };
    let excuses = |e: &Exception, f: &Finding| e.check == f.check && e.path == f.path;
    let mut left = Vec::new();
    for exception in &written.exception {
        let Exception { check, path, why } = exception;
        let wrong = if !TAKES.contains(&check.as_str()) {
            Some(format!("`{check}` takes no exceptions"))
        } else if why.trim().is_empty() {
            Some(format!(
                "the exception of {path} from `{check}` says no why"
            ))
        } else if !found.iter().any(|f| excuses(exception, f)) {
            Some(format!(
                "{path} has nothing that `{check}` refuses: take the exception out"
            ))
        } else {
            None
        };
        left.extend(wrong.map(|what| Finding::new("exceptions", FILE, 0, what)));
    }
    left.extend(found.into_iter().filter(|f| {
        let excused = TAKES.contains(&f.check) && written.exception.iter().any(|e| excuses(e, f));
        !excused
    }));
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Vec<File> {
        vec![File::new(FILE, text)]
    }

    fn entry(check: &str, path: &str, why: &str) -> String {
        format!("[[exception]]\ncheck = \"{check}\"\npath = \"{path}\"\nwhy = \"{why}\"\n")
    }

    #[test]
    fn a_named_exception_excuses_its_file_and_no_other() {
        let found = vec![
            Finding::new("clock", "a.rs", 1, "x"),
            Finding::new("clock", "b.rs", 1, "x"),
        ];
        let left = apply(&file(&entry("clock", "a.rs", "because")), found);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].path, "b.rs");
    }

    #[test]
    fn an_exception_that_excuses_nothing_is_refused() {
        let left = apply(&file(&entry("clock", "a.rs", "because")), Vec::new());
        assert!(left[0].what.contains("take the exception out"));
    }

    #[test]
    fn an_exception_needs_a_reason_and_a_check_that_takes_one() {
        let clock = vec![Finding::new("clock", "a.rs", 1, "x")];
        assert_eq!(apply(&file(&entry("clock", "a.rs", " ")), clock).len(), 1);
        let budget = vec![Finding::new("budget", "a.rs", 1, "x")];
        assert_eq!(apply(&file(&entry("budget", "a.rs", "y")), budget).len(), 2);
    }

    #[test]
    fn a_file_that_does_not_parse_is_a_finding() {
        assert_eq!(apply(&file("exception = 3"), Vec::new()).len(), 1);
    }
}
