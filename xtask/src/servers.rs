//! `cargo xtask servers`: which real servers the tests will use, and where they are.

use crate::{printer, root};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server that the tests start, as the script that installs it says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    name: String,
    /// Names a program to use instead.
    variable: String,
    /// How its version begins.
    version: String,
    /// Where it lies under the root, or what it is called on the PATH.
    place: String,
}

/// What begins a line that says one.
const SAYS: &str = "# server: ";

/// The scripts, and all that they say.
fn wanted(root: &Path) -> Result<Vec<Wanted>> {
    let scripts = root.join("scripts/lib");
    let mut files = vec![scripts.join("setup.sh")];
    let mut more: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(scripts.join("servers"))? {
        more.push(entry?.path());
    }
    more.sort();
    files.extend(more);
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        for line in text.lines().filter_map(|line| line.strip_prefix(SAYS)) {
            let said = said(line);
            all.push(said.with_context(|| format!("{}: `{SAYS}{line}`", file.display()))?);
        }
    }
    Ok(all)
}

/// `name | VARIABLE | version | place`.
fn said(line: &str) -> Option<Wanted> {
    let parts: Vec<String> = line.split('|').map(|part| part.trim().to_owned()).collect();
    match <[String; 4]>::try_from(parts) {
        Ok([name, variable, version, place]) if !place.is_empty() => Some(Wanted {
            name,
            variable,
            version,
            place,
        }),
        _ => None,
    }
}

/// Prints one line a server; gives whether all are there.
#[expect(
    clippy::disallowed_methods,
    reason = "the tests' variables are the only settings xtask has"
)]
pub(crate) fn run() -> Result<bool> {
    let root = root::workspace()?;
    let mut all = true;
    for wanted in wanted(&root)? {
        let named = std::env::var_os(&wanted.variable);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = candidates(&wanted, &root, named, &path)
            .into_iter()
            .find(|p| p.is_file());
        let version = program.as_deref().and_then(ask);
        let (fine, line) = judge(&wanted, program.as_deref(), version.as_deref());
        all &= fine;
        printer::line(&line);
    }
    if !all {
        printer::problem("scripts/test installs what is missing");
    }
    Ok(all)
}

/// The program of a wanted server, and its version.
#[expect(
    clippy::disallowed_methods,
    reason = "the tests' variables are the only settings xtask has"
)]
pub(crate) fn found(root: &Path, name: &str) -> Result<(PathBuf, String)> {
    let all = wanted(root)?;
    let wanted = all.iter().find(|wanted| wanted.name == name);
    let wanted = wanted.with_context(|| format!("no server is called {name}"))?;
    let named = std::env::var_os(&wanted.variable);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = candidates(wanted, root, named, &path).into_iter();
    let told = all.filter_map(|program| ask(&program).map(|version| (program, version)));
    let mut right = told.filter(|(_, version)| version.starts_with(&wanted.version));
    right
        .next()
        .with_context(|| format!("{name} is missing; scripts/test installs it"))
}

/// Where to look, in order; a named program leaves no other choice.
fn candidates(
    wanted: &Wanted,
    root: &Path,
    named: Option<OsString>,
    path: &OsString,
) -> Vec<PathBuf> {
    if let Some(named) = named.filter(|n| !n.is_empty()) {
        return vec![PathBuf::from(named)];
    }
    let place = wanted.place.as_str();
    if place.starts_with('/') || place.starts_with(".servers/") {
        return vec![root.join(place)];
    }
    let mut places: Vec<PathBuf> = std::env::split_paths(path)
        .map(|folder| folder.join(place))
        .collect();
    places.extend(["/usr/bin", "/usr/sbin"].map(|folder| Path::new(folder).join(place)));
    places
}

fn ask(program: &Path) -> Option<String> {
    if let Some(version) = version_of(&program.canonicalize().ok()?) {
        return Some(version);
    }
    ["--version", "-v", "-VV"].iter().find_map(|word| {
        let output = Command::new(program).arg(word).output().ok()?;
        let told = [output.stdout, output.stderr].concat();
        version_in(&String::from_utf8_lossy(&told))
    })
}

/// The version in a line such as `Redis server v=7.0.15 sha=…`, `mariadbd  Ver 10.11.19-MariaDB for …`,
/// `nginx version: nginx/1.22.1`, `Python 3.11.2` or `v20.1.0`.
fn version_in(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    let named = words.clone().find_map(|word| word.strip_prefix("v="));
    let is_version =
        |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    let bare = || {
        words.find_map(|word| {
            let word = word.rsplit('/').next().unwrap_or(word);
            Some(word.trim_start_matches('v')).filter(is_version)
        })
    };
    named.or_else(bare).map(str::to_owned)
}

