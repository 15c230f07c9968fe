//! Sessions that are kept between calls: what becomes of them, and that nobody is told anything wrong by one.

use std::collections::BTreeSet;
use std::time::Duration;

use mesh_conformance::servers::{PostgresFlavor, PostgresServer, Proxy, until};
use mesh_sdk::Difference;
use mesh_sdk::adapter::FindingLevel;
use serde_json::json;
use tokio::time::timeout;

use super::bench::{Who, settings, shop};
use super::{LOGGED, Ours, WRITES, owner, readonly, readwrite, said, wish, with};

const V15: PostgresFlavor = PostgresFlavor::V15;

async fn started(who: Who) -> (PostgresServer, Ours) {
    let server = shop(V15, who, with(&LOGGED)).await;
    let ours = Ours::on(settings(server.port(), who));
    (server, ours)
}

/// The processes of our sessions: in this database, or in all.
async fn sessions(server: &PostgresServer, database: &str) -> BTreeSet<String> {
    let sql = format!(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'meshkeeper' \
         AND datname LIKE '{database}'"
    );
    let told = server.sql("postgres", &sql).await.expect("sessions");
    told.lines().map(str::to_owned).collect()
}

/// Ends every session of ours, as an admin would.
pub(super) async fn end_ours(server: &PostgresServer) {
    let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
               WHERE application_name = 'meshkeeper'";
    server.sql("postgres", end).await.expect("ended");
}

async fn none_left(server: &PostgresServer) {
    let soon = until("our sessions to end", Duration::from_secs(5), || async {
        match sessions(server, "%").await {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?}")),
        }
    });
    soon.await.expect("none");
}

