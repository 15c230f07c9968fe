//! The other way round: what is found of logins that others made, and what may be purged.

use std::time::Duration;

use mesh_catalog::postgres::PostgresKind;
use mesh_conformance::servers::{PostgresFlavor, PostgresServer};
use mesh_sdk::adapter::Found;
use mesh_sdk::handle::AnyKind;
use mesh_sdk::{Class, ConsumerName, Login};
use serde_json::{Value, json};

use super::bench::{Who, settings, shop};
use super::{
    LOGGED, Ours, WRITES, owner, password, readonly, readwrite, said, wish, wish_with, with,
};
use crate::wishes::going;

async fn started(flavor: PostgresFlavor, who: Who) -> (PostgresServer, Ours) {
    let server = shop(flavor, who, with(&LOGGED)).await;
    let ours = Ours::on(settings(server.port(), who));
    (server, ours)
}

async fn found(ours: &Ours) -> Vec<Found<Value>> {
    let found = ours.adapter.find(&ours.cx, &ours.marker).await;
    found.expect("logins")
}

fn of<'f>(found: &'f [Found<Value>], login: &str) -> Option<&'f Found<Value>> {
    found.iter().find(|one| one.login.as_str() == login)
}

/// What refuses a purge, and that nothing was said to the server.
async fn stays(server: &PostgresServer, ours: &Ours, name: &str) -> (Class, String) {
    let before = said(server, &WRITES).len();
    let looked = ours.adapter.data(&ours.cx, name).await.expect_err("data");
    let purged = ours.adapter.purge(&ours.cx, name).await.expect_err("purge");
    assert_eq!(
        (looked.class(), looked.message()),
        (purged.class(), purged.message())
    );
    assert_eq!(said(server, &WRITES).len(), before, "it wrote");
    (purged.class(), purged.message().to_owned())
}

const OTHERS: &str = "CREATE ROLE clerks NOLOGIN; \
    CREATE ROLE clerk LOGIN CREATEDB PASSWORD 'clerk-password' CONNECTION LIMIT 3; GRANT clerks TO clerk; \
    CREATE ROLE owns LOGIN PASSWORD 'owns-password' VALID UNTIL '2099-01-01'; \
    CREATE ROLE former NOLOGIN PASSWORD 'former-password'; \
    CREATE ROLE root2 LOGIN SUPERUSER PASSWORD 'root-password'; CREATE ROLE idle LOGIN PASSWORD 'idle'";

