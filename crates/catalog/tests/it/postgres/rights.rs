//! What the admin login needs, and what `doctor` says of it (S-8). That the rights on the page are enough
//! is what the suite runs with.

use mesh_conformance::servers::{PostgresFlavor, PostgresServer};
use mesh_sdk::Class;
use mesh_sdk::adapter::{Finding, FindingLevel};

use super::bench::{Who, settings, shop};
use super::{Ours, readonly, wish, with};

async fn started(flavor: PostgresFlavor, who: Who) -> (PostgresServer, Ours) {
    let server = shop(flavor, who, with(&[])).await;
    let ours = Ours::on(settings(server.port(), who));
    (server, ours)
}

async fn findings(ours: &Ours) -> Vec<Finding> {
    ours.adapter.doctor(&ours.cx).await.expect("findings")
}

fn of<'f>(findings: &'f [Finding], about: &str) -> Vec<&'f Finding> {
    findings
        .iter()
        .filter(|finding| finding.about == about)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_the_least_admin_is_in_order_on_every_version() {
    for flavor in PostgresFlavor::ALL {
        let (_server, ours) = started(flavor, Who::Least).await;
        let all = findings(&ours).await;
        for about in ["admin rights", "version", "tls"] {
            let told = of(&all, about);
            assert!(
                told.len() == 1 && told[0].level == FindingLevel::Ok,
                "{flavor:?}: {told:?}"
            );
        }
        // The tests' servers do without.
        assert_eq!(of(&all, "persistence")[0].level, FindingLevel::Warning);
        let known = ours.adapter.server(&ours.cx).await.expect("a server");
        assert!(
            known.identity.is_some() && known.run.is_some() && known.forgets.is_none(),
            "{known:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_a_missing_right_is_named_with_what_gives_it() {
    let (server, ours) = started(PostgresFlavor::V18, Who::Least).await;
    let missing = [
        (
            "ALTER ROLE mesh NOCREATEROLE",
            "CREATEROLE",
            "ALTER ROLE \"mesh\" CREATEROLE",
        ),
        (
            "ALTER ROLE mesh NOCREATEDB",
            "CREATEDB",
            "ALTER ROLE \"mesh\" CREATEDB",
        ),
        (
            "REVOKE pg_signal_backend FROM mesh",
            "pg_signal_backend",
            "GRANT pg_signal_backend TO \"mesh\"",
        ),
        (
            "REVOKE SELECT ON pg_authid FROM mesh",
            "pg_authid",
            "GRANT SELECT ON pg_catalog.pg_authid",
        ),
    ];
    for (at, (sql, named, gives)) in missing.into_iter().enumerate() {
        server.sql("postgres", sql).await.expect(sql);
        let all = findings(&ours).await;
        let told = of(&all, "admin rights");
        assert_eq!(told.len(), at + 1, "{told:?}");
        let one = told
            .iter()
            .find(|f| f.message.contains(named))
            .expect(named);
        assert!(
            one.action.as_deref().unwrap_or_default().starts_with(gives),
            "{one:?}"
        );
    }
    // A right that is missing is no loss of anybody, and a creation says so.
    let class = ours
        .create(&wish("app", readonly()))
        .await
        .map_err(|error| error.class());
    assert_eq!(class, Err(Class::Denied));
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_a_superuser_is_too_much() {
    let (_server, ours) = started(PostgresFlavor::V15, Who::Super).await;
    let all = findings(&ours).await;
    let told = of(&all, "admin rights");
    assert_eq!(told[0].level, FindingLevel::Warning);
    assert!(
        told[0]
            .action
            .as_deref()
            .unwrap_or_default()
            .contains("CREATEROLE"),
        "{told:?}"
    );
    assert_eq!(of(&all, "access rules")[0].level, FindingLevel::Ok);
}
