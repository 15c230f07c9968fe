//! The program `mesh`.

use std::process::ExitCode;

use meshkeeper::program::{self, World};
use meshkeeper::{commands, wiring};

fn main() -> ExitCode {
    let world = World {
        connect: Some(commands::connect),
        ..World::machine(wiring::kinds())
    };
    ExitCode::from(program::run(std::env::args_os(), world))
}
