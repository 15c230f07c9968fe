//! The whole program on backends of other kinds: made, left alone, healed, shown, taken away from nobody.

use mesh_conformance::servers::{
    DovecotOptions, DovecotServer, ETCD_ROOT, EtcdFlavor, EtcdServer, LDAP_PASSWORD, LdapOptions,
    LdapServer, MOSQUITTO_ADMIN, MariadbOptions, MariadbServer, MosquittoOptions, MosquittoServer,
    MqttClient, NATS_SYSTEM, NatsClient, NatsOptions, NatsServer, PostgresFlavor, PostgresOptions,
    PostgresServer, RABBIT_ADMIN, RabbitServer, htpasswd,
};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::lab::Lab;
use crate::wait::until_true;

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
    /// Whether a login can be switched off; where not, it works until it is dropped.
    has_switch: bool,
}

impl Backend<'_> {
    /// The manifest, with `web` or with nobody.
    fn manifest(&self, lab: &Lab, grace: &str, with_web: bool) {
        let admin = self.admin.map_or_else(String::new, |(user, password)| {
            lab.write("admin.password", password);
            format!("admin = {{ user = \"{user}\", password = {{ file = \"admin.password\" }} }}")
        });
        let web = match with_web {
            true => format!("[consumer.web.needs.it]\n{}\n", self.needs),
            false => String::new(),
        };
        lab.manifest(&format!(
            "[mesh]\nid = \"home\"\n\n[provider.it]\n{admin}\nremove_after = \"1s\"\n\
             list_every = \"1s\"\ngrace = \"{grace}\"\n{}\n\n{web}",
            self.provider
        ));
    }
}

/// Plan, apply, again, loss, heal, again; and what is shown of it.
fn cycle(backend: &Backend<'_>) {
    let lab = Lab::new();
    backend.manifest(&lab, "1h", true);
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

    leaves(&lab, backend, &password);
}

/// Nobody asks for it any more: it waits for a word, since the wish became empty; is switched off; is the
/// same when it comes back; and is dropped when its grace is over.
fn leaves(lab: &Lab, backend: &Backend<'_>, password: &str) {
    let leftovers = || lab.status()["leftovers"].clone();
    let held = || {
        let conditions = lab.conditions();
        conditions.contains(&"RemovalHeld it".to_owned())
    };
    let let_go = || {
        until_true("it waits for a word", 60, || {
            lab.mesh(&["apply"]);
            (held(), lab.conditions())
        });
        assert!((backend.lets_in)("web", password), "nothing happened yet");
        lab.approve("it").ends(0);
    };
    backend.manifest(lab, "1h", false);
    let_go();
    if backend.has_switch {
        until_true("it is switched off", 60, || {
            lab.mesh(&["apply"]);
            let left = leftovers();
            (left[0]["kind"] == "disabled", left)
        });
        assert!(!(backend.lets_in)("web", password), "it is off");
    }
    backend.manifest(lab, "1h", true);
    // What was told is over once it was seen gone twice.
    until_true("it is back", 60, || {
        let ran = lab.mesh(&["apply"]);
        (ran.code == 0, ran)
    });
    assert_eq!(lab.password("web", "it"), password, "the same password");
    assert!((backend.lets_in)("web", password), "the same login");
    rests(lab);

    backend.manifest(lab, "1s", false);
    let_go();
    until_true("it is dropped", 60, || {
        lab.mesh(&["apply"]);
        let left = leftovers();
        (left.as_array().is_some_and(Vec::is_empty), left)
    });
    assert!(!(backend.lets_in)("web", password), "it is gone");
    assert!(lab.events("web").contains(&"dropped".to_owned()));
    lab.mesh(&["plan"]).ends(0).says("Nothing to do.");
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
        has_switch: true,
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
        has_switch: true,
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
        has_switch: true,
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
        has_switch: false,
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
        has_switch: true,
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
        has_switch: true,
    });
}

#[test]
fn h6_a_user_of_nats_is_made_healed_and_left_alone() {
    let runtime = runtime();
    let start = NatsServer::start(NatsOptions::default());
    let server = runtime.block_on(start).expect("a server");
    let (port, file) = (server.port(), server.users_file());
    cycle(&Backend {
        provider: format!(
            "kind = \"nats\"\nurl = \"nats://127.0.0.1:{port}\"\n\
             [provider.it.options]\nusers_file = \"{}\"",
            file.display()
        ),
        admin: Some(NATS_SYSTEM),
        needs: "publish = [\"web.>\"]\nsubscribe = [\"web.>\"]",
        lets_in: &|login, password| {
            let client = runtime.block_on(NatsClient::connect(port));
            let mut client = client.expect("a connection");
            let asked = client.log_in(login, password);
            runtime.block_on(asked).expect("an answer")
        },
        drop: &|| {
            let text = std::fs::read_to_string(&file).expect("read");
            let others = text.lines().filter(|line| !line.contains("\"web\""));
            let others = others.collect::<Vec<_>>().join("\n") + "\n";
            std::fs::write(&file, others).expect("written");
            runtime.block_on(server.reload()).expect("reloaded");
        },
        address: Some("nats://web:".to_owned()),
        has_switch: true,
    });
}

#[test]
fn h6_a_client_of_mosquitto_is_made_healed_and_left_alone() {
    let runtime = runtime();
    let start = MosquittoServer::start(MosquittoOptions::default());
    let server = runtime.block_on(start).expect("a broker");
    let port = server.port();
    cycle(&Backend {
        provider: format!("kind = \"mosquitto\"\nurl = \"mqtt://127.0.0.1:{port}\""),
        admin: Some(MOSQUITTO_ADMIN),
        needs: "publish = [\"web/#\"]\nsubscribe = [\"web/#\"]",
        lets_in: &|login, password| {
            let client = runtime.block_on(MqttClient::log_in(port, login, password));
            client.expect("an answer").is_some()
        },
        drop: &|| {
            let gone = json!({ "command": "deleteClient", "username": "web" });
            let admin = runtime.block_on(MqttClient::admin(port));
            let mut admin = admin.expect("an admin");
            runtime.block_on(admin.command(&[gone])).expect("dropped");
        },
        address: Some("mqtt://web:".to_owned()),
        has_switch: true,
    });
}

#[test]
fn h6_an_entry_of_a_directory_is_made_healed_and_left_alone() {
    let runtime = runtime();
    let start = LdapServer::start(LdapOptions::default());
    let server = runtime.block_on(start).expect("a directory");
    let port = server.port();
    let dn = |login: &str| format!("uid={login},ou=apps,dc=example");
    cycle(&Backend {
        provider: format!("kind = \"ldap\"\nurl = \"ldap://127.0.0.1:{port}/ou=apps,dc=example\""),
        admin: Some(("cn=root,dc=example", LDAP_PASSWORD)),
        needs: "",
        lets_in: &|login, password| {
            let who = dn(login);
            let call = server.client("ldapwhoami", Some((&who, password)), &[], "");
            let (code, _) = runtime.block_on(call).expect("an answer");
            code == 0
        },
        drop: &|| {
            runtime
                .block_on(server.delete(&dn("web")))
                .expect("dropped")
        },
        address: Some("ldap://".to_owned()),
        has_switch: true,
    });
}
