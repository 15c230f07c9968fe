//! The program under measurement: its manifest, its words, and what it uses.

use super::stopwatch::{Stopwatch, pause};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(600);

/// A folder with a manifest for one server.
pub(super) struct Subject {
    program: PathBuf,
    folder: PathBuf,
}

impl Subject {
    /// `commands` as the manifest has them: `"+@read", "+@write"`.
    pub(super) fn new(
        program: &Path,
        folder: &Path,
        port: u16,
        consumers: usize,
        commands: &str,
        verify_every: u64,
    ) -> Result<Self> {
        let mut text = format!(
            "[mesh]\nid = \"bench\"\n[provider.cache]\nkind = \"redis\"\nurl = \"redis://127.0.0.1:{port}\"\n\
             verify_every = \"{verify_every}s\"\n"
        );
        for n in 0..consumers {
            writeln!(
                text,
                "[consumer.app-{n:06}.needs.cache]\nkeys = [\"app-{n:06}:*\"]\ncommands = [{commands}]"
            )?;
        }
        Self::with(program, folder, &text)
    }

    /// With this manifest.
    pub(super) fn with(program: &Path, folder: &Path, manifest: &str) -> Result<Self> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("mesh.toml"), manifest)?;
        Ok(Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
        })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(args)
            .current_dir(&self.folder)
            .env_remove("MESH_LOG")
            .env_remove("RUST_LOG");
        command
    }

    /// Runs a word to its end: when its first byte came, when it ended, and what it said.
    pub(super) fn run(&self, args: &[&str]) -> Result<Ran> {
        let watch = Stopwatch::start();
        let log = fs::File::create(self.folder.join("run.log"))?;
        let mut child = self
            .command(args)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let mut out = child.stdout.take().context("no output")?;
        let mut said = vec![0; 64 * 1024];
        let got = out.read(&mut said)?;
        let first = watch.read();
        said.truncate(got);
        out.read_to_end(&mut said)?;
        let status = child.wait()?;
        let all = watch.read();
        // 3: not all is well, such as a server that keeps nothing.
        ensure!(
            matches!(status.code(), Some(0 | 3)),
            "`mesh {}` failed: {status}",
            args.join(" ")
        );
        Ok(Ran {
            first,
            all,
            said: String::from_utf8_lossy(&said).into_owned(),
        })
    }

    /// Starts `mesh up`, and waits until it serves its metrics.
    pub(super) fn up(&self) -> Result<Up> {
        let port = super::server::free_port()?;
        let log = fs::File::create(self.folder.join("up.log"))?;
        let listen = format!("127.0.0.1:{port}");
        let child = self
            .command(&["up", "--listen", &listen])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let mut up = Up { child, port };
        let watch = Stopwatch::start();
        while up.metrics().is_err() {
            ensure!(
                up.child.try_wait()?.is_none(),
                "`mesh up` ended; see up.log"
            );
            ensure!(watch.read() < PATIENCE, "`mesh up` serves no metrics");
            pause(20);
        }
        Ok(up)
    }
}

/// A word that ended.
pub(super) struct Ran {
    pub(super) first: Duration,
    pub(super) all: Duration,
    pub(super) said: String,
}

impl Ran {
    /// The pass on a provider that `apply` tells of: `cache: asked … in 123 ms`.
    pub(super) fn pass(&self, provider: &str) -> Option<Duration> {
        let of = |line: &str| {
            line.split_once(": ")
                .is_some_and(|(name, _)| name == provider)
        };
        let line = self.said.lines().find(|line| of(line))?;
        let millis = line.rsplit_once(" in ")?.1.strip_suffix(" ms")?;
        millis.parse().ok().map(Duration::from_millis)
    }
}

/// A running daemon; stopped when it is dropped.
pub(super) struct Up {
    child: Child,
    port: u16,
}

/// What the daemon counts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) passes: u64,
    pub(super) asked: u64,
    pub(super) applied: u64,
    /// All passes together.
    pub(super) total: Duration,
    /// The last one, where it was waited for.
    pub(super) took: Duration,
}

impl Counted {
    /// With how long a pass took since the last reading: the mean, where there were several.
    pub(super) fn after(mut self, last: Self) -> Self {
        let passes = u32::try_from(self.passes.saturating_sub(last.passes)).unwrap_or(u32::MAX);
        self.took = match passes {
            0 => last.took,
            passes => self.total.saturating_sub(last.total) / passes,
        };
        self
    }
}

impl Up {
    /// Where it listens.
    pub(super) fn port(&self) -> u16 {
        self.port
    }
    pub(super) fn metrics(&self) -> Result<Counted> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        // The daemon answers only under a name of this machine.
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        ensure!(text.starts_with("HTTP/1.0 200"), "no metrics");
        let of = |name: &str| -> f64 {
            let line = text
                .lines()
                .find(|line| line.starts_with(name) && line.contains('{'));
            let value = line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok());
            value.unwrap_or(0.0)
        };
        Ok(Counted {
            passes: of("mesh_passes_total") as u64,
            asked: of("mesh_looks_total") as u64,
            applied: of("mesh_applies_total") as u64,
            total: Duration::from_secs_f64(of("mesh_pass_duration_seconds_sum")),
            took: Duration::ZERO,
        })
    }

    /// The next pass after these that asked at least so many.
    pub(super) fn pass_after(&self, before: Counted, asked: usize) -> Result<Counted> {
        let watch = Stopwatch::start();
        let mut last = before;
        while watch.read() < PATIENCE {
            let now = self.metrics()?.after(last);
            if now.passes > last.passes {
                if now.asked - last.asked >= asked as u64 {
                    return Ok(now);
                }
                last = now;
            }
            pause(10);
        }
        bail!("no pass in time")
    }

    /// Resident memory now and at its highest, in bytes.
    pub(super) fn memory(&self) -> Result<(u64, u64)> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|l| l.trim().split(' ').next()?.parse::<u64>().ok());
            kib.unwrap_or(0) * 1024
        };
        Ok((of("VmRSS:"), of("VmHWM:")))
    }

    /// Processor time used so far.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields = stat.rsplit_once(')').context("no stat")?.1;
        let ticks: u64 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|t| t.parse::<u64>().ok())
            .sum();
        Ok(Duration::from_millis(ticks * 10))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        for _ in 0..1_000 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            pause(10);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
