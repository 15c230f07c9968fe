//! Real servers for the benchmarks: children on ports of this machine, killed when they are dropped.

use super::client::Client;
use super::stopwatch::{Stopwatch, pause};
use anyhow::{Result, bail, ensure};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server that keeps nothing on disk.
pub(super) struct Server {
    program: PathBuf,
    folder: PathBuf,
    pub(super) port: u16,
    child: Option<Child>,
}

impl Server {
    pub(super) fn start(program: &Path, folder: &Path) -> Result<Self> {
        let mut server = Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            port: free_port()?,
            child: None,
        };
        server.restart()?;
        Ok(server)
    }

    /// Kills it, starts it empty, and comes back when it takes a connection.
    pub(super) fn restart(&mut self) -> Result<()> {
        self.kill();
        let port = self.port.to_string();
        let settings = [
            "--port",
            &port,
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ];
        let child = Command::new(&self.program)
            .args(settings)
            .args([
                "--slowlog-log-slower-than",
                "1000",
                "--slowlog-max-len",
                "1024",
            ])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let child = self.child.insert(child);
        let watch = Stopwatch::start();
        while watch.read() < Duration::from_secs(20) {
            ensure!(
                child.try_wait()?.is_none(),
                "{} ended at once",
                self.program.display()
            );
            if Client::connect(self.port).is_ok() {
                return Ok(());
            }
            pause(1);
        }
        bail!("{} takes no connection", self.program.display())
    }

    pub(super) fn client(&self) -> Result<Client> {
        Client::connect(self.port)
    }

    /// The longest command since the last question, by the server's own account.
    pub(super) fn longest_command(&self) -> Result<(Duration, String)> {
        let mut client = self.client()?;
        client.send(&super::client::command(&[b"SLOWLOG", b"GET", b"1024"]))?;
        // Each entry: id, when, microseconds, the arguments, the address, the name.
        let (mut texts, mut longest) = (Vec::new(), (Duration::ZERO, String::new()));
        client.each(|text| texts.push(String::from_utf8_lossy(text).into_owned()))?;
        for at in 2..texts.len().saturating_sub(1) {
            let is_command = matches!(
                texts[at + 1].to_ascii_uppercase().as_str(),
                "ACL" | "AUTH" | "INFO"
            );
            let Ok(micros) = texts[at].parse() else {
                continue;
            };
            let took = Duration::from_micros(micros);
            if is_command && took > longest.0 && micros < 1_000_000_000 {
                let sub = texts.get(at + 2).cloned().unwrap_or_default();
                longest = (took, format!("{} {sub}", texts[at + 1]));
            }
        }
        client.ask(&[b"SLOWLOG", b"RESET"])?;
        Ok(longest)
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(super) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
