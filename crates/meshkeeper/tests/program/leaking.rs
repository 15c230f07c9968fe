//! The leak hunt (S-2): planted and generated passwords, in every form, in everything that is written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use crate::lab::{Lab, need};
use crate::redis::{Client, Redis, Reply, free_port};
use crate::wait::until;

fn planted() -> Vec<String> {
    vec![
        "pl4nted-\"double\"-'single'".to_owned(),
        "pl4nted p@ss/w:rd?#[%41]&=+{x} '".to_owned(),
        "pl4nted-\u{fc}-\u{6f22}-100%".to_owned(),
        "pl4nted\\back\\slash\ttab".to_owned(),
        "pl4nted-first\nsecond line".to_owned(),
        format!("pl4nted-long-{}", "0123456789abcdef".repeat(60)),
        "ordinary-looking-pl4nted".to_owned(),
    ]
}

/// Every form in which a secret could be written.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let bytes = secret.as_bytes();
    let percent = |keep: &dyn Fn(u8) -> bool, upper: bool| {
        bytes.iter().fold(String::new(), |mut out, byte| {
            match (keep(*byte), upper) {
                (true, _) => out.push(char::from(*byte)),
                (false, true) => out.push_str(&format!("%{byte:02X}")),
                (false, false) => out.push_str(&format!("%{byte:02x}")),
            }
            out
        })
    };
    let unreserved = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    let alphanumeric = |b: u8| b.is_ascii_alphanumeric();
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let json = serde_json::to_string(secret).expect("JSON");
    let json = json.trim_matches('"').to_owned();
    let escaped: String = json
        .chars()
        .map(|c| {
            if c.is_ascii() {
                c.to_string()
            } else {
                format!("\\u{:04x}", u32::from(c))
            }
        })
        .collect();
    let mut all = vec![
        secret.to_owned(),
        percent(&unreserved, true),
        percent(&unreserved, false),
        percent(&alphanumeric, true),
        secret.replace(' ', "+"),
        STANDARD.encode(bytes),
        STANDARD_NO_PAD.encode(bytes),
        URL_SAFE.encode(bytes),
        URL_SAFE_NO_PAD.encode(bytes),
        hex.to_uppercase(),
        hex,
        json,
        escaped,
        secret.replace('\'', "''"),
        secret.replace('\\', "\\\\").replace('\'', "\\'"),
        format!("{secret:?}").trim_matches('"').to_owned(),
    ];
    all.sort();
    all.dedup();
    all.into_iter().map(String::into_bytes).collect()
}

/// One of its forms, as a careless message would have it.
fn careless(secret: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    secret.bytes().fold(String::new(), |mut out, b| {
        if plain(b) {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
        out
    })
}

/// What was collected, by where it comes from.
#[derive(Default)]
struct Collected(BTreeMap<String, Vec<u8>>);

impl Collected {
    fn add(&mut self, place: impl Into<String>, bytes: impl AsRef<[u8]>) {
        self.0
            .entry(place.into())
            .or_default()
            .extend_from_slice(bytes.as_ref());
    }
    fn ran(&mut self, lab: &Lab, args: &[&str]) {
        let ran = lab.mesh(args);
        self.add(
            format!("mesh {}", args.join(" ")),
            format!("{}\n{}", ran.out, ran.err),
        );
    }
    /// The places that hold a secret in any form, but for these.
    fn search(&self, secrets: &[String], but: impl Fn(&str) -> bool) -> Vec<String> {
        let mut found = Vec::new();
        for secret in secrets {
            for form in forms(secret) {
                for (place, bytes) in self.0.iter().filter(|(place, _)| !but(place)) {
                    let at = bytes.windows(form.len()).position(|w| w == form);
                    if let Some(at) = at {
                        let from = at.saturating_sub(80);
                        let to = (at + form.len() + 80).min(bytes.len());
                        let around = String::from_utf8_lossy(&bytes[from..to]).into_owned();
                        let form = String::from_utf8_lossy(&form).into_owned();
                        found.push(format!("{place}: {form}\n    in: {around}"));
                    }
                }
            }
        }
        found
    }
}

/// Everything that the server is told, as MONITOR shows it.
fn monitor(redis: &Redis) -> Arc<Mutex<Vec<u8>>> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let mut client = redis.client();
    client.ask(&["MONITOR"]);
    let to = Arc::clone(&kept);
    std::thread::spawn(move || {
        loop {
            match client.read() {
                Some(Reply::Text(line)) => to.lock().expect("kept").extend(line),
                Some(_) => {}
                None => return,
            }
        }
    });
    kept
}

