//! Mosquitto brokers with the dynamic security plugin.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::process::Process;
use super::{Program, Result, ServerError, TlsFiles, free_port, until};

const BROKER: Program = Program {
    variable: "MESH_TEST_MOSQUITTO",
    installed: None,
    on_path: Some("mosquitto"),
};
/// Where Debian puts it, which is not on everybody's PATH.
const DEBIANS: &str = "/usr/sbin/mosquitto";
const CONTROL: Program = Program {
    variable: "MESH_TEST_MOSQUITTO_CTRL",
    installed: None,
    on_path: Some("mosquitto_ctrl"),
};
/// Where Debian and others put the plugin.
const PLUGINS: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/mosquitto_dynamic_security.so",
    "/usr/lib/aarch64-linux-gnu/mosquitto_dynamic_security.so",
    "/usr/lib/mosquitto_dynamic_security.so",
];

/// The admin that the plugin's own program makes.
pub const MOSQUITTO_ADMIN: (&str, &str) = ("admin", "first-admin-password");

/// How to start it.
#[derive(Debug, Clone, Default)]
pub struct MosquittoOptions {
    /// Take TLS connections only.
    pub tls: Option<TlsFiles>,
    /// Let in whoever the plugin does not know.
    pub anonymous: bool,
    /// Hold small packets back, as the broker does unless it is told otherwise.
    pub delays: bool,
}

/// A running broker.
pub struct MosquittoServer {
    options: MosquittoOptions,
    port: u16,
    folder: TempDir,
    process: Option<Process>,
}

impl MosquittoServer {
    /// Starts one and waits until it answers. A port that somebody else took meanwhile is tried anew.
    pub async fn start(options: MosquittoOptions) -> Result<Self> {
        let mut last = ServerError::new("not tried");
        for _ in 0..5 {
            let mut server = Self {
                options: options.clone(),
                port: free_port()?,
                folder: folder()?,
                process: None,
            };
            server.write_files()?;
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
    /// The plugin's file.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("dynamic-security.json")
    }
    /// All that it wrote to its log, over all its starts.
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::log).unwrap_or_default()
    }

    fn write_files(&self) -> Result<()> {
        let plugin = PLUGINS.iter().find(|path| Path::new(path).is_file());
        let plugin = plugin.ok_or_else(|| {
            ServerError::new("Mosquitto's plugin is not installed: run `scripts/test`")
        })?;
        let tls = self.options.tls.as_ref().map(|files| {
            format!(
                "certfile {}\nkeyfile {}\n",
                files.certificate.display(),
                files.key.display()
            )
        });
        // As root it would become somebody who may not read its folder.
        let text = format!(
            "listener {} 127.0.0.1\n{}allow_anonymous {}\nplugin {plugin}\nplugin_opt_config_file {}\n\
             set_tcp_nodelay {}\nuser root\n",
            self.port,
            tls.unwrap_or_default(),
            self.options.anonymous,
            self.file().display(),
            !self.options.delays,
        );
        std::fs::write(self.folder.path().join("mosquitto.conf"), text)?;
        let program = CONTROL.find("mosquitto_ctrl")?;
        let made = Command::new(program)
            .args(["dynsec", "init"])
            .arg(self.file())
            .args([MOSQUITTO_ADMIN.0, MOSQUITTO_ADMIN.1])
            .output()?;
        match made.status.success() {
            true => Ok(()),
            false => Err(ServerError::new(String::from_utf8_lossy(&made.stderr))),
        }
    }

    /// Ends it as a service manager does, and starts it again on the same port and folder.
    pub async fn restart(&mut self) -> Result<()> {
        self.end().await?;
        self.start_again().await
    }
    /// Ends it. [`MosquittoServer::start_again`] brings it back.
    pub async fn end(&mut self) -> Result<()> {
        if let Some(process) = &mut self.process {
            process.signal(Signal::TERM)?;
            process.wait().await?;
        }
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
        let program = match BROKER.find("Mosquitto") {
            Err(_) if Path::new(DEBIANS).is_file() => PathBuf::from(DEBIANS),
            found => found?,
        };
        let log = self.folder.path().join("log");
        let config = self.folder.path().join("mosquitto.conf");
        let args = ["-c".to_owned(), config.display().to_string()];
        self.process = Some(Process::start(&program, &args, &log)?);
        let (port, tls, process) = (self.port, self.options.tls.is_some(), &mut self.process);
        until("an answer of the broker", Duration::from_secs(20), || {
            let ended = process.as_mut().and_then(Process::ended);
            let log = process.as_ref().map(Process::log).unwrap_or_default();
            async move {
                if let Some(how) = ended {
                    return Err(format!("it ended ({how}): {log}"));
                }
                let answered = match tls {
                    true => TcpStream::connect(("127.0.0.1", port)).await.is_ok(),
                    false => MqttClient::admin(port).await.is_ok(),
                };
                answered.then_some(()).ok_or(log)
            }
        })
        .await
    }
}

/// In memory where there is such a place: the broker writes its whole file for each change.
fn folder() -> Result<TempDir> {
    match Path::new("/dev/shm") {
        memory if memory.is_dir() => Ok(tempfile::tempdir_in(memory)?),
        _ => Ok(tempfile::tempdir()?),
    }
}

