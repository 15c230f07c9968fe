//! A child process that does not outlive its owner.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Result, ServerError, until};

/// A running program, killed on drop.
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`; whatever it says goes to the end of `log`.
    pub(super) fn start(program: &Path, args: &[String], log: &Path) -> Result<Self> {
        Self::start_as(None, program, args, log)
    }
    /// The same as another user, by numbers; only root can.
    pub(super) fn start_as(
        user: Option<(u32, u32)>,
        program: &Path,
        args: &[String],
        log: &Path,
    ) -> Result<Self> {
        let append = || {
            std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(log)
        };
        let mut command = Command::new(program);
        if let Some((user, group)) = user {
            command.uid(user).gid(group);
        }
        let child = command
            .args(args)
            .stdin(Stdio::null())
            .stdout(append()?)
            .stderr(append()?)
            .spawn()
            .map_err(|error| ServerError::new(format!("start {}: {error}", program.display())))?;
        Ok(Self {
            child,
            log: log.to_owned(),
        })
    }
    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
    /// All that it said.
    pub(super) fn log(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
    /// How it ended, if it did.
    pub(super) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(status.to_string())
    }
    /// Waits until somebody listens at this socket. Errors: it ended before, or took too long.
    pub(super) async fn listens(&mut self, what: &str, socket: &Path) -> Result<()> {
        const WAIT: Duration = Duration::from_secs(30);
        until(&format!("an answer of {what}"), WAIT, || {
            let (ended, log) = (self.ended(), self.log());
            let connected = std::os::unix::net::UnixStream::connect(socket);
            async move {
                match ended {
                    Some(how) => Err(format!("it ended ({how}): {log}")),
                    None => connected.map(drop).map_err(|error| error.to_string()),
                }
            }
        })
        .await
    }
    /// Sends a signal.
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let id = id.ok_or_else(|| ServerError::new("no such process id"))?;
        kill_process(id, signal).map_err(|error| ServerError::new(error.to_string()))
    }
    /// Has it end by itself, children and all, and waits for that.
    pub(super) fn finish(&mut self, signal: Signal) {
        let _ = self.signal(Signal::CONT);
        if self.signal(signal).is_ok() {
            let _ = self.child.wait();
        }
    }
    /// Stops it, and waits until each of its threads stands still: on a busy machine some run on for a
    /// while after the signal.
    pub(super) async fn stop(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let tasks = PathBuf::from(format!("/proc/{}/task", self.pid()));
        until("the server to stand still", Duration::from_secs(10), || {
            let running = std::fs::read_dir(&tasks)
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok())
                .filter(|stat| {
                    !stat
                        .rsplit_once(") ")
                        .is_some_and(|(_, rest)| rest.starts_with('T'))
                })
                .count();
            async move {
                match running {
                    0 => Ok(()),
                    some => Err(format!("{some} threads run")),
                }
            }
        })
        .await
    }
    /// Waits for its end.
    pub(super) async fn wait(&mut self) -> Result<()> {
        until("the end of the server", Duration::from_secs(20), || {
            let ended = self.ended();
            async move { ended.map(|_| ()).ok_or_else(|| "running".to_owned()) }
        })
        .await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
