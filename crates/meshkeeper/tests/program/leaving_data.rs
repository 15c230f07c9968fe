//! who leaves, leaves its data, on each kind of server; an admin reads it still.

use std::time::Duration;

use mesh_conformance::servers::{
    MariadbOptions, MariadbServer, PostgresFlavor, PostgresOptions, PostgresServer, RABBIT_ADMIN,
    RabbitServer,
};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::lab::Lab;
use crate::wait::{stays, until, until_true};

/// A provider with three consumers.
struct Mesh {
    lab: Lab,
    provider: String,
    needs: &'static dyn Fn(&str) -> String,
}

impl Mesh {
    fn of(admin: (&str, &str), lines: &str, needs: &'static dyn Fn(&str) -> String) -> Self {
        let lab = Lab::new();
        lab.write("admin.password", admin.1);
        let provider = format!(
            "[mesh]\nid = \"home\"\n\n[provider.it]\nadmin = {{ user = \"{}\", password = {{ file = \
             \"admin.password\" }} }}\nverify_every = \"1s\"\nlist_every = \"1s\"\n\
             remove_after = \"1s\"\ngrace = \"2s\"\n{lines}\n",
            admin.0
        );
        Self {
            lab,
            provider,
            needs,
        }
    }
    fn asks_for(&self, consumers: &[&str]) {
        let needs = self.needs;
        let tables = consumers
            .iter()
            .map(|name| format!("\n[consumer.{name}.needs.it]\n{}\n", needs(name)));
        let tables: String = tables.collect();
        self.lab.manifest(&format!("{}{tables}", self.provider));
    }
    /// `web` leaves, by one `apply` after the other.
    fn web_leaves(&self) {
        self.asks_for(&["api", "job"]);
        self.lab.mesh(&["apply"]);
        until("it is off, and then gone", 60, || {
            self.lab.mesh(&["apply"]);
            let left = self.lab.status()["leftovers"].clone();
            match left.as_array().is_some_and(Vec::is_empty) {
                true => Ok(()),
                false => Err(left),
            }
        });
        let events = self.lab.events("web");
        let order: Vec<&str> = events
            .iter()
            .map(String::as_str)
            .filter(|kind| ["leaving", "switched_off", "dropped"].contains(kind))
            .collect();
        assert!(order.ends_with(&["dropped"]), "{events:?}");
        self.lab.mesh(&["apply"]).ends(0);
        self.lab.mesh(&["plan"]).ends(0);
    }
    fn purge(&self, what: &str) {
        self.lab
            .mesh(&["purge", "it", what, "--confirm", what])
            .ends(0)
            .says("Deleted from it");
    }
}

#[test]
fn r5_a_role_that_owns_objects_in_two_databases_leaves_them() {
    let runtime = Runtime::new().expect("a runtime");
    let start = PostgresServer::start(PostgresFlavor::V15, PostgresOptions::default());
    let server = runtime.block_on(start).expect("a server");
    let port = server.port();
    let mesh = Mesh::of(
        ("postgres", PostgresServer::PASSWORD),
        &format!("kind = \"postgres\"\nurl = \"postgres://127.0.0.1:{port}/postgres\""),
        &|name| format!("database = \"{name}\"\nprivileges = \"owner\""),
    );
    mesh.asks_for(&["web", "api", "job"]);
    mesh.lab.mesh(&["apply"]).ends(0);
    let password = mesh.lab.password("web", "it");
    let sql =
        |database: &str, text: &str| runtime.block_on(server.sql(database, text)).expect("sql");
    let own = |database: &str, text: &str| {
        let call = server.sql_as("web", &password, database, text);
        runtime.block_on(call).expect("sql");
    };
    sql("postgres", "GRANT CONNECT, CREATE ON DATABASE api TO web");
    own("web", "CREATE TABLE t (n int); INSERT INTO t VALUES (7)");
    own(
        "api",
        "CREATE SCHEMA webs; CREATE TABLE webs.t (n int); INSERT INTO webs.t VALUES (8)",
    );
    mesh.web_leaves();
    let role = sql(
        "postgres",
        "SELECT count(*) FROM pg_roles WHERE rolname = 'web'",
    );
    assert_eq!(role.trim(), "0");
    assert_eq!(sql("web", "SELECT n FROM t").trim(), "7");
    assert_eq!(sql("api", "SELECT n FROM webs.t").trim(), "8");
    mesh.purge("web");
    let there = sql(
        "postgres",
        "SELECT count(*) FROM pg_database WHERE datname = 'web'",
    );
    assert_eq!(there.trim(), "0");
    assert_eq!(
        sql("api", "SELECT n FROM webs.t").trim(),
        "8",
        "only what was named"
    );
}

