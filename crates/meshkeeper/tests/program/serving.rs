//! What `up --listen` serves: health, metrics and the picture, on this machine only, and reads only.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::lab::{Lab, Up, need};
use crate::redis::{Redis, free_port};
use crate::wait::until;

/// Status line, headers and body of one request.
pub(crate) fn request(
    port: u16,
    method: &str,
    path: &str,
) -> std::io::Result<(u16, String, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let code = head
        .split(' ')
        .nth(1)
        .and_then(|c| c.parse().ok())
        .unwrap_or(0);
    Ok((code, head.to_owned(), body.to_owned()))
}

pub(crate) fn get(port: u16, path: &str) -> (u16, String) {
    let (code, _, body) = request(port, "GET", path).expect("an answer");
    (code, body)
}

pub(crate) fn serving(lab: &Lab) -> (Up, u16) {
    let port = free_port();
    let up = lab.up(&["--listen", &format!("127.0.0.1:{port}")]);
    (up, port)
}

#[test]
fn s6_it_serves_health_metrics_and_the_picture() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "verify_every = \"1s\"", ["web", "api"]);
    let (mut up, port) = serving(&lab);
    assert_eq!(get(port, "/live"), (200, "ok\n".to_owned()));
    until("it is ready", 20, || match get(port, "/ready") {
        (200, _) => Ok(()),
        other => Err(other),
    });
    crate::restarting::settled(&lab);
    let (code, body) = get(port, "/status");
    assert_eq!(code, 200);
    let served: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let shown = lab.status();
    assert_eq!(served["mesh"], shown["mesh"]);
    assert_eq!(crate::lab::states(&served), crate::lab::states(&shown));
    assert_eq!(served["loops"][0]["state"], "running");
    // It reads only.
    for (method, path, wanted) in [
        ("GET", "/nothing", 404),
        ("POST", "/status", 405),
        ("PUT", "/live", 405),
        ("GET", "/credentials/web/cache", 404),
    ] {
        let (code, _, _) = request(port, method, path).expect("an answer");
        assert_eq!(code, wanted, "{method} {path}");
    }
    up.stop().ends(0);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn s6_it_listens_on_this_machine_only() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web"]);
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9180"] {
        let ran = lab.mesh(&["up", "--listen", address]).ends(1);
        assert!(
            ran.err.contains("not an address of this machine alone"),
            "{ran:#?}"
        );
    }
    let taken = format!("127.0.0.1:{}", redis.port);
    lab.mesh(&["up", "--listen", &taken])
        .ends(1)
        .warns("cannot listen");
    assert!(
        redis.users().is_empty(),
        "a daemon that cannot listen does not begin"
    );
}

#[test]
fn s6_only_this_machines_names_are_answered() {
    // A page of somebody else, whose name leads here, must not read the picture.
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web"]);
    let (_up, port) = serving(&lab);
    let ask = |host: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connection");
        write!(
            stream,
            "GET /status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )
        .expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("read");
        text.split(' ').nth(1).unwrap_or("?").to_owned()
    };
    for host in [
        "127.0.0.1",
        "localhost",
        "localhost:9180",
        "[::1]:80",
        &format!("127.0.0.1:{port}"),
    ] {
        assert_eq!(ask(host), "200", "{host}");
    }
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
    ] {
        assert_eq!(ask(host), "403", "{host}");
    }
}

#[test]
fn b8_a_daemon_whose_loop_waits_is_not_ready_and_not_well() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let mut text = crate::lab::cache(&redis, "", ["web"]);
    text.push_str(
        "\n[provider.shut]\nkind = \"redis\"\nurl = \"redis://127.0.0.1:1\"\n\
         admin = { user = \"admin\", password = { file = \"not-there\" } }\n",
    );
    need(&mut text, "api", "shut", "");
    lab.manifest(&text);
    let (_up, port) = serving(&lab);
    until("it says who is not ready", 20, || {
        match get(port, "/ready") {
            (503, body) if body == "not ready: provisioner/shut\n" => Ok(()),
            other => Err(other),
        }
    });
    assert_eq!(get(port, "/live").0, 200);
}

/// A service manager's ear.
struct Ear {
    socket: std::os::unix::net::UnixDatagram,
    heard: Vec<String>,
}

impl Ear {
    fn at(path: &std::path::Path) -> Self {
        let socket = std::os::unix::net::UnixDatagram::bind(path).expect("bound");
        socket.set_nonblocking(true).expect("set");
        let heard = Vec::new();
        Self { socket, heard }
    }
    fn hears(&mut self, what: &str, seconds: u64) {
        until(&format!("it hears {what}"), seconds, || {
            let mut bytes = [0; 512];
            while let Ok(n) = self.socket.recv(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..n]).into_owned();
                self.heard.push(text);
            }
            match self.heard.iter().any(|heard| heard == what) {
                true => Ok(()),
                false => Err(self.heard.clone()),
            }
        });
    }
}

#[test]
fn b8_a_service_manager_hears_that_it_is_ready_alive_and_stopping() {
    let (mut lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web"]);
    let path = lab.path().join("notify");
    let mut ear = Ear::at(&path);
    lab.set("NOTIFY_SOCKET", &path.display().to_string());
    let mut up = lab.up(&[]);
    ear.hears("READY=1", 20);
    ear.hears("WATCHDOG=1", 20);
    up.signal(rustix::process::Signal::TERM);
    ear.hears("STOPPING=1", 20);
    up.ends(std::time::Duration::from_secs(20)).ends(0);
}
