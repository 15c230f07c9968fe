//! Servers as children of the bench: as another user where they refuse root, ended when they are dropped.

use super::super::stopwatch::{Stopwatch, pause};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running child.
pub(super) struct Running {
    child: Child,
    signal: &'static str,
}

impl Running {
    /// Starts a server; its words go to `log` in its folder. `signal` is what ends it with all its children.
    pub(super) fn start(
        command: &mut Command,
        folder: &Path,
        signal: &'static str,
    ) -> Result<Self> {
        let log = fs::File::create(folder.join("log"))?;
        let child = command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{command:?}"))?;
        Ok(Self { child, signal })
    }

    /// Waits until it answers.
    pub(super) fn wait_for(
        &mut self,
        seconds: u64,
        mut answers: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let watch = Stopwatch::start();
        loop {
            let Err(error) = answers() else { return Ok(()) };
            if let Some(status) = self.child.try_wait()? {
                bail!("a server ended at once: {status}");
            }
            let late = watch.read() > Duration::from_secs(seconds);
            ensure!(!late, "a server does not answer: {error:#}");
            pause(20);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args([self.signal, &pid]).status();
        for _ in 0..500 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            pause(20);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The user that a server's package made for it; none where the bench is not root.
pub(super) fn user(name: &str, folder: &Path) -> Result<Option<(u32, u32)>> {
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let line = users
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let line = line.with_context(|| format!("there is no user `{name}` to run a server as"))?;
    let mut numbers = line.split(':').skip(1).map(str::parse);
    let (Some(Ok(uid)), Some(Ok(gid))) = (numbers.next(), numbers.next()) else {
        bail!("no numbers of the user `{name}`");
    };
    chown(folder, Some(uid), Some(gid))?;
    Ok(Some((uid, gid)))
}

/// A command that runs as that user.
pub(super) fn command_as(program: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command
}

/// Runs a tool to its end.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(())
}
