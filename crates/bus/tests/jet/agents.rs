//! An agent's login, in the mesh's account and in one of its own: it asks the service, hears the bell, and
//! can do nothing else (C-7).

use std::time::Duration;

use async_nats::{Client, ConnectOptions};
use futures_util::StreamExt;
use mesh_bus::jetstream::{Caller, JetstreamBus, Link, Names, Reply, Role, lending, permissions};
use mesh_conformance::servers::{JetCluster, JetOptions};
use mesh_sdk::clock::Clock;

use crate::ground::{PATIENCE, as_user, done, link, value};

const MESH: &str = "lent";
/// How long an answer that must not come is waited for.
const NOTHING: Duration = Duration::from_millis(300);

struct Lent {
    cluster: JetCluster,
    names: Names,
    folder: tempfile::TempDir,
}

fn user(names: &Names, role: Role) -> String {
    let (name, allowed) = (role.as_str(), permissions(names, role));
    format!("  {{ user: {name}, password: {name}-password, {allowed} }}\n")
}

impl Lent {
    async fn start(own_account: bool) -> Self {
        let names = Names::of(MESH);
        let mut users = "  { user: admin, password: admin-password }\n".to_owned();
        for role in [Role::Bootstrap, Role::Loops] {
            users += &user(&names, role);
        }
        let agent = user(&names, Role::Agent);
        let authorization = if own_account {
            let lent = lending(&names, "MESH");
            format!(
                "accounts {{\n MESH {{ jetstream: enabled\n users: [\n{users}]\n {} }}\n AGENTS {{ users: [\n{agent}]\n {} }}\n}}\n",
                lent.exports, lent.imports
            )
        } else {
            format!("authorization {{ users: [\n{users}{agent}] }}\n")
        };
        let options = JetOptions {
            authorization,
            admin: Some(("admin".to_owned(), "admin-password".to_owned())),
            ..JetOptions::default()
        };
        let lent = Self {
            cluster: JetCluster::start(options).await.expect("server"),
            names,
            folder: tempfile::tempdir().expect("folder"),
        };
        let (layout, clock) = (Default::default(), Clock::system());
        let (path, by) = (lent.folder.path(), lent.link(Role::Bootstrap));
        let made = mesh_bus::jetstream::bootstrap(&by, MESH, path, "inst1", &layout, clock).await;
        made.expect("bootstrap");
        lent
    }
    fn link(&self, role: Role) -> Link {
        let name = role.as_str();
        let mut link = as_user(
            link(&self.cluster.ports()),
            name,
            &format!("{name}-password"),
        );
        link.inbox = Some(role.inbox(&self.names));
        link
    }
    async fn loops(&self) -> JetstreamBus {
        let opened = JetstreamBus::open(&self.link(Role::Loops), MESH, self.folder.path()).await;
        opened.expect("open").bus
    }
    async fn client(&self, name: &str, inbox: String) -> Client {
        let options = ConnectOptions::new()
            .user_and_password(name.to_owned(), format!("{name}-password"))
            .custom_inbox_prefix(inbox)
            .request_timeout(Some(NOTHING));
        let port = self.cluster.ports()[0];
        let client = options.connect(format!("127.0.0.1:{port}")).await;
        client.expect("connect")
    }
}

/// Serves what it is asked, and ends with what it gives.
async fn echo(
    bus: &JetstreamBus,
) -> (
    tokio::sync::oneshot::Sender<()>,
    tokio::task::JoinHandle<()>,
) {
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let answer = |word: &'static str, bytes: Vec<u8>| async move {
        Reply {
            body: [word.as_bytes(), b":", &bytes].concat(),
            refused: (word == "extend").then(|| (410, "over".to_owned())),
        }
    };
    let served = bus.serve(MESH, answer, async move { drop(stopped.await) });
    (stop, served.await.expect("served"))
}

