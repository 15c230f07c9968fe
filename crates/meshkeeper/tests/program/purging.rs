//! `mesh purge`: the only way to delete data, and everything that stands before it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use mesh_conformance::servers::{PostgresFlavor, PostgresOptions, PostgresServer};
use tokio::runtime::Runtime;

use crate::lab::Lab;
use crate::redis::{Redis, Reply};
use crate::wait::until_true;

const SHORT: &str =
    "verify_every = \"1s\"\nlist_every = \"1s\"\nremove_after = \"1s\"\ngrace = \"3s\"";

struct World {
    lab: Lab,
    runtime: Runtime,
    server: PostgresServer,
}

impl World {
    fn start() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let start = PostgresServer::start(PostgresFlavor::V15, PostgresOptions::default());
        let server = runtime.block_on(start).expect("a server");
        let lab = Lab::new();
        lab.write("admin.password", PostgresServer::PASSWORD);
        Self {
            lab,
            runtime,
            server,
        }
    }
    /// The manifest with these consumers, each with its database.
    fn wish(&self, lines: &str, consumers: &[(&str, &str)]) -> String {
        let port = self.server.port();
        let mut text = format!(
            "[mesh]\nid = \"home\"\n\n[provider.database]\nkind = \"postgres\"\n\
             url = \"postgres://127.0.0.1:{port}/postgres\"\n\
             admin = {{ user = \"postgres\", password = {{ file = \"admin.password\" }} }}\n{lines}\n"
        );
        for (name, database) in consumers {
            text.push_str(&format!(
                "\n[consumer.{name}.needs.database]\ndatabase = \"{database}\"\nprivileges = \"owner\"\n"
            ));
        }
        text
    }
    fn sql_as(&self, login: &str, database: &str, text: &str) {
        let password = self.lab.password(login, "database");
        let call = self.server.sql_as(login, &password, database, text);
        self.runtime.block_on(call).expect("sql");
    }
    fn admin(&self, database: &str, text: &str) -> bool {
        self.runtime
            .block_on(self.server.sql(database, text))
            .is_ok()
    }
    /// Whether a database is there.
    fn is_there(&self, database: &str) -> bool {
        self.admin(database, "SELECT 1")
    }
}

#[test]
fn r5_data_is_purged_only_when_nobody_can_come_back_to_it_and_the_name_is_typed() {
    let world = World::start();
    let lab = &world.lab;
    let all = [("web", "web"), ("api", "api"), ("job", "job")];
    lab.manifest(&world.wish(SHORT, &all));
    lab.mesh(&["apply"]).ends(0);
    world.sql_as(
        "web",
        "web",
        "CREATE TABLE t (n int); INSERT INTO t VALUES (7)",
    );
    let purge = |more: &[&str]| {
        let mut words = vec!["purge", "database", "web"];
        words.extend(more);
        lab.mesh(&words)
    };
    let confirm = ["--confirm", "web"];
    // Asked for.
    purge(&confirm)
        .ends(1)
        .warns("the manifest asks for `web` for web");
    // A manifest that is not whole says nothing about anybody.
    lab.manifest(&world.wish(&format!("{SHORT}\nnonsense = 1"), &all));
    purge(&confirm).ends(1);
    let broken = world.wish(SHORT, &all[1..]);
    lab.manifest(&format!("{broken}\n[consumer.x.needs.database]\n"));
    purge(&confirm).ends(1).warns("cannot be read");
    // Another consumer asks for the same data.
    lab.manifest(&world.wish(SHORT, &[("api", "api"), ("job", "job"), ("other", "web")]));
    purge(&confirm).ends(1).warns("for other");
    // Asked for no more, and its consumer can come back.
    let long = SHORT.replace("3s", "1h");
    lab.manifest(&world.wish(&long, &all[1..]));
    until_true("it is switched off", 40, || {
        lab.mesh(&["apply"]);
        let left = lab.status()["leftovers"].clone();
        (left[0]["kind"] == "disabled", left)
    });
    purge(&confirm).ends(1).warns("is leaving database");
    assert!(world.is_there("web"));
    // Dropped: its data is there, and an admin reads it.
    lab.manifest(&world.wish(SHORT, &all[1..]));
    until_true("it is dropped", 40, || {
        lab.mesh(&["apply"]);
        let left = lab.status()["leftovers"].clone();
        (left.as_array().is_some_and(Vec::is_empty), left)
    });
    assert!(world.admin("web", "SELECT n FROM t"), "its data stays");
    // Shown, and not deleted.
    let ran = purge(&[]).ends(0).says("Nothing was deleted yet");
    ran.says("mesh purge database web --confirm web")
        .says("It was for web");
    let json = purge(&["--json"]).ends(0).json();
    assert_eq!(json["deleted"], false, "{json:#}");
    purge(&["--confirm", "api"]).ends(64);
    assert!(world.is_there("web"));
    // Typed again.
    purge(&confirm).ends(0).says("Deleted from database");
    assert!(!world.is_there("web") && world.is_there("api"));
    assert!(lab.events("database").contains(&"purged".to_owned()));
    // Again changes nothing.
    purge(&confirm).ends(0).says("nothing to delete");
    lab.mesh(&["apply"]).ends(0);
}

