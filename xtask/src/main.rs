//! Checks, generated documents and test servers of the workspace: `cargo xtask <word>`.

mod bench;
mod ci;
mod conformance;
mod docs;
mod printer;
mod root;
mod servers;
mod tidy;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The house-keeping of this workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    word: Word,
}

#[derive(Subcommand)]
enum Word {
    /// Run every gate: formatting, lints, tidy, generated documents, tests
    Ci {
        /// Leave the unit and integration tests to the caller
        #[arg(long)]
        no_tests: bool,
    },
    /// Check the walls between the crates, the budgets, the rule tests, the links
    Tidy {
        /// Leave out the comparison of docs/generated, which builds the program
        #[arg(long)]
        no_docs: bool,
    },
    /// Write docs/generated from the program's own words
    Docs {
        /// Write nothing; fail where a file differs from what would be written
        #[arg(long)]
        check: bool,
    },
    /// Measure the release build beside the raw limits of its servers; see docs/performance.md
    Bench(bench::Args),
    /// Say which servers the tests will use, and where they are
    Servers,
}

fn main() -> ExitCode {
    let done = match Args::parse().word {
        Word::Ci { no_tests } => ci::run(no_tests),
        Word::Tidy { no_docs } => tidy::run(no_docs),
        Word::Docs { check } => docs::run(check),
        Word::Bench(args) => bench::run(&args),
        Word::Servers => servers::run(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            printer::problem(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
