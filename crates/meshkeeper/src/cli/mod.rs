//! What a person types: the shapes of all words and their help. What it means is settled elsewhere.

mod help;
mod reach;
mod words;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{
    ArgAction, Args, ColorChoice, Command, CommandFactory, FromArgMatches, Parser, ValueEnum,
};

use crate::errors::EXIT_USAGE;

pub use reach::ReachArgs;
pub use words::*;

/// Keeps every consumer of a mesh provisioned in every backend that it needs: by asking the backend,
/// for ever.
#[derive(Debug, Clone, Parser)]
#[command(name = "mesh", version, disable_help_subcommand = true)]
pub struct Cli {
    /// What goes with every word.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub word: Word,
}

/// The options that go with every word.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options for every word")]
pub struct GlobalArgs {
    /// The manifest [default: mesh.toml; variable: MESH_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data folder: the store and the sealed secrets [default: mesh-data beside the manifest; variable: MESH_DATA]
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Answer as JSON, for programs; times are RFC 3339
    #[arg(long, global = true)]
    pub json: bool,
    /// Colours: auto, always or never; auto is on a terminal, and not with NO_COLOR set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        hide_possible_values = true
    )]
    pub color: Option<When>,
    /// Log more, on standard error: -v what happens, -vv why, -vvv everything
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,
    /// Say nothing but the answer and errors
    #[arg(long, global = true)]
    pub quiet: bool,
    /// How log lines look: human or json [default: human; variable: MESH_LOG_FORMAT]
    #[arg(
        long,
        global = true,
        value_name = "FORM",
        value_enum,
        hide_possible_values = true
    )]
    pub log_format: Option<LogFormat>,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// Parsing ended the program: help was asked for, or the words make no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// What to tell, plain and with colours.
    pub text: String,
    /// The same with colours.
    pub coloured: String,
    /// It is an answer (help, version) and belongs on standard output.
    pub is_answer: bool,
    /// 0, or 64 for a usage error.
    pub exit_code: u8,
}

/// The command as clap knows it. `connect`: whether `check --connect` is there.
pub fn command(connect: bool) -> Command {
    let command = Cli::command().color(ColorChoice::Never).max_term_width(100);
    help::dress(command, connect)
}

/// Parses the program's arguments, the program's name first.
pub fn parse(args: impl IntoIterator<Item = OsString>, connect: bool) -> Result<Cli, Stop> {
    command(connect)
        .try_get_matches_from(args)
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(|error| stop(&error))
}

fn stop(error: &clap::Error) -> Stop {
    let is_answer = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    let text = error.render();
    Stop {
        text: text.to_string(),
        coloured: text.ansi().to_string(),
        is_answer,
        exit_code: if is_answer { 0 } else { EXIT_USAGE },
    }
}
