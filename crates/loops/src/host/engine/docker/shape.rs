//! The shapes of the API: what a container is made of, and what an engine tells of one.
//!
//! Of the many fields those are compared that are asked for and that both engines tell as they were asked; Podman
//! 4.3 and the API of Docker 1.41 are where that was read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::delivery::record::Version;
use crate::host::decide::Stands;
use crate::host::order::{Container, Mount, Restart};

/// What a container of ours carries.
#[derive(Debug, Clone)]
pub(super) struct Labels {
    pub(super) mesh: String,
    pub(super) consumer: String,
    pub(super) mark: String,
    pub(super) asked: String,
    pub(super) credentials: Option<Version>,
}

const MESH: &str = "io.meshkeeper.mesh";
const CONSUMER: &str = "io.meshkeeper.consumer";
const MARK: &str = "io.meshkeeper.mark";
const ASKED: &str = "io.meshkeeper.asked";
const CREDENTIALS: &str = "io.meshkeeper.credentials";

impl Labels {
    pub(super) fn of(body: &Value) -> Self {
        let label = |name| text(body, &["Config", "Labels", name]).to_owned();
        let version = label(CREDENTIALS);
        Self {
            mesh: label(MESH),
            consumer: label(CONSUMER),
            mark: label(MARK),
            asked: label(ASKED),
            credentials: (!version.is_empty()).then_some(Version(version)),
        }
    }
    fn json(&self) -> Value {
        let mut all = BTreeMap::from([
            (MESH, &self.mesh),
            (CONSUMER, &self.consumer),
            (MARK, &self.mark),
            (ASKED, &self.asked),
        ]);
        if let Some(version) = &self.credentials {
            all.insert(CREDENTIALS, &version.0);
        }
        json!(all)
    }
}

/// A text in it; empty if there is none.
pub(super) fn text<'b>(body: &'b Value, path: &[&str]) -> &'b str {
    at(body, path).and_then(Value::as_str).unwrap_or_default()
}

fn at<'b>(body: &'b Value, path: &[&str]) -> Option<&'b Value> {
    path.iter().try_fold(body, |inner, key| inner.get(key))
}

/// Whether its state has this flag.
pub(super) fn is(body: &Value, flag: &str) -> bool {
    at(body, &["State", flag]).and_then(Value::as_bool) == Some(true)
}

/// An image's id; some engines leave its head out.
pub(super) fn image_id(id: &str) -> String {
    format!("sha256:{}", id.trim_start_matches("sha256:"))
}

pub(super) fn stands(body: &Value) -> Stands {
    let code = at(body, &["State", "ExitCode"]).and_then(Value::as_i64);
    let code = code.map_or(String::new(), |code| format!(", exit code {code}"));
    if is(body, "Paused") {
        return Stands::Stopped("paused".to_owned());
    }
    if is(body, "Restarting") {
        return Stands::Stopped(format!("it ends again and again{code}"));
    }
    if !is(body, "Running") {
        let state = text(body, &["State", "Status"]);
        let killed = if is(body, "OOMKilled") {
            ", out of memory"
        } else {
            ""
        };
        return Stands::Stopped(format!("{state}{code}{killed}"));
    }
    match text(body, &["State", "Health", "Status"]) {
        "starting" => Stands::Starting,
        "unhealthy" => Stands::Unhealthy,
        _ => Stands::Running,
    }
}

