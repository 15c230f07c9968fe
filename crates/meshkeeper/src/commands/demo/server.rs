//! A private `redis-server` or `valkey-server`: on a free port of this machine, keeping nothing on disk.

use std::io::{ErrorKind, Write as _};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mesh_bus::mint;
use mesh_sdk::Secret;
use tokio::time::{Instant, sleep};

use super::wire::Wire;
use crate::errors::Fault;

/// Looked for on the path, in this order.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
/// How long a server may take to come up.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many ports are tried: another program may take a free one before the server does.
const PORTS: usize = 3;

/// A program that can be started.
pub(super) struct Program {
    name: &'static str,
    /// Product and version, for people.
    pub(super) title: String,
}

impl Program {
    pub(super) fn find() -> Result<Self, Fault> {
        PROGRAMS.into_iter().find_map(Self::ask).ok_or_else(|| {
            Fault::failed(
                "neither `redis-server` nor `valkey-server` is on the path, and the demo starts one",
                "install one: `apt-get install redis-server`, `dnf install valkey`, `apk add redis`, \
                 `brew install redis`; nothing else is needed, and no running server is touched",
            )
        })
    }

    fn ask(name: &'static str) -> Option<Self> {
        let told = Command::new(name).arg("--version").output().ok()?;
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let product = told.split_whitespace().next()?;
        let version = told
            .split_whitespace()
            .find_map(|word| word.strip_prefix("v="))?;
        let title = format!("{product} {version}");
        Some(Self { name, title })
    }
}

/// The server. It is killed by its process id when this is dropped.
pub(super) struct Server {
    program: Program,
    folder: PathBuf,
    /// The admin's password.
    pub(super) admin: Secret,
    /// Its port.
    pub(super) port: u16,
    child: Option<Child>,
}

impl Server {
    /// Starts one for the first time.
    pub(super) async fn first(program: Program, folder: &Path) -> Result<Self, Fault> {
        let admin = mint::password(mint::os_random)
            .map_err(|error| Fault::failed(error.to_string(), "this machine has no chance"))?;
        let mut server = Self {
            program,
            folder: folder.to_owned(),
            admin,
            port: 0,
            child: None,
        };
        let mut last = None;
        for _ in 0..PORTS {
            server.port = free_port()?;
            match server.start().await {
                Ok(_) => return Ok(server),
                Err(fault) => last = Some(fault),
            }
        }
        Err(last.unwrap_or_else(|| Fault::failed("no server came up", "try again")))
    }

    pub(super) fn title(&self) -> &str {
        &self.program.title
    }

    /// Starts it empty, and answers a connection at the first moment that it takes one.
    pub(super) async fn start(&mut self) -> Result<Wire, Fault> {
        self.kill();
        let child = self.child.insert(self.spawn()?);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Ok(Some(status)) = child.try_wait() {
                let what = format!("{} ended at once ({status})", self.program.name);
                return Err(Fault::failed(what, "run the demo again"));
            }
            match Wire::connect(self.port).await {
                Ok(wire) => return Ok(wire),
                Err(_) => sleep(Duration::from_millis(1)).await,
            }
        }
        let what = format!("{} takes no connection", self.program.name);
        Err(Fault::failed(what, "run the demo again"))
    }

    /// The settings go in by its standard input: no password is on a command line or on the disk.
    fn spawn(&self) -> Result<Child, Fault> {
        let name = self.program.name;
        let failed = |error: std::io::Error| {
            Fault::failed(format!("{name} does not start: {error}"), "install it anew")
        };
        let mut child = Command::new(name)
            .arg("-")
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let admin = self.admin.expose_str().unwrap_or_default();
        let settings = format!(
            "port {}\nbind 127.0.0.1\nsave \"\"\nappendonly no\ndaemonize no\nrequirepass {admin}\n",
            self.port
        );
        let told = child
            .stdin
            .take()
            .map(|mut stdin| stdin.write_all(settings.as_bytes()));
        match told {
            // One that ended early is told by who waits for it.
            Some(Err(error)) if error.kind() != ErrorKind::BrokenPipe => {
                let _ = child.kill();
                let _ = child.wait();
                Err(failed(error))
            }
            _ => Ok(child),
        }
    }

    /// SIGKILL: no word of warning, and nothing is kept.
    pub(super) fn kill(&mut self) {
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

fn free_port() -> Result<u16, Fault> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|error| {
        Fault::failed(
            format!("no port of this machine is free: {error}"),
            "look at the limits of this user",
        )
    })
}
