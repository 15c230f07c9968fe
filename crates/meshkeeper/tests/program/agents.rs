//! Agents that have no data folder: a condition's whole life over the service on NATS, with an agent's own
//! login, and over the socket of the embedded store (C-7).

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use mesh_bus::jetstream::{Caller, Link, Login, Names, Rings, Role, Server};
use mesh_conformance::servers::JetOptions;
use mesh_sdk::Secret;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::time::Instant;

use crate::lab::{Lab, Up, run};
use crate::redis::Redis;
use crate::shared::{BY_BOOTSTRAP, Nats, by_password, host, manifest};
use crate::wait::{until, until_true};

const QUICK: &str = "verify_every = \"1s\"";

/// An agent's folder: it holds a program or two and, over NATS, a password.
struct Agent {
    lab: Lab,
    reach: Vec<String>,
}

impl Agent {
    fn over_socket(socket: &Path) -> Self {
        let reach = vec!["--socket".to_owned(), socket.display().to_string()];
        Self {
            lab: Lab::new(),
            reach,
        }
    }
    fn over_nats(port: u16) -> Self {
        let lab = Lab::new();
        lab.write("agent.password", "agent-password\n");
        let url = format!("nats://127.0.0.1:{port}");
        let reach = [
            "--service",
            &url,
            "--mesh",
            "home",
            "--user",
            "agent",
            "--password-file",
            "agent.password",
        ];
        Self {
            lab,
            reach: reach.map(str::to_owned).to_vec(),
        }
    }
    fn args<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        let reach = self.reach.iter().map(String::as_str);
        args.iter().copied().chain(reach).collect()
    }
    fn mesh(&self, args: &[&str]) -> crate::lab::Ran {
        run(self.lab.command(&self.args(args)))
    }
    /// The task about the taken login, if it stands.
    fn task(&self) -> Option<Value> {
        let ran = self.mesh(&["tasks", "--json", "--type", "LoginTaken"]);
        if ran.code != 0 {
            return None;
        }
        ran.json()["tasks"]
            .as_array()
            .expect("tasks")
            .first()
            .cloned()
    }
    /// Waits until it stands so.
    #[track_caller]
    fn stage(&self, stage: &str, seconds: u64) -> Value {
        until(&format!("it is {stage}"), seconds, || match self.task() {
            Some(task) if task["stage"] == stage => Ok(task),
            task => Err(task),
        })
    }
    fn claim(&self, by: &str, length: &str) -> Value {
        let claim = ["task", "claim", "--by", by, "--for", length];
        let claim = [&claim[..], &["--type", "LoginTaken"]].concat();
        self.mesh(&claim).ends(0).json()
    }
    fn script(&self, name: &str, body: &str) {
        let path = self.lab.write(name, &format!("#!/bin/sh\n{body}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("rights");
    }
    /// A condition's life: an agent that dies, one that says what is not true, one that lost what was stored
    /// of its claim (`wipe`), and one that does it.
    fn life(&self, redis: &Redis, daemon: &Lab, mut wipe: impl FnMut(&str)) {
        let open = self.stage("open", 60);
        let id = open["id"].as_str().expect("id").to_owned();
        // The first dies with its program at work.
        self.script("hangs", "echo $$ > pid; exec sleep 1000");
        let by = ["agent", "--run", "./hangs", "--by", "one", "--for", "4s"];
        let by = [&by[..], &["--type", "LoginTaken"]].concat();
        let mut first = Up::of(self.lab.command(&self.args(&by)));
        let pid = until("its program runs", 30, || {
            let pid = std::fs::read_to_string(self.lab.path().join("pid")).unwrap_or_default();
            pid.trim().parse::<i32>().map_err(|_| first.log())
        });
        let claimed = self.stage("claimed", 10);
        assert_eq!(claimed["by"], "one");
        let named = ["task", "claim", &id, "--by", "two"];
        self.mesh(&named).ends(1).warns("one works on it");
        first.kill();
        let pid = Pid::from_raw(pid).expect("pid");
        kill_process_group(pid, Signal::KILL).expect("its program is ended");
        self.stage("open", 20);
        // The second says that it is done, and that is not true.
        let second = self.claim("two", "10m");
        assert_eq!(second["attempts"], 2);
        let token = second["token"].as_str().expect("token");
        let with = [&id, "--token", token];
        self.mesh(&[&["task", "extend"], &with[..]].concat())
            .ends(0);
        let done = ["--outcome", "done", "--note", "tried"];
        self.mesh(&[&["task", "finish"], &with[..], &done].concat())
            .ends(0);
        let open = self.stage("open", 30);
        assert_eq!(open["reports"][0]["note"], "tried", "{open:#}");
        self.mesh(&[&["task", "finish"], &with[..], &done].concat())
            .ends(1)
            .warns("this claim is over");
        // What the store knows of the third one's claim is lost.
        wipe(&id);
        self.stage("open", 20);
        // The last does it.
        redis.ask(&["ACL", "DELUSER", "web"]);
        self.script("mends", "cat > task.json; echo 'it was mine'");
        let last = ["agent", "--run", "./mends", "--once", "--by", "four"];
        let last = [&last[..], &["--type", "LoginTaken"]].concat();
        until("the last one does it, or its owner was quicker", 30, || {
            self.mesh(&last).ends(0);
            self.task().map_or(Ok(()), Err)
        });
        until_true("web is held", 30, || {
            let states = daemon.states();
            (states.contains(&"web=held".to_owned()), states)
        });
        let conditions = daemon.conditions();
        assert!(!conditions.contains(&"LoginTaken cache/web".to_owned()));
        self.mesh(&["task", "claim", "--by", "five", "--type", "LoginTaken"])
            .ends(3);
    }
}

fn taken(redis: &Redis) {
    redis.ask(&["ACL", "SETUSER", "web", "on", ">theirs", "~*", "+@all"]);
}

/// Servers on which agents have an account of their own, as `mesh bus permissions` prints it, and the folder
/// of a host that uses them with the login of the loops.
fn lent(redis: &Redis) -> (Nats, Lab) {
    let lab = host("one");
    lab.manifest(&manifest("", redis, "", &["web"]));
    let printed = lab.mesh(&["bus", "permissions", "--account", "MESH"]);
    let printed = printed.ends(0).out;
    let part = |name: &str, begins: &str| {
        let at = printed.find(&format!("# {name}:")).expect("a part");
        let rest = &printed[at + 1..];
        let rest = &rest[rest.find(begins).expect("its text")..];
        rest[..rest.find("# ").unwrap_or(rest.len())].to_owned()
    };
    let user = |name: &str| {
        let may = part(name, "permissions {");
        format!("  {{ user: {name}, password: {name}-password, {may} }}\n")
    };
    let (ours, theirs) = (user("bootstrap") + &user("loops"), user("agent"));
    let (exports, imports) = (part("exports", "exports ["), part("imports", "imports ["));
    let nats = Nats::with(JetOptions {
        authorization: format!(
            "accounts {{\n MESH {{ jetstream: enabled\n users: [\n  {{ user: admin, password: admin-password }}\n{ours}]\n {exports} }}\n AGENTS {{ users: [\n{theirs}]\n {imports} }}\n}}\n"
        ),
        admin: Some(("admin".to_owned(), "admin-password".to_owned())),
        ..JetOptions::default()
    });
    let bus = by_password(&lab, &nats);
    lab.manifest(&manifest(&bus, redis, QUICK, &["web", "api"]));
    lab.mesh(&[&["bus", "bootstrap"][..], &BY_BOOTSTRAP].concat())
        .ends(0);
    (nats, lab)
}

/// The bell, heard with an agent's login.
fn rings(nats: &Nats) -> (Caller, Rings) {
    let link = Link {
        servers: vec![Server {
            host: "127.0.0.1".to_owned(),
            port: nats.cluster.ports()[0],
            tls: false,
        }],
        login: Login::Password {
            user: "agent".to_owned(),
            password: Secret::from("agent-password"),
        },
        inbox: Some(Role::Agent.inbox(&Names::of("home"))),
        ..Link::default()
    };
    nats.runtime.block_on(async {
        let caller = Caller::connect(&link, "home").await.expect("connect");
        let rings = caller.rings().await.expect("rings");
        // Once this is answered, the server has the subscription that was sent before.
        let asked = caller.ask("list", b"{\"v\":1}".to_vec()).await;
        asked.expect("answered");
        (caller, rings)
    })
}

/// The next ring of a task, within a minute.
fn rung(nats: &Nats, rings: &mut Rings, id: &str) -> Value {
    let heard = nats.runtime.block_on(async {
        let heard = async {
            loop {
                let (kind, text) = rings.next().await.expect("open");
                let told: Value = serde_json::from_slice(&text).expect("json");
                if told["id"] == id {
                    assert_eq!(told["type"], kind.as_str());
                    return told;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), heard).await
    });
    heard.expect("rung within a minute")
}

#[test]
fn c7_a_conditions_whole_life_over_nats_with_an_agents_own_login() {
    let redis = Redis::start();
    taken(&redis);
    let (nats, lab) = lent(&redis);
    let agent = Agent::over_nats(nats.cluster.ports()[0]);
    agent
        .mesh(&["tasks"])
        .ends(1)
        .warns("mesh.home.svc.task.list");
    let mut up = lab.up(&[]);
    let open = agent.stage("open", 60);
    let id = open["id"].as_str().expect("id").to_owned();
    let (_caller, mut bell) = rings(&nats);
    let told = rung(&nats, &mut bell, &id);
    assert_eq!(told["type"], "LoginTaken", "{told}");
    assert!(
        told.get("evidence").is_none(),
        "a ring quotes nobody: {told}"
    );
    agent.life(&redis, &lab, |id| {
        // As it was before the third claim: an earlier copy of the value is put back.
        let key = format!("$KV.mesh_home.word.task.{id}");
        let mut admin = nats.runtime.block_on(nats.cluster.admin(0)).expect("admin");
        let get = format!("$JS.API.DIRECT.GET.KV_mesh_home.{key}");
        let before = nats
            .runtime
            .block_on(admin.request(&get, ""))
            .expect("value");
        let before = String::from_utf8(before).expect("text");
        agent.claim("three", "10m");
        agent.stage("claimed", 10);
        let (_caller, mut bell) = rings(&nats);
        let began = Instant::now();
        let put = nats
            .runtime
            .block_on(admin.json(&key, &before))
            .expect("put");
        assert!(put["seq"].is_u64(), "{put}");
        rung(&nats, &mut bell, id);
        let took = began.elapsed();
        assert!(took < Duration::from_secs(60), "{took:?}");
        // And told again and again while nobody takes it.
        rung(&nats, &mut bell, id);
    });
    let given = std::fs::read_to_string(agent.lab.path().join("task.json")).expect("task");
    assert!(!given.contains("token"), "{given}");
    up.stop().ends(0);
    agent
        .mesh(&["tasks"])
        .ends(1)
        .warns("mesh.home.svc.task.list");
}

#[test]
fn c7_a_host_without_loops_answers_agents_too() {
    let redis = Redis::start();
    taken(&redis);
    let (nats, one) = lent(&redis);
    let mut first = one.up(&[]);
    let mut agent = Agent::over_nats(nats.cluster.ports()[0]);
    // This one has its password in a variable.
    agent.reach.truncate(6);
    agent.lab.set("AGENT_PASSWORD", "agent-password");
    let by = ["--password-env", "AGENT_PASSWORD"].map(str::to_owned);
    agent.reach.extend(by);
    agent.stage("open", 60);
    let two = host("two");
    two.write("loops.password", "loops-password\n");
    two.manifest(&std::fs::read_to_string(one.path().join("mesh.toml")).expect("manifest"));
    crate::shared::bring_key(&one, &two);
    two.mesh(&["bus", "adopt"]).ends(0);
    let second = Up::of(two.command(&["up"]));
    second.says("up: up");
    // The one that acts dies, and the other one answers before it takes over.
    first.kill();
    agent.mesh(&["tasks", "--json"]).ends(0);
    let log = second.log();
    assert!(
        !log.contains("has the claim") && !log.contains("has the lease"),
        "{log}"
    );
}

fn socket(lab: &Lab) -> std::path::PathBuf {
    lab.data().join("tasks.sock")
}

#[test]
fn c7_a_conditions_whole_life_over_the_socket_of_the_embedded_store() {
    let (lab, redis) = (Lab::new(), Redis::start());
    taken(&redis);
    lab.cache(&redis, QUICK, ["web", "api"]);
    let agent = Agent::over_socket(&socket(&lab));
    agent.mesh(&["tasks"]).ends(1).warns("nobody listens there");
    let mut up = lab.up(&[]);
    let mode = std::fs::metadata(socket(&lab)).expect("socket").mode();
    assert_eq!(mode & 0o777, 0o660);
    agent.life(&redis, &lab, |id| {
        agent.claim("three", "10m");
        agent.stage("claimed", 10);
        let db = rusqlite::Connection::open(lab.data().join("mesh.db")).expect("store");
        let sql = "DELETE FROM entry WHERE bucket = 'word' AND key = ?1";
        let gone = db.execute(sql, [format!("task.{id}")]).expect("wiped");
        assert_eq!(gone, 1);
    });
    up.stop().ends(0);
    assert!(!socket(&lab).exists(), "it goes with who listened");
}

#[test]
fn c7_a_socket_that_was_left_behind_is_replaced_and_what_is_no_question_is_refused() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixStream;
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web"]);
    lab.up(&[]).kill();
    assert!(socket(&lab).exists());
    let agent = Agent::over_socket(&socket(&lab));
    agent.mesh(&["tasks"]).ends(1).warns("nobody listens there");
    let _up = lab.up(&[]);
    agent.mesh(&["tasks"]).ends(0).says("No task stands.");
    let stream = UnixStream::connect(socket(&lab)).expect("connect");
    let mut lines = BufReader::new(stream.try_clone().expect("stream")).lines();
    let mut code = |line: &str| {
        (&stream)
            .write_all(format!("{line}\n").as_bytes())
            .expect("sent");
        let answer = lines.next().expect("an answer").expect("text");
        let answer: Value = serde_json::from_str(&answer).expect("json");
        answer["error"]["code"].as_str().map(str::to_owned)
    };
    assert_eq!(code("{\"v\":1,\"word\":\"list\"}"), None);
    let bad = Some("bad_request".to_owned());
    assert_eq!(code("hello"), bad);
    assert_eq!(code("{\"v\":1,\"word\":\"clear\",\"id\":\"x\"}"), bad);
    assert_eq!(
        code("{\"v\":2,\"word\":\"list\"}"),
        Some("version".to_owned())
    );
    let over = "{\"v\":1,\"word\":\"extend\",\"id\":\"x\",\"token\":\"x\"}";
    assert_eq!(code(over), Some("over".to_owned()));
    let long = format!(
        "{{\"v\":1,\"word\":\"list\",\"types\":[\"{}\"]}}",
        "x".repeat(70_000)
    );
    assert_eq!(code(&long), Some("too_large".to_owned()));
}

#[test]
fn c7_a_path_too_long_for_a_socket_is_told_and_all_else_runs() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web"]);
    let data = "d".repeat(120);
    let up = lab.up(&["--data", &data]);
    up.says("the path of a socket has at most 107");
    until_true("web is held", 30, || {
        let ran = lab.mesh(&["status", "--json", "--data", &data]);
        (ran.out.contains("\"held\""), ran)
    });
    assert!(!lab.path().join(&data).join("tasks.sock").exists());
}

#[test]
fn s5_options_that_cannot_be_are_refused_before_anybody_is_asked() {
    let lab = Lab::new();
    lab.write("ca.pem", "no certificate");
    let refused = |args: &[&str], what: &str| {
        lab.mesh(&[&["tasks"], args].concat()).ends(64).warns(what);
    };
    let plain = "nats://10.0.0.1:4222";
    refused(&["--service", plain], "--mesh");
    refused(&["--service", plain, "--mesh", "home"], "use tls://");
    let here = ["--service", "nats://127.0.0.1:1", "--mesh", "home"];
    let more = |more: &[&'static str]| [&here[..], more].concat();
    refused(&more(&["--user", "agent"]), "--password-file");
    refused(&more(&["--ca", "ca.pem"]), "use tls://");
    refused(&more(&["--inbox", "a b"]), "--inbox");
    refused(&more(&["--socket", "x"]), "--socket");
    refused(
        &["--service", "nats://a:b@127.0.0.1:1", "--mesh", "home"],
        "no login or password in an address",
    );
    lab.mesh(&[&["tasks"], &here[..]].concat())
        .ends(1)
        .warns("no NATS server answers");
}
