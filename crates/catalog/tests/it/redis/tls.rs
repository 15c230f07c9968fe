//! TLS with verification, from the settings alone (O-34, S-5).

use std::time::Duration;

use mesh_conformance::servers::{Flavor, Options, RedisServer};
use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::{Answer, Class};
use serde_json::json;
use tokio::time::timeout;

use super::bench::{ADMIN, settings};
use super::{Ours, dear, server, wish};
use crate::authority::Authority;

/// What a certificate of an unknown authority is told as.
const UNKNOWN: &str = "unknownissuer";

async fn server_of(ca: &Authority) -> RedisServer {
    let options = Options {
        tls: Some(ca.files()),
        requirepass: Some(ADMIN.to_owned()),
        ..Options::default()
    };
    server(Flavor::Redis7, options).await
}

fn over_tls(redis: &RedisServer, ca: &Authority) -> ProviderSettings {
    let mut at = settings(redis.tls_port());
    at.scheme = "rediss".to_owned();
    at.host = "localhost".to_owned();
    at.tls.ca_pem = Some(ca.pem.clone());
    at
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_with_the_right_authority_all_works() {
    let ca = Authority::new("a", "localhost", false);
    let redis = server_of(&ca).await;
    let ours = Ours::on(over_tls(&redis, &ca));
    let many = dear(300);
    ours.made_all(&many).await;
    assert!(ours.all_held(&many).await);
    let web = wish("web", json!({}));
    ours.create(&web).await.expect("created");
    assert!(matches!(ours.holds(&web).await, Ok(Answer::Held(_))));
}

/// Refused while the connection is made: no login was sent, and nobody was lost.
async fn refused(at: ProviderSettings, redis: &RedisServer, why: &str) {
    let ours = Ours::on(at);
    let web = wish("web", json!({}));
    let before = redis.calls("auth").await.expect("a count");
    let error = ours.holds(&web).await.expect_err("unknown");
    assert_eq!(error.class(), Class::Unreachable, "{error}");
    assert!(error.message().to_lowercase().contains(why), "{error}");
    // One is this test's own.
    assert_eq!(
        redis.calls("auth").await,
        Ok(before + 1),
        "a login was sent"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn o34_another_authority_another_name_and_an_old_certificate_are_refused() {
    let ca = Authority::new("a", "localhost", false);
    let other = Authority::new("b", "localhost", false);
    let redis = server_of(&ca).await;
    refused(over_tls(&redis, &other), &redis, UNKNOWN).await;
    // The usual switches of other programs change nothing; there is none here that could be set.
    let mut unnamed = over_tls(&redis, &ca);
    unnamed.tls.ca_pem = None;
    refused(unnamed, &redis, UNKNOWN).await;

    let elsewhere = Authority::new("c", "elsewhere.example", false);
    let redis = server_of(&elsewhere).await;
    refused(over_tls(&redis, &elsewhere), &redis, "not valid for").await;

    let old = Authority::new("d", "localhost", true);
    let redis = server_of(&old).await;
    refused(over_tls(&redis, &old), &redis, "expired").await;

    // Not verified, in so many words; and then `doctor` says so.
    let mut careless = over_tls(&redis, &old);
    careless.tls.dangerously_unverified = true;
    let ours = Ours::on(careless);
    let web = wish("web", json!({}));
    ours.create(&web).await.expect("created");
    let findings = ours.adapter.doctor(&ours.cx).await.expect("doctor");
    assert!(
        findings
            .iter()
            .any(|f| f.about == "tls" && f.message.contains("not verified"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn o34_there_is_no_second_try_in_clear() {
    // A server without TLS under an address that says TLS.
    let ca = Authority::new("a", "localhost", false);
    let redis = server_of(&ca).await;
    let mut at = over_tls(&redis, &ca);
    at.port = redis.port();
    let ours = Ours::on(at);
    let before = redis.calls("auth").await.expect("a count");
    // Redis takes what comes for an unfinished command and waits for the rest; so we wait for it.
    let looked = timeout(
        Duration::from_millis(500),
        ours.holds(&wish("web", json!({}))),
    )
    .await;
    if let Ok(answer) = looked {
        let class = answer.expect_err("unknown").class();
        assert!(class.is_transient(), "{class}");
    }
    assert_eq!(
        redis.calls("auth").await,
        Ok(before + 1),
        "a login was sent"
    );
}
