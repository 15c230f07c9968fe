//! Reading manifests: what is in order, what is refused and with which words, and how far a mistake reaches.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use mesh_sdk::{ConsumerName, ProviderName, Secret};
use meshkeeper::errors::Scope;
use meshkeeper::manifest::{self, Kinds, PasswordSource, Reading, SecretRef};

pub(crate) fn kinds() -> Kinds {
    Kinds::new(crate::kind::catalogue())
}

pub(crate) fn parse(text: &str) -> Reading {
    manifest::parse(Path::new("/etc/mesh/mesh.toml"), text.to_owned(), &kinds())
}

pub(crate) const GOOD: &str = r#"
[mesh]
id  = "home"
bus = "embedded"

[provider.store]
kind  = "shelf"
urls  = ["shelf://127.0.0.1", "shelfs://[2001:db8::7]:7400"]
admin = { user = "keeper", password = { env = "SHELF_ADMIN" } }
verify_every = "5 min"
max_removals = 7

[consumer.web.needs.store]
boards = ["web:*"]
access = "put"

[consumer.api.needs.store]
boards   = []
login    = "api-1"
password = { file = "secrets/api" }
enabled  = false
"#;

fn manifest_of(text: &str) -> manifest::Manifest {
    let reading = parse(text);
    let told: String = rendered(&reading);
    reading.manifest.unwrap_or_else(|| panic!("{told}"))
}

pub(crate) fn rendered(reading: &Reading) -> String {
    reading
        .problems
        .list()
        .iter()
        .fold(String::new(), |mut all, problem| {
            writeln!(all, "{}\n", reading.problems.render(problem, false)).expect("text");
            all
        })
}

#[test]
fn what_is_written_is_what_is_read() {
    let manifest = manifest_of(GOOD);
    assert!(manifest.is_whole());
    let store = &manifest.providers[&ProviderName::new("store").unwrap()];
    assert_eq!(store.timing.verify_every, Duration::from_secs(300));
    assert_eq!(store.timing.list_every, Duration::from_secs(600));
    assert_eq!(store.max_removals, 7);
    let names: Vec<&str> = store.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["127.0.0.1:7000", "[2001:db8::7]:7400"]);
    let [api, web] = &manifest.provisions[..] else {
        panic!("{:?}", manifest.provisions)
    };
    assert_eq!(
        (web.login.as_str(), web.enabled, web.line),
        ("web", true, 13)
    );
    assert_eq!(web.password, PasswordSource::Generated);
    assert_eq!(
        (api.login.as_str(), api.enabled, api.adopt),
        ("api-1", false, false)
    );
    let file = SecretRef::File("/etc/mesh/secrets/api".into());
    assert_eq!(api.password, PasswordSource::Given(file));
    assert_eq!(manifest.files(), [Path::new("/etc/mesh/secrets/api")]);
}

#[test]
fn h1_the_wish_changes_with_the_values_and_the_digest_with_the_text() {
    let key = Secret::from("key");
    let digest = |text: &str| manifest_of(text).provisions[1].wish(None, &key).digest();
    let other = GOOD.replace("web:*", "www:*");
    assert_ne!(digest(GOOD), digest(&other));
    assert_eq!(
        digest(GOOD),
        digest(&GOOD.replace("[\"web:*\"]", "[ 'web:*' ] # same"))
    );
    assert_ne!(manifest_of(GOOD).digest, manifest_of(&other).digest);
}

