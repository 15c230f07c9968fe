//! B-4: what an earlier holder of the lease still writes is refused.

use mesh_catalog::mariadb::MariadbKind;
use mesh_conformance::servers::{MariadbOptions, MariadbServer};
use mesh_sdk::{Login, Wish};
use serde_json::json;

use super::bench::{self, settings};
use super::{Ours, wish};
use crate::holders::{self, CANARY, refused};

fn canary() -> Wish {
    holders::canary(&MariadbKind, json!({}))
}

fn plain(name: &str) -> Wish {
    wish(name, json!({ "database": "shop_a" }))
}

/// A holder of the lease, on an adapter of its own.
fn holder(server: &MariadbServer, number: u64, name: &str) -> Ours {
    Ours::on(settings(server.port())).holding(number, name)
}

async fn asked(server: &MariadbServer, sql: &str) -> String {
    server.sql(sql).await.expect("an answer").trim().to_owned()
}

/// What stands on the server.
async fn fences(server: &MariadbServer) -> String {
    let sql = "SELECT CONCAT(Db, ' ', Table_name) FROM mysql.tables_priv WHERE Db LIKE 'mk1.=%'";
    asked(server, sql).await
}

async fn is_there(server: &MariadbServer, login: &str) -> bool {
    let sql = format!("SELECT COUNT(*) FROM mysql.global_priv WHERE User = '{login}'");
    asked(server, &sql).await == "1"
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_an_earlier_holder_writes_nothing() {
    let options = vec!["--general-log".to_owned()];
    let options = MariadbOptions {
        options,
        ..MariadbOptions::default()
    };
    let server = bench::server(bench::LEAST, options).await;
    let three = holder(&server, 3, "Three");
    three.create(&canary()).await.expect("a canary");
    for name in ["app", "app-2"] {
        three.made(&plain(name)).await;
    }
    three.held(&canary()).await;
    assert_eq!(fences(&server).await, "mk1.=fence.1.3 three");

    let five = holder(&server, 5, "five");
    five.made(&plain("late")).await;
    assert_eq!(fences(&server).await, "mk1.=fence.1.5 five");
    let new = [plain("early"), plain("early-2")];
    for outdone in [
        &three,
        &holder(&server, 5, "other"),
        &holder(&server, 4, "four"),
    ] {
        outdone.writes_nothing(&new, &plain("app"), "`five`").await;
    }
    assert!(!is_there(&server, "early").await && !is_there(&server, "early-2").await);
    five.made(&plain("app")).await;

    // Who has no lease, as with the embedded store, is not asked.
    let mut alone = Ours::on(settings(server.port()));
    alone.made(&plain("alone")).await;
    alone.cx = alone.cx.clone().under(None, Login::new(CANARY).ok());
    alone.made(&plain("alone-2")).await;

    // Again changes nothing: no right is given or taken.
    let changes = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_grant', 'Com_revoke')";
    let before = asked(&server, changes).await;
    five.made(&plain("app")).await;
    five.held(&canary()).await;
    assert_eq!(asked(&server, changes).await, before);
    five.remove(&plain("app")).await.expect("removed");
    assert!(!is_there(&server, "app").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_a_holder_that_stands_still_with_its_turn_loses_its_connection() {
    let server = bench::server(bench::LEAST, MariadbOptions::default()).await;
    let three = holder(&server, 3, "three");
    three.create(&canary()).await.expect("a canary");
    three.made(&plain("app")).await;
    // As an earlier holder that was stopped in the middle: it has the lock, and sends nothing.
    let stopped = format!("SELECT GET_LOCK('{CANARY}', 0); DO SLEEP(60); CREATE USER 'early'@'%'");
    let (writes, ended) = tokio::join!(
        async {
            let taken = format!("SELECT COALESCE(IS_USED_LOCK('{CANARY}'), 0) <> 0");
            mesh_conformance::servers::until(
                "the lock",
                std::time::Duration::from_secs(20),
                || async {
                    let is = asked(&server, &taken).await;
                    (is == "1").then_some(()).ok_or(is)
                },
            )
            .await
            .expect("taken");
            let five = holder(&server, 5, "five");
            five.create(&plain("late")).await
        },
        server.sql(&stopped),
    );
    writes.expect("the later one writes");
    assert!(ended.is_err(), "the other one was ended: {ended:?}");
    assert!(!is_there(&server, "early").await);
    refused(three.create(&plain("early")).await, "`five`");
    assert_eq!(fences(&server).await, "mk1.=fence.1.5 five");
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_a_fence_outlives_what_people_do_to_the_canary() {
    let server = bench::server(bench::LEAST, MariadbOptions::default()).await;
    let five = holder(&server, 5, "five");
    five.create(&canary()).await.expect("a canary");
    five.made(&plain("app")).await;
    let revoke = format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM '{CANARY}'@'%'");
    asked(&server, &revoke).await;
    five.create(&canary()).await.expect("marked again");
    assert_eq!(fences(&server).await, "mk1.=fence.1.5 five");
    // Without a canary nobody can be refused; the next one that is there is used.
    asked(&server, &format!("DROP USER '{CANARY}'@'%'")).await;
    five.made(&plain("app-2")).await;
    five.create(&canary()).await.expect("a canary");
    five.made(&plain("app-3")).await;
    assert_eq!(fences(&server).await, "mk1.=fence.1.5 five");
    let three = holder(&server, 3, "three");
    refused(three.create(&plain("early")).await, "`five`");
}
