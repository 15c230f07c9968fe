//! TLS with verification, from the settings alone (O-34, S-5).

use mesh_conformance::servers::{MOSQUITTO_ADMIN, MosquittoOptions, MosquittoServer, Proxy};
use mesh_sdk::adapter::{Admin, FindingLevel, ProviderSettings};
use mesh_sdk::{Answer, Class, Proof, Secret};
use serde_json::json;

use super::bench::settings;
use super::{Ours, found, server, usual, wish};
use crate::authority::Authority;

async fn server_of(ca: &Authority) -> MosquittoServer {
    let options = MosquittoOptions {
        tls: Some(ca.files()),
        ..MosquittoOptions::default()
    };
    server(options).await
}

fn over_tls(broker: &MosquittoServer, ca: &Authority) -> ProviderSettings {
    let mut at = settings(broker.port());
    at.scheme = "mqtts".to_owned();
    at.host = "localhost".to_owned();
    at.tls.ca_pem = Some(ca.pem.clone());
    // The other clients of these tests speak no TLS, so nobody has made a lesser admin.
    at.admin = Some(Admin {
        user: MOSQUITTO_ADMIN.0.to_owned(),
        password: Some(Secret::from(MOSQUITTO_ADMIN.1)),
    });
    at
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_with_the_right_authority_all_works() {
    let ca = Authority::new("a", "localhost", false);
    let broker = server_of(&ca).await;
    let ours = Ours::on(over_tls(&broker, &ca));
    let web = wish("web", json!({}));
    ours.create(&web).await.expect("created");
    assert!(matches!(ours.holds(&web).await, Ok(Answer::Held(held)) if held.proof == Proof::Login));
    assert!(found(&ours.doctor().await, "tls", FindingLevel::Ok));
}

/// Refused while the connection is made: no login was sent, and nothing was written.
async fn refused(at: ProviderSettings, broker: &MosquittoServer, why: &str) {
    let ours = Ours::on(at);
    let web = wish("web", json!({}));
    for error in [
        ours.holds(&web).await.expect_err("unknown"),
        ours.create(&web).await.expect_err("not made"),
    ] {
        assert_eq!(error.class(), Class::Unreachable, "{error}");
        assert!(error.message().to_lowercase().contains(why), "{error}");
    }
    assert!(!broker.log().contains("authentication"), "a login was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn o34_another_authority_another_name_and_an_old_certificate_are_refused() {
    let ca = Authority::new("a", "localhost", false);
    let other = Authority::new("b", "localhost", false);
    let broker = server_of(&ca).await;
    refused(over_tls(&broker, &other), &broker, "unknownissuer").await;

    let elsewhere = Authority::new("c", "elsewhere.example", false);
    let broker = server_of(&elsewhere).await;
    refused(over_tls(&broker, &elsewhere), &broker, "not valid for").await;

    let old = Authority::new("d", "localhost", true);
    let broker = server_of(&old).await;
    refused(over_tls(&broker, &old), &broker, "expired").await;

    // Not verified, in so many words; then no consumer's password goes over it, and `doctor` says so.
    let mut careless = over_tls(&broker, &old);
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
    let broker = usual().await;
    let proxy = Proxy::before(broker.port()).await.expect("a proxy");
    let mut at = over_tls(&broker, &ca);
    at.port = proxy.port();
    let ours = Ours::on(at);
    let error = ours
        .holds(&wish("web", json!({})))
        .await
        .expect_err("unknown");
    assert!(error.class().is_transient(), "{error}");
    let sent = proxy.asked().concat();
    assert!(!sent.windows(4).any(|w| w == b"MQTT"), "a login was sent");
}
