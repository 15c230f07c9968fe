//! MariaDB servers.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::process::Process;
use super::{Program, Result, ServerError, TlsFiles, free_port, until};

const NAME: &str = "MariaDB 10.11";
const SERVER: Program = Program {
    variable: "MESH_TEST_MARIADB",
    installed: None,
    on_path: Some("mariadbd"),
};
const CLIENT: Program = Program {
    variable: "MESH_TEST_MARIADB_CLIENT",
    installed: None,
    on_path: Some("mariadb"),
};
const INSTALLER: Program = Program {
    variable: "MESH_TEST_MARIADB_INSTALL",
    installed: None,
    on_path: Some("mariadb-install-db"),
};

/// How to start it.
#[derive(Debug, Clone, Default)]
pub struct MariadbOptions {
    /// Offer TLS, on the same port.
    pub tls: Option<TlsFiles>,
    /// Further options, as on its command line.
    pub options: Vec<String>,
}

/// A running server. `root` has no password on its socket.
pub struct MariadbServer {
    options: MariadbOptions,
    port: u16,
    folder: TempDir,
    process: Option<Process>,
}

impl MariadbServer {
    /// Makes an empty server and waits until it answers.
    pub async fn start(options: MariadbOptions) -> Result<Self> {
        let server = Self {
            options,
            port: free_port()?,
            folder: tempfile::tempdir()?,
            process: None,
        };
        server.install().await?;
        server.started().await
    }

    /// A second server that begins with the data of another one, which must not run now.
    pub async fn with_data_of(other: &Self, options: MariadbOptions) -> Result<Self> {
        let server = Self {
            options,
            port: free_port()?,
            folder: tempfile::tempdir()?,
            process: None,
        };
        server.own(server.folder.path())?;
        let copied = Command::new("cp")
            .arg("-a")
            .arg(other.data())
            .arg(server.data())
            .output();
        must("copy the data", copied.await?)?;
        server.started().await
    }

