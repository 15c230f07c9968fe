//! The whole program on backends of other kinds: made, left alone, healed, shown, taken away from nobody.

use mesh_conformance::servers::{
    DovecotOptions, DovecotServer, ETCD_ROOT, EtcdFlavor, EtcdServer, MariadbOptions,
    MariadbServer, PostgresFlavor, PostgresOptions, PostgresServer, RABBIT_ADMIN, RabbitServer,
    htpasswd,
};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::lab::Lab;

/// What a cycle needs to know of one backend.
struct Backend<'b> {
    /// The `[provider.it]` table without its name and its admin.
    provider: String,
    /// The admin's login and password, where there is one.
    admin: Option<(&'b str, &'b str)>,
    /// The `needs` table of `web`.
    needs: &'b str,
    /// Whether these let somebody in.
    lets_in: &'b dyn Fn(&str, &str) -> bool,
    /// Takes the login `web` away behind Meshkeeper's back.
    drop: &'b dyn Fn(),
    /// What the address in `credentials` begins with; none where there is none.
    address: Option<String>,
}

/// Plan, apply, again, loss, heal, again; and what is shown of it.
fn cycle(backend: &Backend<'_>) {
    let lab = Lab::new();
    let admin = backend.admin.map_or_else(String::new, |(user, password)| {
        lab.write("admin.password", password);
        format!("admin = {{ user = \"{user}\", password = {{ file = \"admin.password\" }} }}")
    });
    lab.manifest(&format!(
        "[mesh]\nid = \"home\"\n\n[provider.it]\n{admin}\n{}\n\n[consumer.web.needs.it]\n{}\n",
        backend.provider, backend.needs
    ));
    lab.mesh(&["check"]).ends(0);
    lab.mesh(&["plan"]).ends(2).says("create");
    lab.mesh(&["apply"]).ends(0).says("applied 1");
    let password = lab.password("web", "it");
    assert!((backend.lets_in)("web", &password), "the password works");
    assert!(!(backend.lets_in)("web", "another one"), "and no other");
    rests(&lab);

    (backend.drop)();
    lab.mesh(&["plan"]).ends(2).says("heal").says("absent");
    lab.mesh(&["apply"]).ends(0).says("applied 1");
    assert_eq!(
        lab.password("web", "it"),
        password,
        "nothing is minted twice"
    );
    assert!((backend.lets_in)("web", &password), "healed");
    rests(&lab);

    let shown = lab
        .mesh(&["credentials", "web", "it", "--json"])
        .ends(0)
        .json();
    let urls = shown["urls"].as_array().expect("urls");
    match &backend.address {
        Some(address) => {
            let url = urls[0].as_str().expect("an address");
            assert!(url.starts_with(address), "{url}");
        }
        None => assert!(urls.is_empty(), "{urls:?}"),
    }
    lab.mesh(&["doctor"]).ends(0);
    let all = lab.mesh(&["status", "--json"]).ends(0);
    assert!(!all.out.contains(&password), "status shows no password");
}

/// Once more: held, and nothing to do.
fn rests(lab: &Lab) {
    lab.mesh(&["apply"]).ends(0);
    let events = lab.events("web").len();
    lab.mesh(&["apply"]).ends(0).says("asked 1").says("held 1");
    lab.mesh(&["plan"]).ends(0).says("Nothing to do.");
    assert_eq!(lab.events("web").len(), events, "again changes nothing");
    assert_eq!(lab.states(), ["web=held"]);
}

fn runtime() -> Runtime {
    Runtime::new().expect("a runtime")
}

#[test]
fn h6_a_postgres_login_is_made_healed_and_left_alone() {
    let runtime = runtime();
    let start = PostgresServer::start(PostgresFlavor::V15, PostgresOptions::default());
    let server = runtime.block_on(start).expect("a server");
    let sql = |database: &str, text: &str| {
        runtime.block_on(server.sql(database, text)).expect("sql");
    };
    let port = server.port();
    let enters = |login: &str, password: &str| {
        let call = server.sql_as(login, password, "web", "SELECT 1");
        runtime.block_on(call).is_ok()
    };
    cycle(&Backend {
        provider: format!("kind = \"postgres\"\nurl = \"postgres://127.0.0.1:{port}/postgres\""),
        admin: Some(("postgres", PostgresServer::PASSWORD)),
        needs: "database = \"web\"\nprivileges = \"owner\"",
        lets_in: &enters,
        drop: &|| {
            sql(
                "web",
                "REASSIGN OWNED BY web TO postgres; DROP OWNED BY web",
            );
            sql("postgres", "DROP ROLE web");
        },
        address: Some("postgres://web:".to_owned()),
    });
}

