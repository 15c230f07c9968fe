//! The program `mesh`.

use std::process::ExitCode;

use meshkeeper::manifest::Kinds;
use meshkeeper::program::{self, World};

fn main() -> ExitCode {
    // The catalogue goes in here; until it is there, no kind is known.
    let kinds = Kinds::new([]);
    ExitCode::from(program::run(std::env::args_os(), World::machine(kinds)))
}
