//! When a password is proven by a login, when it need not be, and that no change goes unseen (H-17).

use mesh_conformance::servers::{EtcdFlavor, Proxy};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Difference, Proof, Wish};
use serde_json::json;

use super::bench::{requests, settings, writes};
use super::{Ours, server, wish, wish_with};

fn many(count: usize) -> Vec<Wish> {
    let of = |n: usize| {
        let name = format!("app-{n:03}");
        wish(&name, json!({ "prefixes": [format!("/{name}/")] }))
    };
    (0..count).map(of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_a_login_is_tried_again_only_when_somebody_changed_something() {
    let etcd = server(EtcdFlavor::Etcd35).await;
    let proxy = Proxy::before(etcd.port()).await.expect("a proxy");
    let ours = Ours::on(settings(proxy.port()));
    let logins = || requests(&proxy, "authenticate");
    let (web, api) = (
        wish("web", json!({ "keys": ["w"] })),
        wish("api", json!({ "keys": ["a"] })),
    );
    ours.create(&web).await.expect("created");
    assert_eq!(ours.proof(&web).await, Proof::Login);
    let before = logins();
    assert_eq!(ours.proof(&web).await, Proof::Verifier);
    // What we change ourselves for another says nothing of this one.
    ours.create(&api).await.expect("created");
    assert_eq!(ours.proof(&web).await, Proof::Verifier);
    assert_eq!(logins(), before);
    // What somebody else changes may be this one's password: its token says that it is not.
    let other = json!({ "name": "theirs", "password": "x" });
    etcd.must("auth/user/add", other).await.expect("a user");
    assert_eq!(ours.proof(&web).await, Proof::Verifier);
    assert_eq!(logins(), before);
    // And here it is: one wrong login, and no second one in the repair (O-23).
    let refused = etcd.refusals().await.expect("a count");
    let changed = json!({ "name": "web", "password": "changed by hand" });
    etcd.must("auth/user/changepw", changed)
        .await
        .expect("changed");
    let lost = ours.lost(&web).await;
    assert_eq!(lost.differences, Difference::Password.into());
    ours.create(&web).await.expect("healed");
    assert_eq!(ours.proof(&web).await, Proof::Login);
    assert_eq!(etcd.refusals().await, Ok(refused + 1));
    // Another wish for the same login is another question, and the old one is asked anew.
    let next = wish_with("web", json!({ "keys": ["w"] }), |p| {
        p.password = Some("next".into())
    });
    ours.create(&next).await.expect("changed");
    assert_eq!(ours.proof(&next).await, Proof::Login);
    assert!(
        ours.lost(&web)
            .await
            .differences
            .contains(Difference::Password)
    );
    let going = Departing::new(next.consumer().clone(), next.login().clone());
    ours.adapter
        .remove(&ours.cx, &ours.marker, &going)
        .await
        .expect("removed");
    assert!(
        ours.lost(&next)
            .await
            .differences
            .contains(Difference::Absent)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn h16_a_healthy_pass_asks_for_the_counters_only() {
    const MANY: usize = 200;
    let etcd = server(EtcdFlavor::Etcd35).await;
    let proxy = Proxy::before(etcd.port()).await.expect("a proxy");
    let ours = Ours::on(settings(proxy.port()));
    let wishes = many(MANY);
    ours.made_all(&wishes).await;
    // Each look proves so many, and the rest by presence.
    assert_eq!(ours.held_by(&wishes).await, [32, 0, MANY - 32]);
    assert_eq!(ours.held_by(&wishes).await, [32, 32, MANY - 64]);
    for _ in 0..5 {
        ours.held_by(&wishes).await;
    }
    let (users, written) = (requests(&proxy, "user/get"), writes(&proxy));
    assert_eq!(ours.held_by(&wishes).await, [0, MANY, 0]);
    assert_eq!(requests(&proxy, "user/get"), users);
    // A restart forgets tokens and no user; the counters say so.
    let mut etcd = etcd;
    etcd.restart().await.expect("again");
    assert_eq!(ours.held_by(&wishes).await, [0, MANY, 0]);
    assert_eq!(writes(&proxy), written, "a look wrote");
    assert_eq!(etcd.refusals().await, Ok(0), "a look failed a login");
    // Whatever is changed behind our back is seen at once.
    etcd.must("auth/user/delete", json!({ "name": "app-007" }))
        .await
        .expect("gone");
    assert!(
        ours.lost(&wishes[7])
            .await
            .differences
            .contains(Difference::Absent)
    );
    ours.made_all(&wishes).await;
    ours.held_by(&wishes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_before_35_a_token_says_that_nothing_changed() {
    let mut etcd = server(EtcdFlavor::Etcd34).await;
    let proxy = Proxy::before(etcd.port()).await.expect("a proxy");
    let ours = Ours::on(settings(proxy.port()));
    let web = wish("web", json!({ "keys": ["w"] }));
    ours.create(&web).await.expect("created");
    assert_eq!(ours.proof(&web).await, Proof::Login);
    let before = requests(&proxy, "authenticate");
    assert_eq!(ours.proof(&web).await, Proof::Verifier);
    assert_eq!(requests(&proxy, "authenticate"), before);
    // A restart forgets tokens, unless it finds the logins in its log: either is proof enough.
    etcd.restart().await.expect("again");
    assert_ne!(ours.proof(&web).await, Proof::Presence);
    let changed = json!({ "name": "web", "password": "changed by hand" });
    etcd.must("auth/user/changepw", changed)
        .await
        .expect("changed");
    assert_eq!(
        ours.lost(&web).await.differences,
        Difference::Password.into()
    );
}
