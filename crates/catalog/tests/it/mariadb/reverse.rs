//! The other way round: what is found of accounts that others made, and what may be purged.

use mesh_catalog::mariadb::MariadbKind;
use mesh_conformance::servers::MariadbServer;
use mesh_sdk::adapter::Found;
use mesh_sdk::handle::AnyKind;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, ConsumerName};
use serde_json::{Value, json};

use super::bench::{run_as, settings};
use super::{Ours, least, wish, wish_as};

async fn found(ours: &Ours) -> Vec<Found<Value>> {
    let found = ours.adapter.find(&ours.cx, &ours.marker).await;
    found.expect("logins")
}

fn of<'f>(found: &'f [Found<Value>], login: &str) -> Option<&'f Found<Value>> {
    found.iter().find(|one| one.login.as_str() == login)
}

/// What refuses a purge, and that nothing was dropped.
async fn stays(server: &MariadbServer, ours: &Ours, name: &str) -> (Class, String) {
    let looked = ours.adapter.data(&ours.cx, name).await.expect_err("data");
    let purged = ours.adapter.purge(&ours.cx, name).await.expect_err("purge");
    assert_eq!(
        (looked.class(), looked.message()),
        (purged.class(), purged.message())
    );
    assert_eq!(server.counter("Com_drop_db").await, Ok(0), "it dropped one");
    (purged.class(), purged.message().to_owned())
}

const OTHERS: &str = "CREATE DATABASE shop_a; CREATE DATABASE shop_b; CREATE TABLE shop_b.t (i INT); \
    CREATE ROLE staff; \
    CREATE USER clerk IDENTIFIED BY 'clerk' REQUIRE SSL WITH MAX_USER_CONNECTIONS 3; \
    GRANT SELECT, SHOW VIEW ON shop_a.* TO clerk WITH GRANT OPTION; GRANT PROCESS ON *.* TO clerk; \
    GRANT INSERT ON `shop%`.* TO clerk; GRANT UPDATE (i) ON shop_b.t TO clerk; GRANT staff TO clerk; \
    CREATE USER clerk@localhost IDENTIFIED BY 'other'; \
    CREATE USER owns@'10.0.%' IDENTIFIED BY 'owns' ACCOUNT LOCK; \
    GRANT ALL PRIVILEGES ON `shop\\_a`.* TO owns@'10.0.%'; GRANT SELECT, INSERT ON `shop\\_b`.* TO owns@'10.0.%'; \
    CREATE USER open@localhost; CREATE USER socket@localhost IDENTIFIED VIA unix_socket; \
    CREATE USER two IDENTIFIED VIA mysql_native_password USING PASSWORD('a') OR unix_socket";

