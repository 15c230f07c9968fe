//! The program from its arguments to its exit code: parse, settle, dispatch.

use std::ffi::OsString;

use crate::cli::{self, When};
use crate::commands::{self, Connect};
use crate::manifest::{Kinds, Machine, SecretSource};
use crate::printer::{Printer, Stream};
use crate::settings::{Environment, Process, Settings};

/// What a command runs in. The program runs in the machine's; tests have others.
pub struct World {
    /// The kinds of backend.
    pub kinds: Kinds,
    /// Where settings are read from.
    pub environment: Box<dyn Environment>,
    /// Where secrets are read from.
    pub secrets: Box<dyn SecretSource>,
    /// Standard output.
    pub out: Stream,
    /// Standard error.
    pub err: Stream,
    /// What `check --connect` does, if it is there.
    pub connect: Option<Connect>,
}

impl World {
    /// The machine's, with these kinds.
    pub fn machine(kinds: Kinds) -> Self {
        Self {
            kinds,
            environment: Box::new(Process),
            secrets: Box::new(Machine),
            out: Stream::stdout(),
            err: Stream::stderr(),
            connect: None,
        }
    }
}

/// Runs one command line, the program's name first; answers its exit code.
pub fn run(args: impl IntoIterator<Item = OsString>, world: World) -> u8 {
    let World {
        kinds,
        environment,
        secrets,
        out,
        err,
        connect,
    } = world;
    let cli = match cli::parse(args, connect.is_some()) {
        Ok(cli) => cli,
        Err(stop) => {
            let printer = Printer::new(out, err, When::Auto, environment.as_ref());
            printer.stop(&stop);
            return printer.finish(stop.exit_code);
        }
    };
    let when = cli.global.color.unwrap_or_default();
    let printer =
        Printer::new(out, err, when, environment.as_ref()).with(cli.global.json, cli.global.quiet);
    let daemon = matches!(cli.word, cli::Word::Up(_));
    let outcome =
        Settings::settle(&cli.global, daemon, environment.as_ref()).and_then(|settings| {
            let cx = commands::Context {
                settings: &settings,
                printer: &printer,
                kinds: &kinds,
                secrets: secrets.as_ref(),
                connect,
            };
            commands::dispatch(&cli.word, &cx)
        });
    let exit_code = outcome.unwrap_or_else(|fault| {
        printer.fault(&fault);
        fault.exit_code()
    });
    printer.finish(exit_code)
}
