//! B-4: what an earlier holder of the lease still writes is refused by the server.

use std::sync::Arc;
use std::time::Duration;

use mesh_catalog::postgres::PostgresKind;
use mesh_conformance::servers::{PostgresFlavor, PostgresServer, until};
use mesh_sdk::{Login, Wish};
use serde_json::json;

use super::bench::{Who, settings, shop};
use super::{LOGGED, Ours, WRITES, readonly, said, wish, with};
use crate::holders::{self, CANARY, refused};

fn canary() -> Wish {
    holders::canary(&PostgresKind, nothing())
}

fn nothing() -> serde_json::Value {
    json!({ "database": "postgres", "privileges": "none" })
}

fn plain(name: &str) -> Wish {
    wish(name, nothing())
}

/// A holder of the lease, on an adapter of its own.
fn holder(server: &PostgresServer, who: Who, number: u64, name: &str) -> Ours {
    Ours::on(settings(server.port(), who)).holding(number, name)
}

async fn asked(server: &PostgresServer, sql: &str) -> String {
    server.sql("postgres", sql).await.expect("an answer")
}

async fn comment(server: &PostgresServer) -> String {
    let sql = format!(
        "SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = '{CANARY}'"
    );
    asked(server, &sql).await.trim().to_owned()
}

async fn is_there(server: &PostgresServer, login: &str) -> bool {
    let sql = format!("SELECT rolname FROM pg_roles WHERE rolname = '{login}' AND rolcanlogin");
    !asked(server, &sql).await.trim().is_empty()
}