#[tokio::test(flavor = "multi_thread")]
async fn h16_a_later_look_comes_by_the_sessions_of_the_one_before() {
    let (server, ours) = started(Who::Least).await;
    let app = wish("app", readonly());
    ours.made(&app).await;
    ours.held(&app).await;
    let (before, wrote) = (sessions(&server, "%").await, said(&server, &WRITES).len());
    assert_eq!(before.len(), 2, "one in our own database, one in the shop");
    for _ in 0..3 {
        ours.held(&app).await;
        ours.adapter.server(&ours.cx).await.expect("a server");
    }
    assert_eq!(sessions(&server, "%").await, before);
    assert_eq!(said(&server, &WRITES).len(), wrote, "a look wrote");
    let findings = ours.adapter.doctor(&ours.cx).await.expect("findings");
    let room = findings.iter().find(|one| one.about == "connections");
    let room = room.expect("the connections are told");
    assert!(
        room.level == FindingLevel::Ok && room.message.contains("12 idle"),
        "{room:?}"
    );
    drop(ours);
    none_left(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o22_few_are_kept_and_only_where_somebody_is_asked_for() {
    let server = shop(V15, Who::Least, with(&[("max_connections", "32")])).await;
    let mut at = settings(server.port(), Who::Least);
    let ours = Ours::on(at.clone());
    let mut all = Vec::new();
    for n in 0..6 {
        all.push(wish(&format!("own-{n}"), owner(&format!("own-{n}"))));
    }
    for outcome in ours.create_all(&all).await {
        outcome.expect("created");
    }
    assert!(ours.all_held(&all).await);
    let soon = until("those beyond to end", Duration::from_secs(5), || async {
        match sessions(&server, "%").await.len() {
            4 => Ok(()),
            some => Err(format!("{some} are kept")),
        }
    });
    soon.await.expect("an eighth of 32");
    // Our own database is among them, whoever came first.
    assert_eq!(sessions(&server, "postgres").await.len(), 1);
    assert_eq!(
        sessions(&server, "shop").await.len(),
        0,
        "nobody asks there"
    );
    drop(ours);
    none_left(&server).await;
    at.options.insert("kept_sessions".to_owned(), json!(0));
    let none = Ours::on(at);
    assert!(none.all_held(&all).await);
    none_left(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h7_a_session_that_died_meanwhile_is_nobodys_unknown_and_nobodys_loss() {
    let (mut server, ours) = started(Who::Least).await;
    let all = [wish("app", readonly()), wish("web", readwrite())];
    for one in &all {
        ours.made(one).await;
    }
    let wrote = said(&server, &WRITES).len();
    for _ in 0..2 {
        assert!(ours.all_held(&all).await);
        let before = sessions(&server, "%").await;
        assert!(!before.is_empty());
        end_ours(&server).await;
        assert!(ours.all_held(&all).await, "ended by an admin");
        assert!(sessions(&server, "%").await.is_disjoint(&before));
        end_ours(&server).await;
        ours.held(&all[0]).await;
        // Only the one in the shop.
        let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
                   WHERE application_name = 'meshkeeper' AND datname = 'shop'";
        server.sql("postgres", end).await.expect("ended");
        assert!(ours.all_held(&all).await, "one was ended");
    }
    assert_eq!(said(&server, &WRITES).len(), wrote, "a look wrote");
    let run = ours.adapter.server(&ours.cx).await.expect("a server").run;
    server.restart().await.expect("restarted");
    assert!(ours.all_held(&all).await, "after a restart");
    let known = ours.adapter.server(&ours.cx).await.expect("a server");
    assert_ne!(known.run, run, "the restart is told");
    server.restart().await.expect("restarted");
    ours.create(&all[0]).await.expect("nothing to write");
    let missing = wish("missing", readonly());
    server.restart().await.expect("restarted");
    ours.made(&missing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h9_a_session_that_was_cut_off_or_refused_something_is_not_used_again() {
    let (server, ours) = started(Who::Super).await;
    let app = wish("app", readonly());
    ours.made(&app).await;
    ours.held(&app).await;
    let before = sessions(&server, "%").await;
    server.stop().await.expect("stopped");
    let cut = timeout(Duration::from_millis(300), ours.holds(&app)).await;
    server.go_on().expect("goes on");
    assert!(cut.is_err(), "{cut:?}");
    ours.held(&app).await;
    let home = sessions(&server, "postgres").await;
    assert!(home.is_disjoint(&before), "{before:?} {home:?}");
    // A refusal in a transaction.
    let shops = sessions(&server, "shop").await;
    let trap = "CREATE FUNCTION trap() RETURNS event_trigger LANGUAGE plpgsql \
                AS $$ BEGIN RAISE 'no grants today'; END $$; \
                CREATE EVENT TRIGGER trap ON ddl_command_start WHEN TAG IN ('GRANT') \
                EXECUTE FUNCTION trap()";
    server.sql("shop", trap).await.expect("a trap");
    ours.create(&wish("web", readonly()))
        .await
        .expect_err("refused");
    server
        .sql("shop", "DROP EVENT TRIGGER trap")
        .await
        .expect("dropped");
    ours.held(&app).await;
    assert!(sessions(&server, "shop").await.is_disjoint(&shops));
    ours.made(&wish("web", readonly())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h9_a_kept_session_that_says_nothing_is_replaced() {
    let (server, _) = started(Who::Least).await;
    let proxy = Proxy::before(server.port()).await.expect("a proxy");
    let ours = Ours::on(settings(proxy.port(), Who::Least));
    let app = wish("app", readonly());
    ours.made(&app).await;
    ours.held(&app).await;
    // As a firewall does that forgot them: only what comes anew gets an answer.
    proxy.mute();
    ours.held(&app).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_a_database_that_was_dropped_and_made_anew_is_seen_as_it_is() {
    let (server, ours) = started(Who::Least).await;
    let app = wish("app", readonly());
    ours.made(&app).await;
    ours.held(&app).await;
    // A session of ours is idle there: it takes a word to drop the database.
    server
        .sql("postgres", "DROP DATABASE shop WITH (FORCE)")
        .await
        .expect("dropped");
    let lost = ours.lost(&app).await;
    assert!(lost.differences.contains(Difference::GrantsMissing));
    server
        .sql("postgres", "CREATE DATABASE shop OWNER shopkeeper")
        .await
        .expect("made");
    let table = "SET ROLE shopkeeper; CREATE TABLE items (id int)";
    server.sql("shop", table).await.expect("a table");
    let lost = ours.lost(&app).await;
    assert!(
        lost.detail.contains("SELECT on public.items"),
        "{}",
        lost.detail
    );
    ours.made(&app).await;
    let wrote = said(&server, &WRITES).len();
    ours.made(&app).await;
    assert_eq!(said(&server, &WRITES).len(), wrote, "again wrote");
}

#[tokio::test(flavor = "multi_thread")]
async fn r5_a_database_is_purged_though_sessions_of_ours_are_kept_there() {
    let (server, ours) = started(Who::Least).await;
    let web = wish("web", owner("web"));
    ours.made(&web).await;
    ours.held(&web).await;
    // The daemon's process and the one of `mesh purge` are two.
    let other = Ours::on(settings(server.port(), Who::Least));
    other.remove(&web).await.expect("removed");
    for one in [&ours, &other] {
        let data = one.adapter.data(&one.cx, "web").await.expect("data");
        assert!(data.is_some());
    }
    let kept = sessions(&server, "web").await;
    assert_eq!(kept.len(), 2, "{kept:?}");
    other.adapter.purge(&other.cx, "web").await.expect("purged");
    assert_eq!(sessions(&server, "web").await.len(), 0);
    let gone = ours.adapter.data(&ours.cx, "web").await;
    assert_eq!(gone, Ok(None));
    // Whoever had a session there comes again as if nothing had been.
    ours.made(&web).await;
}