/// The version in the name of a folder such as `rabbitmq_server-3.10.8`: whoever asks that program starts
/// a server.
fn version_of(program: &Path) -> Option<String> {
    let names = program.iter().filter_map(|name| name.to_str());
    let mut versions = names.filter_map(|name| name.strip_prefix("rabbitmq_server-"));
    versions.next().map(str::to_owned)
}

fn judge(wanted: &Wanted, program: Option<&Path>, version: Option<&str>) -> (bool, String) {
    let Wanted { name, variable, .. } = wanted;
    match (program, version) {
        (None, _) => (false, format!("{name}: missing ({variable} may name one)")),
        (Some(at), None) => (
            false,
            format!("{name}: {} does not tell its version", at.display()),
        ),
        (Some(at), Some(v)) if v.starts_with(wanted.version.as_str()) => {
            (true, format!("{name}: {v} at {}", at.display()))
        }
        (Some(at), Some(v)) => (false, format!("{name}: {} is version {v}", at.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_a_server_says() {
        let said = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64";
        assert_eq!(version_in(said).as_deref(), Some("7.0.15"));
        let said = "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64";
        assert_eq!(
            version_in(said).as_deref(),
            Some("10.11.19-MariaDB-0+deb12u1")
        );
        let said = version_in("nginx version: nginx/1.22.1");
        assert_eq!(said.as_deref(), Some("1.22.1"));
        assert_eq!(version_in("Redis server"), None);
        let said = "etcd Version: 3.4.23\nGit SHA: Not provided (use ./build instead of go build)";
        assert_eq!(version_in(said).as_deref(), Some("3.4.23"));
        let program =
            Path::new("/usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8/sbin/rabbitmq-server");
        assert_eq!(version_of(program).as_deref(), Some("3.10.8"));
        assert_eq!(version_of(Path::new("/usr/bin/rabbitmq-server")), None);
        assert_eq!(version_in("Python 3.11.2").as_deref(), Some("3.11.2"));
        assert_eq!(version_in("v20.1.0").as_deref(), Some("20.1.0"));
        let said = "nats-server: v2.15.1";
        assert_eq!(version_in(said).as_deref(), Some("2.15.1"));
        let said = "mosquitto version 2.0.11\n\nmosquitto is an MQTT v5.0/v3.1.1/v3.1 broker.";
        assert_eq!(version_in(said).as_deref(), Some("2.0.11"));
        let said = "@(#) $OpenLDAP: slapd 2.5.13+dfsg-5 (Feb  8 2023 01:56:12) $";
        assert_eq!(version_in(said).as_deref(), Some("2.5.13+dfsg-5"));
        let said = "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)";
        assert_eq!(version_in(said).as_deref(), Some("15.18"));
    }

    fn redis() -> Wanted {
        said("Redis 7 | REDIS_7 | 7. | redis-server").expect("four parts")
    }

    #[test]
    fn each_script_says_what_it_installs() {
        let all = wanted(&root::workspace().expect("a root")).expect("the scripts");
        assert!(all.len() > 15, "{all:?}");
        assert!(all.iter().all(|one| one.variable.starts_with("MESH_TEST_")));
        assert_eq!((said("a | b | c"), said("a | b | c |")), (None, None));
        assert_eq!(said("Node | N | | node").expect("any version").version, "");
    }

    #[test]
    fn only_the_wanted_version_is_fine() {
        let at = Some(Path::new("x"));
        let redis = redis();
        assert!(judge(&redis, at, Some("7.0.15")).0);
        assert!(!judge(&redis, at, Some("8.0.0")).0);
        assert!(!judge(&redis, at, None).0);
        assert!(!judge(&redis, None, None).0);
    }

    #[test]
    fn a_named_program_leaves_no_other_choice() {
        let root = Path::new("r");
        let path = OsString::from("a:b");
        let redis = redis();
        let named = candidates(&redis, root, Some(OsString::from("mine")), &path);
        assert_eq!(named, [PathBuf::from("mine")]);
        let found = candidates(&redis, root, None, &path);
        assert_eq!(found[0], Path::new("a").join("redis-server"));
        assert_eq!(found.len(), 4);
        let inside = said("V | V | 9. | .servers/v/valkey").expect("four parts");
        let found = candidates(&inside, root, None, &path);
        assert_eq!(found, [root.join(".servers/v/valkey")]);
    }
}