/// In what it is not as asked.
pub(super) fn differences(container: &Container, body: &Value) -> Vec<&'static str> {
    let mut all = Vec::new();
    let mut differs = |what, is: bool| {
        if is {
            all.push(what);
        }
    };
    let texts = |path: &[&str]| -> Vec<String> {
        let list = at(body, path).and_then(Value::as_array);
        let list = list.into_iter().flatten().filter_map(Value::as_str);
        list.map(str::to_owned).collect()
    };
    let command = &container.command;
    let other = !command.is_empty() && *command != texts(&["Config", "Cmd"]);
    differs("command", other);
    let env = texts(&["Config", "Env"]);
    let mut asked = container.env.iter();
    let other = asked.any(|(name, value)| !env.contains(&format!("{name}={value}")));
    differs("env", other);
    let user = container.user.as_deref();
    let other = user.is_some_and(|user| user != text(body, &["Config", "User"]));
    differs("user", other);
    let restart = text(body, &["HostConfig", "RestartPolicy", "Name"]);
    let restart = if restart.is_empty() {
        Restart::No.as_str()
    } else {
        restart
    };
    differs("restart", restart != container.restart.as_str());
    let network = text(body, &["HostConfig", "NetworkMode"]);
    let plain = container.network.as_deref();
    let plain = plain.filter(|name| ["host", "none"].contains(name));
    differs("network", plain.is_some_and(|name| name != network));
    let mounts = at(body, &["Mounts"]).and_then(Value::as_array);
    let mounts: Vec<&Value> = mounts.into_iter().flatten().collect();
    let there = |mount: &Mount| mounts.iter().any(|told| is_mount(mount, told));
    differs("mounts", !container.mounts.iter().all(there));
    if container.network.as_deref() != Some("host") {
        let open = |port: &crate::host::order::Port| {
            let key = format!("{}/{}", port.inside, port.protocol);
            let bound = at(body, &["HostConfig", "PortBindings", &key]).and_then(Value::as_array);
            let host = port.host.to_string();
            let mut bound = bound.into_iter().flatten();
            bound.any(|one| text(one, &["HostPort"]) == host)
        };
        differs("ports", !container.ports.iter().all(open));
    }
    all
}

fn is_mount(mount: &Mount, told: &Value) -> bool {
    let source = match mount.is_path() {
        true => text(told, &["Source"]),
        false => text(told, &["Name"]),
    };
    let real = |path: &str| fs::canonicalize(path).ok();
    let same = source == mount.source
        || mount.is_path() && real(source).is_some() && real(source) == real(&mount.source);
    let writable = told.get("RW").and_then(Value::as_bool) != Some(false);
    same && text(told, &["Destination"]) == mount.target && writable != mount.read_only
}

/// What it is made of. Errors: an env file that cannot be read, or a path that is missing.
pub(super) fn body(container: &Container, labels: &Labels) -> Result<Value, String> {
    let plain = container.env.iter();
    let mut env: Vec<String> = plain
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    for path in &container.env_files {
        env.extend(variables(path)?);
    }
    // An engine makes a folder of a path that is missing, or finds that out when the one before is gone.
    let mut paths = container.mounts.iter().filter(|mount| mount.is_path());
    if let Some(missing) = paths.find(|mount| !Path::new(&mount.source).exists()) {
        return Err(format!("to mount {}: nothing lies there", missing.source));
    }
    let mounts = container.mounts.iter().map(|mount| {
        let kind = if mount.is_path() { "bind" } else { "volume" };
        json!({ "Type": kind, "Source": mount.source, "Target": mount.target, "ReadOnly": mount.read_only })
    });
    let (mut exposed, mut bound) = (BTreeMap::new(), BTreeMap::<String, Vec<Value>>::new());
    for port in &container.ports {
        let key = format!("{}/{}", port.inside, port.protocol);
        exposed.insert(key.clone(), json!({}));
        let to = json!({ "HostIp": port.address, "HostPort": port.host.to_string() });
        bound.entry(key).or_default().push(to);
    }
    let mut body = json!({
        "Image": container.image,
        "Env": env,
        "Labels": labels.json(),
        "ExposedPorts": exposed,
        "HostConfig": {
            "Mounts": mounts.collect::<Vec<_>>(),
            "PortBindings": bound,
            "RestartPolicy": { "Name": container.restart.as_str() },
        },
    });
    if !container.command.is_empty() {
        body["Cmd"] = json!(container.command);
    }
    if let Some(user) = &container.user {
        body["User"] = json!(user);
    }
    if let Some(network) = &container.network {
        body["HostConfig"]["NetworkMode"] = json!(network);
    }
    Ok(body)
}

