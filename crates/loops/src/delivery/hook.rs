//! Telling a consumer that its credentials changed: a program, a signal, a systemd unit.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use mesh_sdk::Secret;
use mesh_sdk::scrub::Scrubber;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// What a program says is kept up to so many bytes, for the message of its failure.
const KEPT: usize = 2_000;

/// How a consumer is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hook {
    /// A program with its arguments. Its exit code 0 means that the consumer was told.
    Command(Vec<String>),
    /// A signal to the process whose number stands in a file.
    Signal {
        /// Which.
        signal: Sign,
        /// The file.
        pid_file: PathBuf,
    },
    /// A systemd unit, reloaded or restarted.
    Unit {
        /// Its name.
        unit: String,
        /// `systemctl`'s verb.
        verb: Verb,
    },
}

/// The signals that services take for "read it again".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// SIGHUP.
    Hup,
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
    /// SIGTERM, for what is started again by whoever watches it.
    Term,
}

impl Sign {
    /// Every one.
    pub const ALL: [Sign; 4] = [Sign::Hup, Sign::Usr1, Sign::Usr2, Sign::Term];
    /// As the manifest names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Sign::Hup => "HUP",
            Sign::Usr1 => "USR1",
            Sign::Usr2 => "USR2",
            Sign::Term => "TERM",
        }
    }
    const fn signal(self) -> Signal {
        match self {
            Sign::Hup => Signal::HUP,
            Sign::Usr1 => Signal::USR1,
            Sign::Usr2 => Signal::USR2,
            Sign::Term => Signal::TERM,
        }
    }
}

/// What `systemctl` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// `reload`.
    Reload,
    /// `try-restart`: a unit that does not run stays so.
    Restart,
    /// `try-reload-or-restart`.
    ReloadOrRestart,
}

impl Verb {
    /// Every one.
    pub const ALL: [Verb; 3] = [Verb::Reload, Verb::Restart, Verb::ReloadOrRestart];
    /// As the manifest names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verb::Reload => "reload",
            Verb::Restart => "restart",
            Verb::ReloadOrRestart => "reload-or-restart",
        }
    }
    const fn word(self) -> &'static str {
        match self {
            Verb::Reload => "reload",
            Verb::Restart => "try-restart",
            Verb::ReloadOrRestart => "try-reload-or-restart",
        }
    }
}

/// Why a consumer was not told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookFault {
    /// The program cannot be started.
    #[error("`{0}` cannot be started: {1}")]
    NotStarted(String, String),
    /// It took too long, and was ended with what it had started.
    #[error("`{0}` did not end within {1} s, and was killed")]
    TooLong(String, u64),
    /// It says that it failed.
    #[error("`{0}` ended with {1}{2}")]
    Failed(String, String, String),
    /// Nobody can be signalled.
    #[error("{0}: {1}")]
    NoProcess(String, String),
}

impl Hook {
    /// Tells the consumer, within the deadline.
    pub async fn tell(&self, deadline: Duration, scrubber: &Scrubber) -> Result<(), HookFault> {
        match self {
            Hook::Command(words) => run(words, None, deadline, scrubber).await,
            Hook::Unit { unit, verb } => {
                let words = ["systemctl", "--no-ask-password", verb.word(), "--", unit];
                let words: Vec<String> = words.map(str::to_owned).to_vec();
                run(&words, None, deadline, scrubber).await
            }
            Hook::Signal { signal, pid_file } => signal_to(*signal, pid_file),
        }
    }
}

fn signal_to(sign: Sign, pid_file: &std::path::Path) -> Result<(), HookFault> {
    let fault = |why: String| HookFault::NoProcess(pid_file.display().to_string(), why);
    let text = std::fs::read_to_string(pid_file).map_err(|error| fault(error.to_string()))?;
    // 0, 1 and negative numbers mean others than one process of a service.
    let number = text
        .split_whitespace()
        .next()
        .and_then(|word| word.parse::<i32>().ok());
    let number = number.filter(|number| *number > 1).and_then(Pid::from_raw);
    let pid = number.ok_or_else(|| fault("it holds no number of a process".to_owned()))?;
    kill_process(pid, sign.signal()).map_err(|error| fault(error.to_string()))
}

/// Runs a program in a process group of its own, with `input` on its standard input. What it says is kept for
/// the message if it fails, without secrets.
pub async fn run(
    words: &[String],
    input: Option<&Secret>,
    deadline: Duration,
    scrubber: &Scrubber,
) -> Result<(), HookFault> {
    let Some((program, arguments)) = words.split_first() else {
        return Ok(());
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let started = command.spawn();
    let mut child = started.map_err(|e| HookFault::NotStarted(program.clone(), e.to_string()))?;
    let outcome = timeout(deadline, talk(&mut child, input)).await;
    let Ok((ended, said)) = outcome else {
        end_group(&child);
        let _ = child.wait().await;
        return Err(HookFault::TooLong(program.clone(), deadline.as_secs()));
    };
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let said = scrubber.scrub(said.trim()).replace('\n', " | ");
            let said = if said.is_empty() {
                said
            } else {
                format!(": {said}")
            };
            let status = match status.code() {
                Some(code) => code.to_string(),
                None => "a signal".to_owned(),
            };
            Err(HookFault::Failed(program.clone(), status, said))
        }
        Err(error) => Err(HookFault::NotStarted(program.clone(), error.to_string())),
    }
}