    async fn started(mut self) -> Result<Self> {
        let mut last = ServerError::new("not tried");
        for _ in 0..5 {
            match self.start_again().await {
                Ok(()) => return Ok(self),
                Err(error) => last = error,
            }
            // Somebody else may have taken the port meanwhile.
            self.port = free_port()?;
        }
        Err(last)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
    /// All that it wrote to its log, over all its starts.
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::log).unwrap_or_default()
    }
    /// Every statement that it was sent, where the options ask for it by `--general-log`.
    pub fn statements(&self) -> Vec<u8> {
        std::fs::read(self.data().join("general.log")).unwrap_or_default()
    }
    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Makes the server's own tables. As root the server runs as the user that its package made.
    async fn install(&self) -> Result<()> {
        self.own(self.folder.path())?;
        let mut command = Command::new(INSTALLER.find(NAME)?);
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={}", self.data().display()))
            // Servers that start together would take each other's files away.
            .arg(format!("--tmpdir={}", self.folder.path().display()))
            .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
            .args(user());
        must("make a server's tables", command.output().await?)?;
        Ok(())
    }

    fn own(&self, folder: &Path) -> Result<()> {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
        if let Some((uid, gid)) = server_user() {
            chown(folder, Some(uid), Some(gid))?;
        }
        Ok(())
    }

    /// Starts it on its port and folder, and waits until it answers.
    pub async fn start_again(&mut self) -> Result<()> {
        let program = SERVER.find(NAME)?;
        let log = self.folder.path().join("log");
        self.process = Some(Process::start(&program, &self.arguments(), &log)?);
        let (client, socket) = (CLIENT.find(NAME)?, self.socket());
        let process = &mut self.process;
        until("an answer of the server", Duration::from_secs(30), || {
            let ended = process.as_mut().and_then(Process::ended);
            let log = process.as_ref().map(Process::log).unwrap_or_default();
            let (client, socket) = (client.clone(), socket.clone());
            async move {
                if let Some(how) = ended {
                    return Err(format!("it ended ({how}): {log}"));
                }
                let answer = ask(&client, &socket, "SELECT 1").await;
                answer.map(|_| ()).map_err(|error| error.to_string())
            }
        })
        .await
    }

    fn arguments(&self) -> Vec<String> {
        let mut all = vec![
            "--no-defaults".to_owned(),
            format!("--datadir={}", self.data().display()),
            format!("--port={}", self.port),
            format!("--socket={}", self.socket().display()),
            format!("--pid-file={}", self.folder.path().join("pid").display()),
            format!("--tmpdir={}", self.folder.path().display()),
            "--bind-address=127.0.0.1".to_owned(),
            "--general-log-file=general.log".to_owned(),
            "--innodb-buffer-pool-size=16M".to_owned(),
            "--innodb-flush-log-at-trx-commit=0".to_owned(),
        ];
        all.extend(user());
        if let Some(tls) = &self.options.tls {
            all.push(format!("--ssl-cert={}", tls.certificate.display()));
            all.push(format!("--ssl-key={}", tls.key.display()));
        }
        all.extend(self.options.options.iter().cloned());
        all
    }

    /// Carries statements out as root over the socket; gives back what a plain client prints.
    pub async fn sql(&self, statements: &str) -> Result<String> {
        ask(&CLIENT.find(NAME)?, &self.socket(), statements).await
    }

    /// Whether these let somebody in over TCP, by the server's own client.
    pub async fn lets_in(&self, login: &str, password: &str) -> Result<bool> {
        let output = Command::new(CLIENT.find(NAME)?)
            .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1"])
            .args(["--default-character-set=utf8mb4", "--batch"])
            .arg(format!("--port={}", self.port))
            .arg(format!("--user={login}"))
            .arg(format!("--password={password}"))
            .arg("--execute=DO 1")
            .stdin(Stdio::null())
            .output()
            .await?;
        if output.status.success() {
            return Ok(true);
        }
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        match ["(28000)", "4151", "4150"]
            .iter()
            .any(|code| told.contains(code))
        {
            true => Ok(false),
            false => Err(ServerError::new(told)),
        }
    }

    /// A counter of the server: `Com_grant`, `Access_denied_errors`.
    pub async fn counter(&self, name: &str) -> Result<u64> {
        let all = self.counters(&format!("VARIABLE_NAME = '{name}'")).await?;
        Ok(all)
    }

    /// The sum of the counters that a condition names.
    pub async fn counters(&self, which: &str) -> Result<u64> {
        let ask = format!(
            "SELECT SUM(VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS WHERE {which}"
        );
        let told = self.sql(&ask).await?;
        let number = told.trim().parse::<f64>();
        number
            .map(|number| number as u64)
            .map_err(|_| ServerError::new(format!("no number: {told}")))
    }

    /// Ends it as a service manager does.
    pub async fn end(&mut self) -> Result<()> {
        if let Some(process) = &mut self.process {
            process.signal(Signal::TERM)?;
            process.wait().await?;
        }
        Ok(())
    }
    /// Ends it, and starts it again on the same port and folder.
    pub async fn restart(&mut self) -> Result<()> {
        self.end().await?;
        self.start_again().await
    }
    /// Stops it in its tracks: it keeps its connections, takes new ones, and answers nothing.
    pub async fn stop(&self) -> Result<()> {
        match &self.process {
            Some(process) => process.stop().await,
            None => Err(ServerError::new("it does not run")),
        }
    }
    /// Lets a stopped one go on.
    pub fn go_on(&self) -> Result<()> {
        match &self.process {
            Some(process) => process.signal(Signal::CONT),
            None => Err(ServerError::new("it does not run")),
        }
    }
}

/// The server refuses to run as root; its package made a user for it.
fn user() -> Option<String> {
    server_user().map(|_| "--user=mysql".to_owned())
}

fn server_user() -> Option<(u32, u32)> {
    if !rustix::process::getuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.starts_with("mysql:"))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

async fn ask(client: &Path, socket: &Path, statements: &str) -> Result<String> {
    let mut child = Command::new(client)
        .args([
            "--no-defaults",
            "--user=root",
            "--batch",
            "--skip-column-names",
        ])
        .args(["--default-character-set=utf8mb4", "--raw"])
        .arg(format!("--socket={}", socket.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A client that could not connect has gone, and says so.
        let _ = input.write_all(statements.as_bytes()).await;
    }
    must("carry statements out", child.wait_with_output().await?)
}

fn must(what: &str, output: Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(ServerError::new(format!("{what}: {told}")))
}
