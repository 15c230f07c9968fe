//! What went wrong for people, what the admin needs, and what this server does in its own way.

use mesh_conformance::servers::{EtcdFlavor, EtcdServer, Proxy};
use mesh_sdk::adapter::{Admin, FindingLevel};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, Difference, Login, Proof, Secret};
use serde_json::json;

use super::bench::{permission, settings, writes};
use super::{Ours, server, wish, wish_with};

#[tokio::test(flavor = "multi_thread")]
async fn o43_without_authentication_nothing_is_held_and_nothing_written() {
    for flavor in EtcdFlavor::ALL {
        let etcd = EtcdServer::start(flavor, None, true)
            .await
            .expect("a server");
        let proxy = Proxy::before(etcd.port()).await.expect("a proxy");
        let ours = Ours::on(settings(proxy.port()));
        let web = wish("web", json!({ "keys": ["w"] }));
        for error in [
            ours.holds(&web).await.map(|_| ()),
            ours.create(&web).await,
            ours.adapter.list(&ours.cx, &ours.marker).await.map(|_| ()),
        ] {
            let error = error.expect_err("unknown");
            assert_eq!(error.class(), Class::Denied, "{error}");
            assert!(error.message().contains("etcdctl auth enable"), "{error}");
        }
        assert_eq!(writes(&proxy), 0);
        let findings = ours.adapter.doctor(&ours.cx).await.expect("findings");
        let told = findings
            .iter()
            .find(|f| f.about == "authentication")
            .expect("told");
        assert_eq!(told.action.as_deref(), Some("etcdctl auth enable"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o43_authentication_that_is_switched_off_later_is_seen_at_once() {
    let etcd = server(EtcdFlavor::Etcd35).await;
    let ours = Ours::on(settings(etcd.port()));
    let web = wish("web", json!({ "keys": ["w"] }));
    ours.create(&web).await.expect("created");
    assert_eq!(ours.proof(&web).await, Proof::Login);
    etcd.must("auth/disable", json!({})).await.expect("off");
    let class = ours.holds(&web).await.map_err(|error| error.class());
    assert_eq!(class, Err(Class::Denied));
    let (status, _) = etcd
        .ask("auth/enable", json!({}), None)
        .await
        .expect("an answer");
    assert_eq!(status, 200);
    ours.proof(&web).await;
}

/// The 72 bytes that bcrypt takes count all, on the hash of ours and on the server's.
#[tokio::test(flavor = "multi_thread")]
async fn o08_the_longest_password_counts_whole() {
    for flavor in EtcdFlavor::ALL {
        let etcd = server(flavor).await;
        let ours = Ours::on(settings(etcd.port()));
        let long = format!("{}X", "漢".repeat(23));
        let longest = wish_with("web", json!({}), |p| {
            p.password = Some(Secret::from(long.as_str()))
        });
        ours.create(&longest).await.expect("created");
        assert_eq!(ours.proof(&longest).await, Proof::Login);
        let other = format!("{}Y", "漢".repeat(23));
        assert!(
            etcd.log_in("web", &long)
                .await
                .expect("an answer")
                .is_some()
        );
        assert!(
            etcd.log_in("web", &other)
                .await
                .expect("an answer")
                .is_none()
        );
        assert!(etcd.log_in("web", "").await.expect("an answer").is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r11_the_mark_grants_nothing_and_both_roles_go_with_the_login() {
    let etcd = server(EtcdFlavor::Etcd35).await;
    let ours = Ours::on(settings(etcd.port()));
    let web = wish("web", json!({ "keys": ["w"] }));
    ours.create(&web).await.expect("created");
    assert_eq!(ours.proof(&web).await, Proof::Login);
    let mark = ours.marker.mark(web.consumer()).as_str().to_owned();
    let given = json!({ "name": mark, "perm": permission("/", "0") });
    etcd.must("auth/role/grant", given).await.expect("more");
    let lost = ours.lost(&web).await;
    assert_eq!(lost.differences, Difference::GrantsSurplus.into());
    ours.create(&web).await.expect("healed");
    ours.proof(&web).await;
    // The login that takes turns with it has the same roles, and keeps them.
    let turn = wish_with("web", json!({ "keys": ["w"] }), |p| {
        p.login = Login::new("web__b").expect("a login");
    });
    ours.create(&turn).await.expect("created");
    let going =
        |login: &str| Departing::new(web.consumer().clone(), Login::new(login).expect("a login"));
    ours.adapter
        .remove(&ours.cx, &ours.marker, &going("web"))
        .await
        .expect("removed");
    ours.proof(&turn).await;
    ours.adapter
        .remove(&ours.cx, &ours.marker, &going("web__b"))
        .await
        .expect("removed");
    let roles = etcd.must("auth/role/list", json!({})).await.expect("roles");
    assert_eq!(roles["roles"], json!(["root"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_the_role_root_is_enough_and_less_is_told() {
    let etcd = server(EtcdFlavor::Etcd35).await;
    let ours = Ours::on(settings(etcd.port()));
    let findings = ours.adapter.doctor(&ours.cx).await.expect("findings");
    assert!(
        findings.iter().all(|f| f.level == FindingLevel::Ok),
        "{findings:?}"
    );
    let told = ours.adapter.server(&ours.cx).await.expect("a server");
    assert!(
        told.version.starts_with("etcd 3.5.") && told.identity.is_some(),
        "{told:?}"
    );
    assert_eq!(told.read_only, None);
    etcd.must("auth/user/add", json!({ "name": "less", "password": "p" }))
        .await
        .expect("a user");
    let mut at = settings(etcd.port());
    at.admin = Some(Admin {
        user: "less".to_owned(),
        password: Some(Secret::from("p")),
    });
    let less = Ours::on(at.clone());
    let class = less
        .holds(&wish("web", json!({})))
        .await
        .map_err(|error| error.class());
    assert_eq!(class, Err(Class::Denied));
    let findings = less.adapter.doctor(&less.cx).await.expect("findings");
    let told = findings.iter().find(|f| f.about == "rights").expect("told");
    assert_eq!(
        told.action.as_deref(),
        Some("etcdctl user grant-role less root")
    );
    // An admin's password that is wrong is said, and nobody is lost.
    at.admin = Some(Admin {
        user: "less".to_owned(),
        password: Some(Secret::from("q")),
    });
    let error = Ours::on(at)
        .holds(&wish("web", json!({})))
        .await
        .expect_err("unknown");
    assert_eq!(error.class(), Class::Denied);
    assert!(error.message().contains("admin"), "{error}");
}
