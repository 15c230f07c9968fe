//! What went wrong for people elsewhere, each by its number.

use std::time::Duration;

use mesh_catalog::postgres::PostgresKind;
use mesh_conformance::servers::{PostgresFlavor, PostgresOptions, PostgresServer, until};
use mesh_sdk::adapter::Admin;
use mesh_sdk::handle::AnyKind;
use mesh_sdk::{Answer, Class, Difference, Login, Proof, Secret, Wish};
use serde_json::json;

use super::bench::{LEAST, Who, settings, shop};
use super::{
    LOGGED, Ours, WRITES, only, owner, password, readonly, readwrite, said, wish, wish_with, with,
};

const V15: PostgresFlavor = PostgresFlavor::V15;

async fn started(who: Who, options: PostgresOptions) -> (PostgresServer, Ours) {
    let server = shop(V15, who, options).await;
    let ours = Ours::on(settings(server.port(), who));
    (server, ours)
}

fn named(login: &str, consumer: &str) -> Wish {
    wish_with(consumer, readonly(), |p| {
        p.login = Login::new(login).expect("a login")
    })
}

fn with_password(text: &str) -> Wish {
    wish_with("web", readonly(), |p| p.password = Some(Secret::from(text)))
}

#[tokio::test(flavor = "multi_thread")]
async fn o05_o06_passwords_work_with_exactly_their_text() {
    let (server, ours) = started(Who::Least, with(&[])).await;
    let md5 = format!("md5{}", "a".repeat(32));
    let all = [
        md5.as_str(),
        "SCRAM-SHA-256$4096:c2FsdA==$a:b",
        "pass\u{a0}word",
        "so\u{ad}ft77",
        "\u{FF21}bc\u{BC}9",
        "Zu\u{308}rich-9",
        "x\u{1F9FF}y",
        "p@ss/w:rd?#[%41]&=+{x} '",
    ];
    for text in all {
        let web = with_password(text);
        ours.made(&web).await;
        server
            .sql_as("web", text, "shop", "SELECT 1")
            .await
            .expect(text);
        let wrong = server.sql_as("web", "another", "shop", "SELECT 1").await;
        assert!(wrong.is_err(), "{text}: a wrong password lets in");
    }
    let settings = settings(server.port(), Who::Least);
    let refusal = PostgresKind.check(&settings, &with_password("\u{ad}"), &ours.marker);
    assert_eq!(refusal.expect_err("refused").field, "password");
}

#[tokio::test(flavor = "multi_thread")]
async fn o09_names_that_would_be_cut_are_refused() {
    let ours = Ours::on(settings(1, Who::Super));
    let refused = |wish: &Wish| {
        let checked = PostgresKind.check(&settings(1, Who::Super), wish, &ours.marker);
        checked.err().map(|refusal| (refusal.field, refusal.rule))
    };
    let long = [
        format!("{}x", "a".repeat(63)),
        format!("{}y", "a".repeat(63)),
        "ü".repeat(40),
    ];
    for login in long {
        let (field, rule) = refused(&named(&login, "web")).expect("refused");
        assert_eq!(field, "login");
        assert!(rule.contains("63"), "{rule}");
    }
    assert_eq!(refused(&named(&"a".repeat(63), "web")), None);
    let (field, _) = refused(&wish("web", owner(&"d".repeat(64)))).expect("refused");
    assert_eq!(field, "database");
}

