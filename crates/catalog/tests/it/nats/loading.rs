//! The file and the server are two things: what the server has not loaded is not held, and what people
//! wrote stays.

use mesh_conformance::servers::NatsOptions;
use mesh_sdk::adapter::FindingLevel;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Answer, Class, Difference, Proof, Secret};
use serde_json::json;

use super::{Ours, found, lets_in, server, users, usual, wish, wish_with};

#[tokio::test(flavor = "multi_thread")]
async fn h17_a_file_that_the_server_has_not_loaded_is_not_held() {
    let nats = usual().await;
    let ours = Ours::of(&nats);
    let web = wish("web", json!({ "publish": ["a"] }));
    ours.create(&web).await.expect("created");
    assert!(matches!(ours.holds(&web).await, Ok(Answer::Held(held)) if held.proof == Proof::Login));
    // The same rights would stand in the file, and the server would serve others for all that it tells.
    let text = users(&nats);
    std::fs::write(
        nats.users_file(),
        text.replace("users: [", "users: [ # hello"),
    )
    .expect("written");
    let lost = ours.lost(&web).await;
    assert!(lost.detail.contains("not loaded"), "{lost:?}");
    assert!(lost.password_fits);
    let findings = ours.doctor().await;
    assert!(
        found(&findings, "users file", FindingLevel::Warning),
        "{findings:?}"
    );
    let before = users(&nats);
    ours.create(&web).await.expect("created");
    assert_eq!(users(&nats), before, "only loading was needed");
    assert!(ours.is_held(&web).await);
    assert!(
        ours.answers(&[web])
            .await
            .iter()
            .all(|one| matches!(one, Answer::Held(_)))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_a_login_that_left_the_file_unseen_by_the_server_is_made_again_or_ended() {
    let nats = usual().await;
    let ours = Ours::of(&nats);
    let web = wish("web", json!({}));
    ours.create(&web).await.expect("created");
    std::fs::write(nats.users_file(), "users: []\n").expect("written");
    assert!(
        lets_in(&nats, "web", "password-of-web").await,
        "still served"
    );
    assert!(
        ours.lost(&web)
            .await
            .differences
            .contains(Difference::Absent)
    );
    let going = Departing::new(web.consumer().clone(), web.login().clone());
    let removed = ours.adapter.remove(&ours.cx, &ours.marker, &going).await;
    removed.expect("removed");
    assert!(
        !lets_in(&nats, "web", "password-of-web").await,
        "gone from the server as well"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn h7_a_file_that_cannot_be_read_is_unknown_and_never_written() {
    let nats = usual().await;
    let ours = Ours::of(&nats);
    let web = wish("web", json!({}));
    ours.create(&web).await.expect("created");
    let good = users(&nats);
    let going = Departing::new(web.consumer().clone(), web.login().clone());
    for broken in [
        "users: [\n  {user: \"web\", passw",
        "users: [ $x ]\n",
        "\u{0}\u{1}{",
    ] {
        std::fs::write(nats.users_file(), broken).expect("written");
        let error = ours.holds(&web).await.expect_err("unknown");
        assert_eq!(error.class(), Class::RefusedValue, "{error}");
        assert!(ours.create(&web).await.is_err());
        assert!(
            ours.adapter
                .remove(&ours.cx, &ours.marker, &going)
                .await
                .is_err()
        );
        assert_eq!(users(&nats), broken, "it was written");
    }
    std::fs::remove_file(nats.users_file()).expect("removed");
    assert_eq!(
        ours.holds(&web).await.err().map(|e| e.class()),
        Some(Class::Gone)
    );
    std::fs::write(nats.users_file(), good).expect("written");
    ours.create(&web).await.expect("created");
    assert!(ours.is_held(&web).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn r4_what_people_wrote_stays_byte_for_byte() {
    let nats = usual().await;
    let ours = Ours::of(&nats);
    let theirs = "# ours since 2019 ] }\nusers: [\n  {user: alice, password: \"alice's\"}, {user: \"bob\", password: b}\n  \
        // {user: \"carol\", password: \"c\"}\n]\n# the end\n";
    std::fs::write(nats.users_file(), theirs).expect("written");
    let many: Vec<_> = (0..5)
        .map(|n| wish(&format!("app-{n}"), json!({ "publish": [">"] })))
        .collect();
    for outcome in ours.create_all(&many).await {
        outcome.expect("created");
    }
    assert!(
        lets_in(&nats, "alice", "alice's").await
            && lets_in(&nats, "app-3", "password-of-app-3").await
    );
    for one in &many {
        let going = Departing::new(one.consumer().clone(), one.login().clone());
        ours.adapter
            .remove(&ours.cx, &ours.marker, &going)
            .await
            .expect("removed");
    }
    assert_eq!(users(&nats), theirs);
    assert!(found(
        &ours.doctor().await,
        "passwords",
        FindingLevel::Warning
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_a_file_that_the_configuration_does_not_include_is_seen_by_logging_in() {
    let nats = server(NatsOptions {
        system_users: super::bench::least(),
        forgets_the_file: true,
        ..NatsOptions::default()
    })
    .await;
    let ours = Ours::of(&nats);
    let web = wish("web", json!({}));
    ours.create(&web)
        .await
        .expect("the file and the server took it");
    let lost = ours.lost(&web).await;
    assert!(lost.detail.contains("include this file"), "{lost:?}");
    let bulk = ours.answers(&[web]).await;
    assert!(matches!(&bulk[..], [Answer::Lost(_)]), "{bulk:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn o24_a_login_that_clients_may_not_use_is_not_tried() {
    let nats = usual().await;
    let ours = Ours::of(&nats);
    let hand = wish("hand", json!({ "connection_types": ["MQTT"] }));
    ours.create(&hand).await.expect("created");
    for _ in 0..3 {
        assert!(
            matches!(ours.holds(&hand).await, Ok(Answer::Held(held)) if held.proof == Proof::Verifier)
        );
    }
    assert_eq!(nats.log().matches("authentication error").count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn o05_o08_passwords_like_hashes_and_of_72_bytes_let_in() {
    let nats = usual().await;
    let ours = Ours::of(&nats);
    let like_a_hash = format!("$2a$11${}", "a".repeat(53));
    for (n, text) in [like_a_hash, "x".repeat(72), "漢".repeat(24)]
        .into_iter()
        .enumerate()
    {
        let secret = Some(Secret::from(text.as_str()));
        let one = wish_with(&format!("app-{n}"), json!({}), |parts| {
            parts.password = secret
        });
        ours.create(&one).await.expect("created");
        assert!(lets_in(&nats, one.login().as_str(), &text).await);
        assert!(
            matches!(ours.holds(&one).await, Ok(Answer::Held(held)) if held.proof == Proof::Login)
        );
        let cut = &text[..text.len() - 3];
        assert!(!lets_in(&nats, one.login().as_str(), cut).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a4_a_plain_password_in_the_file_is_made_a_hash() {
    let nats = usual().await;
    let ours = Ours::of(&nats);
    let web = wish("web", json!({}));
    let text = "users: [\n{user: web, password: \"password-of-web\"}\n]\n";
    std::fs::write(nats.users_file(), text).expect("written");
    nats.reload().await.expect("loaded");
    let lost = ours.lost(&web).await;
    assert!(
        lost.password_fits && lost.differences.contains(Difference::Password),
        "{lost:?}"
    );
    ours.create(&web).await.expect("created");
    assert!(!users(&nats).contains("password-of-web"));
    assert!(ours.is_held(&web).await);
}
