//! What the real server refuses, and what becomes of the file then.

use mesh_conformance::servers::{NATS_SYSTEM, NatsOptions};
use mesh_sdk::adapter::{Admin, FindingLevel};
use mesh_sdk::{Class, Login, Secret};
use serde_json::json;

use super::bench::{ADMIN, least, settings};
use super::{Ours, found, lets_in, server, users, usual, wish, wish_with};

#[tokio::test(flavor = "multi_thread")]
async fn a3_admins_that_may_not_are_denied() {
    let nats = server(NatsOptions {
        system_users: format!(
            "{}\n{{user: looker, password: x, permissions: {{ publish: \"$SYS.REQ.SERVER.*.VARZ\" }} }}",
            least()
        ),
        ..NatsOptions::default()
    })
    .await;
    let text = "users: [\n{user: elsewhere, password: x}\n]\n";
    std::fs::write(nats.users_file(), text).expect("written");
    nats.reload().await.expect("loaded");
    let web = wish("web", json!({}));
    for (user, password) in [
        (ADMIN.0, "wrong"),
        ("nobody", "x"),
        ("elsewhere", "x"),
        ("looker", "x"),
    ] {
        let mut at = settings(&nats, nats.port());
        at.admin = Some(Admin {
            user: user.to_owned(),
            password: Some(Secret::from(password)),
        });
        let error = Ours::on(at).create(&web).await.expect_err("denied");
        assert_eq!(error.class(), Class::Denied, "{user}: {error}");
    }
    // Whoever may look and not load has written, and the next one finishes it.
    assert!(users(&nats).contains("web"));
    let ours = Ours::of(&nats);
    ours.create(&web).await.expect("created");
    assert!(ours.is_held(&web).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn o29_one_that_the_server_does_not_take_stops_no_other() {
    let nats = usual().await;
    let ours = Ours::of(&nats);
    // A user of that name stands in another account.
    let taken = wish_with("taken", json!({}), |parts| {
        parts.login = Login::new(NATS_SYSTEM.0).expect("a login");
    });
    let mut many: Vec<_> = (0..20)
        .map(|n| wish(&format!("app-{n}"), json!({})))
        .collect();
    many.insert(7, taken);
    let outcomes = ours.create_all(&many).await;
    for (at, outcome) in outcomes.iter().enumerate() {
        let class = outcome.as_ref().err().map(|error| error.class());
        assert_eq!(
            class,
            (at == 7).then_some(Class::Exists),
            "{at}: {outcome:?}"
        );
    }
    for (at, one) in many.iter().enumerate() {
        assert_eq!(ours.is_held(one).await, at != 7, "{at}");
    }
    assert!(
        lets_in(&nats, NATS_SYSTEM.0, NATS_SYSTEM.1).await,
        "the other one is as before"
    );
    assert!(!users(&nats).contains(NATS_SYSTEM.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a6_a_configuration_that_is_broken_elsewhere_is_told_and_the_file_put_back() {
    let nats = usual().await;
    let ours = Ours::of(&nats);
    let (web, api) = (wish("web", json!({})), wish("api", json!({})));
    ours.create(&web).await.expect("created");
    let before = users(&nats);
    nats.write_config("no_such_setting: 1").expect("written");
    let error = ours.create(&api).await.expect_err("refused");
    assert_eq!(error.class(), Class::RefusedValue);
    assert!(error.message().contains("no_such_setting"), "{error}");
    assert_eq!(users(&nats), before);
    // What the server serves is still what stands there.
    assert!(ours.is_held(&web).await);
    nats.write_config("").expect("written");
    ours.create(&api).await.expect("created");
    assert!(ours.is_held(&api).await && ours.is_held(&web).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_doctor_tells_rights_that_are_too_many_and_a_file_that_all_may_read() {
    use std::os::unix::fs::PermissionsExt;
    let nats = usual().await;
    let mode = |mode| std::fs::set_permissions(nats.users_file(), PermissionsExt::from_mode(mode));
    mode(0o640).expect("a mode");
    let findings = Ours::of(&nats).doctor().await;
    // The mode was changed, so the server counts as not having read it; nothing else is amiss.
    assert!(
        found(&findings, "admin rights", FindingLevel::Ok),
        "{findings:?}"
    );
    assert!(
        found(&findings, "version", FindingLevel::Ok),
        "{findings:?}"
    );
    mode(0o644).expect("a mode");
    nats.reload().await.expect("loaded");
    let mut at = settings(&nats, nats.port());
    at.admin = Some(Admin {
        user: NATS_SYSTEM.0.to_owned(),
        password: Some(Secret::from(NATS_SYSTEM.1)),
    });
    let findings = Ours::on(at).doctor().await;
    assert!(
        found(&findings, "admin rights", FindingLevel::Warning),
        "{findings:?}"
    );
    assert!(
        found(&findings, "users file", FindingLevel::Warning),
        "{findings:?}"
    );
    assert!(
        found(&findings, "users file", FindingLevel::Ok),
        "{findings:?}"
    );
}
