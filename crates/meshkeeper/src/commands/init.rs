//! `mesh init`: a first manifest and the data folder, and nothing else.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use mesh_sdk::MeshId;
use serde::Serialize;

use super::Context;
use crate::cli::InitArgs;
use crate::errors::Fault;
use crate::manifest::KindInfo;

/// First halves of an id, so that two meshes are told apart by ear too.
const WORDS: [&str; 16] = [
    "alder", "aspen", "birch", "cedar", "elder", "fir", "hazel", "holly", "larch", "linden",
    "maple", "oak", "pine", "rowan", "spruce", "willow",
];

#[derive(Serialize)]
struct Answer<'a> {
    manifest: String,
    data: String,
    mesh: &'a str,
}

pub(super) fn run(args: &InitArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let id = args.id.clone().unwrap_or_else(|| unique_id(random()));
    let id = MeshId::new(&id).map_err(|error| Fault::Usage(error.to_string()))?;
    let (manifest, data) = (&cx.settings.manifest, &cx.settings.data);
    if manifest.try_exists().unwrap_or(false) {
        return Err(there_already(manifest));
    }
    make_private(data)?;
    write_new(manifest, &text(&id, example(cx)))?;
    if cx.printer.is_json() {
        cx.printer.json(&Answer {
            manifest: manifest.display().to_string(),
            data: data.display().to_string(),
            mesh: id.as_str(),
        });
        return Ok(0);
    }
    cx.printer.answer(&format!(
        "Wrote {} for the mesh `{id}`, and made the folder {}.\n\
         Next: say in {} what your consumers need, then `mesh check`, `mesh plan`, `mesh up`.",
        manifest.display(),
        data.display(),
        manifest.display(),
    ));
    Ok(0)
}

fn there_already(path: &Path) -> Fault {
    Fault::failed(
        format!("{} is there already; it was left as it is", path.display()),
        "`--config FILE` names another place",
    )
}

/// Writes a file that must not be there yet.
fn write_new(path: &Path, text: &str) -> Result<(), Fault> {
    let told = |error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => there_already(path),
        _ => Fault::failed(
            format!("{} cannot be written: {error}", path.display()),
            "look at the folder and its rights",
        ),
    };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(told)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(told)
}

/// Makes a folder that only its owner may enter; one that is there already must be so.
fn make_private(path: &Path) -> Result<(), Fault> {
    let told = |error: std::io::Error| {
        Fault::failed(
            format!("the data folder {} cannot be made: {error}", path.display()),
            "`--data DIR` names another place",
        )
    };
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let mode = std::fs::metadata(path).map_err(told)?.permissions().mode();
            match mode & 0o077 {
                0 => Ok(()),
                _ => Err(Fault::failed(
                    format!(
                        "the data folder {} can be entered by others",
                        path.display()
                    ),
                    format!("chmod 700 {}", path.display()),
                )),
            }
        }
        made => made.map_err(told),
    }
}

/// The one place where this word meets chance.
#[allow(
    clippy::disallowed_methods,
    reason = "an id must be unique, and is made once by a person's word"
)]
fn random() -> u64 {
    rand::random()
}

fn unique_id(random: u64) -> String {
    let word = WORDS[(random >> 60) as usize % WORDS.len()];
    format!("{word}-{:012x}", random & 0xffff_ffff_ffff)
}

/// The kind that the example in the manifest shows.
fn example<'c>(cx: &Context<'c>) -> Option<&'c KindInfo> {
    let kinds = cx.kinds;
    kinds
        .get("redis")
        .or_else(|| kinds.iter().next())
        .map(AsRef::as_ref)
}

/// What a consumer of the example needs: the usual keys of the kind that is known best, else all keys.
fn needs(kind: Option<&KindInfo>) -> String {
    match kind {
        Some(kind) if kind.descriptor.kind != "redis" => {
            let lines = kind.keys.iter().map(|key| format!("# {key} = ...\n"));
            lines.collect()
        }
        _ => "# keys     = [\"web:*\"]\n# commands = [\"+@read\", \"+@write\"]\n".to_owned(),
    }
}

fn text(id: &MeshId, kind: Option<&KindInfo>) -> String {
    let word = kind.map_or("redis", |kind| kind.descriptor.kind);
    let scheme = kind.and_then(|kind| kind.descriptor.schemes.first());
    let (scheme, port) = scheme.map_or(("redis", 6379), |s| (s.name, s.default_port));
    let needs = needs(kind);
    format!(
        r#"# What this mesh asks for. `mesh check` reads it without touching anything.

[mesh]
id  = "{id}"   # tells this mesh's logins from others'; do not change it later
bus = "embedded"              # shared state in the data folder, on this machine

# One table for each backend server. `mesh adapters` shows the kinds.
# [provider.cache]
# kind  = "{word}"
# url   = "{scheme}://127.0.0.1:{port}"
# admin = {{ user = "default", password = {{ env = "CACHE_ADMIN" }} }}   # or {{ file = "cache.admin" }}
# verify_every = "60s"        # how often each consumer is asked for

# One table for each consumer and what it needs; `mesh adapters {word}` explains the keys. The login is
# the consumer's name and the password is made for you, unless you say login = "..." or
# password = {{ file = "..." }}.
# [consumer.web.needs.cache]
{needs}"#
    )
}

#[cfg(test)]
mod tests {
    //! An id that was made is always a name.
    use super::*;

    #[test]
    fn a_made_id_is_a_name() {
        for random in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            assert!(MeshId::new(&unique_id(random)).is_ok());
        }
        assert_eq!(unique_id(0x1000_0000_0000_002a), "aspen-00000000002a");
    }
}