const TRACE: [&str; 3] = ["-vvv", "--log-format", "json"];

fn with_trace<'a>(args: &[&'a str]) -> Vec<&'a str> {
    args.iter().copied().chain(TRACE).collect()
}

fn manifest(redis: &Redis, passwords: usize, extra: &str) -> String {
    let mut text = format!(
        "[mesh]\nid = \"home\"\n\n[provider.cache]\nkind = \"redis\"\nurl = \"{}\"\nverify_every = \"1s\"\n\
         admin = {{ user = \"default\", password = {{ file = \"admin.password\" }} }}\n",
        redis.url()
    );
    for n in 0..passwords {
        let source = format!("password = {{ file = \"p{n}.password\" }}");
        need(&mut text, &format!("given{n}"), "cache", &source);
    }
    need(&mut text, "made", "cache", "");
    need(
        &mut text,
        "unknown-rule",
        "cache",
        "selectors = [{ keys = [\"*\"], commands = [\"+nonsense\"] }]",
    );
    need(
        &mut text,
        "taken",
        "cache",
        "password = { file = \"p0.password\" }\nadopt = true",
    );
    text.push_str(extra);
    text
}

/// Every file of a folder, in its folders too.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("folder");
    let paths = entries.map(|entry| entry.expect("entry").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files_in(&path),
            false => vec![path],
        })
        .collect()
}