/// The lines of an env file, as Docker reads it: nothing is quoted.
fn variables(path: &Path) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| format!("the env file {}: {error}", path.display()))?;
    let lines = text.lines().filter(|line| {
        let start = line.trim_start();
        !start.is_empty() && !start.starts_with('#') && start.contains('=')
    });
    Ok(lines.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    //! What an engine tells is compared with what is asked.
    use super::*;
    use crate::host::order::Port;

    fn container() -> Container {
        Container {
            name: "web".to_owned(),
            engine: "/run/x.sock".into(),
            image: "localhost/web:1".to_owned(),
            command: vec!["serve".to_owned()],
            env: BTreeMap::from([("LOG".to_owned(), "info".to_owned())]),
            env_files: Default::default(),
            mounts: vec![Mount {
                source: "data".to_owned(),
                target: "/data".to_owned(),
                read_only: false,
            }],
            ports: vec![Port {
                address: "127.0.0.1".to_owned(),
                host: 8080,
                inside: 80,
                protocol: "tcp".to_owned(),
            }],
            network: None,
            user: Some("7".to_owned()),
            restart: Restart::UnlessStopped,
        }
    }

    fn told() -> Value {
        json!({
            "Config": { "Cmd": ["serve"], "Env": ["PATH=/bin", "LOG=info"], "User": "7" },
            "HostConfig": {
                "RestartPolicy": { "Name": "unless-stopped" },
                "NetworkMode": "bridge",
                "PortBindings": { "80/tcp": [{ "HostIp": "127.0.0.1", "HostPort": "8080" }] },
            },
            "Mounts": [{ "Type": "volume", "Name": "data", "Source": "/x", "Destination": "/data", "RW": true }],
            "State": { "Running": true },
        })
    }

    #[test]
    fn h5_each_part_that_differs_is_named() {
        assert!(differences(&container(), &told()).is_empty());
        let table: [(&str, &[&str], Value); 7] = [
            ("command", &["Config", "Cmd"], json!(["serve", "-v"])),
            ("env", &["Config", "Env"], json!(["LOG=debug"])),
            ("user", &["Config", "User"], json!("")),
            (
                "restart",
                &["HostConfig", "RestartPolicy", "Name"],
                json!(""),
            ),
            (
                "mounts",
                &["Mounts"],
                json!([{ "Name": "data", "Destination": "/data", "RW": false }]),
            ),
            ("mounts", &["Mounts"], Value::Null),
            ("ports", &["HostConfig", "PortBindings"], json!({})),
        ];
        for (what, path, value) in table {
            let mut other = told();
            let mut place = &mut other;
            for key in path {
                place = &mut place[*key];
            }
            *place = value;
            assert_eq!(differences(&container(), &other), [what]);
        }
    }

    #[test]
    fn a_state_is_told_by_its_flags_and_its_health_check() {
        let told = |state: Value| stands(&json!({ "State": state }));
        assert_eq!(told(json!({ "Running": true })), Stands::Running);
        let health = |word: &str| told(json!({ "Running": true, "Health": { "Status": word } }));
        assert_eq!(health(""), Stands::Running);
        assert_eq!(health("healthy"), Stands::Running);
        assert_eq!(health("starting"), Stands::Starting);
        assert_eq!(health("unhealthy"), Stands::Unhealthy);
        for (state, how) in [
            (json!({ "Running": true, "Paused": true }), "paused"),
            (
                json!({ "Status": "exited", "ExitCode": 3 }),
                "exited, exit code 3",
            ),
            (
                json!({ "Running": true, "Restarting": true, "ExitCode": 1 }),
                "it ends again and again, exit code 1",
            ),
        ] {
            assert_eq!(told(state), Stands::Stopped(how.to_owned()));
        }
    }

    #[test]
    fn an_env_file_is_read_as_docker_does() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("web.env");
        fs::write(&path, "# by us\nA=b c\n\nB='x'\nC=a=b#c\n").expect("write");
        assert_eq!(
            variables(&path),
            Ok(["A=b c", "B='x'", "C=a=b#c"].map(str::to_owned).to_vec())
        );
        assert!(variables(&folder.path().join("none")).is_err());
    }
}
