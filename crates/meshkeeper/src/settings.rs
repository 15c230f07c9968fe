//! What the program runs with: options over variables over defaults, settled once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cli::{GlobalArgs, LogFormat, When};
use crate::errors::Fault;

/// The manifest's path.
pub const MESH_CONFIG: &str = "MESH_CONFIG";
/// The data folder.
pub const MESH_DATA: &str = "MESH_DATA";
/// What to log: a level, or `target=level` pairs. `RUST_LOG` is read where this is not set.
pub const MESH_LOG: &str = "MESH_LOG";
/// How log lines look: `human` or `json`.
pub const MESH_LOG_FORMAT: &str = "MESH_LOG_FORMAT";
/// What this host is called on a bus that several share; its own name where this is not set.
pub const MESH_HOST: &str = "MESH_HOST";
/// Where a service manager hears that the daemon is ready and alive; set by it.
pub const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
/// Set to anything but nothing: no colours.
pub const NO_COLOR: &str = "NO_COLOR";

const RUST_LOG: &str = "RUST_LOG";
const TERM: &str = "TERM";

/// Answers variables. The program has the process's own; tests have others.
pub trait Environment {
    /// A variable that is set and not empty.
    fn variable(&self, name: &str) -> Option<OsString>;
}

/// No variables.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl Environment for Nothing {
    fn variable(&self, _: &str) -> Option<OsString> {
        None
    }
}

/// The process's variables.
#[derive(Debug, Clone, Copy, Default)]
pub struct Process;

impl Environment for Process {
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place where settings read variables"
    )]
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name).filter(|value| !value.is_empty())
    }
}

/// The process's arguments, its own name first.
pub fn arguments() -> impl Iterator<Item = OsString> {
    std::env::args_os()
}

/// What to log, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// A level, or `target=level` pairs.
    pub filter: String,
    /// How lines look.
    pub format: LogFormat,
}

/// Everything that the command line and the variables say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The manifest.
    pub manifest: PathBuf,
    /// The data folder.
    pub data: PathBuf,
    /// Answer as JSON.
    pub json: bool,
    /// Say nothing but the answer and errors.
    pub quiet: bool,
    /// Logging.
    pub log: LogSettings,
    /// What this host is called on a bus that several share.
    pub host: String,
    /// Where a service manager listens.
    pub notify: Option<OsString>,
}

impl Settings {
    /// Settles them. `daemon`: without a word about it, a daemon logs what happens and a command only
    /// what is wrong.
    pub fn settle(
        global: &GlobalArgs,
        daemon: bool,
        from: &dyn Environment,
    ) -> Result<Self, Fault> {
        let path = |flag: &Option<PathBuf>, name: &str| {
            flag.clone()
                .or_else(|| from.variable(name).map(PathBuf::from))
        };
        let manifest = path(&global.config, MESH_CONFIG).unwrap_or_else(|| "mesh.toml".into());
        if manifest.as_os_str().is_empty() {
            return Err(Fault::Usage("`--config` names no file".to_owned()));
        }
        let data = path(&global.data, MESH_DATA).unwrap_or_else(|| beside(&manifest, "mesh-data"));
        if data.as_os_str().is_empty() {
            return Err(Fault::Usage("`--data` names no folder".to_owned()));
        }
        Ok(Self {
            data,
            manifest,
            json: global.json,
            quiet: global.quiet,
            log: LogSettings {
                filter: log_filter(global, daemon, from)?,
                format: log_format(global, from)?,
            },
            host: match text(from, MESH_HOST)? {
                Some(name) => name,
                None => own_name(),
            },
            notify: from.variable(NOTIFY_SOCKET),
        })
    }
}

/// The host's name, as its kernel says.
fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "unnamed".to_owned(),
        name => name.to_owned(),
    }
}

fn beside(manifest: &Path, name: &str) -> PathBuf {
    manifest.parent().unwrap_or(Path::new("")).join(name)
}

fn text(from: &dyn Environment, name: &str) -> Result<Option<String>, Fault> {
    let value = from.variable(name).map(OsString::into_string).transpose();
    value.map_err(|_| Fault::Usage(format!("the variable {name} is not UTF-8")))
}

