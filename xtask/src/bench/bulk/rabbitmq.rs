//! RabbitMQ: a server with its management interface, and a bare client for that.

use super::child::{Running, command_as};
use super::side::{ADMIN, Read, Script, Side, name};
use crate::bench::server::free_port;
use crate::bench::stopwatch::timed;
use crate::bench::wire::Wire;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many users go into one call of the raw writing.
const BATCH: usize = 1_000;
/// `mesh:admin-password`
const AUTHORIZATION: &str = "Basic bWVzaDphZG1pbi1wYXNzd29yZA==";

/// A running server, with a port mapper of its own.
pub(super) struct Rabbit {
    port: u16,
    amqp: u16,
    folder: PathBuf,
    version: String,
    _running: Running,
    _mapper: Running,
}

impl Rabbit {
    pub(super) fn start(program: &Path, version: &str, folder: &Path) -> Result<Self> {
        let (port, amqp, distribution, mapped) =
            (free_port()?, free_port()?, free_port()?, free_port()?);
        let path = |name: &str| folder.join(name).display().to_string();
        fs::create_dir_all(folder.join("home"))?;
        fs::create_dir_all(folder.join("mapper"))?;
        fs::create_dir_all(folder.join("access"))?;
        fs::write(folder.join("plugins"), "[rabbitmq_management].\n")?;
        let (admin, password) = ADMIN;
        let settings = format!(
            "listeners.tcp.1 = 127.0.0.1:{amqp}\nmanagement.tcp.ip = 127.0.0.1\n\
             management.tcp.port = {port}\nmanagement.http_log_dir = {}\n\
             default_user = {admin}\ndefault_pass = {password}\ndefault_user_tags.administrator = true\n",
            path("access")
        );
        fs::write(folder.join("rabbit.conf"), settings)?;
        let mut mapper = Command::new("epmd");
        mapper.args(["-port", &mapped.to_string(), "-address", "127.0.0.1"]);
        let mapper = Running::start(&mut mapper, &folder.join("mapper"), "-TERM")?;
        let mut command = command_as(program, None);
        command.env_clear();
        command.envs([
            ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("HOME", path("home")),
            ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
            ("ERL_EPMD_PORT", mapped.to_string()),
            ("RABBITMQ_NODENAME", format!("bench{port}@localhost")),
            ("RABBITMQ_MNESIA_BASE", path("data")),
            ("RABBITMQ_LOG_BASE", path("logs")),
            ("RABBITMQ_CONFIG_FILE", path("rabbit.conf")),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", path("plugins")),
            ("RABBITMQ_DIST_PORT", distribution.to_string()),
            ("RABBITMQ_PID_FILE", path("pid")),
            (
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-kernel inet_dist_use_interface {127,0,0,1}".to_owned(),
            ),
            // The script gives its place to the server, so that it is this process.
            ("RUNNING_UNDER_SYSTEMD", "true".to_owned()),
        ]);
        let mut running = Running::start(&mut command, folder, "-TERM")?;
        running.wait_for(120, || {
            let nodes = Client::connect(port)?.get("nodes?columns=uptime")?;
            let nodes: Value = serde_json::from_slice(&nodes)?;
            ensure!(nodes[0]["uptime"].is_number(), "not yet");
            Ok(())
        })?;
        Ok(Self {
            port,
            amqp,
            folder: folder.to_owned(),
            version: version.to_owned(),
            _running: running,
            _mapper: mapper,
        })
    }

    fn client(&self) -> Result<Client> {
        Client::connect(self.port)
    }

    fn list(&self, what: &str) -> Result<Vec<Value>> {
        let all: Value = serde_json::from_slice(&self.client()?.get(what)?)?;
        let Value::Array(all) = all else {
            anyhow::bail!("no list of {what}");
        };
        let of = |value: &Value| {
            let name = value["user"].as_str().or(value["name"].as_str());
            name.is_some_and(|name| name.starts_with("app-"))
        };
        Ok(all.into_iter().filter(of).collect())
    }
}

impl Side for Rabbit {
    fn title(&self) -> String {
        format!("RabbitMQ {}", self.version)
    }

    fn provider(&self) -> String {
        format!(
            "kind = \"rabbitmq\"\nurl = \"http://127.0.0.1:{}\"\noptions = {{ amqp_port = {} }}",
            self.port, self.amqp
        )
    }

    fn needs(&self, n: usize) -> String {
        let name = name(n);
        format!("vhost = \"/\"\nwrite = \"^{name}\"\nread = \"^{name}\"")
    }