#[test]
fn a2_every_mistake_is_told_with_its_place_and_what_was_meant() {
    let text = r#"
[mesh]
id  = "Home"
buss = "embedded"

[providers.store]
kind = "shelf"

[provider.store]
kind  = "shlef"
url   = "shelf://127.0.0.1"

[provider.far]
kind  = "shelf"
url   = "shelf://10.0.0.7/x"
admin = { user = "keeper", password = "planted-7f3a" }
verfiy_every = "60s"
list_every = 60
grace = "10 years"
ask_timeout = "1ms"
max_removals = -1
tls = { ca = "ca.pem", dangerously_unverified = true, client_key = "k.pem" }

[provider.both]
kind = "shelf"
url  = "http://user:planted-7f3a@127.0.0.1"
urls = []

[provider.twice]
kind = "shelf"
urls = ["shelf://h.example:1", "shelfs://h.example:1", "http://h.example", "shelfs://k:planted-7f3a@h"]

[provider.ok]
kind = "shelf"
url  = "shelfs://ok.example"
admin = { user = "keeper" }

[consumer.Web.needs.ok]
boards = []

[consumer.lone]

[consumer.api]
deliver = [
  { env_file = "x", readers = ["zsh"], mode = "9", values = { "1A" = "{url", B = "{other.url}" } },
  { env_file = "x", folder = "y", host = 3 },
  { json_file = "z", readers = ["shell"], acknowledge = "reload", reload = { signal = "KILL" } },
  { pogram = ["x"] },
  { env_file = "same", acknowledge = "login" },
  { env_file = "once" },
  { env_file = "once", reload = { command = ["x"], timeout = "1h" } },
  { env_file = "twice" },
  { json_file = "twice" },
]
[consumer.api.needs.ok]
boards = []

[consumer.a.needs]
sotre = { boards = [] }
okk   = { boards = [] }
ok    = { bords = ["x"], acess = "look", pasword = "planted-7f3a" }

[consumer.b.needs.ok]
boards = ["x", 3]
access = "planted"
room   = 300
login  = ""
weak   = true
password = { evn = "X" }
rotate = "1d"

[consumer.c.needs.ok]
boards = [""]

[consumer.d.needs.ok]
boards = []
login  = "sys_d"

[consumer.e.needs.ok]
boards = []
login  = "keeper"
password = { env = "planted 7f3a" }

[consumer.f.needs.ok]
boards = []
login  = "keeper"

[consumer.g.needs.ok]
boards = []
login  = "a-login-that-is-much-too-long"

[consumer.h]
needs = "ok"
"#;
    let reading = parse(text);
    assert!(reading.manifest.is_none());
    insta::assert_snapshot!(rendered(&reading));
}

#[test]
fn h3_o29_one_bad_entry_spoils_only_itself() {
    let mut text = String::from(
        "[mesh]\nid = \"home\"\n[provider.store]\nkind = \"shelf\"\nurl = \"shelf://[::1]\"\n",
    );
    for n in 0..10 {
        let login = if n == 7 {
            "x".repeat(64)
        } else {
            format!("login{n}")
        };
        let board = if n == 3 { "" } else { "board" };
        writeln!(
            text,
            "[consumer.c{n}.needs.store]\nboards = [\"{board}\"]\nlogin = \"{login}\""
        )
        .unwrap();
    }
    let reading = parse(&text);
    assert_eq!(reading.problems.errors(), 2);
    let manifest = reading.manifest.expect("whole enough");
    assert_eq!(manifest.provisions.len(), 8);
    assert!(!manifest.is_whole());
    let store = ProviderName::new("store").unwrap();
    let refuses = |name: &str| manifest.refuses(&store, &ConsumerName::new(name).unwrap());
    assert_eq!(
        (refuses("c3"), refuses("c7"), refuses("c1")),
        (true, true, false)
    );
    assert_eq!(manifest.refused[0].why, "`boards`: a board has a name");
    assert_eq!(manifest.refused[0].login.as_deref(), Some("login3"));
}

#[test]
fn a_bad_provider_spoils_what_needs_it_and_is_told_once() {
    let text = GOOD.replace("5 min", "5 parsecs")
        + "\n[provider.other]\nkind = \"shelf\"\nurl = \"shelf://[::1]:1\"\n[consumer.web.needs.other]\nboards = []\n";
    let reading = parse(&text);
    assert_eq!(reading.problems.list().len(), 1);
    assert_eq!(
        reading.problems.list()[0].scope,
        Scope::Provider("store".into())
    );
    let manifest = reading.manifest.expect("the rest");
    assert_eq!(manifest.provisions.len(), 1);
    let (store, web) = (
        ProviderName::new("store").unwrap(),
        ConsumerName::new("web").unwrap(),
    );
    assert!(manifest.refuses(&store, &web));
    assert_eq!(manifest.refused.len(), 3);
    assert_eq!(manifest.refused[1].why, "its provider `store` has mistakes");
}

#[test]
fn r8_o36_a_text_that_is_not_whole_is_no_wish_at_all() {
    let half = &GOOD[..GOOD.len() / 2];
    for text in [
        "",
        "\n# nothing\n",
        "id = \"home\"",
        "[mesh]\nid = \"home\"\n[consumers.web.needs.store]\n",
        "[mesh]\nid = \"home\"\nconsumer = 3",
        "[mesh]\nid = 3",
        "[mesh]\nbus = \"nats://u:planted@h\"\nid = \"home\"",
        "[mesh]\nid = \"home\"\n[mesh]\n",
        &format!("{half}\n[consumer.web"),
        &format!("{GOOD}\nboards = []\nboards = []"),
    ] {
        let reading = parse(text);
        assert!(reading.manifest.is_none(), "{text}");
        assert!(reading.problems.errors() > 0, "{text}");
        assert!(!rendered(&reading).contains("planted"));
    }
    let path = Path::new("/nowhere/mesh.toml");
    assert_eq!(
        manifest::read(path, &kinds()).expect_err("missing"),
        manifest::ReadFault::Missing(path.to_owned())
    );
}

