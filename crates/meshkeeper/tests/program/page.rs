//! S-6: the page of `up --listen`: its views, who may read, who may speak, and what it never shows.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::lab::{Lab, Up, need};
use crate::redis::{Redis, free_port};
use crate::wait::until;

/// An answer.
#[derive(Debug)]
struct Answer {
    code: u16,
    head: String,
    body: String,
}

impl Answer {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Self {
            code: code.unwrap_or(0),
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }
    /// A header's value.
    fn header(&self, name: &str) -> &str {
        let found = self.head.lines().find_map(|line| line.strip_prefix(name));
        found.map_or("", |value| value.trim_start_matches(": "))
    }
}

/// Asks on a connection: a method with a path, lines of the head, and a form.
fn ask_on(
    mut stream: impl Read + Write,
    host: &str,
    (what, lines, form): (&str, &[String], &str),
) -> Answer {
    let mut text = format!("{what} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for line in lines {
        text += &format!("{line}\r\n");
    }
    if !form.is_empty() {
        let length = form.len();
        text += &format!(
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n"
        );
    }
    stream
        .write_all(format!("{text}\r\n{form}").as_bytes())
        .expect("sent");
    let mut answer = Vec::new();
    // An end without a farewell of TLS is an end.
    drop(stream.read_to_end(&mut answer));
    Answer::of(&String::from_utf8_lossy(&answer))
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("connection");
    let patience = Some(Duration::from_secs(30));
    stream.set_read_timeout(patience).expect("set");
    stream
}

fn ask(port: u16, what: &str, lines: &[&str], form: &str) -> Answer {
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    let host = format!("127.0.0.1:{port}");
    ask_on(connect(port), &host, (what, &lines, form))
}

fn get(port: u16, path: &str) -> Answer {
    ask(port, &format!("GET {path}"), &[], "")
}

fn serving(lab: &Lab) -> (Up, u16) {
    let port = free_port();
    let up = lab.up(&["--listen", &format!("127.0.0.1:{port}")]);
    crate::restarting::settled(lab);
    (up, port)
}

fn token(lab: &Lab) -> String {
    let path = lab.data().join("page-token");
    let text = std::fs::read_to_string(path).expect("the token's file");
    text.trim().to_owned()
}

/// The key of the condition of that kind.
fn condition(lab: &Lab, kind: &str) -> String {
    let status = lab.status();
    let all = status["conditions"].as_array().expect("conditions");
    let found = all.iter().find(|one| one["type"] == kind);
    let key = found.and_then(|one| one["key"].as_str());
    key.unwrap_or_else(|| panic!("no {kind}: {status:#}"))
        .to_owned()
}

const HOSTILE: &str = "<script>alert(1)</script>\u{202e}";

