//! The program `mesh`.

use std::process::ExitCode;

use meshkeeper::manifest::Kinds;
use meshkeeper::program::{self, World};
use meshkeeper::settings;

fn main() -> ExitCode {
    // The catalogue goes in here; until it is there, no kind is known.
    let kinds = Kinds::new([]);
    ExitCode::from(program::run(settings::arguments(), World::machine(kinds)))
}
