//! `cargo xtask tidy`: what no compiler checks for us, each check a pure function over text.

mod budgets;
mod exceptions;
mod graph;
mod links;
mod manifests;
mod manners;
mod places;
mod rules;
mod source;
mod token;
mod walls;

use crate::{docs, printer, root};
use anyhow::Result;
use std::fmt;

/// Something a check refuses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Path from the root.
    pub(crate) path: String,
    /// The line, from 1; 0 where it is about the whole file.
    pub(crate) line: usize,
    /// The check's name, as `xtask/exceptions.toml` would write it.
    pub(crate) check: &'static str,
    /// What is wrong, and what to do instead.
    pub(crate) what: String,
}

impl Finding {
    fn new(check: &'static str, path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            check,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: [{}] {}",
            self.path, self.line, self.check, self.what
        )
    }
}

/// Runs every check; gives whether all passed.
pub(crate) fn run(no_docs: bool) -> Result<bool> {
    let root = root::workspace()?;
    let files = root::files(&root)?;
    let sources = source::sources(&files);

    let mut found = walls::check(&sources);
    found.extend(manners::check(&sources));
    found.extend(budgets::check(&sources));
    found.extend(manifests::check(&files));
    found.extend(links::check(&files));
    found.extend(places::check(&files));
    found.extend(rules::check(&files, &sources));
    found.extend(graph::check(&root)?);

    let mut found = exceptions::apply(&files, found);
    found.sort();
    for finding in &found {
        printer::problem(&finding.to_string());
    }
    let docs_agree = no_docs || docs::run(true)?;
    if found.is_empty() {
        let rust = sources.len();
        printer::line(&format!(
            "tidy: {rust} Rust files, {} files in all, nothing to say",
            files.len()
        ));
    } else {
        printer::problem(&format!("tidy: {} to mend", found.len()));
    }
    Ok(found.is_empty() && docs_agree)
}
