//! What people made is told and left alone, and keys stay while somebody may use them.

use mesh_conformance::servers::{EtcdFlavor, Proxy};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, MarkSeen, Secret, Wish};
use serde_json::json;

use super::bench::{encode, permission, requests, settings};
use super::{Ours, server, wish, wish_with};

async fn remove(ours: &Ours, wish: &Wish) {
    let going = Departing::new(wish.consumer().clone(), wish.login().clone());
    let removed = ours.adapter.remove(&ours.cx, &ours.marker, &going);
    removed.await.expect("removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn h18_what_roles_of_people_grant_is_told_beyond_the_values() {
    let etcd = server(EtcdFlavor::Etcd35).await;
    let ours = Ours::on(settings(etcd.port()));
    let values = json!({ "prefixes": ["/web/"], "read_keys": ["flag"] });
    ours.create(&wish("web", values.clone()))
        .await
        .expect("made");
    for (path, body) in [
        ("auth/role/add", json!({ "name": "readers" })),
        (
            "auth/role/grant",
            json!({ "name": "readers", "perm": permission("/all/", "/all0") }),
        ),
        (
            "auth/user/grant",
            json!({ "user": "web", "role": "readers" }),
        ),
        ("auth/user/add", json!({ "name": "hand", "password": "p" })),
        (
            "auth/user/grant",
            json!({ "user": "hand", "role": "readers" }),
        ),
    ] {
        etcd.must(path, body).await.expect(path);
    }
    let all = ours.found_all().await;
    let told: Vec<_> = all
        .iter()
        .map(|one| (one.login.as_str(), one.values.clone(), one.beyond.clone()))
        .collect();
    let readers = || vec!["role readers: read and write /all/…".to_owned()];
    assert_eq!(
        told,
        [("hand", json!({}), readers()), ("web", values, readers())]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn r5_keys_are_purged_only_when_no_role_may_use_them() {
    let etcd = server(EtcdFlavor::Etcd35).await;
    let ours = Ours::on(settings(etcd.port()));
    let web = wish("web", json!({ "prefixes": ["/web/"] }));
    let near = wish("near", json!({ "keys": ["/web0", "/web"] }));
    for one in [&web, &near] {
        ours.create(one).await.expect("made");
    }
    // More than one command deletes.
    for number in 0..1_050 {
        let body = json!({ "key": encode(&format!("/web/{number}")), "value": "" });
        etcd.must("kv/put", body).await.expect("a key");
    }
    for key in ["/web", "/web0"] {
        let body = json!({ "key": encode(key), "value": "" });
        etcd.must("kv/put", body).await.expect("a key");
    }
    let refused = async |who: &str| {
        for error in [
            ours.adapter
                .data(&ours.cx, "prefix:/web/")
                .await
                .map(drop)
                .expect_err(who),
            ours.adapter
                .purge(&ours.cx, "prefix:/web/")
                .await
                .expect_err(who),
        ] {
            assert_eq!(error.class(), Class::Exists, "{error}");
            assert!(error.message().contains(who), "{error}");
        }
    };
    refused("`web`").await;
    remove(&ours, &web).await;
    // Somebody prepared a role for somebody, who then gets it.
    let range = permission("/web/7", "");
    for (path, body) in [
        ("auth/role/add", json!({ "name": "reader" })),
        (
            "auth/role/grant",
            json!({ "name": "reader", "perm": range }),
        ),
    ] {
        etcd.must(path, body).await.expect(path);
    }
    refused("the role `reader`").await;
    let hand = json!({ "name": "hand", "password": "p" });
    etcd.must("auth/user/add", hand).await.expect("a user");
    let grant = |user: &str| json!({ "user": user, "role": "reader" });
    etcd.must("auth/user/grant", grant("hand"))
        .await
        .expect("granted");
    refused("`hand`").await;
    // An admin may use everything anyway.
    etcd.must("auth/user/grant", grant("root"))
        .await
        .expect("granted");
    let take = json!({ "name": "hand", "role": "reader" });
    etcd.must("auth/user/revoke", take).await.expect("revoked");
    let told = ours.adapter.data(&ours.cx, "prefix:/web/").await;
    assert_eq!(told.expect("told").as_deref(), Some("1050 keys"));
    ours.adapter
        .purge(&ours.cx, "prefix:/web/")
        .await
        .expect("purged");
    let told = ours.adapter.data(&ours.cx, "prefix:/web/").await;
    assert_eq!(told.expect("told"), None);
    // What lies right beside them stays.
    let body = json!({ "key": encode("/web"), "range_end": encode("/web1"), "count_only": true });
    let left = etcd.must("kv/range", body).await.expect("counted");
    assert_eq!(left["count"], json!("2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn r5_every_key_has_no_name_for_purge() {
    let etcd = server(EtcdFlavor::Etcd35).await;
    let ours = Ours::on(settings(etcd.port()));
    for name in ["prefix:", "key:", "/", ""] {
        let error = ours.adapter.purge(&ours.cx, name).await;
        let class = error.expect_err(name).class();
        assert_eq!(class, Class::RefusedValue, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o12_an_adopted_user_keeps_its_password_and_its_roles() {
    let etcd = server(EtcdFlavor::Etcd35).await;
    let proxy = Proxy::before(etcd.port()).await.expect("a proxy");
    let ours = Ours::on(settings(proxy.port()));
    for (path, body) in [
        ("auth/role/add", json!({ "name": "readers" })),
        (
            "auth/user/add",
            json!({ "name": "app", "password": "password-of-app" }),
        ),
        (
            "auth/user/grant",
            json!({ "user": "app", "role": "readers" }),
        ),
    ] {
        etcd.must(path, body).await.expect(path);
    }
    let app = wish("app", json!({ "prefixes": ["/app/"] }));
    let taken = wish_with("app", json!({}), |parts| {
        parts.password = Some(Secret::from("another"));
    });
    let lost = ours.lost(&taken).await;
    assert!(
        lost.mark == MarkSeen::None && !lost.password_fits,
        "{lost:?}"
    );
    for _ in 0..2 {
        let held = ours.adopted(&app).await;
        assert!(held.warning.is_some_and(|told| told.contains("readers")));
    }
    assert_eq!(requests(&proxy, "user/changepw"), 0);
    assert_eq!(requests(&proxy, "user/revoke"), 0);
}