/// What it started may hold its standard error open for ever: after its end that is read for so long only.
const LAST_WORDS: Duration = Duration::from_secs(1);

async fn talk(
    child: &mut Child,
    input: Option<&Secret>,
) -> (std::io::Result<std::process::ExitStatus>, String) {
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let writing = async {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // One that does not want it says so by its exit code.
            let _ = stdin.write_all(input.expose()).await;
            let _ = stdin.shutdown().await;
        }
    };
    let (ends, ended) = oneshot::channel::<()>();
    let waiting = async {
        let status = child.wait().await;
        drop(ends);
        status
    };
    let reading = async {
        let mut said = Vec::new();
        let Some(mut stderr) = stderr else {
            return String::new();
        };
        let mut piece = [0; 1024];
        let mut over = std::pin::pin!(async {
            // It is dropped, and never sent.
            let _ = ended.await;
            sleep(LAST_WORDS).await;
        });
        loop {
            let read = tokio::select! {
                biased;
                read = stderr.read(&mut piece) => read.unwrap_or(0),
                () = &mut over => 0,
            };
            if read == 0 {
                return String::from_utf8_lossy(&said).into_owned();
            }
            let room = KEPT.saturating_sub(said.len());
            said.extend_from_slice(&piece[..read.min(room)]);
        }
    };
    let ((), status, said) = tokio::join!(writing, waiting, reading);
    (status, said)
}

fn end_group(child: &Child) {
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    //! Programs are run with deadlines, and what they say is told without secrets.
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn sh(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    #[tokio::test]
    async fn a_program_is_handed_its_input_and_told_by_its_exit_code() {
        let folder = tempfile::tempdir().expect("folder");
        let out = folder.path().join("out");
        let script = sh(&format!("cat > {}", out.display()));
        let input = Secret::from("kd83\n".repeat(100_000));
        let scrubber = Scrubber::default();
        run(&script, Some(&input), SOON, &scrubber)
            .await
            .expect("ended well");
        assert_eq!(std::fs::read(&out).expect("read"), input.expose());
        run(&sh("exec 0<&-; exit 0"), Some(&input), SOON, &scrubber)
            .await
            .expect("it need not read");
    }

    #[tokio::test]
    async fn s2_what_a_program_says_is_told_without_secrets() {
        let scrubber = Scrubber::default();
        scrubber.add(Secret::from("planted-7f3a-91"));
        let fault = run(
            &sh("echo it is planted-7f3a-91 >&2; exit 3"),
            None,
            SOON,
            &scrubber,
        )
        .await;
        let fault = fault.expect_err("it failed").to_string();
        assert!(
            fault.contains("ended with 3") && fault.contains("it is"),
            "{fault}"
        );
        assert!(!fault.contains("planted"), "{fault}");
    }

    #[tokio::test]
    async fn h9_one_that_hangs_is_ended_with_what_it_started() {
        let folder = tempfile::tempdir().expect("folder");
        let pid = folder.path().join("pid");
        let script = sh(&format!("sleep 600 & echo $! > {}; wait", pid.display()));
        let fault = run(&script, None, Duration::from_secs(1), &Scrubber::default()).await;
        assert_eq!(fault, Err(HookFault::TooLong("sh".to_owned(), 1)));
        let text = std::fs::read_to_string(&pid).expect("pid");
        let state = format!("/proc/{}/stat", text.trim());
        for _ in 0..100 {
            // Dead, or a zombie that nobody waited for yet.
            match std::fs::read_to_string(&state) {
                Ok(stat) if !stat.contains(") Z ") => {
                    tokio::time::sleep(Duration::from_millis(50)).await
                }
                _ => return,
            }
        }
        panic!("what it started lives on");
    }

    #[tokio::test]
    async fn a_signal_reaches_the_process_in_the_file_and_no_other() {
        let folder = tempfile::tempdir().expect("folder");
        let pid_file = folder.path().join("pid");
        let hook = Hook::Signal {
            signal: Sign::Term,
            pid_file: pid_file.clone(),
        };
        for wrong in ["", "0", "1", "-1", "x"] {
            std::fs::write(&pid_file, wrong).expect("write");
            let fault = hook.tell(SOON, &Scrubber::default()).await;
            assert!(matches!(fault, Err(HookFault::NoProcess(..))), "{wrong}");
        }
        let mut child = Command::new("sleep")
            .arg("600")
            .kill_on_drop(true)
            .spawn()
            .expect("sleep");
        std::fs::write(&pid_file, format!("{}\n", child.id().expect("id"))).expect("write");
        hook.tell(SOON, &Scrubber::default()).await.expect("told");
        let status = child.wait().await.expect("ended");
        assert_eq!(status.code(), None, "a signal ended it");
    }
}