#[test]
fn r5_what_was_never_a_consumers_is_not_deleted() {
    let world = World::start();
    let lab = &world.lab;
    world.admin("postgres", "CREATE DATABASE theirs");
    lab.manifest(&world.wish("", &[("web", "web")]));
    let purge = ["purge", "database", "theirs", "--confirm", "theirs"];
    lab.mesh(&purge).ends(1).warns("was ever a consumer's");
    lab.mesh(&["apply"]).ends(0);
    lab.mesh(&purge).ends(1).warns("was ever a consumer's");
    assert!(world.is_there("theirs"));
    lab.mesh(&["purge", "nowhere", "web"])
        .ends(1)
        .warns("no provider `nowhere`");
}

#[test]
fn r5_data_that_a_login_may_still_use_is_not_deleted() {
    let world = World::start();
    let lab = &world.lab;
    lab.manifest(&world.wish(SHORT, &[("web", "one"), ("api", "api"), ("job", "job")]));
    lab.mesh(&["apply"]).ends(0);
    let password = lab.password("web", "database");
    // The old login is kept when its consumer gets another one, and so is its way to the data.
    let other = world.wish(SHORT, &[("api", "api"), ("job", "job")])
        + "\n[consumer.web.needs.database]\nlogin = \"web2\"\ndatabase = \"two\"\nprivileges = \"owner\"\n";
    lab.manifest(&other);
    lab.mesh(&["apply"]);
    let ran = lab
        .mesh(&["purge", "database", "one", "--confirm", "one"])
        .ends(1);
    assert!(ran.err.contains("web"), "{ran:#?}");
    let call = world.server.sql_as("web", &password, "one", "SELECT 1");
    world.runtime.block_on(call).expect("it works still");
}

#[test]
fn r5_keys_that_a_consumer_left_are_purged_by_its_pattern() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, SHORT, ["web", "api", "job"]);
    lab.mesh(&["apply"]).ends(0);
    for key in ["web:1", "web:2", "api:1"] {
        redis.ask(&["SET", key, "data"]);
    }
    let purge = ["purge", "cache", "web:*", "--confirm", "web:*"];
    lab.mesh(&purge)
        .ends(1)
        .warns("the manifest asks for `web:*` for web");
    lab.cache(&redis, SHORT, ["api", "job"]);
    lab.mesh(&purge)
        .ends(1)
        .warns("web is served on cache still");
    until_true("it is dropped", 40, || {
        lab.mesh(&["apply"]);
        (!redis.users().contains("web"), redis.users())
    });
    lab.mesh(&["apply"]);
    let there = |key: &str| redis.ask(&["EXISTS", key]) == Reply::Number(1);
    assert!(there("web:1"), "its keys stay");
    lab.mesh(&["purge", "cache", "web:*"])
        .ends(0)
        .says("mesh purge cache 'web:*' --confirm 'web:*'");
    assert!(there("web:1"));
    lab.mesh(&purge).ends(0).says("Deleted from cache");
    assert!(!there("web:1") && !there("web:2") && there("api:1"));
}

/// Runs a command on a terminal, and types a line into it.
fn at_a_terminal(lab: &Lab, words: &str, typed: &str) -> String {
    let program = env!("CARGO_BIN_EXE_mesh");
    let mut child = Command::new("/usr/bin/script")
        .args(["-qec", &format!("{program} {words}"), "/dev/null"])
        .current_dir(lab.path())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script runs");
    let mut stdin = child.stdin.take().expect("stdin");
    stdin
        .write_all(format!("{typed}\n").as_bytes())
        .expect("typed");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn r5_r7_at_a_terminal_a_person_is_asked() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, SHORT, ["web"]);
    lab.mesh(&["apply"]).ends(0);
    redis.ask(&["SET", "web:1", "data"]);
    lab.cache(&redis, SHORT, []);
    until_true("it waits for a person", 40, || {
        lab.mesh(&["apply"]);
        let all = lab.conditions();
        (all.contains(&"RemovalHeld cache".to_owned()), all)
    });
    let told = at_a_terminal(&lab, "approve removals cache", "n");
    assert!(
        told.contains("Let these 1 go? [y/N]") && told.contains("Nothing was approved"),
        "{told}"
    );
    let told = at_a_terminal(&lab, "approve removals cache", "y");
    assert!(told.contains("1 removals of cache may go"), "{told}");
    until_true("it is dropped", 40, || {
        lab.mesh(&["apply"]);
        (!redis.users().contains("web"), redis.users())
    });
    lab.mesh(&["apply"]);
    let there = || redis.ask(&["EXISTS", "web:1"]) == Reply::Number(1);
    let told = at_a_terminal(&lab, "purge cache 'web:*'", "web");
    assert!(told.contains("Nothing was deleted") && there(), "{told}");
    let told = at_a_terminal(&lab, "purge cache 'web:*'", "web:*");
    assert!(told.contains("Deleted from cache") && !there(), "{told}");
}

#[test]
fn a1_a_kind_that_deletes_no_data_says_so() {
    let lab = Lab::new();
    lab.manifest(
        "[mesh]\nid = \"home\"\n\n[provider.site]\nkind = \"htpasswd\"\nurl = \"htpasswd:users\"\n\
         [consumer.web.needs.site]\n",
    );
    lab.mesh(&["apply"]).ends(0);
    lab.mesh(&["purge", "site", "web", "--confirm", "web"])
        .ends(1)
        .warns("deletes no data");
}
