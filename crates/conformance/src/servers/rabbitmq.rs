//! RabbitMQ servers, each with a port mapper (`epmd`) of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::process::Process;
use super::{AmqpClient, Program, Result, ServerError, TlsFiles, free_port, http, until};

/// The one user that a fresh server has here, an administrator with every right.
pub const RABBIT_ADMIN: (&str, &str) = ("admin", "admin-password");

const SERVER: Program = Program {
    variable: "MESH_TEST_RABBITMQ",
    installed: None,
    // The program on the PATH wants to be another user; this is what it starts.
    on_path: Some("../lib/rabbitmq/bin/rabbitmq-server"),
};
const MAPPER: Program = Program {
    variable: "MESH_TEST_EPMD",
    installed: None,
    on_path: Some("epmd"),
};

/// A running server.
pub struct RabbitServer {
    amqp: u16,
    http: u16,
    https: u16,
    distribution: u16,
    mapped: u16,
    tls: Option<TlsFiles>,
    folder: TempDir,
    /// Dropped before the mapper, in this order.
    process: Option<Process>,
    mapper: Option<Process>,
}

impl RabbitServer {
    /// Starts one and waits until it answers. With `tls` the management interface listens with TLS, too.
    pub async fn start(tls: Option<TlsFiles>) -> Result<Self> {
        let mut last = ServerError::new("not tried");
        for _ in 0..3 {
            let mut server = Self {
                amqp: free_port()?,
                http: free_port()?,
                https: free_port()?,
                distribution: free_port()?,
                mapped: free_port()?,
                tls: tls.clone(),
                folder: tempfile::tempdir()?,
                process: None,
                mapper: None,
            };
            server.write_settings()?;
            match server.start_again().await {
                Ok(()) => return Ok(server),
                Err(error) if error.to_string().contains("not installed") => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Where the broker listens.
    pub fn amqp_port(&self) -> u16 {
        self.amqp
    }
    /// Where the management interface listens.
    pub fn port(&self) -> u16 {
        self.http
    }
    /// Where it listens with TLS, if it does.
    pub fn tls_port(&self) -> u16 {
        self.https
    }
    /// All that it wrote to its logs.
    pub fn log(&self) -> String {
        let mut log = self.process.as_ref().map(Process::log).unwrap_or_default();
        let entries = std::fs::read_dir(self.path("log")).into_iter().flatten();
        for entry in entries.flatten() {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            log.push_str(&String::from_utf8_lossy(&bytes));
        }
        log
    }

    /// Asks the management interface as the admin: `GET`, `users/web`. A body that is `Null` is none.
    pub async fn ask(&self, method: &str, path: &str, body: Value) -> Result<(u16, Value)> {
        ask(self.http, method, path, body).await
    }
    /// The same, and it must be taken.
    pub async fn must(&self, method: &str, path: &str, body: Value) -> Result<Value> {
        match self.ask(method, path, body).await? {
            (200..=299, value) => Ok(value),
            (status, value) => {
                let message = format!("{method} {path}: {status} {value}");
                Err(ServerError::new(message))
            }
        }
    }
    /// Logs in over AMQP; `None` if that is refused.
    pub async fn log_in(
        &self,
        login: &str,
        password: &str,
        vhost: &str,
    ) -> Result<Option<AmqpClient>> {
        AmqpClient::log_in(self.amqp, login, password, vhost).await
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
    /// Lets a stopped one go on.
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }
    fn signal(&self, signal: Signal) -> Result<()> {
        match &self.process {
            Some(process) => process.signal(signal),
            None => Err(ServerError::new("it does not run")),
        }
    }

    /// Starts it on its ports and folder, and waits until it answers.
    async fn start_again(&mut self) -> Result<()> {
        let server = SERVER.find("RabbitMQ")?;
        if self.mapper.is_none() {
            let mapper = MAPPER.find("Erlang's port mapper")?;
            let at = self.mapped.to_string();
            let args = ["-port", &at, "-address", "127.0.0.1"].map(str::to_owned);
            self.mapper = Some(Process::start(&mapper, &args, &self.path("mapper-log"))?);
        }
        // With this environment and no other, wherever the tests run.
        let mut args = vec!["-i".to_owned()];
        args.extend(self.environment());
        args.push(server.display().to_string());
        self.process = Some(Process::start(Path::new("env"), &args, &self.path("said"))?);
        let (port, process) = (self.http, &mut self.process);
        until("an answer of the server", Duration::from_secs(90), || {
            let ended = process.as_mut().and_then(Process::ended);
            let log = process.as_ref().map(Process::log).unwrap_or_default();
            async move {
                if let Some(how) = ended {
                    return Err(format!("it ended ({how}): {log}"));
                }
                match ask(port, "GET", "nodes?columns=uptime", Value::Null).await {
                    Ok((200, nodes)) if nodes[0]["uptime"].is_number() => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            }
        })
        .await
    }

    fn environment(&self) -> Vec<String> {
        let path = |name: &str| self.path(name).display().to_string();
        let set = [
            ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("HOME", path("home")),
            ("ERL_CRASH_DUMP", path("crash")),
            ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
            ("ERL_EPMD_PORT", self.mapped.to_string()),
            ("RABBITMQ_NODENAME", "mesh@localhost".to_owned()),
            ("RABBITMQ_MNESIA_BASE", path("data")),
            ("RABBITMQ_LOG_BASE", path("log")),
            ("RABBITMQ_CONFIG_FILE", path("rabbit.conf")),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", path("plugins")),
            ("RABBITMQ_DIST_PORT", self.distribution.to_string()),
            ("RABBITMQ_PID_FILE", path("pid")),
            (
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-kernel inet_dist_use_interface {127,0,0,1}".to_owned(),
            ),
            // The script gives its place to the server, so that it is this process.
            ("RUNNING_UNDER_SYSTEMD", "true".to_owned()),
        ];
        set.iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    fn write_settings(&self) -> Result<()> {
        std::fs::create_dir_all(self.path("home"))?;
        std::fs::write(self.path("plugins"), "[rabbitmq_management].\n")?;
        let (user, password) = RABBIT_ADMIN;
        let mut settings = format!(
            "listeners.tcp.1 = 127.0.0.1:{}\n\
             management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {}\n\
             default_user = {user}\ndefault_pass = {password}\n\
             default_user_tags.administrator = true\n",
            self.amqp, self.http
        );
        if let Some(tls) = &self.tls {
            settings.push_str(&format!(
                "management.ssl.ip = 127.0.0.1\nmanagement.ssl.port = {}\n\
                 management.ssl.certfile = {}\nmanagement.ssl.keyfile = {}\n",
                self.https,
                tls.certificate.display(),
                tls.key.display()
            ));
        }
        Ok(std::fs::write(self.path("rabbit.conf"), settings)?)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

async fn ask(port: u16, method: &str, path: &str, body: Value) -> Result<(u16, Value)> {
    // "admin:admin-password"
    const AUTHORIZATION: &str = "Authorization: Basic YWRtaW46YWRtaW4tcGFzc3dvcmQ=";
    let headers = [AUTHORIZATION, "Content-Type: application/json"];
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let (status, text) = http(port, method, &format!("/api/{path}"), &headers, &body).await?;
    Ok((status, serde_json::from_str(&text).unwrap_or(Value::Null)))
}