#[test]
fn r5_what_a_mariadb_login_defined_and_stored_stays() {
    let runtime = Runtime::new().expect("a runtime");
    let start = MariadbServer::start(MariadbOptions::default());
    let server = runtime.block_on(start).expect("a server");
    let sql = |text: &str| runtime.block_on(server.sql(text)).expect("sql");
    sql(
        "CREATE USER 'mesh'@'127.0.0.1' IDENTIFIED BY 'admin-password'; \
         GRANT ALL PRIVILEGES ON *.* TO 'mesh'@'127.0.0.1' WITH GRANT OPTION",
    );
    let port = server.port();
    let mesh = Mesh::of(
        ("mesh", "admin-password"),
        &format!("kind = \"mariadb\"\nurl = \"mariadb://127.0.0.1:{port}\""),
        &|name| format!("database = \"{name}\"\nprivileges = \"owner\""),
    );
    mesh.asks_for(&["web", "api", "job"]);
    mesh.lab.mesh(&["apply"]).ends(0);
    sql("CREATE TABLE web.t (n int); INSERT INTO web.t VALUES (7); \
         CREATE DEFINER = 'web'@'%' VIEW web.v AS SELECT n FROM web.t");
    mesh.web_leaves();
    assert!(!sql("SELECT user FROM mysql.user").contains("web"));
    assert!(sql("SELECT n FROM web.t").contains('7'));
    assert!(
        sql("SHOW CREATE VIEW web.v").contains("web"),
        "it stays, with its definer"
    );
    mesh.purge("web");
    assert!(!sql("SHOW DATABASES").contains("web"));
}

#[test]
fn r5_a_vhost_with_its_queues_stays() {
    let runtime = Runtime::new().expect("a runtime");
    let server = runtime
        .block_on(RabbitServer::start(None))
        .expect("a server");
    let must = |method: &str, path: &str, body| {
        let call = server.must(method, path, body);
        runtime.block_on(call).expect("an answer")
    };
    let (port, amqp) = (server.port(), server.amqp_port());
    let mesh = Mesh::of(
        RABBIT_ADMIN,
        &format!(
            "kind = \"rabbitmq\"\nurl = \"http://127.0.0.1:{port}\"\n\
             options = {{ amqp_port = {amqp} }}"
        ),
        &|name| {
            format!(
                "vhost = \"{name}\"\ncreate_vhost = true\nconfigure = \".*\"\nwrite = \".*\"\n\
                 read = \".*\""
            )
        },
    );
    mesh.asks_for(&["web", "api", "job"]);
    mesh.lab.mesh(&["apply"]).ends(0);
    let all = json!({ "configure": ".*", "write": ".*", "read": ".*" });
    must("PUT", &format!("permissions/web/{}", RABBIT_ADMIN.0), all);
    must("PUT", "queues/web/jobs", json!({ "durable": true }));
    mesh.web_leaves();
    let queue = must("GET", "queues/web/jobs", json!(null));
    assert_eq!(queue["durable"], true);
    let is_there = |path: &str| {
        let call = server.ask("GET", path, json!(null));
        runtime.block_on(call).expect("an answer").0 == 200
    };
    assert!(!is_there("users/web"));
    mesh.purge("web");
    assert!(!is_there("vhosts/web") && is_there("vhosts/api"));
}

#[test]
fn r6_a_postgres_login_that_comes_back_within_the_grace_is_the_same() {
    let runtime = Runtime::new().expect("a runtime");
    let start = PostgresServer::start(PostgresFlavor::V15, PostgresOptions::default());
    let server = runtime.block_on(start).expect("a server");
    let port = server.port();
    let mesh = Mesh::of(
        ("postgres", PostgresServer::PASSWORD),
        &format!("kind = \"postgres\"\nurl = \"postgres://127.0.0.1:{port}/postgres\"\n"),
        &|name| format!("database = \"{name}\"\nprivileges = \"owner\""),
    );
    let mesh = Mesh {
        provider: mesh.provider.replace("grace = \"2s\"", "grace = \"1h\""),
        ..mesh
    };
    mesh.asks_for(&["web", "api", "job"]);
    mesh.lab.mesh(&["apply"]).ends(0);
    let password = mesh.lab.password("web", "it");
    let enters = || {
        let call = server.sql_as("web", &password, "web", "SELECT 1");
        runtime.block_on(call).is_ok()
    };
    mesh.asks_for(&["api", "job"]);
    until_true("it is switched off", 60, || {
        mesh.lab.mesh(&["apply"]);
        let left = mesh.lab.status()["leftovers"].clone();
        (left[0]["kind"] == "disabled", left)
    });
    assert!(!enters());
    mesh.asks_for(&["web", "api", "job"]);
    mesh.lab.mesh(&["apply"]).ends(0);
    assert_eq!(mesh.lab.password("web", "it"), password, "the same");
    stays("it works", Duration::from_secs(1), || {
        (enters(), mesh.lab.states())
    });
}