async fn an_earlier_holder_writes_nothing(flavor: PostgresFlavor, who: Who) {
    let server = shop(flavor, who, with(&LOGGED)).await;
    let three = holder(&server, who, 3, "three");
    three.create(&canary()).await.expect("a canary");
    for name in ["app", "app-2"] {
        three.made(&plain(name)).await;
    }
    three.held(&canary()).await;
    assert!(comment(&server).await.starts_with("mkf1.1.3.three mk1."));

    let five = holder(&server, who, 5, "five");
    five.made(&plain("late")).await;
    assert!(comment(&server).await.starts_with("mkf1.1.5.five mk1."));
    let new = [plain("early"), plain("early-2")];
    for outdone in [
        &three,
        &holder(&server, who, 5, "other"),
        &holder(&server, who, 4, "four"),
    ] {
        outdone.writes_nothing(&new, &plain("app"), "`five`").await;
    }
    assert!(!is_there(&server, "early").await && !is_there(&server, "early-2").await);
    assert!(is_there(&server, "app").await, "still switched on");

    // Who has no lease, as with the embedded store, is not asked.
    let mut alone = Ours::on(settings(server.port(), who));
    alone.made(&plain("alone")).await;
    alone.cx = alone.cx.clone().under(None, Login::new(CANARY).ok());
    alone.made(&plain("alone-2")).await;

    let raised = said(&server, &["COMMENT ON ROLE \"mesh-canary"]);
    let raised = raised.iter().filter(|line| line.contains("'mkf1.")).count();
    assert_eq!(raised, 2, "once for each holder that wrote");
    let wrote = said(&server, &WRITES).len();
    for again in ["late", "app", "alone"] {
        five.made(&plain(again)).await;
    }
    five.create(&canary()).await.expect("again");
    assert_eq!(said(&server, &WRITES).len(), wrote, "again changes nothing");
    five.remove(&plain("app")).await.expect("removed");
    assert!(!is_there(&server, "app").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_an_earlier_holder_writes_nothing_15() {
    an_earlier_holder_writes_nothing(PostgresFlavor::V15, Who::Least).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_an_earlier_holder_writes_nothing_16() {
    an_earlier_holder_writes_nothing(PostgresFlavor::V16, Who::Super).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_an_earlier_holder_writes_nothing_18() {
    an_earlier_holder_writes_nothing(PostgresFlavor::V18, Who::Least).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_a_fence_outlives_what_people_do_to_the_comment_and_to_the_canary() {
    let server = shop(PostgresFlavor::V15, Who::Least, with(&LOGGED)).await;
    let five = holder(&server, Who::Least, 5, "five");
    five.create(&canary()).await.expect("a canary");
    five.made(&plain("app")).await;
    let said = format!("COMMENT ON ROLE \"{CANARY}\" IS E'it''s\\nours\\\\'");
    asked(&server, &said).await;
    five.made(&plain("app-2")).await;
    assert_eq!(comment(&server).await, "mkf1.1.5.five it's\nours\\");
    five.create(&canary()).await.expect("marked again");
    five.made(&plain("app-3")).await;
    let told = comment(&server).await;
    assert!(
        told.starts_with("mkf1.1.5.five it's\nours\\ mk1."),
        "{told}"
    );
    // Behind a new line it is still a word.
    let moved = format!("COMMENT ON ROLE \"{CANARY}\" IS E'ours\\nmkf1.1.5.five\\tx'");
    asked(&server, &moved).await;
    five.made(&plain("app-4")).await;
    assert_eq!(comment(&server).await, "ours\nmkf1.1.5.five\tx");
    // Without a canary nobody can be refused; the next one that is there is used.
    asked(&server, &format!("DROP ROLE \"{CANARY}\"")).await;
    five.made(&plain("app-5")).await;
    five.create(&canary()).await.expect("a canary");
    five.made(&plain("app-6")).await;
    assert!(comment(&server).await.starts_with("mkf1.1.5.five mk1."));
    let three = holder(&server, Who::Least, 3, "three");
    refused(three.create(&plain("early")).await, "`five`");
}

/// The lock by which transactions wait for each other is one of each database, and a database's owner may have
/// set how much of others' changes a transaction sees.
#[tokio::test(flavor = "multi_thread")]
async fn b4_a_transaction_that_waited_for_its_turn_asks_for_the_fence_then() {
    let server = shop(PostgresFlavor::V15, Who::Least, with(&LOGGED)).await;
    let level = "ALTER DATABASE shop SET default_transaction_isolation = 'serializable'";
    asked(&server, level).await;
    let three = Arc::new(holder(&server, Who::Least, 3, "three"));
    three.create(&canary()).await.expect("a canary");
    three.made(&wish("app", readonly())).await;

    let url = format!(
        "host=127.0.0.1 port={} user=postgres dbname=shop",
        server.port()
    );
    let mut config: tokio_postgres::Config = url.parse().expect("a url");
    config.password(PostgresServer::PASSWORD);
    let (client, connection) = config
        .connect(tokio_postgres::NoTls)
        .await
        .expect("connected");
    tokio::spawn(connection);
    let lock = "SELECT pg_advisory_lock(1835365224, 1)";
    client.batch_execute(lock).await.expect("locked");
    let early = Arc::clone(&three);
    let early = tokio::spawn(async move { early.create(&wish("early", readonly())).await });
    waits(&server, "wait_event = 'advisory'").await;
    let five = holder(&server, Who::Least, 5, "five");
    five.made(&plain("late")).await;
    let unlock = "SELECT pg_advisory_unlock(1835365224, 1)";
    client.batch_execute(unlock).await.expect("unlocked");
    refused(early.await.expect("no panic"), "`five`");
    assert!(!is_there(&server, "early").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_a_new_holder_writes_when_the_transactions_from_before_are_over() {
    let server = shop(PostgresFlavor::V15, Who::Least, with(&LOGGED)).await;
    let three = Arc::new(holder(&server, Who::Least, 3, "three"));
    three.create(&canary()).await.expect("a canary");
    three.made(&wish("app", readonly())).await;
    // It has asked for the fence when it comes to its rights, and they take long.
    let slow = "CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql \
                  AS $$ BEGIN PERFORM pg_sleep(3); END $$; \
                CREATE EVENT TRIGGER slow ON ddl_command_start WHEN TAG IN ('GRANT') \
                  EXECUTE FUNCTION slow()";
    server.sql("shop", slow).await.expect("slow");
    let early = Arc::clone(&three);
    let early = tokio::spawn(async move { early.create(&wish("early", readonly())).await });
    waits(&server, "wait_event = 'PgSleep'").await;
    let five = holder(&server, Who::Least, 5, "five");
    five.create(&plain("late")).await.expect("written");
    let busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'meshkeeper' \
                AND datname = 'shop' AND state <> 'idle'";
    assert_eq!(asked(&server, busy).await.trim(), "0", "it waited");
    assert!(is_there(&server, "early").await, "and that was in time");
    early.await.expect("no panic").expect("in time");
    refused(three.create(&plain("too-late")).await, "`five`");
}

/// Returns when a session of ours in the shop waits like that.
async fn waits(server: &PostgresServer, how: &str) {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'meshkeeper' \
         AND datname = 'shop' AND state = 'active' AND {how}"
    );
    let soon = until("it to wait", Duration::from_secs(10), || async {
        match asked(server, &sql).await.trim() {
            "0" => Err("nobody waits".to_owned()),
            _ => Ok(()),
        }
    });
    soon.await.expect("it waits");
}