fn log_filter(global: &GlobalArgs, daemon: bool, from: &dyn Environment) -> Result<String, Fault> {
    let level = match (global.quiet, global.verbose) {
        (true, _) => "error",
        (false, 0) => {
            let given = match text(from, MESH_LOG)? {
                Some(given) => Some(given),
                None => text(from, RUST_LOG)?,
            };
            return Ok(given.unwrap_or_else(|| if daemon { "info" } else { "warn" }.to_owned()));
        }
        (false, 1) => "info",
        (false, 2) => "debug",
        (false, _) => "trace",
    };
    Ok(level.to_owned())
}

fn log_format(global: &GlobalArgs, from: &dyn Environment) -> Result<LogFormat, Fault> {
    if let Some(format) = global.log_format {
        return Ok(format);
    }
    match text(from, MESH_LOG_FORMAT)?.as_deref() {
        None | Some("human") => Ok(LogFormat::Human),
        Some("json") => Ok(LogFormat::Json),
        Some(_) => Err(Fault::Usage(format!(
            "the variable {MESH_LOG_FORMAT} must be `human` or `json`"
        ))),
    }
}

/// Whether a stream gets colours.
pub fn colours(when: When, is_terminal: bool, from: &dyn Environment) -> bool {
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto => {
            let dumb = from.variable(TERM).is_some_and(|term| term == "dumb");
            is_terminal && !dumb && from.variable(NO_COLOR).is_none()
        }
    }
}

#[cfg(test)]
mod tests {
    //! Options win over variables, variables over defaults.
    use super::*;
    use std::collections::HashMap;

    impl Environment for HashMap<&str, &str> {
        fn variable(&self, name: &str) -> Option<OsString> {
            self.get(name).filter(|v| !v.is_empty()).map(OsString::from)
        }
    }

    #[test]
    fn options_win_over_variables_and_variables_over_defaults() {
        let none = HashMap::new();
        let settled = Settings::settle(&GlobalArgs::default(), false, &none).expect("settings");
        assert_eq!(settled.manifest, Path::new("mesh.toml"));
        assert_eq!(settled.data, Path::new("mesh-data"));
        assert_eq!(settled.log.filter, "warn");

        let set = HashMap::from([
            (MESH_CONFIG, "/etc/mesh/home.toml"),
            (MESH_LOG, "mesh=debug"),
            (RUST_LOG, "trace"),
            (MESH_LOG_FORMAT, "json"),
        ]);
        let settled = Settings::settle(&GlobalArgs::default(), true, &set).expect("settings");
        assert_eq!(settled.data, Path::new("/etc/mesh/mesh-data"));
        assert_eq!(settled.log.filter, "mesh=debug");
        assert_eq!(settled.log.format, LogFormat::Json);

        let flags = GlobalArgs {
            config: Some("x/y.toml".into()),
            verbose: 2,
            log_format: Some(LogFormat::Human),
            ..GlobalArgs::default()
        };
        let settled = Settings::settle(&flags, true, &set).expect("settings");
        assert_eq!(settled.manifest, Path::new("x/y.toml"));
        assert_eq!(settled.data, Path::new("x/mesh-data"));
        assert_eq!(
            (settled.log.filter.as_str(), settled.log.format),
            ("debug", LogFormat::Human)
        );
        let wrong = HashMap::from([(MESH_LOG_FORMAT, "xml")]);
        assert!(Settings::settle(&GlobalArgs::default(), true, &wrong).is_err());
    }

    #[test]
    fn colours_are_for_terminals_and_honour_no_color() {
        let (none, no) = (HashMap::new(), HashMap::from([(NO_COLOR, "1")]));
        assert!(colours(When::Auto, true, &none));
        assert!(!colours(When::Auto, false, &none));
        assert!(!colours(When::Auto, true, &no));
        assert!(!colours(When::Auto, true, &HashMap::from([(TERM, "dumb")])));
        assert!(colours(When::Always, false, &no));
        assert!(!colours(When::Never, true, &none));
    }
}
