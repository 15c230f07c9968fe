//! A real Redis as a child process, with its own port and folder, and a small client that reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::wait::{rest, until};

/// Outside the range from which the system gives ports to clients, so that nobody takes one between a
/// stop and the next start.
const PORTS: std::ops::Range<u16> = 12_000..31_000;
static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port of this machine that nobody listens on.
pub(crate) fn free_port() -> u16 {
    let width = PORTS.end - PORTS.start;
    let begin = u16::try_from(std::process::id() % u32::from(width)).expect("small");
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let offset = (u32::from(begin) + u32::from(step)) % u32::from(width);
        let port = PORTS.start + u16::try_from(offset).expect("small");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A server.
pub(crate) struct Redis {
    pub(crate) port: u16,
    pub(crate) folder: TempDir,
    args: Vec<String>,
    child: Option<Child>,
    password: Option<String>,
}

impl Redis {
    /// One that forgets its users when it restarts.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }
    /// One that keeps its users in a file.
    pub(crate) fn with_aclfile() -> Self {
        let folder = TempDir::new().expect("folder");
        let file = folder.path().join("users.acl");
        std::fs::write(&file, "").expect("users.acl");
        let args = vec!["--aclfile".to_owned(), file.display().to_string()];
        Self::on(folder, args)
    }
    /// One with more arguments.
    pub(crate) fn with(args: &[&str]) -> Self {
        let args = args.iter().map(|a| (*a).to_owned()).collect();
        Self::on(TempDir::new().expect("folder"), args)
    }
    fn on(folder: TempDir, args: Vec<String>) -> Self {
        let mut redis = Self {
            port: free_port(),
            folder,
            args,
            child: None,
            password: None,
        };
        for _ in 0..20 {
            redis.child = Some(spawn(redis.port, redis.folder.path(), &redis.args));
            if redis.comes_up() {
                return redis;
            }
            redis.kill();
            redis.port = free_port();
        }
        panic!("no redis-server came up");
    }
    /// For servers whose default user has a password.
    pub(crate) fn with_password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }
    fn comes_up(&mut self) -> bool {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(20) {
            if let Some(child) = &mut self.child
                && child.try_wait().expect("wait").is_some()
            {
                return false;
            }
            // Another test's server may have taken the port in between, and answers on it.
            if let Ok(mut client) = Client::connect(self.port)
                && let Some(Reply::Text(said)) = client.try_ask(&["INFO", "server"])
            {
                let said = String::from_utf8_lossy(&said);
                let id = said
                    .lines()
                    .find_map(|line| line.strip_prefix("process_id:"));
                let own = self.child.as_ref().map(|child| child.id().to_string());
                if id == own.as_deref() {
                    return true;
                }
            }
            rest();
        }
        false
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
    pub(crate) fn pid(&self) -> Pid {
        let child = self.child.as_ref().expect("it runs");
        Pid::from_child(child)
    }
    /// Kills it, as a power cut would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = kill_process(Pid::from_child(&child), Signal::CONT);
            let _ = child.kill();
            let _ = child.wait();
        }
    }
    /// Starts it again after a kill; answers when it accepted connections.
    pub(crate) fn start_again(&mut self) -> Instant {
        self.child = Some(spawn(self.port, self.folder.path(), &self.args));
        until("Redis is up again", 20, || {
            let mut client = Client::connect(self.port).map_err(|e| e.to_string())?;
            client.try_ask(&["PING"]).ok_or("no answer".to_owned())
        });
        Instant::now()
    }
    pub(crate) fn restart(&mut self) -> Instant {
        self.kill();
        self.start_again()
    }
    /// Lets it hang, or go on.
    pub(crate) fn hang(&self) {
        kill_process(self.pid(), Signal::STOP).expect("SIGSTOP");
    }
    pub(crate) fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).expect("SIGCONT");
    }

    /// An admin's connection.
    pub(crate) fn client(&self) -> Client {
        let mut client = Client::connect(self.port).expect("a connection");
        if let Some(password) = &self.password {
            client.ask(&["AUTH", password]);
        }
        client
    }
    /// Makes or changes a user by hand: its name and its rules, a space between two.
    pub(crate) fn set_user(&self, rules: &str) {
        let command = ["ACL", "SETUSER"].into_iter().chain(rules.split(' '));
        self.ask(&command.collect::<Vec<_>>());
    }
    /// One command as the admin.
    pub(crate) fn ask(&self, command: &[&str]) -> Reply {
        self.client().ask(command)
    }
    /// All users but the default one and Meshkeeper's own, which is nobody's.
    pub(crate) fn users(&self) -> BTreeSet<String> {
        let names = self.ask(&["ACL", "USERS"]).texts().into_iter();
        names
            .filter(|n| n != "default" && !n.starts_with("mesh-canary-"))
            .collect()
    }
    /// Meshkeeper's own.
    pub(crate) fn canaries(&self) -> Vec<String> {
        let names = self.ask(&["ACL", "USERS"]).texts().into_iter();
        names.filter(|n| n.starts_with("mesh-canary-")).collect()
    }
    /// A user's line of `ACL LIST`.
    pub(crate) fn user(&self, name: &str) -> Option<String> {
        let start = format!("user {name} ");
        let lines = self.ask(&["ACL", "LIST"]).texts();
        lines.into_iter().find(|line| line.starts_with(&start))
    }
    /// Whether a login and password let somebody in.
    pub(crate) fn lets_in(&self, login: &str, password: &str) -> bool {
        let mut client = Client::connect(self.port).expect("a connection");
        !matches!(client.ask(&["AUTH", login, password]), Reply::Error(_))
    }
    /// How often each command was called since the start.
    pub(crate) fn calls(&self) -> BTreeMap<String, u64> {
        let info = self.ask(&["INFO", "commandstats"]).text();
        let lines = info.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let calls = rest.strip_prefix("calls=")?.split(',').next()?;
            Some((name.to_owned(), calls.parse().ok()?))
        });
        lines.collect()
    }
    /// How many commands that change users, configuration or data were called since the start.
    pub(crate) fn writes(&self) -> u64 {
        let writes = [
            "acl|setuser",
            "acl|deluser",
            "acl|save",
            "acl|load",
            "config|set",
            "set",
            "client|kill",
        ];
        let calls = self.calls();
        writes.iter().filter_map(|name| calls.get(*name)).sum()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(port: u16, folder: &Path, args: &[String]) -> Child {
    let log = std::fs::File::create(folder.join("redis.log")).expect("log");
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
        .arg("--dir")
        .arg(folder)
        .args(args)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server runs; it is needed on the PATH")
}

/// What Redis answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Text(Vec<u8>),
    Number(i64),
    List(Vec<Reply>),
    Nil,
    Error(String),
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        match self {
            Reply::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("no text: {other:?}"),
        }
    }
    pub(crate) fn texts(&self) -> Vec<String> {
        match self {
            Reply::List(items) => items.iter().map(Reply::text).collect(),
            other => panic!("no list: {other:?}"),
        }
    }
}

