//! The words, one file each.

mod adapters;
mod adopt;
mod agent;
mod apply;
mod approve;
mod asking;
mod bus;
mod check;
mod completions;
mod conditions;
mod conformance;
mod credentials;
mod demo;
mod doctor;
mod events;
mod explain;
mod import;
mod init;
mod loops;
mod monitor;
mod online;
mod plan;
mod purge;
mod reach;
mod ready;
mod retire;
mod rotate;
mod schema;
mod servers;
mod status;
mod task;
mod tasks;
mod up;
mod wait;
mod words;

use mesh_sdk::harness::declared;

use crate::cli::Word;
use crate::errors::Fault;
use crate::manifest::{self, Kinds, Manifest, ReadFault, SecretSource};
use crate::printer::Printer;
use crate::settings::Settings;
use crate::wiring::inventory;

/// What `check --connect` does once the manifest itself is in order: asks every provider, reads only,
/// prints what it finds, and answers the exit code.
pub type Connect = fn(&Context<'_>, &Manifest) -> Result<u8, Fault>;

/// What a command works with.
#[derive(Clone, Copy)]
pub struct Context<'c> {
    /// Options and variables, settled.
    pub settings: &'c Settings,
    /// The only way to say anything.
    pub printer: &'c Printer,
    /// The kinds of backend.
    pub kinds: &'c Kinds,
    /// Where secrets are read from.
    pub secrets: &'c dyn SecretSource,
    /// What `check --connect` does, if it is there.
    pub connect: Option<Connect>,
}

impl Context<'_> {
    /// Reads the manifest. Its mistakes are told on standard error; those that spoil single entries do
    /// not stop the command (H-3), those that spoil the whole do.
    pub fn manifest(&self) -> Result<Manifest, Fault> {
        let reading = manifest::read(&self.settings.manifest, self.kinds).map_err(unread)?;
        self.printer.problems_aside(&reading.problems);
        reading.manifest.ok_or(Fault::Manifest)
    }
    /// The manifest, if it can be used: for who only looks a name up in it.
    pub(crate) fn manifest_if_usable(&self) -> Option<Manifest> {
        let reading = manifest::read(&self.settings.manifest, self.kinds).ok()?;
        reading.manifest
    }
}

/// Why the file could not be read, with what to do.
pub(crate) fn unread(fault: ReadFault) -> Fault {
    let help = match &fault {
        ReadFault::Missing(_) => "`mesh init` writes one; `--config FILE` names another",
        ReadFault::Unreadable { .. } => "look at the file's rights and at the disk",
        ReadFault::NotText { .. } => "save it as UTF-8",
    };
    Fault::failed(fault.to_string(), help)
}

pub(crate) use adapters::words as abilities;
pub use doctor::check_connect as connect;
pub(crate) use status::ago;

/// Runs a word; answers its exit code.
pub fn dispatch(word: &Word, cx: &Context<'_>) -> Result<u8, Fault> {
    declared::declare_all(inventory::classes());
    match word {
        Word::Init(args) => init::run(args, cx),
        Word::Check(args) => check::run(args, cx),
        Word::Adapters(args) => adapters::run(args, cx),
        Word::Schema => schema::run(cx),
        Word::Completions(args) => completions::run(args, cx),
        Word::Rotate(args) => rotate::run(args, cx),
        Word::Retire(args) => retire::run(args, cx),
        Word::Purge(args) => purge::run(args, cx),
        Word::Wait(args) => wait::run(args, cx),
        Word::Task(word) => task::run(word, cx),
        Word::Tasks(args) => tasks::run(args, cx),
        Word::Import(args) => import::run(args, cx),
        Word::Bus(args) => bus::run(args, cx),
        Word::Agent(args) => agent::run(args, cx),
        Word::Conformance(args) => conformance::run(args, cx),
        Word::Demo => demo::run(cx),
        Word::Up(args) => up::run(args, cx),
        Word::Apply => apply::run(cx),
        Word::Plan => plan::run(cx),
        Word::Status(args) => status::run(args, cx),
        Word::Explain(args) => explain::run(args, cx),
        Word::Conditions(args) => conditions::run(args, cx),
        Word::Loops => loops::run(cx),
        Word::Events(args) => events::run(args, cx),
        Word::Doctor(args) => doctor::run(args, cx),
        Word::Credentials(args) => credentials::run(args, cx),
        Word::Adopt(args) => adopt::run(args, cx),
        Word::Approve(args) => approve::run(args, cx),
        Word::Ack(args) => words::about_condition(args, cx, false),
        Word::Silence(args) => words::about_condition(args, cx, true),
        Word::Pause(args) => words::pause(args, cx),
        Word::Resume(args) => words::resume(args, cx),
    }
}
