//! Runs whole command lines: in this process with the tests' own kind, or as the built program.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use meshkeeper::manifest::SecretSource;
use meshkeeper::printer::Stream;
use meshkeeper::program::{World, run};
use meshkeeper::settings::Environment;

/// Variables, for settings and secrets both.
#[derive(Clone, Default)]
pub(crate) struct Variables(HashMap<String, String>);

impl Variables {
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
        Self(
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        )
    }
}
impl Environment for Variables {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.0
            .get(name)
            .filter(|v| !v.is_empty())
            .map(OsString::from)
    }
}
impl SecretSource for Variables {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.0.get(name).map(OsString::from)
    }
    fn file(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        std::fs::read(path)
    }
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);
impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("kept").extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
impl Kept {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("kept").clone()).expect("text")
    }
}

/// What a command did.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// All of it as one text for a snapshot, with the folder's path replaced.
    pub(crate) fn whole(&self, folder: &Path) -> String {
        let text = format!(
            "exit {}\n── stdout\n{}── stderr\n{}",
            self.code, self.out, self.err
        );
        text.replace(folder.to_str().expect("path"), "[FOLDER]")
    }
}

/// Runs in this process, with the kind `shelf`.
pub(crate) fn mesh_with(variables: &Variables, folder: &Path, args: &[&str]) -> Ran {
    let (out, err) = (Kept::default(), Kept::default());
    let world = World {
        kinds: crate::manifest::kinds(),
        environment: Box::new(variables.clone()),
        secrets: Box::new(variables.clone()),
        out: Stream::new(out.clone()),
        err: Stream::new(err.clone()),
        connect: None,
    };
    let config = folder.join("mesh.toml");
    let base = ["mesh".into(), "--config".into(), config.into_os_string()];
    let args = base.into_iter().chain(args.iter().map(OsString::from));
    let code = i32::from(run(args, world));
    Ran {
        code,
        out: out.text(),
        err: err.text(),
    }
}

/// Runs in this process, without variables.
pub(crate) fn mesh(folder: &Path, args: &[&str]) -> Ran {
    mesh_with(&Variables::default(), folder, args)
}

/// Runs the built program in a folder.
pub(crate) fn built(folder: &Path, args: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_mesh"))
        .args(args)
        .current_dir(folder)
        .env_clear()
        .output()
        .expect("the program runs");
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}