    fn clear(&self) -> Result<()> {
        let names: Vec<Value> = self
            .list("users?columns=name")?
            .into_iter()
            .map(|user| user["name"].clone())
            .collect();
        for part in names.chunks(BATCH) {
            let body = json!({ "users": part }).to_string();
            self.client()?.post("users/bulk-delete", &body)?;
        }
        Ok(())
    }

    fn script(&self) -> Result<Vec<Script>> {
        let users = self.list("users")?;
        let mut rights: HashMap<String, Vec<Value>> = HashMap::new();
        for one in self.list("permissions")? {
            let user = one["user"].as_str().context("a permission of nobody")?;
            rights.entry(user.to_owned()).or_default().push(one);
        }
        // Each user with its own: the two lists are in no common order, and the canary has no permission.
        let script = |users: &[Value]| {
            let mut permissions = Vec::with_capacity(users.len());
            let user = |u: &Value| {
                let own = u["name"].as_str().and_then(|name| rights.get(name));
                permissions.extend(own.into_iter().flatten().cloned());
                json!({ "name": u["name"], "password_hash": u["password_hash"],
                    "hashing_algorithm": u["hashing_algorithm"], "tags": u["tags"] })
            };
            let users: Vec<Value> = users.iter().map(user).collect();
            let body = json!({ "users": users, "permissions": permissions });
            Script {
                place: "definitions".to_owned(),
                text: body.to_string(),
            }
        };
        Ok(users.chunks(BATCH).map(script).collect())
    }

    fn write(&self, script: &[Script]) -> Result<()> {
        let mut client = self.client()?;
        script
            .iter()
            .try_for_each(|part| client.post(&part.place, &part.text))
    }

    fn read(&self) -> Result<Read> {
        let mut open = self.client()?;
        let (users, least) = timed(|| open.get("users"));
        let logins = count(&users?);
        let (again, took) = timed(|| -> Result<Vec<u8>> {
            let mut client = self.client()?;
            let users = client.get("users")?;
            client.get("permissions")?;
            client.get("topic-permissions")?;
            Ok(users)
        });
        ensure!(count(&again?) == logins, "the list is not whole");
        Ok(Read {
            logins,
            took,
            least,
        })
    }

    fn calls(&self) -> Result<u64> {
        // The server writes its access log a little later.
        crate::bench::stopwatch::pause(1_500);
        let mut calls = 0;
        for file in fs::read_dir(self.folder.join("access"))? {
            let text = fs::read(file?.path())?;
            calls += String::from_utf8_lossy(&text).lines().count() as u64;
        }
        Ok(calls)
    }

    fn has(&self, login: &str) -> Result<bool> {
        Ok(self
            .list("users?columns=name")?
            .iter()
            .any(|u| u["name"] == login))
    }
}

/// How many users a list has, without reading it.
fn count(list: &[u8]) -> usize {
    list.windows(6).filter(|part| *part == b"\"name\"").count()
}

/// A connection to the management interface. The server ends it after a thousand requests.
struct Client(Wire);

impl Client {
    fn connect(port: u16) -> Result<Self> {
        Ok(Self(Wire::connect(port)?))
    }

    fn get(&mut self, path: &str) -> Result<Vec<u8>> {
        let (status, body) = self.ask("GET", path, "")?;
        ensure!(status == 200, "GET {path}: {status}");
        Ok(body)
    }

    fn post(&mut self, path: &str, body: &str) -> Result<()> {
        let (status, said) = self.ask("POST", path, body)?;
        let said = String::from_utf8_lossy(&said);
        ensure!((200..300).contains(&status), "POST {path}: {status} {said}");
        Ok(())
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<(u16, Vec<u8>)> {
        let head = format!(
            "{method} /api/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {AUTHORIZATION}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.0.send(&[head.as_bytes(), body.as_bytes()].concat())?;
        let status = self.0.line()?;
        let status: u16 = status
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .context("no answer in HTTP")?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.0.line()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            chunked |= line.starts_with("transfer-encoding:") && line.ends_with("chunked");
        }
        if !chunked {
            return Ok((status, self.0.take(length)?.to_vec()));
        }
        let mut body = Vec::new();
        loop {
            let size = self.0.line()?;
            let size = usize::from_str_radix(size.split(';').next().unwrap_or("").trim(), 16)?;
            body.extend_from_slice(self.0.take(size)?);
            self.0.line()?;
            if size == 0 {
                return Ok((status, body));
            }
        }
    }
}
