//! TLS with verification, from the settings alone (O-34, S-5).

use mesh_conformance::servers::{NatsOptions, NatsServer, Proxy};
use mesh_sdk::adapter::{FindingLevel, ProviderSettings};
use mesh_sdk::{Answer, Class, Proof};
use serde_json::json;

use super::bench::{least, settings};
use super::{Ours, found, server, users, usual, wish};
use crate::authority::Authority;

async fn server_of(ca: &Authority) -> NatsServer {
    server(NatsOptions {
        system_users: least(),
        tls: Some(ca.files()),
        ..NatsOptions::default()
    })
    .await
}

fn over_tls(nats: &NatsServer, ca: &Authority) -> ProviderSettings {
    let mut at = settings(nats, nats.port());
    at.scheme = "tls".to_owned();
    at.host = "localhost".to_owned();
    at.tls.ca_pem = Some(ca.pem.clone());
    at
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_with_the_right_authority_all_works() {
    let ca = Authority::new("a", "localhost", false);
    let nats = server_of(&ca).await;
    let ours = Ours::on(over_tls(&nats, &ca));
    let web = wish("web", json!({}));
    ours.create(&web).await.expect("created");
    assert!(matches!(ours.holds(&web).await, Ok(Answer::Held(held)) if held.proof == Proof::Login));
    assert!(found(&ours.doctor().await, "tls", FindingLevel::Ok));
}

/// Refused while the connection is made: no login was sent, and nothing was written.
async fn refused(at: ProviderSettings, nats: &NatsServer, why: &str) {
    let ours = Ours::on(at);
    let web = wish("web", json!({}));
    let before = users(nats);
    for error in [
        ours.holds(&web).await.expect_err("unknown"),
        ours.create(&web).await.expect_err("not made"),
    ] {
        assert_eq!(error.class(), Class::Unreachable, "{error}");
        assert!(error.message().to_lowercase().contains(why), "{error}");
    }
    assert_eq!(users(nats), before);
    assert!(!nats.log().contains("authentication"), "a login was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn o34_another_authority_another_name_and_an_old_certificate_are_refused() {
    let ca = Authority::new("a", "localhost", false);
    let other = Authority::new("b", "localhost", false);
    let nats = server_of(&ca).await;
    refused(over_tls(&nats, &other), &nats, "unknownissuer").await;

    let elsewhere = Authority::new("c", "elsewhere.example", false);
    let nats = server_of(&elsewhere).await;
    refused(over_tls(&nats, &elsewhere), &nats, "not valid for").await;

    let old = Authority::new("d", "localhost", true);
    let nats = server_of(&old).await;
    refused(over_tls(&nats, &old), &nats, "expired").await;

    // Not verified, in so many words; then no consumer's password goes over it, and `doctor` says so.
    let mut careless = over_tls(&nats, &old);
    careless.host = "127.0.0.1".to_owned();
    careless.tls.dangerously_unverified = true;
    let ours = Ours::on(careless);
    let web = wish("web", json!({}));
    ours.create(&web).await.expect("created");
    assert!(ours.is_held(&web).await);
    assert!(found(&ours.doctor().await, "tls", FindingLevel::Warning));
}

#[tokio::test(flavor = "multi_thread")]
async fn o34_there_is_no_second_try_in_clear() {
    let ca = Authority::new("a", "localhost", false);
    let nats = usual().await;
    let proxy = Proxy::before(nats.port()).await.expect("a proxy");
    let mut at = over_tls(&nats, &ca);
    at.port = proxy.port();
    let ours = Ours::on(at);
    let error = ours
        .holds(&wish("web", json!({})))
        .await
        .expect_err("unknown");
    assert!(error.class().is_transient(), "{error}");
    let sent = String::from_utf8_lossy(&proxy.asked().concat()).into_owned();
    assert!(!sent.contains("CONNECT"), "a login was sent");
}
