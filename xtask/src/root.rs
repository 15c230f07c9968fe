//! Where the workspace is, and the text files in it.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders (and, in a second worktree, the file `.git`) that hold nothing of ours.
const NOT_OURS: [&str; 5] = [".git", "target", ".servers", "mesh-data", "node_modules"];

/// One file of the repository.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// Path from the root, with `/` between the parts.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
}

impl File {
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// The last part of the path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// The root of the workspace this xtask was built in.
pub(crate) fn workspace() -> Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_path_buf)
        .context("xtask lies outside a workspace")
}

/// Every file under `root`, in the order of its path; what is not UTF-8 comes with an empty text.
pub(crate) fn files(root: &Path) -> Result<Vec<File>> {
    let mut found = Vec::new();
    walk(root, root, &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<File>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        let kind = entry.file_type()?;
        if NOT_OURS.iter().any(|skip| entry.file_name() == *skip) {
            continue;
        }
        if kind.is_dir() {
            walk(root, &path, found)?;
        } else if kind.is_file()
            && let Ok(short) = path.strip_prefix(root)
        {
            let bytes =
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            found.push(File {
                path: short.to_string_lossy().replace('\\', "/"),
                text: String::from_utf8(bytes).unwrap_or_default(),
            });
        }
    }
    Ok(())
}