#[tokio::test(flavor = "multi_thread")]
async fn h18_what_others_made_is_found_with_what_values_cannot_say() {
    let (server, ours) = least().await;
    server.sql(OTHERS).await.expect("accounts");
    let all = found(&ours).await;
    let owns = of(&all, "owns").expect("the owner");
    assert_eq!(
        owns.values,
        json!({ "database": "shop_a", "privileges": "owner", "host": "10.0.%",
            "also": [{ "database": "shop_b", "privileges": ["SELECT", "INSERT"] }] })
    );
    assert!(!owns.enabled && owns.beyond.is_empty(), "{owns:?}");
    // Of two hosts the one that nobody stands before.
    let clerk = of(&all, "clerk").expect("the clerk");
    assert_eq!(clerk.values, json!({ "host": "localhost" }), "{clerk:?}");
    assert_eq!(clerk.beyond, ["another account, 'clerk'@'%'"]);
    server
        .sql("DROP USER clerk@localhost")
        .await
        .expect("dropped");
    let all = found(&ours).await;
    let clerk = of(&all, "clerk").expect("the clerk");
    let values = json!({ "database": "shop_a", "privileges": "readonly", "global": ["PROCESS"],
        "max_connections": 3 });
    assert_eq!(clerk.values, values);
    let beyond = clerk.beyond.join("; ");
    for part in [
        "REQUIRE SSL",
        "GRANT OPTION on shop\\_a.*",
        "INSERT on shop%.*",
        "Update of columns on shop_b.t",
        "role staff",
    ] {
        assert!(beyond.contains(part), "{part}: {beyond}");
    }
    // What logs in by something that values have no word for is nobody's to take over.
    for never in [
        "open",
        "socket",
        "two",
        "root",
        "mariadb.sys",
        "mesh",
        "staff",
        "PUBLIC",
        "",
    ] {
        assert_eq!(of(&all, never), None, "{never}");
    }
    // A right that is missing is told, and hides nobody.
    server
        .sql("REVOKE SELECT ON mysql.roles_mapping FROM mesh@127.0.0.1")
        .await
        .expect("revoked");
    let all = found(&ours).await;
    assert!(
        of(&all, "owns")
            .expect("still there")
            .beyond
            .join("; ")
            .contains("mysql.roles_mapping")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn r5_only_what_was_made_here_and_nobody_may_use_is_purged() {
    let (server, ours) = least().await;
    for never in [
        "mysql",
        "sys",
        "information_schema",
        "PERFORMANCE_SCHEMA",
        "mk1.x",
        "",
    ] {
        assert_eq!(
            stays(&server, &ours, never).await.0,
            Class::RefusedValue,
            "{never}"
        );
    }
    assert_eq!(ours.adapter.data(&ours.cx, "shop_nowhere").await, Ok(None));
    ours.adapter
        .purge(&ours.cx, "shop_nowhere")
        .await
        .expect("nothing");
    // A person's own, though an owner of ours works in it and leaves it.
    server
        .sql("CREATE DATABASE shop_theirs")
        .await
        .expect("a database");
    let theirs = wish(
        "theirs",
        json!({ "database": "shop_theirs", "privileges": "owner" }),
    );
    ours.made(&theirs).await;
    ours.remove(&theirs).await.expect("removed");
    let (class, why) = stays(&server, &ours, "shop_theirs").await;
    assert!(
        class == Class::Exists && why.contains("did not make it"),
        "{why}"
    );

    let web = wish(
        "web",
        json!({ "database": "shop_web", "privileges": "owner" }),
    );
    ours.made(&web).await;
    assert_eq!(AnyKind::data_of(&MariadbKind, &web), ["shop_web"]);
    let login = ("web", "password-of-web");
    run_as(
        server.port(),
        login,
        "shop_web",
        "CREATE TABLE kept AS SELECT 'tea' AS what",
    )
    .await
    .expect("a table");
    assert!(
        stays(&server, &ours, "shop_web")
            .await
            .1
            .contains("'web'@'%'")
    );
    ours.remove(&web).await.expect("removed");
    let users = [
        (
            "CREATE USER u; GRANT SELECT ON `shop\\_w%`.* TO u",
            "'u'@'%'",
        ),
        ("CREATE USER u; GRANT SELECT ON *.* TO u", "'u'@'%'"),
        (
            "CREATE USER u; GRANT SELECT ON shop_web.kept TO u",
            "'u'@'%'",
        ),
        ("CREATE ROLE u; GRANT SELECT ON shop_web.* TO u", "role `u`"),
        ("GRANT SELECT ON shop_web.* TO PUBLIC", "everybody"),
    ];
    for (given, who) in users {
        server.sql(given).await.expect("given");
        let (class, why) = stays(&server, &ours, "shop_web").await;
        assert!(
            class == Class::Exists && why.contains(who),
            "{given}: {why}"
        );
        let taken = match who {
            "role `u`" => "DROP ROLE u",
            "everybody" => "REVOKE ALL PRIVILEGES ON shop_web.* FROM PUBLIC",
            _ => "DROP USER u",
        };
        server.sql(taken).await.expect("taken");
    }
    // One that may do everything is an admin.
    server
        .sql("CREATE USER dba; GRANT ALL ON *.* TO dba")
        .await
        .expect("an admin");
    let told = ours
        .adapter
        .data(&ours.cx, "shop_web")
        .await
        .expect("data")
        .expect("there");
    assert!(told.contains("`shop_web`, 1 tables"), "{told}");
    assert_eq!(
        server
            .sql("SELECT what FROM shop_web.kept")
            .await
            .as_deref(),
        Ok("tea\n")
    );
    ours.adapter
        .purge(&ours.cx, "shop_web")
        .await
        .expect("purged");
    ours.adapter
        .purge(&ours.cx, "shop_web")
        .await
        .expect("again");
    assert_eq!(server.counter("Com_drop_db").await, Ok(1));
    assert_eq!(ours.adapter.data(&ours.cx, "shop_web").await, Ok(None));
}

#[tokio::test(flavor = "multi_thread")]
async fn o14_what_a_removed_login_defined_stays_and_is_readable_by_an_admin() {
    let (server, ours) = least().await;
    let web = wish(
        "web",
        json!({ "database": "shop_web", "privileges": "owner" }),
    );
    ours.made(&web).await;
    let login = ("web", "password-of-web");
    for made in [
        "CREATE TABLE orders AS SELECT 'tea' AS what",
        "CREATE VIEW plain AS SELECT what FROM orders",
        "CREATE SQL SECURITY INVOKER VIEW whose AS SELECT what FROM orders",
        "CREATE FUNCTION f() RETURNS INT RETURN 7",
        "CREATE TRIGGER t BEFORE INSERT ON orders FOR EACH ROW SET NEW.what = UPPER(NEW.what)",
    ] {
        run_as(server.port(), login, "shop_web", made)
            .await
            .expect(made);
    }
    ours.remove(&web).await.expect("removed");
    ours.remove(&web).await.expect("again");
    let sql = async |sql: &str| server.sql(sql).await;
    assert_eq!(
        sql("SELECT what FROM shop_web.orders").await.as_deref(),
        Ok("tea\n")
    );
    assert_eq!(
        sql("SELECT what FROM shop_web.whose").await.as_deref(),
        Ok("tea\n")
    );
    // What runs by its definer's right is there, and says whose it was.
    let error = sql("SELECT what FROM shop_web.plain")
        .await
        .expect_err("no definer")
        .to_string();
    assert!(error.contains("1449") && error.contains("web"), "{error}");
    let definers = "SELECT COUNT(*) FROM (SELECT DEFINER FROM information_schema.VIEWS UNION ALL \
        SELECT DEFINER FROM information_schema.ROUTINES UNION ALL SELECT DEFINER FROM information_schema.TRIGGERS) d \
        WHERE DEFINER = 'web@%'";
    assert_eq!(sql(definers).await.as_deref(), Ok("4\n"));
    let again = "USE shop_web; CREATE OR REPLACE DEFINER = root@localhost VIEW plain AS SELECT what FROM orders; \
        SELECT what FROM plain";
    assert_eq!(sql(again).await.as_deref(), Ok("tea\n"));
    // The login that comes back finds its own again.
    ours.made(&web).await;
    run_as(
        server.port(),
        login,
        "shop_web",
        "INSERT INTO orders SELECT f()",
    )
    .await
    .expect("its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn r6_without_the_right_to_see_others_nothing_is_told_and_the_right_is_named() {
    let (server, ours) = least().await;
    let web = wish("web", json!({}));
    ours.made(&web).await;
    let going = [Departing::new(web.consumer().clone(), web.login().clone())];
    assert_eq!(ours.adapter.uses(&ours.cx, &going).await, Ok(vec![None]));
    server
        .sql("REVOKE PROCESS ON *.* FROM mesh@127.0.0.1")
        .await
        .expect("revoked");
    let error = ours
        .adapter
        .uses(&ours.cx, &going)
        .await
        .expect_err("unknown");
    assert!(
        error.class() == Class::Denied && error.message().contains("PROCESS"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn r14_the_canary_may_do_nothing_and_is_found_by_nobody() {
    let (server, ours) = least().await;
    let canary = AnyKind::canary(&MariadbKind, &settings(server.port())).expect("values");
    let off = wish_as("canary", "mesh-canary", json!({}), |parts| {
        parts.consumer = ConsumerName::canary();
        parts.values = canary.values;
        parts.canonical_values = canary.canonical;
        parts.enabled = false;
    });
    ours.made(&off).await;
    let grants = server
        .sql("SHOW GRANTS FOR 'mesh-canary'")
        .await
        .expect("grants");
    let real = grants
        .lines()
        .filter(|line| !line.contains("`mk1.") && !line.contains("GRANT USAGE"));
    assert_eq!(real.count(), 0, "{grants}");
    assert_eq!(of(&found(&ours).await, "mesh-canary"), None);
}