#[test]
fn a_file_that_is_not_text_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mesh.toml");
    std::fs::write(&path, b"[mesh]\nid = \"\xff\"\n").unwrap();
    let fault = manifest::read(&path, &kinds())
        .expect_err("bytes")
        .to_string();
    assert!(fault.ends_with("is not UTF-8 text (line 2)"), "{fault}");
}

#[test]
fn o10_two_who_want_one_login_are_both_left_as_they_are() {
    let text = r#"
[mesh]
id = "home"
[provider.store]
kind = "shelf"
url = "shelf://[::1]"
[provider.again]
kind = "shelf"
url = "shelf://[0::1]:7000"
[consumer.a.needs.store]
boards = []
login = "same"
[consumer.b.needs.store]
boards = []
login = "same"
[consumer.c.needs.store]
boards = []
[consumer.d.needs.store]
boards = []
login = "c__b"
[consumer.e.needs]
store = { boards = [] }
again = { boards = [] }
[consumer.f.needs.store]
boards = []
login = "Same"
[consumer.g.needs.store]
boards = []
login = "alone__b"
"#;
    let reading = parse(text);
    insta::assert_snapshot!(rendered(&reading));
    let manifest = reading.manifest.expect("the rest");
    let left: Vec<&str> = manifest
        .provisions
        .iter()
        .map(|n| n.consumer.as_str())
        .collect();
    assert_eq!(left, ["f", "g"]);
    assert_eq!(manifest.refused.len(), 6);
}

#[test]
fn o05_o06_o09_o11_what_a_backend_cannot_take_is_refused_by_consumer_field_and_rule() {
    let check = |extra: &str| {
        let text = format!("{GOOD}[consumer.x.needs.store]\nboards = []\n{extra}\n");
        let reading = parse(&text);
        reading.problems.summary()
    };
    insta::assert_snapshot!(
        [
            check("login = \"default\""),
            check("login = \"sys_tem\""),
            check("login = \"keeper\""),
            check("login = \"ap\\u0000p\""),
            check("login = \"\""),
            check(&format!("login = \"{}\"", "ü".repeat(11))),
            check(&format!("login = \"{}\"", "a".repeat(21))),
            check("login = \"-rf\""),
        ]
        .join("\n")
    );
}

#[test]
fn a_manifest_with_windows_line_ends_and_a_byte_order_mark_is_read() {
    let text = format!("\u{feff}{}", GOOD.replace('\n', "\r\n"));
    let manifest = manifest_of(&text);
    assert_eq!(manifest.provisions.len(), 2);
}

/// `GOOD` with another bus.
fn with_bus(bus: &str) -> Reading {
    parse(&GOOD.replace("bus = \"embedded\"", bus))
}

#[test]
fn b2_a_bus_beyond_this_machine_is_an_address_or_a_table() {
    use meshkeeper::manifest::{BusChoice, BusLogin};
    let nats = |bus: &str| {
        let reading = with_bus(bus);
        let told = rendered(&reading);
        let manifest = reading.manifest.unwrap_or_else(|| panic!("{told}"));
        match manifest.bus {
            BusChoice::Nats(nats) => *nats,
            other => panic!("{other:?}"),
        }
    };
    let plain = nats("bus = \"nats://127.0.0.1:4222\"");
    assert_eq!(
        (plain.shown().as_str(), plain.login),
        ("nats://127.0.0.1:4222", BusLogin::Open)
    );
    let safe = nats("bus = \"tls://nats.example\"");
    assert_eq!(safe.shown(), "tls://nats.example:4222");
    let table = nats(
        "[mesh.bus]\nurls = [\"tls://a\", \"tls://[2001:db8::7]:4223\"]\nuser = \"loops\"\n\
         password = { env = \"BUS\" }\ntls = { ca = \"ca.pem\" }\ninbox = \"_INBOX_x\"\n",
    );
    assert_eq!(table.shown(), "tls://a:4222, tls://[2001:db8::7]:4223");
    assert_eq!(
        table.login,
        BusLogin::Password {
            user: "loops".to_owned(),
            password: SecretRef::Env("BUS".to_owned()),
            weak: false
        }
    );
    assert_eq!(table.tls.ca.as_deref(), Some(Path::new("/etc/mesh/ca.pem")));
    for (key, login) in [
        (
            "creds",
            BusLogin::Creds(SecretRef::File("/etc/mesh/m".into())),
        ),
        (
            "nkey",
            BusLogin::Nkey(SecretRef::File("/etc/mesh/m".into())),
        ),
    ] {
        let bus = format!("bus = {{ url = \"nats://[::1]\", {key} = {{ file = \"m\" }} }}");
        assert_eq!(nats(&bus).login, login);
    }
    let open = "bus = { url = \"nats://10.0.0.1\", dangerously_plain = true }";
    assert!(nats(open).dangerously_plain);
}