#[test]
fn s6_every_view_is_there_escaped_and_without_a_password() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let mut text = crate::lab::cache(&redis, "verify_every = \"1s\"", ["web"]);
    need(&mut text, "evil", "cache", &format!("login = '{HOSTILE}'"));
    need(
        &mut text,
        "given",
        "cache",
        "password = { file = \"given\" }",
    );
    lab.write("given", "a planted password\n");
    lab.manifest(&text);
    let (_up, port) = serving(&lab);
    let durable = condition(&lab, "NotDurable");
    let secrets = [
        lab.password("web", "cache"),
        lab.password("evil", "cache"),
        token(&lab),
        lab.password("given", "cache"),
    ];
    for (path, code, says) in [
        ("/", 200, "Consumers and providers"),
        (
            "/?q=we&state=held&provider=cache&page=1",
            200,
            "Consumers 1 to 1 of 1",
        ),
        ("/?q=%3Cscript%3E", 200, "value=\"&lt;script&gt;\""),
        ("/?q=nobody", 200, "Nobody fits"),
        ("/?page=99999999999999999999", 200, "Consumers 1 to 3"),
        ("/?page=18446744073709551615", 200, "Nobody fits"),
        ("/conditions", 200, "NotDurable"),
        (&format!("/condition/{durable}"), 200, "What to do"),
        ("/consumer/web", 200, "What is known, what it rests on"),
        (
            "/consumer/evil",
            200,
            "&lt;script&gt;alert(1)&lt;/script&gt;",
        ),
        (
            "/provider/cache",
            200,
            "What the adapter can and cannot tell",
        ),
        ("/loops", 200, "Cannot see"),
        ("/sign-in", 200, "Token"),
        ("/consumer/nobody", 404, "There is no consumer"),
        ("/consumer/%3Cscript%3E%E2%80%AE", 404, "&lt;script&gt;"),
        ("/provider/%3Cscript%3E", 404, "&lt;script&gt;"),
        ("/condition/%3Cscript%3E", 404, "&lt;script&gt;"),
        ("/assets/page.css", 200, "prefers-color-scheme"),
        ("/assets/page.js", 200, "EventSource"),
        ("/status", 200, "provisions"),
        ("/metrics", 200, "mesh_passes"),
        ("/nothing", 404, ""),
    ] {
        let answer = get(port, path);
        assert_eq!(answer.code, code, "{path}: {answer:#?}");
        assert!(
            answer.body.contains(says),
            "no `{says}` in {path}: {answer:#?}"
        );
        for secret in &secrets {
            assert!(
                !answer.body.contains(secret.as_str())
                    && !answer.head.contains(&secret.to_lowercase()),
                "{path}"
            );
        }
        let policy = answer.header("content-security-policy");
        assert!(
            policy.contains("default-src 'none'") && !policy.contains("unsafe"),
            "{path}: {policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        if answer.header("content-type").starts_with("text/html") {
            for never in [
                "<script>",
                "\u{202e}",
                " style=",
                " onclick=",
                "http://www",
                "https://",
            ] {
                assert!(
                    !answer.body.contains(never),
                    "`{never}` in {path}: {}",
                    answer.body
                );
            }
        }
    }
}

