//! Writes the man pages of `mesh` and of each of its words into a folder; `cargo xtask docs` runs it.

use std::io::{Error, ErrorKind};
use std::path::Path;

fn main() -> Result<(), Error> {
    let folder = meshkeeper::settings::arguments().nth(1);
    let folder =
        folder.ok_or_else(|| Error::new(ErrorKind::InvalidInput, "usage: manpages FOLDER"))?;
    clap_mangen::generate_to(meshkeeper::cli::command(true), Path::new(&folder))
}
