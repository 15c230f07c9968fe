//! Owners: databases that are made, schemas, extensions, and what is left when one goes (R-5, O-14).

use mesh_conformance::servers::{PostgresFlavor, PostgresServer};
use mesh_sdk::{Class, Difference};
use serde_json::json;

use super::bench::{Who, settings, shop};
use super::{
    LOGGED, Ours, WRITES, owner, password, readonly, readwrite, said, wish, wish_with, with,
};

async fn started(flavor: PostgresFlavor, who: Who) -> (PostgresServer, Ours) {
    let server = shop(flavor, who, with(&LOGGED)).await;
    let ours = Ours::on(settings(server.port(), who));
    (server, ours)
}

/// Superuser and least admin, on the oldest and the newest.
const EVERYWHERE: [(PostgresFlavor, Who); 4] = [
    (PostgresFlavor::V15, Who::Super),
    (PostgresFlavor::V15, Who::Least),
    (PostgresFlavor::V16, Who::Least),
    (PostgresFlavor::V18, Who::Least),
];

#[tokio::test(flavor = "multi_thread")]
async fn a6_an_owner_has_its_database_made_with_its_schemas() {
    for (flavor, who) in EVERYWHERE {
        let (server, ours) = started(flavor, who).await;
        let values =
            json!({ "database": "Web-DB", "privileges": "owner", "schemas": ["public", "Sales"] });
        let web = wish("web", values);
        ours.made(&web).await;
        let as_web = async |sql: &str| server.sql_as("web", &password("web"), "Web-DB", sql).await;
        as_web("CREATE TABLE t (i int); CREATE TABLE \"Sales\".t (i int); DROP TABLE t")
            .await
            .expect("its own");
        let before = said(&server, &WRITES).len();
        ours.made(&web).await;
        assert_eq!(
            said(&server, &WRITES).len(),
            before,
            "again wrote something"
        );

        // A database that was taken from it comes back.
        server
            .sql("postgres", "ALTER DATABASE \"Web-DB\" OWNER TO postgres")
            .await
            .expect("taken");
        let lost = ours.lost(&web).await;
        assert!(
            lost.differences.contains(Difference::GrantsMissing) && lost.password_fits,
            "{lost:?}"
        );
        if who == Who::Super {
            ours.made(&web).await;
        } else {
            // What a stranger owns is not taken from it.
            let class = ours.create(&web).await.map_err(|error| error.class());
            assert_eq!(class, Err(Class::RefusedValue));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a6_readers_of_a_database_that_is_made_with_them_are_made_too() {
    for (flavor, who) in EVERYWHERE {
        let (server, ours) = started(flavor, who).await;
        let reads = json!({ "database": "web", "privileges": "readonly" });
        let all = [wish("reader", reads), wish("web", owner("web"))];
        for outcome in ours.create_all(&all).await {
            outcome.expect("created");
        }
        for one in &all {
            assert_eq!(ours.held(one).await.warning, None);
        }
        // What the owner makes later can be read at once (O-16).
        let make = "CREATE TABLE t AS SELECT 7 AS i";
        server
            .sql_as("web", &password("web"), "web", make)
            .await
            .expect("made");
        let read = server
            .sql_as("reader", &password("reader"), "web", "SELECT i FROM t")
            .await;
        assert_eq!(read.expect("read"), "7");
        assert_eq!(ours.held(&all[0]).await.warning, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o14_what_a_removed_login_owned_stays_with_the_keeper_and_comes_back() {
    for (flavor, who) in EVERYWHERE {
        let (server, ours) = started(flavor, who).await;
        let web = wish("web", owner("web"));
        ours.made(&web).await;
        let app = wish("app", readwrite());
        ours.made(&app).await;
        // It owns things in two databases, and has default privileges set.
        let as_web = async |sql: &str| server.sql_as("web", &password("web"), "web", sql).await;
        let things = "CREATE TABLE orders (id serial, what text); INSERT INTO orders (what) VALUES ('tea'); \
            CREATE VIEW teas AS SELECT * FROM orders; CREATE TYPE mood AS ENUM ('sad'); \
            CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE SCHEMA own; \
            ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO app";
        as_web(things).await.expect("things");
        server
            .sql("shop", "GRANT CREATE ON SCHEMA public TO web")
            .await
            .expect("a grant");
        let elsewhere = server
            .sql_as(
                "web",
                &password("web"),
                "shop",
                "CREATE TABLE notes (n int)",
            )
            .await;
        elsewhere.expect("a table elsewhere");

        ours.remove(&web).await.expect("removed");
        let rows = "SELECT what FROM orders";
        assert_eq!(server.sql("web", rows).await.expect("kept"), "tea");
        let owners = "SELECT string_agg(DISTINCT tableowner, ',') FROM pg_tables \
            WHERE tablename IN ('orders', 'notes')";
        for database in ["web", "shop"] {
            let kept = server.sql(database, owners).await.expect("an owner");
            assert_eq!(kept, "meshkeeper_keeper", "{flavor:?} {database}");
        }
        let log_in = server
            .sql_as("meshkeeper_keeper", "x", "web", "SELECT 1")
            .await;
        assert!(log_in.is_err(), "the keeper can log in");
        ours.remove(&web).await.expect("again");

        // It comes back, and has its own again.
        ours.made(&web).await;
        let mine =
            as_web("INSERT INTO orders (what) VALUES ('cake'); SELECT count(*) FROM teas").await;
        assert_eq!(mine.expect("its own"), "2", "{flavor:?} {who:?}");
        let before = said(&server, &WRITES).len();
        ours.made(&web).await;
        assert_eq!(
            said(&server, &WRITES).len(),
            before,
            "again wrote something"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_an_owner_that_becomes_a_reader_owns_no_more() {
    for who in [Who::Super, Who::Least] {
        let (server, ours) = started(PostgresFlavor::V15, who).await;
        ours.made(&wish("web", owner("web"))).await;
        let reader = wish(
            "web",
            json!({ "database": "web", "privileges": "readonly" }),
        );
        let lost = ours.lost(&reader).await;
        assert!(
            lost.differences.contains(Difference::GrantsSurplus),
            "{lost:?}"
        );
        ours.made(&reader).await;
        let of = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'web'";
        assert_eq!(
            server.sql("postgres", of).await.expect("an owner"),
            "meshkeeper_keeper"
        );
        // Whoever is asked for as its owner next gets it.
        ours.made(&wish("api", owner("web"))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a6_extensions_are_made_and_never_dropped() {
    let (server, ours) = started(PostgresFlavor::V15, Who::Least).await;
    let values = json!({ "database": "web", "privileges": "owner", "extensions": ["citext"] });
    let web = wish("web", values);
    ours.made(&web).await;
    let place = "SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'citext'";
    assert_eq!(server.sql("web", place).await.expect("there"), "public");
    server
        .sql("web", "DROP EXTENSION citext")
        .await
        .expect("dropped");
    assert_eq!(ours.lost(&web).await.detail, "missing extension citext");
    ours.made(&web).await;
    ours.made(&wish("web", owner("web"))).await;
    assert_eq!(server.sql("web", place).await.expect("there"), "public");

    let values = json!({ "database": "other", "privileges": "owner", "extensions": ["no such"] });
    let error = ours
        .create(&wish("other", values))
        .await
        .expect_err("refused");
    assert_eq!(error.class(), Class::RefusedValue, "{error}");
    let count = "SELECT count(*) FROM pg_roles WHERE rolname = 'other'";
    assert_eq!(server.sql("postgres", count).await.expect("a count"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn h18_a_database_of_somebody_else_is_not_taken_from_it() {
    let (server, ours) = started(PostgresFlavor::V18, Who::Super).await;
    let error = ours
        .create(&wish("web", owner("shop")))
        .await
        .expect_err("refused");
    assert_eq!(error.class(), Class::RefusedValue);
    assert!(
        error.message().contains("shopkeeper") && error.message().contains("readwrite"),
        "{error}"
    );
    let count = "SELECT count(*) FROM pg_roles WHERE rolname = 'web'";
    assert_eq!(server.sql("postgres", count).await.expect("a count"), "0");
    // Whoever is a member of its owner is an owner.
    ours.made(&wish("api", readonly())).await;
    server
        .sql("postgres", "GRANT shopkeeper TO api")
        .await
        .expect("a member");
    ours.made(&wish("api", owner("shop"))).await;
}

/// The second login of a consumer, which takes turns with the first.
fn second(name: &str, values: serde_json::Value) -> mesh_sdk::Wish {
    wish_with(&format!("{name}__b"), values, |parts| {
        parts.base = Some(mesh_sdk::Login::new(name).expect("a login"));
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn r3_two_owners_in_turn_make_and_change_the_same_things() {
    for (flavor, who) in EVERYWHERE {
        let (server, ours) = started(flavor, who).await;
        let (web, turn) = (wish("web", owner("web")), second("web", owner("web")));
        // In whatever order they are asked for; and a second without its first is refused.
        let alone = ours.create(&turn).await.map_err(|error| error.class());
        assert_eq!(alone, Err(Class::RefusedValue), "{flavor:?}");
        for outcome in ours.create_all(&[turn, web]).await {
            outcome.expect("created");
        }
        let (web, turn) = (wish("web", owner("web")), second("web", owner("web")));
        let by = async |name: &str, sql: &str| {
            let told = server.sql_as(name, &password(name), "web", sql).await;
            told.unwrap_or_else(|error| panic!("{flavor:?} {name}: {sql}: {error}"))
        };
        by(
            "web",
            "CREATE TABLE a (i int); CREATE SCHEMA s; CREATE TYPE t AS ENUM ('x')",
        )
        .await;
        by(
            "web__b",
            "CREATE TABLE s.b (k t); ALTER TABLE a ADD COLUMN j int; CREATE VIEW v AS TABLE a",
        )
        .await;
        by(
            "web",
            "ALTER TABLE s.b ADD COLUMN j int; DROP VIEW v; ALTER TYPE t ADD VALUE 'y'",
        )
        .await;
        let who_is = "SELECT current_user || ' as ' || session_user";
        assert_eq!(by("web__b", who_is).await, "web as web__b");
        // What `DISCARD ALL` does to it, which poolers say between two clients.
        let pooled = "SET SESSION AUTHORIZATION DEFAULT; RESET ALL";
        let after = by("web__b", &format!("{pooled}; {who_is}")).await;
        assert_eq!(after, "web as web__b", "{flavor:?}");
        let make = "CREATE TABLE pooled (i int); RESET ROLE; CREATE TABLE again (i int)";
        by("web__b", &format!("{pooled}; {make}")).await;
        let owners = "SELECT string_agg(DISTINCT tableowner, ' ') FROM pg_tables \
                      WHERE schemaname IN ('public', 's')";
        let owners = server.sql("web", owners).await.expect("owners");
        assert_eq!(owners, "web", "{flavor:?}");

        // What a person undoes is a loss.
        for undo in ["ALTER ROLE web__b RESET role", "REVOKE web FROM web__b"] {
            server.sql("postgres", undo).await.expect("undone");
            if undo.starts_with("REVOKE") && who != Who::Super && flavor != PostgresFlavor::V15 {
                // A membership is its grantor's to take back.
                let by_mesh = "REVOKE web FROM web__b GRANTED BY mesh";
                server.sql("postgres", by_mesh).await.expect("undone");
            }
            let lost = ours.lost(&turn).await;
            assert!(
                lost.differences.contains(Difference::GrantsMissing),
                "{lost:?}"
            );
            assert!(lost.detail.contains("takes turns"), "{lost:?}");
            ours.made(&turn).await;
            assert_eq!(by("web__b", who_is).await, "web as web__b");
        }
        let before = said(&server, &WRITES).len();
        ours.made(&web).await;
        ours.made(&turn).await;
        assert_eq!(
            said(&server, &WRITES).len(),
            before,
            "again wrote something"
        );

        // What was made past that goes to the keeper, and from there to the owner.
        by("web__b", "SET ROLE NONE; CREATE TABLE stray (i int)").await;
        ours.remove(&turn).await.expect("removed");
        ours.made(&web).await;
        by(
            "web",
            "ALTER TABLE pooled ADD COLUMN j int; ALTER TABLE stray ADD COLUMN j int",
        )
        .await;
    }
}