#[test]
fn s6_changing_anything_needs_the_token_and_a_form_of_ours() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "verify_every = \"1s\"", ["web"]);
    let (_up, port) = serving(&lab);
    let (key, token) = (condition(&lab, "NotDurable"), token(&lab));
    let acked = || lab.status()["conditions"][0]["acknowledged_until"].clone();
    let (bearer, wrong) = (
        format!("Authorization: Bearer {token}"),
        "Authorization: Bearer guessed".to_owned(),
    );
    let ack = format!("POST /condition/{key}/ack");
    let form = "length=1h&reason=seen";
    let here = format!("Origin: http://127.0.0.1:{port}");
    // Without it nothing happens, whatever else comes with the form.
    for lines in [
        vec![],
        vec![wrong.as_str()],
        vec![here.as_str()],
        vec!["Cookie: mesh_session_1=x"],
    ] {
        let answer = ask(port, &ack, &lines, form);
        assert_eq!(answer.code, 403, "{lines:?}: {answer:#?}");
    }
    let elsewhere = [bearer.as_str(), "Origin: http://evil.example"];
    assert_eq!(ask(port, &ack, &elsewhere, form).code, 403);
    assert_eq!(acked(), serde_json::Value::Null);
    // A browser shows the token once.
    let answer = ask(port, "POST /sign-in", &[&here], "token=guessed");
    assert_eq!((answer.code, answer.header("set-cookie")), (401, ""));
    let signed = ask(
        port,
        "POST /sign-in",
        &[&here],
        &format!("token={token}&next=//evil.example"),
    );
    assert_eq!(
        (signed.code, signed.header("location")),
        (303, "/"),
        "{signed:#?}"
    );
    // The head is told in small letters; the cookie is not.
    let cookie = {
        let host = format!("127.0.0.1:{port}");
        let mut stream = connect(port);
        let form = format!("token={token}");
        write!(stream, "POST /sign-in HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}", form.len()).expect("sent");
        let line = BufReader::new(stream)
            .lines()
            .map_while(Result::ok)
            .find(|line| line.starts_with("set-cookie: "));
        let line = line.expect("a cookie");
        assert!(
            line.ends_with("; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200"),
            "{line}"
        );
        format!(
            "Cookie: {}",
            line.trim_start_matches("set-cookie: ")
                .split(';')
                .next()
                .expect("pair")
        )
    };
    let page = ask(port, &format!("GET /condition/{key}"), &[&cookie], "");
    let form_key = page
        .body
        .split("name=\"key\" value=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let form_key = form_key.expect("the key of its forms");
    assert!(!page.body.contains(&token), "the token itself is not shown");
    // The session alone, as another page's form would send it, does not do.
    for form in [form.to_owned(), format!("{form}&key=guessed")] {
        assert_eq!(ask(port, &ack, &[&cookie, &here], &form).code, 403);
    }
    assert_eq!(acked(), serde_json::Value::Null);
    let form = format!("{form}&key={form_key}");
    for wrong in [
        format!("length=9d&key={form_key}"),
        format!("reason=x&key={form_key}"),
        format!("length=1h&reason=a%0Ab&key={form_key}"),
        format!("length=1h&reason={}&key={form_key}", "x".repeat(501)),
    ] {
        assert_eq!(
            ask(port, &ack, &[&cookie, &here], &wrong).code,
            400,
            "{wrong}"
        );
    }
    let done = ask(port, &ack, &[&cookie, &here], &form);
    assert_eq!(
        (done.code, done.header("location")),
        (303, format!("/condition/{key}").as_str())
    );
    assert!(acked().is_string(), "{:#}", lab.status());
    // A program sends the token with each request.
    let silence = ask(
        port,
        &format!("POST /condition/{key}/silence"),
        &[&bearer],
        "length=1h&reason=known",
    );
    assert_eq!(silence.code, 303, "{silence:#?}");
    assert!(lab.status()["conditions"][0]["silenced_until"].is_string());
    let nothing = ask(port, "POST /condition/a.b.c/ack", &[&bearer], "length=1h");
    assert_eq!(nothing.code, 404);
    let out = ask(
        port,
        "POST /sign-out",
        &[&cookie, &here],
        &format!("key={form_key}"),
    );
    assert_eq!(out.code, 303);
    assert_eq!(
        ask(port, &ack, &[&cookie, &here], &form).code,
        403,
        "the session is over"
    );
}

#[test]
fn s6_behind_a_proxy_reading_needs_the_token_too() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let text = crate::lab::cache(&redis, "", ["web"]);
    let page = "[mesh.page]\nbehind_proxy = true\nnames = [\"mesh.example\"]\ntoken = { file = \"token\" }\n\n[provider.cache]";
    lab.manifest(&text.replacen("[provider.cache]", page, 1));
    lab.write("token", "a token of a person's own\n");
    let (_up, port) = serving(&lab);
    let (tls, bearer) = (
        "X-Forwarded-Proto: https",
        "Authorization: Bearer a token of a person's own",
    );
    let from = |host: &str, path: &str, lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        ask_on(connect(port), host, (&format!("GET {path}"), &lines, ""))
    };
    for path in [
        "/",
        "/status",
        "/metrics",
        "/ready",
        "/changes",
        "/consumer/web",
    ] {
        assert_eq!(
            from("mesh.example", path, &[bearer]).code,
            403,
            "{path}: not over TLS"
        );
        assert_eq!(
            from("mesh.example", path, &[tls]).code,
            401,
            "{path}: without the token"
        );
        assert_eq!(
            from("evil.example", path, &[tls, bearer]).code,
            403,
            "{path}: another name"
        );
    }
    for path in ["/", "/status", "/metrics", "/consumer/web"] {
        assert_eq!(
            from("mesh.example", path, &[tls, bearer]).code,
            200,
            "{path}"
        );
    }
    assert_eq!(from("mesh.example", "/live", &[tls]).code, 200);
    let browser = from("mesh.example", "/", &[tls, "Accept: text/html"]);
    assert_eq!(
        (browser.code, browser.header("location")),
        (303, "/sign-in")
    );
    assert!(
        !lab.data().join("page-token").exists(),
        "none is made beside one's own"
    );
    let signed = ask_on(
        connect(port),
        "mesh.example",
        (
            "POST /sign-in",
            &[tls.to_owned()],
            "token=a+token+of+a+person's+own",
        ),
    );
    assert!(
        signed.header("set-cookie").contains("secure"),
        "{signed:#?}"
    );
}