#[test]
fn s2_no_password_is_written_anywhere_but_where_it_was_asked_for() {
    let mut lab = Lab::new();
    let admin = "pl4nted-admin-\"%\u{fc}'";
    let redis = Redis::start();
    redis.ask(&["CONFIG", "SET", "requirepass", admin]);
    let redis = redis.with_password(admin);
    redis.set_user("taken on >pl4nted-of-a-stranger ~* +@all");
    lab.write("admin.password", admin);
    lab.set("FROM_ENV", "pl4nted-from-the-environment");
    let given = planted();
    for (n, password) in given.iter().enumerate() {
        lab.write(&format!("p{n}.password"), password);
    }
    // A second provider that refuses our admin's password, and one that is not there.
    let wrong = Redis::start();
    wrong.ask(&["CONFIG", "SET", "requirepass", "quite-another-one"]);
    let mut extra = format!(
        "\n[provider.wrong]\nkind = \"redis\"\nurl = \"{}\"\n\
         admin = {{ user = \"default\", password = {{ file = \"admin.password\" }} }}\n\
         [provider.away]\nkind = \"redis\"\nurl = \"redis://127.0.0.1:{}\"\n\
         admin = {{ user = \"default\", password = {{ file = \"admin.password\" }} }}\n",
        wrong.url(),
        free_port()
    );
    need(
        &mut extra,
        "given0",
        "wrong",
        "password = { env = \"FROM_ENV\" }",
    );
    need(
        &mut extra,
        "given0",
        "away",
        "password = { env = \"FROM_ENV\" }",
    );
    lab.manifest(&manifest(&redis, given.len(), &extra));
    let (mut all, told) = (Collected::default(), monitor(&redis));

    for word in [
        &["check"][..],
        &["check", "--connect"],
        &["plan"],
        &["plan", "--json"],
        &["apply"],
    ] {
        all.ran(&lab, &with_trace(word));
    }
    let made = lab.password("made", "cache");
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let mut up = crate::lab::Up::of(lab.command(&with_trace(&["up", "--listen", &listen])));
    until("the daemon is up", 30, || {
        let log = up.log();
        if log.contains("\"up\"") {
            Ok(())
        } else {
            Err(log.len())
        }
    });
    let pid = up.pid().as_raw_pid();
    all.add(
        "cmdline",
        fs::read(format!("/proc/{pid}/cmdline")).expect("cmdline"),
    );
    // Losses, a changed password, a broken one, a broken manifest.
    redis.ask(&["ACL", "DELUSER", "given0", "made"]);
    redis.set_user("given1 resetpass >pl4nted-behind-our-back");
    let changed = "pl4nted-the-changed-one-100%";
    lab.write("p2.password", changed);
    fs::remove_file(lab.path().join("p3.password")).expect("removed");
    until("all of that is healed", 30, || {
        let fine = redis.lets_in("given0", &given[0])
            && redis.lets_in("given1", &given[1])
            && redis.lets_in("given2", changed)
            && redis.lets_in("made", &made);
        if fine { Ok(()) } else { Err(lab.conditions()) }
    });
    for path in ["/live", "/ready", "/metrics", "/status", "/nothing"] {
        all.add(path, crate::serving::get(port, path).1);
    }
    for word in [
        &["status"][..],
        &["status", "--json"],
        &["status", "--check"],
        &["conditions", "--all"],
        &["conditions", "--json"],
        &["events"],
        &["events", "--json"],
        &["explain", "given0"],
        &["explain", "given1", "--json"],
        &["explain", "taken", "--json"],
        &["loops", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["pause", "given0", "--for", "1s"],
        &["adopt", "taken", "cache"],
        &["apply", "--json"],
    ] {
        all.ran(&lab, &with_trace(word));
    }
    // A manifest with a password written into it: refused, and not repeated.
    let inline = "pl4nted-into-the-manifest";
    let mut text = manifest(&redis, 0, "");
    need(
        &mut text,
        "inline",
        "cache",
        &format!("password = \"{inline}\""),
    );
    lab.manifest(&text);
    for word in [&["check"][..], &["check", "--json"], &["plan"]] {
        all.ran(&lab, &with_trace(word));
    }
    until("the daemon saw it", 20, || {
        let all = lab.conditions();
        if all.iter().any(|c| c.starts_with("Refused")) {
            Ok(())
        } else {
            Err(all)
        }
    });
    let ran = up.stop().ends(0);
    all.add("the daemon's stdout", ran.out);
    all.add("the daemon's log", ran.err);
    for path in files_in(&lab.data()) {
        let name = path.strip_prefix(lab.data()).expect("within").display();
        all.add(format!("data/{name}"), fs::read(&path).expect("file"));
    }
    all.add("MONITOR", told.lock().expect("kept").as_slice());
    assert!(
        all.0["the daemon's log"].len() > 2000,
        "there was something to search"
    );
    assert!(all.0["MONITOR"].len() > 500);

    let mut secrets = given;
    secrets.extend(
        [
            admin,
            changed,
            &made,
            inline,
            "pl4nted-from-the-environment",
        ]
        .map(str::to_owned),
    );
    let mut planted = Collected::default();
    planted.add("here", format!("url=redis://x:{}@y", careless(&secrets[1])));
    assert_eq!(
        planted.search(&secrets, |_| false).len(),
        1,
        "the hunt finds"
    );
    // Proving a password means logging in with it, which MONITOR does not show; ours never stand there.
    let found = all.search(&secrets, |_| false);
    assert!(
        found.is_empty(),
        "{} leaks:\n{}",
        found.len(),
        found.join("\n")
    );
    // What the server keeps of a password tells a short one to whoever has time, so it stays there.
    let hashes: Vec<String> = redis
        .ask(&["ACL", "LIST"])
        .texts()
        .iter()
        .flat_map(|line| line.split(' '))
        .filter_map(|word| word.strip_prefix('#'))
        .map(str::to_owned)
        .collect();
    assert!(hashes.len() >= 8, "{hashes:?}");
    let found = all.search(&hashes, |place| place == "MONITOR");
    assert!(
        found.is_empty(),
        "{} hashes:\n{}",
        found.len(),
        found.join("\n")
    );
    // And one place where they are asked for.
    assert!(
        lab.mesh(&["credentials", "made", "cache"])
            .ends(0)
            .out
            .contains(&made)
    );
    let mut client = Client::connect(redis.port).expect("client");
    assert!(!matches!(
        client.ask(&["AUTH", "made", &made]),
        Reply::Error(_)
    ));
}
