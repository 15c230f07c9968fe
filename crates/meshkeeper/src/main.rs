//! The program `mesh`.

use std::process::ExitCode;

use meshkeeper::program::{self, World};
use meshkeeper::{commands, settings, wiring};

/// glibc keeps what each thread's arena once needed: a third of the memory of a big mesh.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let world = World {
        connect: Some(commands::connect),
        ..World::machine(wiring::kinds())
    };
    ExitCode::from(program::run(settings::arguments(), world))
}