#[test]
fn h6_a_mariadb_login_is_made_healed_and_left_alone() {
    let runtime = runtime();
    let start = MariadbServer::start(MariadbOptions::default());
    let server = runtime.block_on(start).expect("a server");
    let sql = |text: &str| runtime.block_on(server.sql(text)).expect("sql");
    sql(
        "CREATE USER 'mesh'@'127.0.0.1' IDENTIFIED BY 'admin-password'; \
         GRANT ALL PRIVILEGES ON *.* TO 'mesh'@'127.0.0.1' WITH GRANT OPTION",
    );
    let port = server.port();
    cycle(&Backend {
        provider: format!("kind = \"mariadb\"\nurl = \"mariadb://127.0.0.1:{port}\""),
        admin: Some(("mesh", "admin-password")),
        needs: "database = \"web\"\nprivileges = \"owner\"",
        lets_in: &|login, password| {
            let call = server.lets_in(login, password);
            runtime.block_on(call).expect("an answer")
        },
        drop: &|| {
            sql("DROP USER 'web'@'%'");
        },
        address: Some("mariadb://web:".to_owned()),
    });
}

#[test]
fn h6_a_rabbitmq_user_is_made_healed_and_left_alone() {
    let runtime = runtime();
    let server = runtime
        .block_on(RabbitServer::start(None))
        .expect("a server");
    let (port, amqp) = (server.port(), server.amqp_port());
    cycle(&Backend {
        provider: format!(
            "kind = \"rabbitmq\"\nurl = \"http://127.0.0.1:{port}\"\n\
             [provider.it.options]\namqp_port = {amqp}"
        ),
        admin: Some(RABBIT_ADMIN),
        needs: "vhost = \"/\"\nconfigure = \"^web\"\nwrite = \"^web\"\nread = \"^web\"",
        lets_in: &|login, password| {
            let call = server.log_in(login, password, "/");
            runtime.block_on(call).expect("an answer").is_some()
        },
        drop: &|| {
            let call = server.must("DELETE", "users/web", json!(null));
            runtime.block_on(call).expect("dropped");
        },
        address: Some("amqp://web:".to_owned()),
    });
}

#[test]
fn h6_an_etcd_user_is_made_healed_and_left_alone() {
    let runtime = runtime();
    let start = EtcdServer::start(EtcdFlavor::Etcd35, None, false);
    let server = runtime.block_on(start).expect("a server");
    let port = server.port();
    cycle(&Backend {
        provider: format!("kind = \"etcd\"\nurl = \"http://127.0.0.1:{port}\""),
        admin: Some(ETCD_ROOT),
        needs: "prefixes = [\"web/\"]",
        lets_in: &|login, password| {
            let call = server.log_in(login, password);
            runtime.block_on(call).expect("an answer").is_some()
        },
        drop: &|| {
            let call = server.must("auth/user/delete", json!({ "name": "web" }));
            runtime.block_on(call).expect("dropped");
        },
        address: Some("http://web:".to_owned()),
    });
}

#[test]
fn h6_an_entry_of_a_password_file_is_made_healed_and_left_alone() {
    let runtime = runtime();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("users").display().to_string();
    let tool = |args: &[&str]| runtime.block_on(htpasswd(args)).expect("htpasswd");
    cycle(&Backend {
        provider: format!("kind = \"htpasswd\"\nurl = \"htpasswd:{path}\""),
        admin: None,
        needs: "",
        lets_in: &|login, password| tool(&["-v", "-b", &path, login, password]) == 0,
        drop: &|| {
            tool(&["-D", &path, "web"]);
        },
        address: None,
    });
}

#[test]
fn h6_a_login_of_dovecot_is_made_healed_and_left_alone() {
    let runtime = runtime();
    let server = runtime.block_on(DovecotServer::start(DovecotOptions::default()));
    let server = server.expect("Dovecot");
    let path = server.file().display().to_string();
    cycle(&Backend {
        provider: format!("kind = \"dovecot\"\nurl = \"dovecot:{path}\""),
        admin: None,
        needs: "allow_nets = [\"127.0.0.1\"]",
        lets_in: &|login, password| {
            let client = runtime.block_on(server.log_in(login, password));
            client.expect("an answer").is_some()
        },
        drop: &|| std::fs::write(&path, "").expect("written"),
        address: None,
    });
}
