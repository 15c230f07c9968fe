//! Rights: what the admin needs, what a database's name means, and what the server calls its privileges.

use mesh_conformance::servers::MariadbOptions;
use mesh_sdk::Difference;
use mesh_sdk::adapter::{Finding, FindingLevel};
use serde_json::json;

use super::bench::{ALL, LEAST, server as server_with, settings};
use super::{Ours, least, wish};

fn errors(findings: &[Finding]) -> Vec<&Finding> {
    let is_error = |one: &&Finding| one.level == FindingLevel::Error;
    findings.iter().filter(is_error).collect()
}

fn warned(findings: &[Finding], about: &str) -> bool {
    let is_it = |one: &Finding| one.level == FindingLevel::Warning && one.about == about;
    findings.iter().any(is_it)
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_doctor_finds_the_rights_on_the_page_enough_and_all_too_many() {
    let (server, ours) = least().await;
    let findings = ours.adapter.doctor(&ours.cx).await.expect("doctor");
    assert!(errors(&findings).is_empty(), "{findings:?}");
    assert!(!warned(&findings, "admin rights"), "{findings:?}");
    // Root has no password on a server that was just made.
    assert!(warned(&findings, "open accounts"), "{findings:?}");
    server
        .sql("REVOKE CONNECTION ADMIN ON *.* FROM 'mesh'@'127.0.0.1'")
        .await
        .expect("revoked");
    server
        .sql("REVOKE SELECT ON mysql.db FROM 'mesh'@'127.0.0.1'")
        .await
        .expect("revoked");
    server
        .sql("REVOKE CREATE ON `mk1.%`.* FROM 'mesh'@'127.0.0.1'")
        .await
        .expect("revoked");
    let findings = ours.adapter.doctor(&ours.cx).await.expect("doctor");
    let errors = errors(&findings);
    assert_eq!(errors.len(), 3, "{findings:?}");
    // Each says the statement that gives it, and those statements are enough.
    for finding in errors {
        let action = finding.action.as_deref().expect("an action");
        assert!(action.contains("TO 'mesh'@'127.0.0.1'"), "{action}");
        server.sql(action).await.expect("granted");
    }
    let findings = ours.adapter.doctor(&ours.cx).await.expect("doctor");
    assert!(self::errors(&findings).is_empty(), "{findings:?}");

    let server = server_with(ALL, MariadbOptions::default()).await;
    let ours = Ours::on(settings(server.port()));
    let findings = ours.adapter.doctor(&ours.cx).await.expect("doctor");
    assert!(self::errors(&findings).is_empty(), "{findings:?}");
    assert!(warned(&findings, "admin rights"), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_a_missing_right_is_unknown_and_never_a_loss() {
    let fewer = LEAST.replace(
        "GRANT SELECT ON mysql.tables_priv",
        "-- GRANT SELECT ON mysql.tables_priv",
    );
    let fewer = fewer.replace("TO 'mesh'@'127.0.0.1';", "TO 'mesh'@'127.0.0.1';\n");
    let server = server_with(&fewer, MariadbOptions::default()).await;
    let ours = Ours::on(settings(server.port()));
    let error = ours
        .holds(&wish("app", json!({})))
        .await
        .expect_err("unknown");
    assert_eq!(error.class(), mesh_sdk::Class::Denied, "{error}");
    assert!(error.message().contains("tables_priv"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a5_a_databases_name_means_that_database_and_no_other() {
    let (server, ours) = least().await;
    let app = wish(
        "app",
        json!({ "database": "shop_1", "privileges": "owner" }),
    );
    server
        .sql("CREATE DATABASE shopx1; CREATE TABLE shopx1.t (i INT)")
        .await
        .expect("made");
    ours.made(&app).await;
    // The owner's database is made; one beside it, that a wildcard would mean, is out of reach.
    let reach = |table: &'static str| {
        let port = server.port();
        async move {
            use mysql_async::prelude::Queryable;
            let opts = mysql_async::OptsBuilder::default()
                .ip_or_hostname("127.0.0.1")
                .tcp_port(port)
                .prefer_socket(false)
                .user(Some("app"))
                .pass(Some("password-of-app"));
            let mut conn = mysql_async::Conn::new(opts).await.expect("a login");
            conn.query_drop(table).await.is_ok()
        }
    };
    assert!(reach("CREATE TABLE shop_1.t (i INT)").await);
    assert!(!reach("SELECT * FROM shopx1.t").await);
    // A person's wildcard is a surplus, and taken back.
    server
        .sql("GRANT SELECT ON `shop_1`.* TO 'app'@'%'")
        .await
        .expect("granted");
    assert!(reach("SELECT * FROM shopx1.t").await);
    // The least admin may hand out no more than it was given, and so may not take this back either.
    let more = "GRANT ALL PRIVILEGES ON `shop_1`.* TO 'mesh'@'127.0.0.1' WITH GRANT OPTION";
    server.sql(more).await.expect("granted");
    let lost = ours.healed(&app, Difference::GrantsSurplus).await;
    assert!(lost.detail.contains("shop_1.*"), "{lost:?}");
    assert!(!reach("SELECT * FROM shopx1.t").await);
    // Removing keeps what is in it.
    ours.remove(&app).await.expect("removed");
    let rows = server.sql("SELECT COUNT(*) FROM shop_1.t").await;
    assert_eq!(rows.as_deref(), Ok("0\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_an_owners_database_that_is_gone_is_told_and_made_again() {
    let (server, ours) = least().await;
    let owner = wish(
        "owner",
        json!({ "database": "shop_a", "privileges": "owner" }),
    );
    let reader = wish(
        "reader",
        json!({ "database": "shop_b", "privileges": "readonly" }),
    );
    ours.made(&owner).await;
    ours.made(&reader).await;
    server.sql("DROP DATABASE shop_a").await.expect("dropped");
    let lost = ours.healed(&owner, Difference::GrantsMissing).await;
    assert!(lost.detail.contains("no database `shop_a`"), "{lost:?}");
    let all = server.sql("SHOW DATABASES LIKE 'shop%'").await;
    assert_eq!(all.as_deref(), Ok("shop_a\n"), "a reader makes no database");
}

/// The bits of `access` are this server's: each privilege is granted by name, and comes back as held.
#[tokio::test(flavor = "multi_thread")]
async fn a7_every_privilege_of_the_whole_server_is_called_as_the_server_does() {
    let server = server_with(ALL, MariadbOptions::default()).await;
    let ours = Ours::on(settings(server.port()));
    let shown = server.sql("SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = '''mesh''@''127.0.0.1'''");
    let shown = shown.await.expect("privileges");
    let names: Vec<&str> = shown.lines().filter(|name| !name.is_empty()).collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        let app = wish("app", json!({ "global": [name] }));
        ours.create(&app).await.expect(name);
        ours.in_order(&app).await;
        let grants = server
            .sql("SHOW GRANTS FOR 'app'@'%'")
            .await
            .expect("grants");
        let first = grants.lines().next().unwrap_or_default();
        assert!(
            first.starts_with(&format!("GRANT {name} ON *.*")),
            "{name}: {first}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_rights_that_values_cannot_name_are_none_of_our_business() {
    let (server, ours) = least().await;
    let app = wish(
        "app",
        json!({ "database": "shop_a", "privileges": "readonly" }),
    );
    ours.made(&app).await;
    let more = "CREATE ROLE staff; GRANT staff TO 'app'@'%'; CREATE DATABASE other; \
        CREATE TABLE other.t (i INT); GRANT SELECT ON other.t TO 'app'@'%'; \
        GRANT UPDATE (i) ON other.t TO 'app'@'%'";
    server.sql(more).await.expect("granted");
    ours.in_order(&app).await;
    let listed = ours
        .adapter
        .list(&ours.cx, &ours.marker)
        .await
        .expect("a list");
    assert!(
        !listed.iter().any(|one| one.login.as_str() == "staff"),
        "a role is no login"
    );
}
