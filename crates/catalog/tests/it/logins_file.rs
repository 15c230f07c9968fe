//! What benches of the kinds that keep logins in a file do to it by hand.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use mesh_conformance::servers::{Result, ServerError};

pub(crate) const NO_SERVER: &str = "a file: there is no server and no connection";

/// A file, and how often it has changed.
pub(crate) struct LoginsFile {
    path: PathBuf,
    /// What it looked like when it was last counted, and how often it had changed by then.
    counted: Mutex<([i64; 5], u64)>,
}

impl LoginsFile {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self {
            path,
            counted: Mutex::default(),
        }
    }
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
    pub(crate) fn text(&self) -> Result<String> {
        match std::fs::read_to_string(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error.into()),
        }
    }
    /// Puts another text into the file that is there, as a person does: never twice in one second.
    pub(crate) fn write(&self, text: &str) -> Result<()> {
        let before = std::fs::metadata(&self.path).and_then(|data| data.modified());
        std::fs::write(&self.path, text)?;
        if let Ok(before) = before {
            let file = OpenOptions::new().write(true).open(&self.path)?;
            let later = before + Duration::from_secs(1);
            file.set_modified(file.metadata()?.modified()?.max(later))?;
        }
        Ok(())
    }
    /// Changes each line; one that becomes nothing goes.
    pub(crate) fn each_line(&self, change: impl Fn(&str) -> Option<String>) -> Result<()> {
        let lines: Vec<String> = self.text()?.lines().filter_map(change).collect();
        self.write(&(lines.join("\n") + "\n"))
    }
    /// Changes what follows the name in the lines of one login; one that becomes nothing goes.
    pub(crate) fn each_entry(
        &self,
        login: &str,
        change: impl Fn(&str) -> Option<String>,
    ) -> Result<()> {
        let start = format!("{login}:");
        self.each_line(|line| match line.strip_prefix(&start) {
            Some(rest) => change(rest).map(|rest| format!("{start}{rest}")),
            None => Some(line.to_owned()),
        })
    }
    pub(crate) fn exists(&self, login: &str) -> Result<bool> {
        let start = format!("{login}:");
        Ok(self.text()?.lines().any(|line| line.starts_with(&start)))
    }

    /// How often it was seen changed: its content, or the file itself.
    pub(crate) fn writes(&self) -> Result<u64> {
        let now = match std::fs::metadata(&self.path) {
            Ok(data) => {
                let inode = i64::try_from(data.ino()).unwrap_or(-1);
                let (changed, nanos) = (data.ctime(), data.ctime_nsec());
                [inode, data.mtime(), data.mtime_nsec(), changed, nanos]
            }
            Err(_) => [0; 5],
        };
        let mut counted = self
            .counted
            .lock()
            .map_err(|_| ServerError::new("poisoned"))?;
        if counted.0 != now {
            *counted = (now, counted.1 + 1);
        }
        Ok(counted.1)
    }
    /// The names and contents of all that lies in its folder.
    pub(crate) fn traces(&self) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(self.path.parent().unwrap_or(Path::new("/")))? {
            let path = entry?.path();
            all.extend(path.display().to_string().into_bytes());
            all.extend(std::fs::read(path)?);
        }
        Ok(all)
    }
}
