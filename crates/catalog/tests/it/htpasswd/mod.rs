//! Password files.

mod bench;
mod bulk;
mod files;
mod readers;
mod reverse;
mod suite;

use std::path::{Path, PathBuf};

use mesh_catalog::htpasswd::HtpasswdKind;
use mesh_sdk::Wish;
use mesh_sdk::provision::WishParts;
use serde_json::json;
use tempfile::TempDir;

use crate::wishes::wish_of;

type Ours = crate::ours::Ours<HtpasswdKind>;

/// A folder with the path of a file in it, which is not there yet, and the adapter for it.
fn in_folder() -> (TempDir, PathBuf, Ours) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("users");
    let ours = Ours::on(bench::settings(&path));
    (folder, path, ours)
}

fn wish(name: &str) -> Wish {
    wish_with(name, |_| ())
}

fn wish_with(name: &str, change: impl FnOnce(&mut WishParts)) -> Wish {
    wish_of(&HtpasswdKind, name, json!({ "cost": 5 }), change)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the file")
}