#[test]
fn s5_a_bus_that_cannot_be_used_is_told_with_its_place_and_no_wish_is_made() {
    for (bus, told) in [
        ("bus = \"nats://10.0.0.1\"", "use tls://"),
        ("bus = \"nats://localhost.example\"", "use tls://"),
        ("bus = \"http://127.0.0.1\"", "expected nats://"),
        ("bus = \"tls://h/db\"", "ends with its port"),
        (
            "bus = \"tls://u:planted@h\"",
            "no login or password in an address",
        ),
        ("bus = \"elsewhere\"", "unknown `bus`"),
        ("bus = 4222", "`bus` is an integer"),
        ("bus = {}", "`urls` is missing"),
        ("bus = { urls = [] }", "names no server"),
        (
            "bus = { url = \"tls://h\", urls = [\"tls://h\"] }",
            "both `url` and `urls`",
        ),
        (
            "bus = { url = \"tls://h\", user = \"u\" }",
            "`user` has no `password`",
        ),
        (
            "bus = { url = \"tls://h\", password = { env = \"P\" } }",
            "`password` has no `user`",
        ),
        (
            "bus = { url = \"tls://h\", user = \"u\", password = \"planted\" }",
            "a password does not stand",
        ),
        (
            "bus = { url = \"tls://h\", creds = \"planted\" }",
            "no secret stands in the manifest",
        ),
        (
            "bus = { url = \"tls://h\", nkey = { seed = \"planted\" } }",
            "takes `env` or `file`",
        ),
        (
            "bus = { url = \"tls://h\", nkey = { file = \"n\" }, creds = { file = \"c\" } }",
            "two ways to log in",
        ),
        (
            "bus = { url = \"tls://h\", tls = { dangerously_unverified = true } }",
            "always verified",
        ),
        (
            "bus = { url = \"nats://[::1]\", tls = { ca = \"c\" } }",
            "is not encrypted",
        ),
        (
            "bus = { url = \"tls://h\", inbox = \"a b\" }",
            "beginning of a subject",
        ),
        (
            "bus = { url = \"tls://h\", usr = \"u\" }",
            "did you mean `user`",
        ),
    ] {
        let reading = with_bus(bus);
        let told_now = rendered(&reading);
        assert!(reading.manifest.is_none(), "{bus}");
        assert!(told_now.contains(told), "{bus}: {told_now}");
        assert!(!told_now.contains("planted"), "{bus}: {told_now}");
    }
}

#[test]
fn s6_how_the_page_is_guarded_is_read_with_its_mistakes() {
    let with = |page: &str| {
        GOOD.replacen(
            "[provider.store]",
            &format!("[mesh.page]\n{page}\n\n[provider.store]"),
            1,
        )
    };
    let page = manifest_of(&with(
        "certificate = \"page.crt\"\nkey = \"/k/page.key\"\nnames = [\"mesh.example\"]\nbehind_proxy = true\ntoken = { file = \"token\" }",
    ))
    .page;
    assert_eq!(
        page.certificate.as_deref(),
        Some(Path::new("/etc/mesh/page.crt"))
    );
    assert_eq!(page.key.as_deref(), Some(Path::new("/k/page.key")));
    assert_eq!(
        (page.names, page.behind_proxy),
        (vec!["mesh.example".to_owned()], true)
    );
    assert_eq!(page.token, Some(SecretRef::File("/etc/mesh/token".into())));
    assert_eq!(manifest_of(GOOD).page, manifest::PageAsked::default());
    for (page, says) in [
        ("token = \"planted\"", "`token` names a place"),
        ("certificate = \"a\"", "one of `certificate` and `key`"),
        ("names = \"mesh.example\"", "`names` is a string"),
        (
            "names = [\"https://mesh.example\"]",
            "not the name of a host",
        ),
        ("behind_proxy = \"yes\"", "`behind_proxy` is a string"),
        ("cert = \"a\"", "unknown key `cert` in [mesh.page]"),
    ] {
        let reading = parse(&with(page));
        let told = rendered(&reading);
        assert!(told.contains(says), "{page}: {told}");
        let problems = reading.problems.list();
        assert!(
            problems.iter().all(|one| !one.message.contains("planted")),
            "{page}: {told}"
        );
    }
}