#[tokio::test(flavor = "multi_thread")]
async fn h18_what_others_made_is_found_with_what_values_cannot_say() {
    for who in [Who::Super, Who::Least] {
        let (server, ours) = started(PostgresFlavor::V15, who).await;
        let sql = async |database: &str, sql: &str| server.sql(database, sql).await.expect("said");
        sql("postgres", OTHERS).await;
        sql("postgres", "CREATE DATABASE books OWNER owns").await;
        sql("shop", "GRANT SELECT ON ALL TABLES IN SCHEMA public, more TO clerk; \
            GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO clerk; GRANT USAGE ON SCHEMA more TO clerk; \
            GRANT INSERT ON items TO clerk; GRANT TRUNCATE ON more.things TO idle; \
            ALTER DEFAULT PRIVILEGES FOR ROLE shopkeeper IN SCHEMA public, more GRANT SELECT ON TABLES TO clerk; \
            ALTER DEFAULT PRIVILEGES FOR ROLE shopkeeper IN SCHEMA public, more GRANT SELECT ON SEQUENCES TO clerk").await;
        sql(
            "books",
            "CREATE TABLE pages (i int); GRANT SELECT ON pages TO clerk",
        )
        .await;
        if who == Who::Super {
            // What the server's own admin could make there has to be readable as well.
            for schema in [("shop", "public"), ("shop", "more")] {
                sql(
                    schema.0,
                    &format!(
                        "ALTER DEFAULT PRIVILEGES IN SCHEMA {} GRANT SELECT ON TABLES TO clerk; \
                    ALTER DEFAULT PRIVILEGES IN SCHEMA {0} GRANT SELECT ON SEQUENCES TO clerk",
                        schema.1
                    ),
                )
                .await;
            }
        }
        let all = found(&ours).await;
        let clerk = of(&all, "clerk").expect("the clerk");
        assert_eq!(
            clerk.values,
            json!({ "database": "shop", "privileges": "readonly", "schemas": ["more", "public"],
                "connection_limit": 3 }),
            "{who:?} {clerk:?}"
        );
        let beyond = clerk.beyond.join("; ");
        for part in [
            "CREATEDB",
            "member of clerks",
            "INSERT on public.items",
            "books",
        ] {
            assert!(beyond.contains(part), "{who:?} {part}: {beyond}");
        }
        let owns = of(&all, "owns").expect("the owner");
        assert_eq!(owns.values, owner("books"), "{owns:?}");
        assert!(
            owns.enabled && owns.beyond.join("; ").contains("VALID UNTIL 2099"),
            "{owns:?}"
        );
        let idle = of(&all, "idle").expect("one with a right that values have no word for");
        assert_eq!(idle.values["privileges"], "none");
        assert!(
            idle.beyond
                .join("; ")
                .contains("schema more of database shop"),
            "{idle:?}"
        );
        // What is switched off is told as that, where a password shows that it logged in once.
        assert_eq!(of(&all, "former").map(|one| one.enabled), Some(false));
        assert_eq!(of(&all, "clerks"), None);
        assert!(
            of(&all, "root2")
                .expect("a superuser")
                .beyond
                .contains(&"SUPERUSER".to_owned())
        );
        for never in ["postgres", "mesh", "meshkeeper_keeper", "pg_monitor"] {
            assert_eq!(of(&all, never), None);
        }
        // It is held as it stands, and adopting it changes nothing but the mark.
        let adopted = wish_with("owns", owns.values.clone(), |parts| {
            parts.password = Some("owns-password".into());
            parts.adopt = true;
        });
        let asked = mesh_sdk::handle::Asked {
            wish: &adopted,
            adopted: true,
        };
        let answer = ours
            .adapter
            .holds(&ours.cx, &ours.marker, asked)
            .await
            .expect("an answer");
        let mesh_sdk::Answer::Lost(lost) = answer else {
            panic!("{answer:?}")
        };
        assert!(
            lost.password_fits
                && lost.differences == super::only([mesh_sdk::Difference::MarkMissing]),
            "{lost:?}"
        );
        ours.adapter
            .create(&ours.cx, &ours.marker, asked)
            .await
            .expect("adopted");
        let answer = ours.adapter.holds(&ours.cx, &ours.marker, asked).await;
        assert!(
            matches!(answer, Ok(mesh_sdk::Answer::Held(_))),
            "{answer:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r14_the_canary_does_nothing_and_is_found_by_nobody() {
    for flavor in PostgresFlavor::ALL {
        let (server, ours) = started(flavor, Who::Least).await;
        let canary = AnyKind::canary(&PostgresKind, &settings(server.port(), Who::Least));
        let canary = canary.expect("values");
        let off = wish_with("canary", readonly(), |parts| {
            parts.consumer = ConsumerName::canary();
            parts.login = Login::new("mesh-canary").expect("a login");
            parts.values = canary.values;
            parts.canonical_values = canary.canonical;
            parts.enabled = false;
        });
        ours.made(&off).await;
        let has = "SELECT count(*) FROM pg_shdepend s JOIN pg_roles r ON r.oid = s.refobjid \
            WHERE r.rolname = 'mesh-canary' AND s.deptype <> 'i'";
        assert_eq!(server.sql("postgres", has).await.expect("a count"), "0");
        assert_eq!(of(&found(&ours).await, "mesh-canary"), None);
        ours.remove(&off).await.expect("removed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r5_only_what_the_keeper_has_and_nobody_may_use_is_purged() {
    for (flavor, who) in [
        (PostgresFlavor::V15, Who::Super),
        (PostgresFlavor::V18, Who::Least),
    ] {
        let (server, ours) = started(flavor, who).await;
        for never in ["postgres", "template0", "template1", ""] {
            assert_eq!(stays(&server, &ours, never).await.0, Class::RefusedValue);
        }
        // Somebody else's, whoever may use it or not.
        let (class, why) = stays(&server, &ours, "shop").await;
        assert!(
            class == Class::Exists && why.contains("shopkeeper"),
            "{why}"
        );
        assert_eq!(ours.adapter.data(&ours.cx, "nowhere").await, Ok(None));
        ours.adapter
            .purge(&ours.cx, "nowhere")
            .await
            .expect("nothing");

        let web = wish("web", owner("web"));
        ours.made(&web).await;
        assert_eq!(AnyKind::data_of(&PostgresKind, &web), ["web"]);
        assert!(AnyKind::data_of(&PostgresKind, &wish("r", readwrite())).is_empty());
        let reader = wish(
            "reader",
            json!({ "database": "web", "privileges": "readonly" }),
        );
        ours.made(&reader).await;
        let make = "CREATE TABLE t AS SELECT 7 AS i; CREATE TABLE u AS SELECT 8 AS i; GRANT SELECT ON u TO PUBLIC";
        server
            .sql_as("web", &password("web"), "web", make)
            .await
            .expect("tables");
        assert!(stays(&server, &ours, "web").await.1.contains("`web` owns"));
        ours.remove(&web).await.expect("removed");
        let (class, why) = stays(&server, &ours, "web").await;
        assert!(class == Class::Exists && why.contains("`reader`"), "{why}");
        ours.remove(&reader).await.expect("removed");
        assert!(
            stays(&server, &ours, "web")
                .await
                .1
                .contains("everybody may use `public.u`")
        );
        server
            .sql("web", "REVOKE ALL ON u FROM PUBLIC")
            .await
            .expect("revoked");
        server
            .sql(
                "web",
                "CREATE ROLE guestbook LOGIN; GRANT meshkeeper_keeper TO guestbook",
            )
            .await
            .expect("a member");
        assert!(stays(&server, &ours, "web").await.1.contains("`guestbook`"));
        server
            .sql("web", "DROP ROLE guestbook")
            .await
            .expect("dropped");
        // An admin reads what was kept; then it goes, and nothing else does.
        assert_eq!(
            server.sql("web", "SELECT i FROM t").await.expect("kept"),
            "7"
        );
        let told = ours
            .adapter
            .data(&ours.cx, "web")
            .await
            .expect("data")
            .expect("there");
        assert!(told.contains("`web`") && told.contains("kB"), "{told}");
        ours.adapter.purge(&ours.cx, "web").await.expect("purged");
        let left =
            "SELECT string_agg(datname, ',' ORDER BY 1) FROM pg_database WHERE NOT datistemplate";
        assert_eq!(
            server.sql("postgres", left).await.expect("databases"),
            "postgres,shop"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r6_sessions_are_told_for_each_and_nothing_else_is() {
    let (server, ours) = started(PostgresFlavor::V16, Who::Least).await;
    let all = [
        wish("a", readonly()),
        wish("b", readwrite()),
        wish("c", readonly()),
    ];
    for one in &all {
        ours.made(one).await;
    }
    let connect = format!(
        "host=127.0.0.1 port={} user=b password={} dbname=shop",
        server.port(),
        password("b")
    );
    let (client, connection) = tokio_postgres::connect(&connect, tokio_postgres::NoTls)
        .await
        .expect("in");
    let running = tokio::spawn(connection);
    let going: Vec<_> = all.iter().map(going).collect();
    let told = ours.adapter.uses(&ours.cx, &going).await.expect("told");
    let ago: Vec<_> = told
        .iter()
        .map(|one| one.as_ref().map(|one| one.ago))
        .collect();
    assert_eq!(ago, [None, Some(Duration::ZERO), None], "{told:?}");
    drop(client);
    let _ = running.await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_none_grants_nothing_and_leaves_what_roles_give() {
    let (server, ours) = started(PostgresFlavor::V15, Who::Least).await;
    let none = wish(
        "web",
        json!({ "database": "shop", "privileges": "none", "schemas": ["public", "not there"] }),
    );
    ours.made(&none).await;
    let as_web = async |sql: &str| server.sql_as("web", &password("web"), "shop", sql).await;
    let read = "SELECT count(*) FROM items";
    assert!(as_web(read).await.is_err(), "it may read");
    // What comes by a role is none of our business, what is granted to it is.
    let group = "CREATE ROLE readers; GRANT SELECT ON items TO readers; GRANT readers TO web";
    server.sql("shop", group).await.expect("a group");
    assert_eq!(as_web(read).await.expect("by the group"), "0");
    assert_eq!(ours.held(&none).await.warning, None);
    let grant = "GRANT SELECT ON items TO web";
    server.sql("shop", grant).await.expect("granted");
    let lost = ours.lost(&none).await;
    assert_eq!(lost.detail, "surplus SELECT on public.items");
    ours.made(&none).await;
    let before = said(&server, &WRITES).len();
    ours.made(&none).await;
    assert_eq!(said(&server, &WRITES).len(), before, "again wrote");
    ours.remove(&none).await.expect("removed");
}
