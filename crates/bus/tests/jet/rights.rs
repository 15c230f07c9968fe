//! Who may do what, with the real permissions; logins, TLS, and servers that cannot do enough.

use mesh_bus::jetstream::{JetstreamBus, Link, Names, OpenFault, Role, permissions};
use mesh_conformance::servers::{JetCluster, JetOptions, TlsFiles};
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put};
use mesh_sdk::clock::Clock;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use crate::ground::{Ground, as_user, done, link, put, rings, value};

/// A mesh's users, and an administrator.
fn authorization(names: &Names) -> String {
    let mut users = "  { user: admin, password: admin-password }\n".to_owned();
    for role in Role::ALL {
        let (name, allowed) = (role.as_str(), permissions(names, role));
        users += &format!("  {{ user: {name}, password: {name}-password, {allowed} }}\n");
    }
    format!("authorization {{ users: [\n{users}] }}\n")
}

fn role_link(ports: &[u16], names: &Names, role: Role) -> Link {
    let name = role.as_str();
    let mut link = as_user(link(ports), name, &format!("{name}-password"));
    link.inbox = Some(role.inbox(names));
    link
}

struct Guarded {
    cluster: JetCluster,
    names: Names,
    folder: tempfile::TempDir,
}

const MESH: &str = "guarded";

