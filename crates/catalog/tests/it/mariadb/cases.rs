//! People's reports, on this backend.

use mesh_conformance::servers::MariadbOptions;
use mesh_sdk::handle::Asked;
use mesh_sdk::{Answer, Class, Difference, Secret};
use serde_json::json;

use super::bench::{ALL, LEAST, server as server_with, settings};
use super::{Ours, least, wish, wish_as};

#[tokio::test(flavor = "multi_thread")]
async fn o03_percent_signs_stay_what_they_are() {
    let server = server_with(ALL, MariadbOptions::default()).await;
    let ours = Ours::on(settings(server.port()));
    let values = json!({ "host": "%", "global": ["PROCESS"] });
    let app = wish_as("app", "pct%s%n", values, |parts| {
        parts.password = Some(Secret::from("16%d%%41'"));
    });
    ours.made(&app).await;
    let rows = "SELECT Host FROM mysql.global_priv WHERE User LIKE 'pct%'";
    assert_eq!(server.sql(rows).await.as_deref(), Ok("%\n"));
    let grants = server
        .sql("SHOW GRANTS FOR 'pct%s%n'@'%'")
        .await
        .expect("grants");
    assert!(grants.contains("GRANT PROCESS ON *.*"), "{grants}");
    assert_eq!(server.lets_in("pct%s%n", "16%d%%41'").await, Ok(true));
    let writes = "VARIABLE_NAME IN ('Com_grant', 'Com_create_user', 'Com_alter_user')";
    let before = server.counters(writes).await;
    ours.create(&app).await.expect("once more");
    assert_eq!(server.counters(writes).await, before, "once more wrote");
    // As after a try whose grants failed.
    server
        .sql("REVOKE PROCESS ON *.* FROM 'pct%s%n'@'%'")
        .await
        .expect("revoked");
    ours.healed(&app, Difference::GrantsMissing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o20_a_read_only_server_is_asked_and_told() {
    let (server, ours) = least().await;
    let (app, gone) = (wish("app", json!({})), wish("gone", json!({})));
    ours.made(&app).await;
    let told = ours.adapter.server(&ours.cx).await.expect("a server");
    assert_eq!((told.read_only, told.forgets), (None, None));
    assert!(
        told.version.starts_with("MariaDB 10.11."),
        "{}",
        told.version
    );
    server.sql("SET GLOBAL read_only = 1").await.expect("set");
    let told = ours.adapter.server(&ours.cx).await.expect("a server");
    assert!(told.read_only.is_some());
    ours.in_order(&app).await;
    assert!(
        ours.lost(&gone)
            .await
            .differences
            .contains(Difference::Absent)
    );
    let (class, told) = ours.refused(&gone).await;
    assert_eq!(class, Class::ReadOnly, "{told}");
    let outcomes = ours.create_all(&[gone]).await;
    let class = outcomes[0].as_ref().map_err(|error| error.class());
    assert_eq!(class, Err(Class::ReadOnly));
    let class = ours.remove(&app).await.map_err(|error| error.class());
    assert_eq!(class, Err(Class::ReadOnly));
    server.sql("SET GLOBAL read_only = 0").await.expect("set");
    ours.made(&wish("gone", json!({}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o23_looking_never_locks_an_account_out() {
    let options = MariadbOptions {
        options: vec!["--max-password-errors=3".to_owned()],
        ..MariadbOptions::default()
    };
    let server = server_with(LEAST, options).await;
    let ours = Ours::on(settings(server.port()));
    let app = wish("app", json!({}));
    ours.made(&app).await;
    server
        .sql("ALTER USER 'app'@'%' IDENTIFIED BY 'other'")
        .await
        .expect("altered");
    for _ in 0..5 {
        ours.lost(&app).await;
    }
    assert_eq!(server.counter("Access_denied_errors").await, Ok(0));
    ours.made(&app).await;
    assert_eq!(server.lets_in("app", "password-of-app").await, Ok(true));
    // One whom others shut out is let in again by whatever is written for it.
    for _ in 0..3 {
        assert_eq!(server.lets_in("app", "wrong").await, Ok(false));
    }
    assert_eq!(server.lets_in("app", "password-of-app").await, Ok(false));
    let new = wish_as("app", "app", json!({}), |parts| {
        parts.password = Some(Secret::from("rotated"));
    });
    ours.made(&new).await;
    assert_eq!(server.lets_in("app", "rotated").await, Ok(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn o29_one_bad_wish_stops_no_other() {
    let (server, ours) = least().await;
    let of = |n: usize| match n {
        // A database that the admin may hand out nothing on.
        3 => wish("app-3", json!({ "database": "elsewhere" })),
        n => wish(&format!("app-{n}"), json!({ "database": "shop_a" })),
    };
    let wishes: Vec<_> = (0..10).map(of).collect();
    let outcomes = ours.create_all(&wishes).await;
    for (n, outcome) in outcomes.iter().enumerate() {
        match (n, outcome) {
            (3, Err(error)) if error.class() == Class::Denied => {}
            (3, other) => panic!("{other:?}"),
            (n, outcome) => assert!(outcome.is_ok(), "{n}: {outcome:?}"),
        }
    }
    let lost = ours.lost(&wishes[3]).await;
    assert!(
        lost.password_fits && lost.differences.contains(Difference::GrantsMissing),
        "{lost:?}"
    );
    let more = "GRANT ALL PRIVILEGES ON `elsewhere`.* TO 'mesh'@'127.0.0.1' WITH GRANT OPTION";
    server.sql(more).await.expect("granted");
    ours.made(&wishes[3]).await;
    assert!(ours.all_held(&wishes).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn o33_nothing_that_fails_writes_a_password_down() {
    let options = MariadbOptions {
        options: ["--general-log", "--log-warnings=9"]
            .map(str::to_owned)
            .into(),
        ..MariadbOptions::default()
    };
    let server = server_with(LEAST, options).await;
    let ours = Ours::on(settings(server.port()));
    let secret = "leakme-Ω-123";
    let with = |values| {
        wish_as("app", "app", values, |parts| {
            parts.password = Some(Secret::from(secret));
        })
    };
    let mut told = Vec::new();
    told.push(
        ours.refused(&with(json!({ "database": "elsewhere" })))
            .await
            .1,
    );
    told.push(ours.refused(&with(json!({ "auth": "ed25519" }))).await.1);
    server.sql("SET GLOBAL read_only = 1").await.expect("set");
    let other = wish_as("new", "new", json!({}), |parts| {
        parts.password = Some(Secret::from(secret));
    });
    told.push(ours.refused(&other).await.1);
    let log = String::from_utf8_lossy(&server.statements()).into_owned();
    assert!(log.contains("IDENTIFIED VIA"), "there is nothing to search");
    for text in [log, server.log(), told.join("\n")] {
        assert!(!text.contains("leakme"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o43_a_server_that_checks_no_password_is_told() {
    let (mut server, ours) = least().await;
    let app = wish("app", json!({}));
    ours.made(&app).await;
    server.end().await.expect("the end");
    let options = MariadbOptions {
        options: vec!["--skip-grant-tables".to_owned()],
        ..MariadbOptions::default()
    };
    let copy = mesh_conformance::servers::MariadbServer::with_data_of(&server, options);
    let open = copy.await.expect("a copy");
    assert_eq!(open.lets_in("app", "anything").await, Ok(true));
    let there = Ours::on(settings(open.port()));
    match there.holds(&app).await {
        Ok(Answer::Held(held)) => {
            let warning = held.warning.expect("a warning");
            assert!(warning.contains("not enforced"), "{warning}");
        }
        other => panic!("{other:?}"),
    }
    let new = there.refused(&wish("new", json!({}))).await;
    assert_eq!(new.0, Class::Denied, "{}", new.1);
    let findings = there.adapter.doctor(&there.cx).await.expect("doctor");
    assert!(
        findings.iter().any(|one| one.about == "passwords"),
        "{findings:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_password_is_a_loss_that_is_healed() {
    let (server, ours) = least().await;
    let app = wish("app", json!({}));
    ours.made(&app).await;
    server
        .sql("ALTER USER 'app'@'%' PASSWORD EXPIRE")
        .await
        .expect("expired");
    let lost = ours.healed(&app, Difference::Password).await;
    assert!(
        lost.password_fits && lost.detail.contains("expired"),
        "{lost:?}"
    );
    assert_eq!(server.lets_in("app", "password-of-app").await, Ok(true));
    // By age: as if it had been set ten days ago.
    let aged = "ALTER USER 'app'@'%' PASSWORD EXPIRE INTERVAL 3 DAY; \
        UPDATE mysql.global_priv SET Priv = JSON_SET(Priv, '$.password_last_changed', UNIX_TIMESTAMP() - 864000) \
        WHERE User = 'app'; FLUSH PRIVILEGES";
    server.sql(aged).await.expect("aged");
    ours.healed(&app, Difference::Password).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_another_way_in_is_told_by_its_name_and_taken_away() {
    let (server, ours) = least().await;
    server
        .sql("INSTALL SONAME 'auth_ed25519'")
        .await
        .expect("the plugin");
    let native = wish("app", json!({}));
    ours.made(&native).await;
    // The same password, kept in the other way: ours, but not as asked.
    let other = "ALTER USER 'app'@'%' IDENTIFIED VIA ed25519 USING PASSWORD('password-of-app')";
    server.sql(other).await.expect("altered");
    let lost = ours.healed(&native, Difference::Password).await;
    assert!(
        lost.password_fits && lost.detail.contains("plugin"),
        "{lost:?}"
    );
    server
        .sql("ALTER USER 'app'@'%' IDENTIFIED VIA unix_socket")
        .await
        .expect("altered");
    let lost = ours.healed(&native, Difference::Password).await;
    assert!(!lost.password_fits, "{lost:?}");
    // An adopted login keeps its own way of logging in.
    server.sql(other).await.expect("altered");
    let adopted = Asked {
        wish: &native,
        adopted: true,
    };
    let answer = ours.adapter.holds(&ours.cx, &ours.marker, adopted).await;
    assert!(matches!(answer, Ok(Answer::Held(_))), "{answer:?}");
    let before = server.counter("Com_alter_user").await;
    let made = ours.adapter.create(&ours.cx, &ours.marker, adopted).await;
    made.expect("created");
    assert_eq!(server.counter("Com_alter_user").await, before);
    let wanted = wish("app", json!({ "auth": "ed25519" }));
    ours.in_order(&wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_all_sessions_end_and_the_limit_of_connections_is_kept() {
    let (server, ours) = least().await;
    let app = wish("app", json!({ "max_connections": 2 }));
    ours.made(&app).await;
    server
        .sql("ALTER USER 'app'@'%' WITH MAX_USER_CONNECTIONS 9")
        .await
        .expect("altered");
    let lost = ours.healed(&app, Difference::GrantsMissing).await;
    assert!(lost.detail.contains("should be 2"), "{lost:?}");
    let free = wish("app", json!({}));
    ours.healed(&free, Difference::GrantsMissing).await;
    let kept = "SELECT IFNULL(JSON_VALUE(Priv, '$.max_user_connections'), 0) FROM mysql.global_priv WHERE User = 'app'";
    assert_eq!(server.sql(kept).await.as_deref(), Ok("0\n"));
}