async fn asks_and_hears(own_account: bool) {
    let lent = Lent::start(own_account).await;
    let bus = lent.loops().await;
    let caller = Caller::connect(&lent.link(Role::Agent), MESH).await;
    let caller = caller.expect("connect");
    let (stop, served) = echo(&bus).await;
    for word in ["list", "claim", "extend", "finish"] {
        let answer = caller.ask(word, b"so".to_vec()).await.expect("answered");
        assert_eq!(answer, format!("{word}:so").into_bytes());
    }
    let mut rings = caller.rings().await.expect("rings");
    // Once this is answered, the server has the subscription that was sent before.
    caller.ask("list", Vec::new()).await.expect("answered");
    bus.ring("LoginTaken", "0a1b", "{}".to_owned()).await;
    let rung = tokio::time::timeout(PATIENCE, rings.next()).await;
    let rung = rung.expect("in time").expect("open");
    assert_eq!(rung, ("LoginTaken".to_owned(), b"{}".to_vec()));
    drop(stop);
    served.await.expect("it ends");
    let fault = caller
        .ask("list", Vec::new())
        .await
        .expect_err("nobody serves");
    assert!(
        fault.to_string().contains("mesh.lent.svc.task.list"),
        "{fault}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_an_agent_asks_the_service_and_hears_the_bell() {
    asks_and_hears(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_an_agent_in_an_account_of_its_own_asks_the_service_and_hears_the_bell() {
    asks_and_hears(true).await;
}

async fn can_do_nothing_else(own_account: bool) {
    let lent = Lent::start(own_account).await;
    let (state, log) = (&lent.names.state, &lent.names.log);
    let bus = lent.loops().await;
    let (_stop, _served) = echo(&bus).await;
    done(&bus, "k", "v").await;
    let agent = lent.client("agent", Role::Agent.inbox(&lent.names)).await;
    let asked = format!("mesh.{MESH}.svc.task.list");
    agent
        .request(asked.clone(), "x".into())
        .await
        .expect("what it may");
    // The servers' own interface, and values by it.
    for probe in [
        "$JS.API.INFO".to_owned(),
        "$JS.API.STREAM.NAMES".to_owned(),
        "$JS.API.STREAM.LIST".to_owned(),
        "$JS.API.STREAM.CREATE.other".to_owned(),
        format!("$JS.API.STREAM.INFO.{state}"),
        format!("$JS.API.STREAM.DELETE.{state}"),
        format!("$JS.API.STREAM.PURGE.{state}"),
        format!("$JS.API.STREAM.UPDATE.{state}"),
        format!("$JS.API.STREAM.SNAPSHOT.{state}"),
        format!("$JS.API.STREAM.MSG.GET.{state}"),
        format!("$JS.API.STREAM.MSG.GET.{log}"),
        format!("$JS.API.DIRECT.GET.{state}"),
        format!("$JS.API.DIRECT.GET.{state}.$KV.mesh_{MESH}.record.k"),
        format!("$JS.API.CONSUMER.CREATE.{state}"),
        format!("$JS.API.CONSUMER.CREATE.{state}.c.$KV.mesh_{MESH}.>"),
        format!("$JS.API.CONSUMER.LIST.{state}"),
        "$JS.API.ACCOUNT.PURGE.MESH".to_owned(),
        "$SYS.REQ.SERVER.PING".to_owned(),
        "$SRV.INFO".to_owned(),
    ] {
        let answer = agent.request(probe.clone(), "{}".into()).await;
        assert!(answer.is_err(), "it was answered on {probe}");
    }
    // What it may not say.
    let admin = lent.client("admin", "_INBOX_admin".to_owned()).await;
    let mut all = admin.subscribe(">").await.expect("subscribe");
    // Once this is answered, the server has the subscription that was sent before.
    let info = admin.request("$JS.API.INFO", "".into()).await;
    info.expect("answered");
    for probe in [
        format!("$KV.mesh_{MESH}.record.k"),
        format!("$KV.mesh_{MESH}.word.task.0a1b"),
        format!("$KV.mesh_{MESH}.condition.provisioner.cache"),
        format!("mesh.{MESH}.log.adv.apply"),
        format!("mesh.{MESH}.obs.provisioner.cache"),
        format!("mesh.{MESH}.task.LoginTaken.0a1b"),
        format!("mesh.{MESH}.svc.task.clear"),
        format!("{}.x", Role::Loops.inbox(&lent.names)),
        "other".to_owned(),
    ] {
        agent.publish(probe, "mine".into()).await.expect("sent");
    }
    agent
        .request(asked.clone(), "x".into())
        .await
        .expect("what it may");
    let mut seen = Vec::new();
    let last = async {
        while let Some(message) = all.next().await {
            seen.push((message.subject.to_string(), message.payload.to_vec()));
            if message.subject.as_str() == asked {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, last)
        .await
        .expect("the last is seen");
    let got: Vec<_> = seen
        .iter()
        .filter(|(_, payload)| payload == b"mine")
        .collect();
    assert!(got.is_empty(), "{got:?}");
    assert_eq!(value(&bus, "k").await.as_deref(), Some("v"));
    // What it may not hear. The last of them is what it may.
    let bell = format!("mesh.{MESH}.task.LoginTaken.0a1b");
    let secret = [
        format!("$KV.mesh_{MESH}.record.k2"),
        format!("mesh.{MESH}.log.adv.apply"),
        format!("mesh.{MESH}.obs.provisioner.cache"),
        format!("mesh.{MESH}.svc.task.claim"),
        format!("{}.x", Role::Loops.inbox(&lent.names)),
        format!("{}.x", Role::Reader.inbox(&lent.names)),
        "_INBOX.x".to_owned(),
    ];
    let mut heard = Vec::new();
    for subject in secret
        .iter()
        .map(String::as_str)
        .chain([">", "$KV.>", "mesh.>"])
    {
        let subject = subject.to_owned();
        heard.push((
            subject.clone(),
            agent.subscribe(subject).await.expect("sent"),
        ));
    }
    let mut may = agent.subscribe(bell.clone()).await.expect("sent");
    agent.request(asked, "x".into()).await.expect("what it may");
    for subject in secret.into_iter().chain([bell]) {
        admin.publish(subject, "theirs".into()).await.expect("sent");
    }
    let rung = tokio::time::timeout(PATIENCE, may.next()).await;
    rung.expect("in time").expect("it hears what it may");
    for (subject, mut messages) in heard {
        let got = tokio::time::timeout(Duration::from_millis(1), messages.next()).await;
        assert!(!matches!(got, Ok(Some(_))), "it hears {subject}: {got:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_an_agents_login_can_do_nothing_else() {
    can_do_nothing_else(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_an_agents_login_in_an_account_of_its_own_can_do_nothing_else() {
    can_do_nothing_else(true).await;
}
