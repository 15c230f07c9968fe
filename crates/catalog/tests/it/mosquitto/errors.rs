//! What the real broker refuses, and what people should know of it.

use std::time::Duration;

use mesh_conformance::servers::{MOSQUITTO_ADMIN, MosquittoOptions, MqttClient};
use mesh_sdk::adapter::{Admin, FindingLevel};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Answer, Class, Difference, MarkSeen, Proof, Secret};
use serde_json::json;
use tokio::time::Instant;

use super::bench::{ADMIN, make_admin, settings};
use super::{Ours, found, log_in, server, usual, wish, wish_with};

fn as_admin(port: u16, user: &str, password: &str) -> Ours {
    let mut at = settings(port);
    at.admin = Some(Admin {
        user: user.to_owned(),
        password: Some(Secret::from(password)),
    });
    Ours::on(at)
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_admins_that_may_not_are_denied() {
    let broker = usual().await;
    let ours = Ours::of(&broker);
    // One that may listen and not speak.
    let listener = wish("listener", json!({}));
    ours.create(&listener).await.expect("created");
    let acl = json!({ "acltype": "subscribePattern", "topic": "$CONTROL/#", "allow": true });
    let change =
        json!({ "command": "modifyRole", "rolename": "meshkeeper/listener", "acls": [acl] });
    let mut admin = MqttClient::admin(broker.port()).await.expect("an admin");
    admin.command(&[change]).await.expect("changed");
    let deaf = wish("deaf", json!({ "publish": ["#"] }));
    ours.create(&deaf).await.expect("created");
    for (user, password) in [
        (ADMIN.0, "wrong"),
        ("nobody", "x"),
        ("deaf", "password-of-deaf"),
        ("listener", "password-of-listener"),
    ] {
        let other = as_admin(broker.port(), user, password);
        let error = other
            .create(&wish("web", json!({})))
            .await
            .expect_err("denied");
        assert_eq!(error.class(), Class::Denied, "{user}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o42_what_is_half_there_is_finished() {
    let broker = usual().await;
    let ours = Ours::of(&broker);
    let web = wish("web", json!({ "publish": ["web/#"] }));
    let mut admin = MqttClient::admin(broker.port()).await.expect("an admin");
    // The role alone, as after a cut between the two commands.
    let role = json!({ "command": "createRole", "rolename": "meshkeeper/web" });
    admin
        .command(std::slice::from_ref(&role))
        .await
        .expect("made");
    assert!(
        ours.lost(&web)
            .await
            .differences
            .contains(Difference::Absent)
    );
    ours.create(&web).await.expect("created");
    assert!(ours.is_held(&web).await);
    // The client without its role.
    let take =
        json!({ "command": "removeClientRole", "username": "web", "rolename": "meshkeeper/web" });
    admin.command(&[take]).await.expect("taken");
    let lost = ours.lost(&web).await;
    assert!(
        lost.differences.contains(Difference::MarkMissing) && lost.password_fits,
        "{lost:?}"
    );
    ours.create(&web).await.expect("created");
    assert!(ours.is_held(&web).await);
    // A removal that was cut off between the two leaves a role, and the next one takes it.
    let delete = json!({ "command": "deleteClient", "username": "web" });
    admin.command(&[delete]).await.expect("deleted");
    let going = Departing::new(web.consumer().clone(), web.login().clone());
    ours.adapter
        .remove(&ours.cx, &ours.marker, &going)
        .await
        .expect("removed");
    admin
        .command(&[role])
        .await
        .expect("its name is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a6_a_role_of_ours_is_not_left_behind_when_its_client_is_refused() {
    let broker = usual().await;
    let ours = Ours::of(&broker);
    let web = wish("web", json!({ "roles": ["nowhere"] }));
    let error = ours.create(&web).await.expect_err("refused");
    assert_eq!(error.class(), Class::RefusedValue);
    let mut admin = MqttClient::admin(broker.port()).await.expect("an admin");
    let role = json!({ "command": "createRole", "rolename": "meshkeeper/web" });
    admin.command(&[role]).await.expect("its name is free");
}

#[tokio::test(flavor = "multi_thread")]
async fn o23_a_wrong_password_is_tried_once_a_pass() {
    let broker = usual().await;
    let ours = Ours::of(&broker);
    let web = wish("web", json!({}));
    ours.create(&web).await.expect("created");
    let mut admin = MqttClient::admin(broker.port()).await.expect("an admin");
    let change = json!({ "command": "modifyClient", "username": "web", "password": "other" });
    admin.command(&[change]).await.expect("changed");
    let failed = || broker.log().matches("not authorised").count();
    let before = failed();
    assert!(
        ours.lost(&web)
            .await
            .differences
            .contains(Difference::Password)
    );
    ours.create(&web).await.expect("created");
    assert!(ours.is_held(&web).await);
    assert_eq!(failed() - before, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_looking_ends_no_session_whatever_its_name() {
    let broker = usual().await;
    let ours = Ours::of(&broker);
    let web = wish("web", json!({}));
    ours.create(&web).await.expect("created");
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(
            log_in(&broker, "web", "password-of-web")
                .await
                .expect("let in"),
        );
        assert!(
            matches!(ours.holds(&web).await, Ok(Answer::Held(held)) if held.proof == Proof::Login)
        );
    }
    for session in &mut sessions {
        session.ping().await.expect("alive");
    }
    // One that may only use a certain name is not tried with another.
    let mut admin = MqttClient::admin(broker.port()).await.expect("an admin");
    let bind = json!({ "command": "setClientId", "username": "web", "clientid": "only-this" });
    admin.command(&[bind]).await.expect("bound");
    let before = broker.log().matches("not authorised").count();
    assert!(
        matches!(ours.holds(&web).await, Ok(Answer::Held(held)) if held.proof == Proof::Presence)
    );
    assert_eq!(broker.log().matches("not authorised").count(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn o43_an_open_broker_still_refuses_whom_it_knows_and_doctor_tells() {
    let broker = server(MosquittoOptions {
        anonymous: true,
        ..MosquittoOptions::default()
    })
    .await;
    make_admin(broker.port()).await.expect("an admin");
    let ours = Ours::of(&broker);
    let web = wish("web", json!({}));
    ours.create(&web).await.expect("created");
    assert!(
        log_in(&broker, "web", "wrong").await.is_none(),
        "then a login proves nothing"
    );
    assert!(
        log_in(&broker, "nobody", "x").await.is_none(),
        "nor would an absent one be seen"
    );
    assert!(ours.is_held(&web).await);
    let wrong = wish_with("web", json!({}), |parts| {
        parts.password = Some(Secret::from("wrong"))
    });
    assert!(
        ours.lost(&wrong)
            .await
            .differences
            .contains(Difference::Password)
    );
    assert!(found(
        &ours.doctor().await,
        "clients without login",
        FindingLevel::Warning
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_doctor_tells_rights_that_are_too_many_and_open_defaults() {
    let broker = usual().await;
    let findings = Ours::of(&broker).doctor().await;
    for about in [
        "version",
        "tls",
        "admin rights",
        "default access",
        "clients without login",
    ] {
        assert!(
            found(&findings, about, FindingLevel::Ok),
            "{about}: {findings:?}"
        );
    }
    let mut admin = MqttClient::admin(broker.port()).await.expect("an admin");
    let open = json!({
        "command": "setDefaultACLAccess", "acls": [{ "acltype": "subscribe", "allow": true }],
    });
    admin.command(&[open]).await.expect("opened");
    let all = as_admin(broker.port(), MOSQUITTO_ADMIN.0, MOSQUITTO_ADMIN.1);
    let findings = all.doctor().await;
    for about in ["admin rights", "default access"] {
        assert!(
            found(&findings, about, FindingLevel::Warning),
            "{about}: {findings:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h16_a_broker_that_holds_small_packets_back_is_no_slower() {
    let broker = server(MosquittoOptions {
        delays: true,
        ..MosquittoOptions::default()
    })
    .await;
    make_admin(broker.port()).await.expect("an admin");
    let ours = Ours::of(&broker);
    let web = wish("web", json!({}));
    ours.create(&web).await.expect("created");
    // 40 ms each if the second piece of an answer had to wait; the quickest of several, as others work
    // on this machine too.
    let mut quickest = Duration::MAX;
    for _ in 0..10 {
        let began = Instant::now();
        assert!(ours.is_held(&web).await);
        quickest = quickest.min(began.elapsed());
    }
    assert!(quickest < Duration::from_millis(35), "{quickest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn h7_answers_to_others_are_never_taken_for_ones_own() {
    let broker = usual().await;
    let ours = std::sync::Arc::new(Ours::of(&broker));
    let of = |n: usize| {
        wish(
            &format!("app-{n}"),
            json!({ "publish": [format!("app{n}/#")] }),
        )
    };
    // Every other one is there. All are asked for at the same time, and every admin hears every answer.
    for n in (0..20).step_by(2) {
        ours.create(&of(n)).await.expect("created");
    }
    for _ in 0..3 {
        let mut looks = tokio::task::JoinSet::new();
        for n in 0..20 {
            let (ours, wish) = (std::sync::Arc::clone(&ours), of(n));
            looks.spawn(async move { (n, ours.holds(&wish).await) });
        }
        while let Some(look) = looks.join_next().await {
            let (n, answer) = look.expect("no panic");
            match answer.expect("an answer") {
                Answer::Held(_) => assert_eq!(n % 2, 0, "{n}"),
                Answer::Lost(lost) => {
                    assert!(
                        lost.differences.contains(Difference::Absent) && n % 2 == 1,
                        "{n}: {lost:?}"
                    );
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o19_what_the_broker_could_not_write_is_made_again_after_a_restart() {
    let mut broker = usual().await;
    let ours = Ours::of(&broker);
    let many: Vec<_> = ["web", "api"]
        .map(|name| wish(name, json!({ "publish": ["a/#"] })))
        .into();
    let before = std::fs::read(broker.file()).expect("the file");
    for one in &many {
        ours.create(one).await.expect("the broker says yes");
        assert!(ours.is_held(one).await);
    }
    // As if none of it had been written: a broker that cannot write its file says yes all the same.
    broker.end().await.expect("ended");
    std::fs::write(broker.file(), before).expect("written");
    broker.start_again().await.expect("started");
    for one in &many {
        assert!(
            ours.lost(one)
                .await
                .differences
                .contains(Difference::Absent)
        );
        ours.create(one).await.expect("created");
        assert!(ours.is_held(one).await);
    }
    let listed = ours
        .adapter
        .list(&ours.cx, &ours.marker)
        .await
        .expect("a list");
    let marked = listed
        .iter()
        .filter(|one| matches!(one.mark, MarkSeen::OursFor(_)));
    assert_eq!(marked.count(), 2);
}