impl Guarded {
    async fn start() -> Self {
        let names = Names::of(MESH);
        let options = JetOptions {
            authorization: authorization(&names),
            admin: Some(("admin".to_owned(), "admin-password".to_owned())),
            ..JetOptions::default()
        };
        let guarded = Self {
            cluster: JetCluster::start(options).await.expect("server"),
            names,
            folder: tempfile::tempdir().expect("folder"),
        };
        let link = guarded.link(Role::Bootstrap);
        let (layout, clock) = (Default::default(), Clock::system());
        let path = guarded.folder.path();
        let made = mesh_bus::jetstream::bootstrap(&link, MESH, path, "inst1", &layout, clock).await;
        made.expect("bootstrap");
        guarded
    }
    fn link(&self, role: Role) -> Link {
        role_link(&self.cluster.ports(), &self.names, role)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b9_the_loops_permissions_are_enough_and_the_readers_too() {
    let guarded = Guarded::start().await;
    let opened = JetstreamBus::open(&guarded.link(Role::Loops), MESH, guarded.folder.path()).await;
    let bus = opened.expect("open").bus;
    let watch = bus.watch(Bucket::Record, &Key::everything()).await;
    let mut watch = watch.expect("watch");
    done(&bus, "k", "v").await;
    rings(&mut *watch, "k").await;
    let line = (Key::of(&["adv", "apply"]), "line".to_owned());
    bus.append(vec![line.clone(), line]).await.expect("append");
    let reader = guarded.link(Role::Reader);
    let opened = JetstreamBus::open_read_only(&reader, MESH, guarded.folder.path()).await;
    let reading = opened.expect("open").bus;
    assert_eq!(value(&reading, "k").await.as_deref(), Some("v"));
    let list = reading.list(Bucket::Record, &Key::everything()).await;
    assert_eq!(list.expect("list").entries.len(), 1);
    let lines = reading.history(&Key::everything(), 0, 10).await;
    assert_eq!(lines.expect("history").len(), 2);
    let refused = put(&reading, "k", Expect::Absent, "w").await;
    assert!(matches!(refused, Err(Fault::Full(_))), "{refused:?}");
    // It opened the bus as a writer would, with no right to: the server refuses, whatever the program does.
    let opened = JetstreamBus::open(&reader, MESH, guarded.folder.path()).await;
    let refused = put(&opened.expect("open").bus, "new", Expect::Absent, "w").await;
    assert!(!matches!(refused, Ok(Put::Done(_))), "{refused:?}");
    assert_eq!(value(&bus, "new").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b9_what_no_role_may_do_is_refused_by_the_server() {
    let guarded = Guarded::start().await;
    let (state, log) = (&guarded.names.state, &guarded.names.log);
    let probes = [
        format!("$JS.API.STREAM.DELETE.{state}"),
        format!("$JS.API.STREAM.DELETE.{log}"),
        format!("$JS.API.STREAM.PURGE.{state}"),
        format!("$JS.API.STREAM.UPDATE.{state}"),
        format!("$JS.API.STREAM.MSG.DELETE.{state}"),
        format!("$JS.API.STREAM.SNAPSHOT.{state}"),
        format!("$JS.API.STREAM.RESTORE.{state}"),
        "$JS.API.STREAM.CREATE.other".to_owned(),
        format!("$JS.API.CONSUMER.CREATE.{log}"),
    ];
    for role in Role::ALL {
        let name = role.as_str();
        let options = async_nats::ConnectOptions::new()
            .user_and_password(name.to_owned(), format!("{name}-password"))
            .custom_inbox_prefix(role.inbox(&guarded.names))
            .request_timeout(Some(std::time::Duration::from_millis(300)));
        let port = guarded.cluster.ports()[0];
        let client = options.connect(format!("127.0.0.1:{port}")).await;
        let client = client.expect("connect");
        for probe in &probes {
            let answer = client.request(probe.clone(), "{}".into()).await;
            assert!(answer.is_err(), "{name} was answered on {probe}");
        }
    }
    let bus = JetstreamBus::open(&guarded.link(Role::Loops), MESH, guarded.folder.path()).await;
    done(&bus.expect("the streams are there").bus, "k", "v").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s2_a_wrong_password_is_told_without_it() {
    let guarded = Guarded::start().await;
    let wrong = as_user(link(&guarded.cluster.ports()), "loops", "planted-wrong");
    let opened = JetstreamBus::open(&wrong, MESH, guarded.folder.path()).await;
    let fault = opened.err().expect("refused");
    assert!(matches!(fault, OpenFault::Login { .. }), "{fault:?}");
    assert!(!format!("{fault} {fault:?}").contains("planted"));
    assert!(!format!("{wrong:?}").contains("planted"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b2_a_server_without_jetstream_is_refused_with_what_to_do() {
    let options = JetOptions {
        jetstream: false,
        ..JetOptions::default()
    };
    let cluster = JetCluster::start(options).await.expect("server");
    let folder = tempfile::tempdir().expect("folder");
    let opened = JetstreamBus::open(&link(&cluster.ports()), "m", folder.path()).await;
    let fault = opened.err().expect("refused");
    assert!(matches!(fault, OpenFault::NoJetStream { .. }), "{fault:?}");
}

/// Answers like a server of an earlier version: it has JetStream, of level 1.
async fn old_server() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (read, mut write) = stream.into_split();
            let hello = format!(
                "INFO {{\"server_id\":\"X\",\"server_name\":\"x\",\"version\":\"2.11.4\",\"proto\":1,\"go\":\"go1\",\"host\":\"127.0.0.1\",\"port\":{port},\"headers\":true,\"max_payload\":1048576,\"jetstream\":true,\"client_id\":1,\"client_ip\":\"127.0.0.1\"}}\r\n"
            );
            write.write_all(hello.as_bytes()).await.expect("hello");
            let mut lines = BufReader::new(read).lines();
            let mut subscription = String::new();
            while let Ok(Some(line)) = lines.next_line().await {
                let words: Vec<&str> = line.split(' ').collect();
                let answer = match words.as_slice() {
                    ["PING"] => "PONG\r\n".to_owned(),
                    ["SUB", _, id] => {
                        (*id).clone_into(&mut subscription);
                        continue;
                    }
                    ["PUB", "$JS.API.INFO", reply, _] => {
                        let text = "{\"api\":{\"level\":1}}";
                        format!("MSG {reply} {subscription} {}\r\n{text}\r\n", text.len())
                    }
                    _ => continue,
                };
                write.write_all(answer.as_bytes()).await.expect("answer");
            }
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b2_a_server_that_cannot_do_enough_is_refused_by_what_it_can() {
    let port = old_server().await;
    let folder = tempfile::tempdir().expect("folder");
    let opened = JetstreamBus::open(&link(&[port]), "m", folder.path()).await;
    let fault = opened.err().expect("refused");
    let wanted = OpenFault::TooOld {
        version: "2.11.4".to_owned(),
        level: 1,
        needed: 2,
    };
    assert_eq!(fault, wanted);
    assert!(fault.to_string().contains("2.12"), "{fault}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s5_the_certificate_is_verified_and_the_right_authority_opens() {
    let folder = tempfile::tempdir().expect("folder");
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("made");
    let files = TlsFiles {
        certificate: folder.path().join("cert.pem"),
        key: folder.path().join("key.pem"),
    };
    let pem = made.cert.pem();
    std::fs::write(&files.certificate, &pem).expect("write");
    std::fs::write(&files.key, made.signing_key.serialize_pem()).expect("write");
    let options = JetOptions {
        tls: Some(files),
        ..JetOptions::default()
    };
    let cluster = JetCluster::start(options).await.expect("server");
    let mut safe = link(&cluster.ports());
    safe.servers[0].tls = true;
    let data = folder.path().join("data");
    let unknown = JetstreamBus::open(&safe, "m", &data).await.err();
    assert!(
        matches!(unknown, Some(OpenFault::Unreachable { .. })),
        "{unknown:?}"
    );
    safe.tls.ca_pem = Some(pem.into_bytes());
    let layout = Default::default();
    let made = mesh_bus::jetstream::bootstrap(&safe, "m", &data, "i", &layout, Clock::system());
    made.await.expect("bootstrap");
    let bus = JetstreamBus::open(&safe, "m", &data)
        .await
        .expect("open")
        .bus;
    done(&bus, "k", "v").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b9_a_stream_that_was_loosened_is_not_opened() {
    let ground = Ground::of(1).await;
    let mut admin = ground.cluster.admin(0).await.expect("admin");
    let state = ground.state();
    let info = admin
        .json(&format!("$JS.API.STREAM.INFO.{state}"), "")
        .await;
    let mut config = info.expect("info")["config"].clone();
    config["max_age"] = 60_000_000_000_u64.into();
    config["duplicate_window"] = 60_000_000_000_u64.into();
    let update = format!("$JS.API.STREAM.UPDATE.{state}");
    let updated = admin.json(&update, &config.to_string()).await;
    let updated = updated.expect("update");
    assert!(updated.get("error").is_none(), "{updated}");
    let fault = ground.open_in(ground.folder.path()).await.err();
    let text = fault.map(|fault| fault.to_string()).unwrap_or_default();
    assert!(text.contains("max_age"), "{text}");
}
