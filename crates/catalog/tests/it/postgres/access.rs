//! Whether the server asks for passwords at all (O-43), and proof by login where verifiers are not shown.

use std::time::Duration;

use mesh_conformance::servers::{PostgresFlavor, PostgresOptions, PostgresServer, until};
use mesh_sdk::{Answer, Difference, Proof, Secret};

use super::bench::{Who, settings, shop};
use super::{LOGGED, Ours, WRITES, only, readonly, said, wish, wish_with, with};

async fn started(who: Who, options: PostgresOptions) -> (PostgresServer, Ours) {
    let server = shop(PostgresFlavor::V15, who, options).await;
    let ours = Ours::on(settings(server.port(), who));
    (server, ours)
}

/// Waits until the server has read its rules, and gives the warning.
async fn warned(ours: &Ours, wish: &mesh_sdk::Wish, wanted: bool) -> String {
    let soon = until("the rules to be read", Duration::from_secs(5), || async {
        match ours.holds(wish).await {
            Ok(Answer::Held(held)) if held.warning.is_some() == wanted => {
                Ok(held.warning.unwrap_or_default().into_string())
            }
            other => Err(format!("{other:?}")),
        }
    });
    soon.await.expect("an answer")
}

const OPEN: &str = "host all app 127.0.0.1/32 trust";

#[tokio::test(flavor = "multi_thread")]
async fn o43_a_rule_that_asks_for_no_password_is_a_standing_warning() {
    // Where the rules may be read, whoever they are about is told, and nobody else.
    let (mut server, ours) = started(Who::Super, with(&LOGGED)).await;
    let (app, api) = (wish("app", readonly()), wish("api", readonly()));
    ours.made(&app).await;
    ours.made(&api).await;
    server.set_hba(&[OPEN]).await.expect("set");
    let told = warned(&ours, &app, true).await;
    assert!(
        told.contains("password not enforced") && told.contains("line 1"),
        "{told}"
    );
    assert_eq!(ours.held(&api).await.warning, None);
    // Neither a write nor a loss, however often it is looked at; and another password is still told.
    let before = said(&server, &WRITES).len();
    for _ in 0..3 {
        ours.held(&app).await;
        ours.create(&app).await.expect("nothing to do");
    }
    assert_eq!(said(&server, &WRITES).len(), before);
    let wrong = wish_with("app", readonly(), |p| {
        p.password = Some(Secret::from("wrong"))
    });
    assert_eq!(
        ours.lost(&wrong).await.differences,
        only([Difference::Password])
    );
    server.set_hba(&[]).await.expect("set");
    warned(&ours, &app, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o43_where_the_rules_cannot_be_read_the_canary_tries_once() {
    let (mut server, ours) = started(Who::Least, with(&[])).await;
    let app = wish("app", readonly());
    ours.made(&app).await;
    for _ in 0..5 {
        ours.held(&app).await;
    }
    let tries = |server: &PostgresServer| {
        server
            .log()
            .lines()
            .filter(|l| l.contains("FATAL") && l.contains("meshkeeper_canary"))
            .count()
    };
    assert_eq!(tries(&server), 1, "{}", server.log());
    server
        .set_hba(&["host all all 127.0.0.1/32 trust"])
        .await
        .expect("set");
    let told = warned(&ours, &app, true).await;
    assert!(told.contains("password not enforced"), "{told}");
    let before = tries(&server);
    for _ in 0..5 {
        ours.held(&app).await;
    }
    assert_eq!(
        tries(&server),
        before,
        "once for each reading of the configuration"
    );
    server.set_hba(&[]).await.expect("set");
    warned(&ours, &app, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_without_verifiers_a_login_proves_and_an_open_door_does_not() {
    let (mut server, ours) = started(Who::Blind, with(&[])).await;
    let app = wish("app", readonly());
    ours.made(&app).await;
    assert_eq!(ours.held(&app).await.proof, Proof::Login);
    // Too many of its own connections, or none allowed to its database, come after the right password.
    server
        .sql("shop", "REVOKE CONNECT ON DATABASE shop FROM PUBLIC")
        .await
        .expect("revoked");
    let lost = ours.lost(&app).await;
    assert!(lost.password_fits, "{lost:?}");
    assert_eq!(lost.differences, only([Difference::GrantsMissing]));
    ours.made(&app).await;
    let wrong = wish_with("app", readonly(), |p| {
        p.password = Some(Secret::from("wrong"))
    });
    let failures = |server: &PostgresServer| {
        server
            .log()
            .lines()
            .filter(|l| l.contains("authentication failed for user \"app\""))
            .count()
    };
    let before = failures(&server);
    assert_eq!(
        ours.lost(&wrong).await.differences,
        only([Difference::Password])
    );
    assert_eq!(
        failures(&server),
        before + 1,
        "more than one wrong login (O-23)"
    );
    // Where any password gets in, a login proves nothing.
    server
        .set_hba(&["host all all 127.0.0.1/32 trust"])
        .await
        .expect("set");
    warned(&ours, &app, true).await;
    assert_eq!(ours.held(&app).await.proof, Proof::Presence);
    assert_eq!(ours.held(&wrong).await.proof, Proof::Presence);
}
