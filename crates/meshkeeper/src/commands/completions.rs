//! `mesh completions`: a script for a shell, on standard output.

use super::Context;
use crate::cli::{self, CompletionsArgs};
use crate::errors::Fault;

pub(super) fn run(args: &CompletionsArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let mut command = cli::command(cx.connect.is_some());
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "mesh", &mut script);
    cx.printer.answer(&String::from_utf8_lossy(&script));
    Ok(0)
}