#[tokio::test(flavor = "multi_thread")]
async fn o10_case_counts_in_every_statement() {
    let (server, ours) = started(Who::Least, with(&[])).await;
    let values = json!({ "database": "Shop-DB", "privileges": "owner", "schemas": ["Sales"] });
    let own = wish_with("own", values, |p| {
        p.login = Login::new("Own").expect("a login")
    });
    let values = json!({ "database": "Shop-DB", "privileges": "readonly", "schemas": ["Sales"] });
    let upper = wish_with("upper", values.clone(), |p| {
        p.login = Login::new("AppRead").expect("a login")
    });
    let lower = wish_with("lower", values, |p| {
        p.login = Login::new("appread").expect("a login")
    });
    for one in [&own, &upper, &lower] {
        ours.made(one).await;
    }
    let make = "CREATE TABLE \"Sales\".\"Orders\" AS SELECT 7 AS i";
    server
        .sql_as("Own", &password("own"), "Shop-DB", make)
        .await
        .expect("made");
    let read = "SELECT i FROM \"Sales\".\"Orders\"";
    for (login, consumer) in [("AppRead", "upper"), ("appread", "lower")] {
        let seen = server
            .sql_as(login, &password(consumer), "Shop-DB", read)
            .await;
        assert_eq!(seen.expect("read"), "7");
    }
    assert_ne!(
        server
            .sql_as("AppRead", &password("lower"), "Shop-DB", read)
            .await
            .ok()
            .as_deref(),
        Some("7")
    );
    ours.remove(&upper).await.expect("removed");
    ours.held(&lower).await;
    ours.held(&own).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o11_the_servers_own_names_are_refused_and_words_are_not() {
    let (server, ours) = started(Who::Least, with(&[])).await;
    let at = settings(server.port(), Who::Least);
    for login in [
        "pg_backup",
        "public",
        "none",
        "postgres",
        "mesh",
        "meshkeeper_keeper",
    ] {
        let checked = PostgresKind.check(&at, &named(login, "web"), &ours.marker);
        assert_eq!(checked.expect_err(login).field, "login");
        let class = ours
            .create(&named(login, "web"))
            .await
            .map_err(|error| error.class());
        assert_eq!(class, Err(Class::RefusedValue), "{login}");
    }
    for database in ["template0", "template1", "postgres"] {
        let checked = PostgresKind.check(&at, &wish("web", owner(database)), &ours.marker);
        assert_eq!(checked.expect_err(database).field, "database");
    }
    for login in ["current_user", "user", "PUBLIC", "session_user"] {
        ours.made(&named(login, "web")).await;
        ours.remove(&named(login, "web")).await.expect("removed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o15_only_what_is_missing_is_granted() {
    let (server, ours) = started(Who::Least, with(&LOGGED)).await;
    let app = wish("app", readonly());
    ours.made(&app).await;
    let taken = [
        (
            "REVOKE CONNECT ON DATABASE shop FROM PUBLIC, app",
            "CONNECT on database shop",
        ),
        (
            "REVOKE SELECT ON ALL TABLES IN SCHEMA public FROM app",
            "SELECT on public.items",
        ),
        (
            "REVOKE USAGE ON SCHEMA public FROM PUBLIC",
            "USAGE on schema public",
        ),
        (
            "ALTER DEFAULT PRIVILEGES FOR ROLE shopkeeper IN SCHEMA public REVOKE SELECT ON TABLES FROM app",
            "SELECT on later tables of shopkeeper",
        ),
    ];
    for (sql, told) in taken {
        server.sql("shop", sql).await.expect(sql);
        let lost = ours.lost(&app).await;
        assert_eq!(
            lost.differences,
            only([Difference::GrantsMissing]),
            "{lost:?}"
        );
        assert!(lost.password_fits && lost.detail.contains(told), "{lost:?}");
        let before = said(&server, &["PASSWORD", "COMMENT"]).len();
        ours.made(&app).await;
        assert_eq!(
            said(&server, &["PASSWORD", "COMMENT"]).len(),
            before,
            "{sql}"
        );
        server
            .sql_as(
                "app",
                &password("app"),
                "shop",
                "SELECT * FROM items, names",
            )
            .await
            .expect(sql);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o16_tables_of_every_maker_can_be_read() {
    let (server, ours) = started(Who::Least, with(&LOGGED)).await;
    let own = wish("own", owner("web"));
    let rdr = wish(
        "rdr",
        json!({ "database": "web", "privileges": "readonly" }),
    );
    ours.made(&own).await;
    ours.made(&rdr).await;
    let read = async |table: &str| {
        let sql = format!("SELECT * FROM {table}");
        server
            .sql_as("rdr", &password("rdr"), "web", &sql)
            .await
            .map(|_| ())
    };
    server
        .sql_as(
            "own",
            &password("own"),
            "web",
            "CREATE TABLE later1 (i int)",
        )
        .await
        .expect("made");
    read("later1").await.expect("at once");
    // Another one makes tables: one pass later they can be read, and those after them at once.
    let own2 = wish("own2", owner("other"));
    ours.made(&own2).await;
    server
        .sql("web", "GRANT CREATE, USAGE ON SCHEMA public TO own2")
        .await
        .expect("granted");
    server
        .sql_as(
            "own2",
            &password("own2"),
            "web",
            "CREATE TABLE later2 (i int)",
        )
        .await
        .expect("made");
    assert!(read("later2").await.is_err());
    let lost = ours.lost(&rdr).await;
    assert_eq!(lost.differences, only([Difference::GrantsMissing]));
    ours.made(&rdr).await;
    read("later2").await.expect("after a pass");
    server
        .sql_as(
            "own2",
            &password("own2"),
            "web",
            "CREATE TABLE later3 (i int)",
        )
        .await
        .expect("made");
    read("later3").await.expect("at once");
    let before = said(&server, &WRITES).len();
    for _ in 0..3 {
        ours.held(&rdr).await;
    }
    assert_eq!(said(&server, &WRITES).len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn o17_an_old_password_that_a_restore_brings_is_written_once() {
    let (server, ours) = started(Who::Super, with(&LOGGED)).await;
    let app = wish("app", readwrite());
    ours.made(&app).await;
    let of = "SELECT rolpassword FROM pg_authid WHERE rolname = 'app'";
    let old = server.sql("postgres", of).await.expect("a verifier");
    let new = wish_with("app", readwrite(), |p| {
        p.password = Some(Secret::from("the new one"))
    });
    ours.made(&new).await;
    server
        .sql("postgres", &format!("ALTER ROLE app PASSWORD '{old}'"))
        .await
        .expect("restored");
    assert_eq!(
        ours.lost(&new).await.differences,
        only([Difference::Password])
    );
    let before = said(&server, &["PASSWORD"]).len();
    ours.made(&new).await;
    assert_eq!(said(&server, &["PASSWORD"]).len(), before + 1);
    server
        .sql_as("app", "the new one", "shop", "SELECT 1")
        .await
        .expect("the new one lets in");
    let before = said(&server, &WRITES).len();
    for _ in 0..20 {
        ours.held(&new).await;
    }
    assert_eq!(said(&server, &WRITES).len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_a_login_whose_time_is_over_is_disabled() {
    let (server, ours) = started(Who::Least, with(&[])).await;
    let app = wish("app", readonly());
    for off in ["VALID UNTIL '2020-01-01'", "CONNECTION LIMIT 0", "NOLOGIN"] {
        ours.made(&app).await;
        server
            .sql("postgres", &format!("ALTER ROLE app {off}"))
            .await
            .expect(off);
        let lost = ours.lost(&app).await;
        assert!(
            lost.differences.contains(Difference::Disabled),
            "{off}: {lost:?}"
        );
        assert!(lost.password_fits, "{off}: {lost:?}");
        ours.made(&app).await;
        server
            .sql_as("app", &password("app"), "shop", "SELECT 1")
            .await
            .expect(off);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r11_what_a_person_wrote_beside_the_mark_stays() {
    let (server, ours) = started(Who::Least, with(&[])).await;
    let app = wish("app", readonly());
    ours.made(&app).await;
    server
        .sql("postgres", "COMMENT ON ROLE app IS 'billing, ask Ann'")
        .await
        .expect("a comment");
    assert_eq!(
        ours.lost(&app).await.differences,
        only([Difference::MarkMissing])
    );
    ours.made(&app).await;
    let of = "SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = 'app'";
    let comment = server.sql("postgres", of).await.expect("a comment");
    assert!(comment.starts_with("billing, ask Ann mk1."), "{comment}");
    ours.remove(&app).await.expect("removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn o20_a_standby_is_asked_and_not_written() {
    let server = shop(V15, Who::Super, with(&[])).await;
    let ours = Ours::on(settings(server.port(), Who::Super));
    let app = wish("app", readonly());
    ours.made(&app).await;
    let options = PostgresOptions {
        standby_of: Some(server.port()),
        config: LOGGED
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..PostgresOptions::default()
    };
    let standby = super::server(V15, options).await;
    let there = Ours::on(settings(standby.port(), Who::Super));
    let known = there.adapter.server(&there.cx).await.expect("a server");
    assert!(known.read_only.is_some(), "{known:?}");
    let primary = ours.adapter.server(&ours.cx).await.expect("a server");
    assert_eq!(
        (primary.read_only, primary.identity),
        (None, known.identity)
    );
    assert_eq!(there.held(&app).await.proof, Proof::Verifier);
    there.create(&app).await.expect("nothing to write");
    let missing = wish("missing", readonly());
    assert!(
        there
            .lost(&missing)
            .await
            .differences
            .contains(Difference::Absent)
    );
    let error = there.create(&missing).await.expect_err("a standby");
    assert_eq!(error.class(), Class::ReadOnly, "{error}");
    let gone = there.remove(&app).await.map_err(|error| error.class());
    assert_eq!(gone, Err(Class::ReadOnly));
    assert_eq!(
        said(&standby, &WRITES),
        Vec::<String>::new(),
        "a write was tried"
    );
    standby
        .sql("postgres", "SELECT pg_promote()")
        .await
        .expect("promoted");
    there.made(&missing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o22_failures_leave_no_connections_behind() {
    let config = [
        ("max_connections", "12"),
        ("superuser_reserved_connections", "3"),
    ];
    let (server, ours) = started(Who::Least, with(&config)).await;
    let mut all = Vec::new();
    for n in 0..10 {
        let one = wish(&format!("app-{n}"), readonly());
        ours.made(&one).await;
        all.push(one);
    }
    // Nobody may hand over what is in a database that takes no connections.
    server
        .sql("shop", "GRANT CREATE ON SCHEMA public TO \"app-0\"")
        .await
        .expect("granted");
    server
        .sql_as(
            "app-0",
            &password("app-0"),
            "shop",
            "CREATE TABLE mine (i int)",
        )
        .await
        .expect("made");
    server
        .sql("postgres", "ALTER DATABASE shop ALLOW_CONNECTIONS false")
        .await
        .expect("shut");
    // What is in it cannot be told meanwhile.
    let class = ours.holds(&all[1]).await.map_err(|error| error.class());
    assert_eq!(class.expect_err("unknown"), Class::Busy);
    for _ in 0..50 {
        let error = ours
            .remove(&all[0])
            .await
            .expect_err("it cannot be removed");
        assert_eq!(error.class(), Class::Denied, "{error}");
    }
    // One may be kept where so few are taken.
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'meshkeeper'";
    let soon = until(
        "connections to be closed",
        Duration::from_secs(5),
        || async {
            match server.sql("postgres", count).await {
                Ok(text) if text == "0" || text == "1" => Ok(()),
                other => Err(format!("{other:?}")),
            }
        },
    );
    soon.await.expect("closed");
    server
        .sql("postgres", "ALTER DATABASE shop ALLOW_CONNECTIONS true")
        .await
        .expect("open");
    // The others may read what it made, too.
    for one in &all[1..] {
        ours.made(one).await;
    }
    // Many at once wait for each other and never take more than the provider's share.
    let looks = all[1..].iter().cycle().take(40).map(|one| ours.holds(one));
    for answer in futures_util::future::join_all(looks).await {
        assert!(matches!(answer, Ok(Answer::Held(_))), "{answer:?}");
    }
    ours.remove(&all[0]).await.expect("removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn o27_o29_what_cannot_be_yet_is_told_and_heals_later() {
    let (server, ours) = started(Who::Least, with(&[])).await;
    let mut all: Vec<Wish> = (0..10)
        .map(|n| wish(&format!("app-{n}"), readonly()))
        .collect();
    all[3] = wish(
        "app-3",
        json!({ "database": "not yet", "privileges": "readonly" }),
    );
    all[7] = wish(
        "app-7",
        json!({ "database": "shop", "privileges": "readonly", "schemas": ["new"] }),
    );
    for (index, outcome) in ours.create_all(&all).await.into_iter().enumerate() {
        match index {
            3 | 7 => assert_eq!(
                outcome.map_err(|error| error.class()),
                Err(Class::RefusedValue)
            ),
            _ => outcome.expect("created"),
        }
    }
    // One whose owner cannot be made has an error of its own.
    let values = json!({ "database": "odd", "privileges": "owner", "extensions": ["no such"] });
    let pair = [
        wish("odd", values),
        wish(
            "odd-reader",
            json!({ "database": "odd", "privileges": "readonly" }),
        ),
    ];
    for outcome in ours.create_all(&pair).await {
        assert_eq!(
            outcome.map_err(|error| error.class()),
            Err(Class::RefusedValue)
        );
    }
    // A password that was changed behind our back, and a grant that cannot be made: nothing is half done.
    server
        .sql("postgres", "ALTER ROLE \"app-0\" PASSWORD 'changed'")
        .await
        .expect("changed");
    let wanted = json!({ "database": "shop", "privileges": "readonly", "schemas": ["new"] });
    let class = ours
        .create(&wish("app-0", wanted))
        .await
        .map_err(|error| error.class());
    assert_eq!(class, Err(Class::RefusedValue));
    assert!(
        ours.lost(&all[0])
            .await
            .differences
            .contains(Difference::Password)
    );
    server
        .sql("postgres", "CREATE DATABASE \"not yet\"")
        .await
        .expect("made");
    server
        .sql("shop", "CREATE SCHEMA new AUTHORIZATION shopkeeper")
        .await
        .expect("made");
    for one in &all {
        ours.made(one).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o30_many_changes_of_one_database_at_once_all_go_well() {
    let (server, ours) = started(Who::Super, with(&[])).await;
    server
        .sql("shop", "REVOKE CONNECT ON DATABASE shop FROM PUBLIC")
        .await
        .expect("revoked");
    server.sql("shop", "CREATE ROLE g1").await.expect("a role");
    // A second copy of the product, and somebody else who takes his time.
    let copy = Ours::on(settings(server.port(), Who::Super));
    let all: Vec<Wish> = (0..20)
        .map(|n| wish(&format!("app-{n}"), readonly()))
        .collect();
    let outside = "GRANT CONNECT ON DATABASE shop TO g1; SELECT pg_sleep(2)";
    let outside = server.sql("shop", outside);
    let creations = all.iter().enumerate().map(|(n, one)| match n % 2 {
        0 => ours.create(one),
        _ => copy.create(one),
    });
    let (outside, outcomes) = tokio::join!(outside, futures_util::future::join_all(creations));
    outside.expect("granted");
    for outcome in outcomes {
        outcome.expect("created");
    }
    for one in &all {
        ours.held(one).await;
    }
    // Both make the same one.
    let same = wish("same", readonly());
    let (one, two) = tokio::join!(ours.create(&same), copy.create(&same));
    one.expect("created");
    two.expect("created");
    ours.held(&same).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o33_no_password_is_in_the_servers_log() {
    let (server, ours) = started(Who::Least, with(&[("log_min_error_statement", "debug5")])).await;
    const SECRET: &str = "leakme-Ω-123";
    let leak =
        |name: &str, values| wish_with(name, values, |p| p.password = Some(Secret::from(SECRET)));
    ours.made(&leak("app", readonly())).await;
    // No right to alter: a superuser's login.
    server
        .sql("postgres", "CREATE ROLE boss SUPERUSER LOGIN")
        .await
        .expect("made");
    let denied = ours
        .create(&leak("boss", readonly()))
        .await
        .expect_err("denied");
    assert_eq!(denied.class(), Class::Denied, "{denied}");
    // Read-only.
    let sql = "ALTER SYSTEM SET default_transaction_read_only = on";
    server.sql("postgres", sql).await.expect("set");
    server
        .sql("postgres", "SELECT pg_reload_conf()")
        .await
        .expect("read");
    let soon = until("a read-only server", Duration::from_secs(5), || async {
        match ours.create(&leak("later", readonly())).await {
            Err(error) if error.class() == Class::ReadOnly => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    soon.await.expect("read-only");
    let log = server.log();
    assert!(
        log.contains("permission denied") || log.contains("must be"),
        "{log}"
    );
    for form in ["leakme", "6c65616b6d65"] {
        assert!(!log.contains(form), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o35_an_open_session_does_not_keep_an_old_password_alive() {
    let (server, ours) = started(Who::Least, with(&[])).await;
    let old = wish("app", readonly());
    ours.made(&old).await;
    let session = tokio_postgres::Config::new()
        .host("127.0.0.1")
        .port(server.port())
        .user("app")
        .password(password("app"))
        .dbname("shop")
        .connect(tokio_postgres::NoTls)
        .await;
    let (client, connection) = session.expect("a session");
    tokio::spawn(async { drop(connection.await) });
    let new = wish_with("app", readonly(), |p| {
        p.password = Some(Secret::from("new"))
    });
    ours.made(&new).await;
    assert_eq!(
        ours.lost(&old).await.differences,
        only([Difference::Password])
    );
    client
        .simple_query("SELECT 1")
        .await
        .expect("the session goes on");
    // Our own password changes, too: the next session comes with what it has, and says what is wrong.
    server
        .sql("postgres", "ALTER ROLE mesh PASSWORD 'other'")
        .await
        .expect("changed");
    ours.held(&new).await;
    super::kept::end_ours(&server).await;
    let error = ours.holds(&new).await.expect_err("unknown");
    assert_eq!(error.class(), Class::Denied, "{error}");
    assert!(!error.to_string().contains(LEAST), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_a_full_server_and_a_held_lock_are_busy_and_nobodys_loss() {
    let (server, ours) = started(Who::Super, with(&[])).await;
    let app = wish("app", readonly());
    ours.made(&app).await;
    let least = "CREATE ROLE mesh LOGIN CREATEROLE PASSWORD 'x' CONNECTION LIMIT 0";
    server.sql("postgres", least).await.expect("a role");
    let mut at = settings(server.port(), Who::Super);
    at.admin = Some(Admin {
        user: "mesh".to_owned(),
        password: Some(Secret::from("x")),
    });
    let error = Ours::on(at).holds(&app).await.expect_err("full");
    assert_eq!(error.class(), Class::Busy, "{error}");

    // Somebody changes the role and takes his time.
    let new = wish_with("app", readonly(), |p| {
        p.password = Some(Secret::from("new"))
    });
    let slow = server.sql(
        "postgres",
        "ALTER ROLE app CONNECTION LIMIT 5; SELECT pg_sleep(12)",
    );
    let create = async {
        let begun = until("the lock", Duration::from_secs(5), || async {
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(12)'";
            match server.sql("postgres", sql).await {
                Ok(text) if text != "0" => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        begun.await.expect("begun");
        ours.create(&new).await
    };
    let (slow, created) = tokio::join!(slow, create);
    slow.expect("done");
    assert_eq!(created.map_err(|error| error.class()), Err(Class::Busy));
    ours.made(&new).await;
}
