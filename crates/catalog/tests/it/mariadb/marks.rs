//! The mark lives and dies with its account, through restores, new accounts of the same name, and long names.

use mesh_conformance::servers::{MariadbOptions, MariadbServer};
use mesh_sdk::{Difference, MarkSeen, Marker, MeshId, ProviderName, Secret};
use serde_json::json;

use super::bench::settings;
use super::{Ours, least, wish, wish_as};

#[tokio::test(flavor = "multi_thread")]
async fn r11_a_login_that_is_made_anew_has_no_mark() {
    let (server, ours) = least().await;
    let app = wish("app", json!({ "database": "shop_a" }));
    ours.made(&app).await;
    server
        .sql("ALTER USER 'app'@'%' IDENTIFIED BY 'x'")
        .await
        .expect("altered");
    assert_eq!(ours.lost(&app).await.mark, MarkSeen::Ours);
    server
        .sql("DROP USER 'app'@'%'; CREATE USER 'app'@'%' IDENTIFIED BY 'x'")
        .await
        .expect("anew");
    let lost = ours.lost(&app).await;
    assert_eq!((lost.mark, lost.password_fits), (MarkSeen::None, false));
    assert!(
        ours.remove(&app).await.is_err(),
        "it is somebody else's now"
    );
    // A person who takes all rights takes the mark with them; that is seen, and healed.
    let other = wish("other", json!({ "database": "shop_a" }));
    ours.made(&other).await;
    let revoke = "REVOKE ALL PRIVILEGES, GRANT OPTION FROM 'other'@'%'";
    server.sql(revoke).await.expect("revoked");
    let lost = ours.healed(&other, Difference::MarkMissing).await;
    assert!(lost.differences.contains(Difference::GrantsMissing));
    // And a mark lets nobody do anything.
    let may = server
        .sql("SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE 'mk1%'");
    assert_eq!(may.await.as_deref().map(str::trim), Ok("0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn r11_a_mark_of_the_longest_names_is_whole() {
    let (server, mut ours) = least().await;
    let long = "x".repeat(63);
    let mesh = MeshId::new(&long).expect("a name");
    let provider = ProviderName::new(&long).expect("a name");
    ours.marker = Marker::new(mesh, "i1", provider, Secret::from("key"));
    let app = wish_as(&long, "app", json!({}), |_| ());
    ours.made(&app).await;
    let listed = ours
        .adapter
        .list(&ours.cx, &ours.marker)
        .await
        .expect("a list");
    let one = listed
        .iter()
        .find(|one| one.login.as_str() == "app")
        .expect("app");
    assert_eq!(one.mark, MarkSeen::OursFor(app.consumer().clone()));
    // A piece that is missing is told as damage, and healed.
    let piece = "DELETE FROM mysql.tables_priv WHERE User = 'app' AND Table_name LIKE '2-%'; FLUSH PRIVILEGES";
    server.sql(piece).await.expect("deleted");
    let lost = ours.healed(&app, Difference::MarkMissing).await;
    assert_eq!(lost.mark, MarkSeen::Damaged);
    ours.remove(&app).await.expect("removed");
    let left = server
        .sql("SELECT COUNT(*) FROM mysql.tables_priv WHERE Db LIKE 'mk1%'")
        .await;
    assert_eq!(left.as_deref().map(str::trim), Ok("0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn o17_after_a_restore_one_write_brings_the_present_password_back() {
    let (mut server, ours) = least().await;
    let old = wish("app", json!({ "database": "shop_a" }));
    ours.made(&old).await;
    server.end().await.expect("the end");
    let options = MariadbOptions::default();
    let restored = MariadbServer::with_data_of(&server, options)
        .await
        .expect("a copy");
    server.start_again().await.expect("a start");
    let new = wish_as("app", "app", json!({ "database": "shop_a" }), |parts| {
        parts.password = Some(Secret::from("the present one"));
    });
    ours.made(&new).await;

    // The backup has the mark and the password of its time.
    let there = Ours::on(settings(restored.port()));
    there.in_order(&old).await;
    let lost = there.lost(&new).await;
    assert_eq!(lost.mark, MarkSeen::Ours, "{lost:?}");
    assert_eq!(lost.differences, Difference::Password.into());
    there.made(&new).await;
    assert_eq!(restored.counter("Com_alter_user").await, Ok(1));
    for _ in 0..100 {
        there.in_order(&new).await;
    }
    there.create(&new).await.expect("created");
    let writes =
        "VARIABLE_NAME IN ('Com_grant', 'Com_revoke', 'Com_create_user', 'Com_alter_user')";
    assert_eq!(restored.counters(writes).await, Ok(1));
    assert_eq!(restored.lets_in("app", "the present one").await, Ok(true));
}

/// What `mariadb-dump --system=users` writes are the statements of `SHOW CREATE USER` and `SHOW GRANTS`.
#[tokio::test(flavor = "multi_thread")]
async fn r11_a_dump_of_accounts_carries_the_mark() {
    let (server, ours) = least().await;
    let app = wish("app", json!({ "database": "shop_a", "max_connections": 7 }));
    ours.made(&app).await;
    let dumped = "SHOW CREATE USER 'app'@'%'; SHOW GRANTS FOR 'app'@'%'";
    let dump = server.sql(dumped).await.expect("a dump");
    let (other, there) = least().await;
    let statements = dump
        .replace('\n', ";\n")
        .replace("GRANT USAGE", "-- GRANT USAGE");
    other.sql(&statements).await.expect("read in");
    there.in_order(&app).await;
}
