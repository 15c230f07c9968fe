//! A login is an account with a host; others may stand before it (O-13).

use mesh_sdk::{Class, Difference};
use serde_json::json;

use super::bench::place;
use super::{least, wish, wish_as};

#[tokio::test(flavor = "multi_thread")]
async fn o13_an_anonymous_account_that_is_met_first_is_told_and_left_alone() {
    let (server, ours) = least().await;
    let app = wish("app", json!({}));
    ours.made(&app).await;
    let anonymous = "CREATE USER ''@'127.0.0.1'";
    server.sql(anonymous).await.expect("made");
    assert_eq!(server.lets_in("app", "password-of-app").await, Ok(false));

    let lost = ours.lost(&app).await;
    assert!(
        lost.differences.contains(Difference::GrantsMissing),
        "{lost:?}"
    );
    assert!(lost.detail.contains("''@'127.0.0.1'"), "{lost:?}");
    assert!(lost.password_fits, "{lost:?}");
    // Trying to mend it writes nothing, says who stands there, and what a person can do.
    let writes = server.counter("Com_alter_user").await;
    for _ in 0..3 {
        let (class, told) = ours.refused(&app).await;
        assert_eq!(class, Class::Exists, "{told}");
        assert!(told.contains("DROP USER ''@'127.0.0.1'"), "{told}");
    }
    assert_eq!(server.counter("Com_alter_user").await, writes);
    let left = server
        .sql("SELECT COUNT(*) FROM mysql.global_priv WHERE User = ''")
        .await;
    assert_eq!(left.as_deref().map(str::trim), Ok("1"), "it was touched");
    // One who is new is made all the same, for all other hosts.
    let new = wish("new", json!({}));
    assert_eq!(ours.refused(&new).await.0, Class::Exists);
    assert!(ours.lost(&new).await.password_fits);
    let outcomes = ours.create_all(&[new]).await;
    assert!(outcomes[0].is_err());

    server
        .sql("DROP USER ''@'127.0.0.1'")
        .await
        .expect("dropped");
    ours.in_order(&app).await;
    assert_eq!(server.lets_in("app", "password-of-app").await, Ok(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn o13_the_same_login_at_a_more_exact_host_is_told_and_left_alone() {
    let (server, ours) = least().await;
    let app = wish("app", json!({}));
    ours.made(&app).await;
    let other = "CREATE USER 'app'@'127.0.0.1' IDENTIFIED BY 'another'";
    server.sql(other).await.expect("made");
    let lost = ours.lost(&app).await;
    assert!(lost.detail.contains("'app'@'127.0.0.1'"), "{lost:?}");
    assert_eq!(ours.refused(&app).await.0, Class::Exists);
    // Removing takes ours and leaves theirs.
    ours.remove(&app).await.expect("removed");
    assert_eq!(server.lets_in("app", "another").await, Ok(true));
    let again = ours.remove(&app).await.map_err(|error| error.class());
    assert_eq!(again, Err(Class::Exists), "what is left is not ours");
    // An account elsewhere stands in nobody's way here.
    let local = wish("local", json!({ "host": "127.0.0.1" }));
    let elsewhere = "CREATE USER 'local'@'10.0.0.1', 'local'@'%'";
    server.sql(elsewhere).await.expect("made");
    ours.made(&local).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h1_another_host_moves_the_account_and_leaves_none_behind() {
    let (server, ours) = least().await;
    let values = |host: &str| json!({ "host": host, "database": "shop_a" });
    let old = wish("app", values("127.0.0.1"));
    ours.made(&old).await;
    // A person's account of the same login stays.
    server
        .sql("CREATE USER 'app'@'10.9.9.9'")
        .await
        .expect("made");
    let new = wish("app", values("127.0.0.%"));
    ours.healed(&new, Difference::Absent).await;
    let hosts = "SELECT Host FROM mysql.global_priv WHERE User = 'app' ORDER BY Host";
    let left = server.sql(hosts).await.expect("hosts");
    assert_eq!(left, "10.9.9.9\n127.0.0.%\n");
    // One of ours that a try which ended half way left behind is told, and goes too.
    let mark = ours.marker.mark(new.consumer());
    let behind = format!(
        "CREATE USER 'app'@'10.8.%'; GRANT CREATE ON {} TO 'app'@'10.8.%'",
        place(mark.as_str())
    );
    server.sql(&behind).await.expect("made");
    let lost = ours.healed(&new, Difference::GrantsSurplus).await;
    assert!(lost.detail.contains("10.8.%"), "{lost:?}");
    let left = server.sql(hosts).await.expect("hosts");
    assert_eq!(left, "10.9.9.9\n127.0.0.%\n");
    assert_eq!(server.lets_in("app", "password-of-app").await, Ok(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn o10_letters_of_another_case_are_another_login() {
    let (server, ours) = least().await;
    let values = || json!({ "database": "shop_a", "privileges": "owner", "global": [] });
    let upper = wish_as("upper", "AppRead", values(), |_| ());
    let lower = wish_as("lower", "appread", values(), |_| ());
    ours.made(&upper).await;
    ours.made(&lower).await;
    assert_eq!(
        server.lets_in("AppRead", "password-of-upper").await,
        Ok(true)
    );
    assert_eq!(
        server.lets_in("appread", "password-of-upper").await,
        Ok(false)
    );
    ours.remove(&upper).await.expect("removed");
    ours.in_order(&lower).await;
    assert_eq!(
        server.lets_in("appread", "password-of-lower").await,
        Ok(true)
    );
}