#[test]
fn s6_beyond_this_machine_it_is_encrypted_and_asks_for_the_token() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let text = crate::lab::cache(&redis, "", ["web"]);
    let made =
        rcgen::generate_simple_self_signed(["mesh.example".to_owned()]).expect("certificate");
    lab.write("page.crt", &made.cert.pem());
    lab.write("page.key", &made.signing_key.serialize_pem());
    let page = "[mesh.page]\ncertificate = \"page.crt\"\nkey = \"page.key\"\nnames = [\"mesh.example\"]\n\n[provider.cache]";
    lab.manifest(&text.replacen("[provider.cache]", page, 1));
    let port = free_port();
    let _up = lab.up(&["--listen", &format!("0.0.0.0:{port}")]);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let from = |path: &str, lines: &[String]| {
        let name = "mesh.example".try_into().expect("name");
        let tls = rustls::ClientConnection::new(Arc::clone(&config), name).expect("client");
        let stream = rustls::StreamOwned::new(tls, connect(port));
        ask_on(
            stream,
            &format!("mesh.example:{port}"),
            (&format!("GET {path}"), lines, ""),
        )
    };
    assert_eq!(from("/status", &[]).code, 401);
    let bearer = format!("Authorization: Bearer {}", token(&lab));
    let answer = from("/", &[bearer]);
    assert_eq!(answer.code, 200, "{answer:#?}");
    // What is not encrypted is not answered.
    let mut plain = connect(port);
    write!(plain, "GET /live HTTP/1.1\r\nHost: mesh.example\r\n\r\n").expect("sent");
    let mut text = Vec::new();
    drop(plain.read_to_end(&mut text));
    assert!(!String::from_utf8_lossy(&text).contains("ok"), "{text:?}");
}

/// The lines of a stream of changes, read from its head on.
fn stream(port: u16) -> (u16, BufReader<TcpStream>) {
    let mut stream = connect(port);
    write!(
        stream,
        "GET /changes HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
    )
    .expect("sent");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).expect("a line");
    let code = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    (code.unwrap_or(0), reader)
}

#[test]
fn s6_streams_are_bounded_tell_of_changes_and_end_with_the_daemon() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "verify_every = \"1s\"", ["web"]);
    let (mut up, port) = serving(&lab);
    let mut streams: Vec<_> = (0..256).map(|_| stream(port)).collect();
    assert!(streams.iter().all(|(code, _)| *code == 200));
    assert_eq!(stream(port).0, 503, "one more than there are places");
    // The first is told first.
    let (_, one) = streams.remove(0);
    let told = one
        .lines()
        .map_while(Result::ok)
        .filter(|line| line.starts_with("data: "));
    let told: Vec<String> = told.take(3).collect();
    assert_ne!(told[1], told[2], "passes go on, and it is told of them");
    until("the place of one that left is free", 60, || {
        match stream(port).0 {
            200 => Ok(()),
            code => Err(code),
        }
    });
    let began = Instant::now();
    up.stop().ends(0);
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(10),
        "streams kept the daemon for {took:?}"
    );
    for (_, mut stream) in streams {
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest));
    }
}

#[test]
fn s6_a_token_that_others_can_read_or_guess_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web"]);
    lab.mesh(&["apply"]).ends(0);
    let path = lab.data().join("page-token");
    let listen = ["up", "--listen", "127.0.0.1:0"];
    for (text, mode, says) in [
        (
            "a token of some length",
            0o644,
            "others on this machine can read it",
        ),
        ("short", 0o600, "shorter than 20"),
    ] {
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("mode");
        lab.mesh(&listen).ends(1).warns(says);
    }
}