/// A connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let stream = BufReader::new(stream);
        Ok(Self { stream })
    }
    pub(crate) fn ask(&mut self, command: &[&str]) -> Reply {
        self.try_ask(command)
            .unwrap_or_else(|| panic!("no answer to {command:?}"))
    }
    /// `None` if the connection broke, or the server is not ready yet.
    pub(crate) fn try_ask(&mut self, command: &[&str]) -> Option<Reply> {
        self.send(command)?;
        match self.read()? {
            Reply::Error(text) if text.starts_with("LOADING") => None,
            reply => Some(reply),
        }
    }
    pub(crate) fn send(&mut self, command: &[&str]) -> Option<()> {
        let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
        for part in command {
            bytes.extend(format!("${}\r\n{part}\r\n", part.len()).into_bytes());
        }
        self.stream.get_mut().write_all(&bytes).ok()
    }
    pub(crate) fn read(&mut self) -> Option<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let (kind, rest) = line.trim_end().split_at_checked(1)?;
        Some(match kind {
            "+" => Reply::Text(rest.as_bytes().to_vec()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Number(rest.parse().ok()?),
            "$" => match rest.parse::<i64>().ok()? {
                -1 => Reply::Nil,
                length => {
                    let mut bytes = vec![0; usize::try_from(length).ok()? + 2];
                    self.stream.read_exact(&mut bytes).ok()?;
                    bytes.truncate(bytes.len() - 2);
                    Reply::Text(bytes)
                }
            },
            "*" => match rest.parse::<i64>().ok()? {
                -1 => Reply::Nil,
                count => Reply::List((0..count).map(|_| self.read()).collect::<Option<_>>()?),
            },
            _ => return None,
        })
    }
}
