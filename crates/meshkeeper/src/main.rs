//! The program `mesh`.

use std::process::ExitCode;

use meshkeeper::program::{self, World};
use meshkeeper::{commands, settings, wiring};

fn main() -> ExitCode {
    let world = World {
        connect: Some(commands::connect),
        ..World::machine(wiring::kinds())
    };
    ExitCode::from(program::run(settings::arguments(), world))
}