/// The plainest client, of MQTT 3.1.1.
pub struct MqttClient {
    stream: TcpStream,
    asked: u64,
}

const WAIT: Duration = Duration::from_secs(20);

impl MqttClient {
    /// Logs in; `None` if that was refused.
    pub async fn log_in(port: u16, user: &str, password: &str) -> Result<Option<Self>> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let mut client = Self { stream, asked: 0 };
        let mut body = b"\0\x04MQTT\x04\xc2\0\x3c\0\0".to_vec();
        text(&mut body, user);
        text(&mut body, password);
        client.send(0x10, &body).await?;
        match client.packet().await? {
            (0x20, body) if body.get(1) == Some(&0) => Ok(Some(client)),
            (0x20, _) => Ok(None),
            (head, _) => Err(ServerError::new(format!("an answer of kind {head:#x}"))),
        }
    }

    /// As the admin that the plugin's own program made, who listens for answers.
    pub async fn admin(port: u16) -> Result<Self> {
        let client = Self::log_in(port, MOSQUITTO_ADMIN.0, MOSQUITTO_ADMIN.1).await?;
        let mut client = client.ok_or_else(|| ServerError::new("the admin is refused"))?;
        client
            .subscribe("$CONTROL/dynamic-security/v1/response")
            .await?;
        Ok(client)
    }

    /// Sends commands to the plugin, and gives its answers; the first error is an error.
    pub async fn command(&mut self, commands: &[Value]) -> Result<Vec<Value>> {
        // Every admin hears the answers to all.
        self.asked += 1;
        let word = format!("test-{}-{}", self.stream.local_addr()?.port(), self.asked);
        let with_word = |command: &Value| {
            let mut command = command.clone();
            command["correlationData"] = word.as_str().into();
            command
        };
        let commands: Vec<Value> = commands.iter().map(with_word).collect();
        let payload = json!({ "commands": commands }).to_string();
        self.publish("$CONTROL/dynamic-security/v1", &payload)
            .await?;
        loop {
            let (head, body) = self.packet().await?;
            if head & 0xf0 != 0x30 {
                continue;
            }
            let size = usize::from(u16::from_be_bytes([body[0], body[1]]));
            let answer: Value = serde_json::from_slice(&body[2 + size..])
                .map_err(|error| ServerError::new(error.to_string()))?;
            let all = answer["responses"].as_array().cloned().unwrap_or_default();
            if all.iter().any(|one| one["correlationData"] != *word) {
                continue;
            }
            return match all.iter().find_map(|one| one["error"].as_str()) {
                Some(error) => Err(ServerError::new(error)),
                None => Ok(all),
            };
        }
    }

    /// Publishes with QoS 0.
    pub async fn publish(&mut self, topic: &str, payload: &str) -> Result<()> {
        let mut body = Vec::new();
        text(&mut body, topic);
        body.extend(payload.as_bytes());
        self.send(0x30, &body).await
    }

    /// Subscribes: whether that was allowed.
    pub async fn subscribe(&mut self, topic: &str) -> Result<bool> {
        let mut body = vec![0, 1];
        text(&mut body, topic);
        body.push(0);
        self.send(0x82, &body).await?;
        loop {
            let (head, body) = self.packet().await?;
            if head == 0x90 {
                return Ok(body.last().is_some_and(|code| *code < 0x80));
            }
        }
    }

    /// The topics of the messages that came before the answer to a ping; an error if there is none.
    pub async fn ping(&mut self) -> Result<Vec<String>> {
        self.send(0xc0, &[]).await?;
        let mut topics = Vec::new();
        loop {
            let (head, body) = self.packet().await?;
            match head & 0xf0 {
                0xd0 => return Ok(topics),
                0x30 => {
                    let size = usize::from(u16::from_be_bytes([body[0], body[1]]));
                    topics.push(String::from_utf8_lossy(&body[2..2 + size]).into_owned());
                }
                _ => {}
            }
        }
    }

    async fn send(&mut self, head: u8, body: &[u8]) -> Result<()> {
        let mut whole = vec![head];
        let mut left = body.len();
        loop {
            let low = (left % 128) as u8;
            left /= 128;
            whole.push(if left > 0 { low | 0x80 } else { low });
            if left == 0 {
                break;
            }
        }
        whole.extend(body);
        Ok(self.stream.write_all(&whole).await?)
    }

    async fn packet(&mut self) -> Result<(u8, Vec<u8>)> {
        let read = async {
            let head = self.stream.read_u8().await?;
            let (mut size, mut shift) = (0, 0);
            loop {
                let byte = self.stream.read_u8().await?;
                size |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 || shift > 21 {
                    break;
                }
            }
            let mut body = vec![0; size];
            self.stream.read_exact(&mut body).await?;
            Ok((head, body))
        };
        let read = timeout(WAIT, read).await;
        read.map_err(|_| ServerError::new("no packet within 20 s"))?
    }
}

fn text(into: &mut Vec<u8>, text: &str) {
    let size = u16::try_from(text.len()).unwrap_or(u16::MAX);
    into.extend(size.to_be_bytes());
    into.extend(&text.as_bytes()[..usize::from(size)]);
}
