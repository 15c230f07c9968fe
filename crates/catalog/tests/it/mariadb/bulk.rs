//! Many at once, counted on the server (H-16).

use std::time::Instant;

use mesh_conformance::servers::MariadbServer;
use mesh_sdk::Wish;
use serde_json::json;

use super::bench::place;
use super::{Ours, least, wish};

/// As many as a busy installation has.
const MANY: usize = 10_000;

/// Statements that read or set something, by anybody.
async fn asked(server: &MariadbServer) -> u64 {
    let which = "VARIABLE_NAME IN ('Com_select', 'Com_set_option', 'Com_show_grants')";
    server.counters(which).await.expect("a count")
}

fn named(n: usize) -> Wish {
    let values = json!({ "database": format!("shop_{}", n % 10), "privileges": "readonly" });
    wish(&format!("app-{n:05}"), values)
}

/// All accounts as the adapter makes them, put into the tables in one go: making them one after the other
/// is not what is tried here.
async fn put(server: &MariadbServer, ours: &Ours, wishes: &[Wish]) {
    let (mut accounts, mut rights, mut marks) = (Vec::new(), Vec::new(), Vec::new());
    for (n, wish) in wishes.iter().enumerate() {
        let name = wish.login().as_str();
        let mark = place(ours.marker.mark(wish.consumer()).as_str()).replace('`', "");
        let (body, seal) = mark.split_once(".1-1.").expect("a mark of one piece");
        accounts.push(format!(
            "('%', '{name}', JSON_OBJECT('access', 0, 'plugin', 'mysql_native_password', \
             'authentication_string', PASSWORD('password-of-{name}')))"
        ));
        rights.push(format!("('%', 'shop\\\\_{}', '{name}', 'Y', 'Y')", n % 10));
        marks.push(format!("('%', '{body}', '{name}', '1-1.{seal}', 'Create')"));
    }
    let sql = format!(
        "INSERT INTO mysql.global_priv VALUES {}; \
         INSERT INTO mysql.db (Host, Db, User, Select_priv, Show_view_priv) VALUES {}; \
         INSERT INTO mysql.tables_priv (Host, Db, User, Table_name, Table_priv) VALUES {}; \
         FLUSH PRIVILEGES;",
        accounts.join(", "),
        rights.join(", "),
        marks.join(", ")
    );
    server.sql(&sql).await.expect("put");
}

#[tokio::test(flavor = "multi_thread")]
#[allow(
    clippy::disallowed_methods,
    reason = "a figure for people, not a decision"
)]
async fn h16_ten_thousand_are_looked_at_with_a_handful_of_statements() {
    let (server, ours) = least().await;
    let wishes: Vec<_> = (0..MANY).map(named).collect();
    put(&server, &ours, &wishes).await;
    let mut took = Vec::new();
    for _ in 0..3 {
        let before = asked(&server).await;
        let begun = Instant::now();
        assert!(ours.all_held(&wishes).await);
        took.push(begun.elapsed());
        // One is this test's own.
        let statements = asked(&server).await - before - 1;
        assert!(statements <= 5, "{statements} statements");
    }
    println!("{MANY} accounts looked at in {took:?}");
    let listed = ours.adapter.list(&ours.cx, &ours.marker).await;
    let listed = listed.expect("a list");
    let owned = listed
        .iter()
        .filter(|one| mesh_sdk::adapter::owner_of(one).is_some());
    assert_eq!(owned.count(), MANY);
}

#[tokio::test(flavor = "multi_thread")]
#[allow(
    clippy::disallowed_methods,
    reason = "a figure for people, not a decision"
)]
async fn h16_a_statement_makes_many_accounts() {
    const SOME: usize = 1_000;
    let (server, ours) = least().await;
    let wishes: Vec<_> = (0..SOME).map(named).collect();
    let begun = Instant::now();
    let outcomes = ours.create_all(&wishes).await;
    let failed = outcomes.iter().find(|one| one.is_err());
    assert!(failed.is_none(), "{failed:?}");
    let (users, grants) = (
        server.counter("Com_create_user").await.expect("a count"),
        server.counter("Com_grant").await.expect("a count"),
    );
    println!(
        "{SOME} accounts made in {:?}: {users} CREATE USER, {grants} GRANT",
        begun.elapsed()
    );
    // Rights on a database are given to many at once too; only each mark is a statement of its own.
    assert!(users < SOME as u64 / 4, "{users} CREATE USER");
    assert!(grants < SOME as u64 + SOME as u64 / 2, "{grants} GRANT");
    assert!(ours.all_held(&wishes).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn h3_one_that_fails_in_the_middle_of_a_packet_stops_no_other() {
    let (_server, ours) = least().await;
    // Statements of a packet go by their text; the admin may grant nothing on `other`.
    let asked = [
        ("DELETE", "shop_a"),
        ("EXECUTE", "other"),
        ("SELECT", "shop_b"),
    ];
    let wish_for = |(n, (right, database)): (usize, (&str, &str))| {
        let values = json!({ "database": database, "privileges": [right] });
        wish(&format!("app-{n}"), values)
    };
    let wishes: Vec<Wish> = asked.into_iter().enumerate().map(wish_for).collect();
    let outcomes = ours.create_all(&wishes).await;
    let failed: Vec<bool> = outcomes.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, true, false], "{outcomes:?}");
    ours.in_order(&wishes[0]).await;
    ours.in_order(&wishes[2]).await;
}
