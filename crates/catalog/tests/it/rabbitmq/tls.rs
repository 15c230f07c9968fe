//! TLS with verification, from the settings alone (O-34, S-5).

use mesh_conformance::servers::RabbitServer;
use mesh_sdk::Class;
use mesh_sdk::adapter::ProviderSettings;
use serde_json::{Value, json};

use super::bench::settings;
use super::{Ours, server, wish};
use crate::authority::Authority;

fn over_tls(port: u16, ca: &Authority) -> ProviderSettings {
    let mut at = settings(port);
    at.scheme = "https".to_owned();
    at.host = "localhost".to_owned();
    at.tls.ca_pem = Some(ca.pem.clone());
    at
}

async fn attempts(rabbit: &RabbitServer) -> u64 {
    let all = rabbit
        .must("GET", "auth/attempts/mesh@localhost", Value::Null)
        .await;
    let all = all.expect("the attempts");
    let count = |protocol: &Value| protocol["auth_attempts"].as_u64().unwrap_or(0);
    all.as_array().into_iter().flatten().map(count).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn o34_only_the_server_that_the_settings_trust_is_spoken_to() {
    let (ca, other) = (
        Authority::new("a", "localhost", false),
        Authority::new("b", "localhost", false),
    );
    let rabbit = server(Some(ca.files())).await;
    let ours = Ours::on(over_tls(rabbit.tls_port(), &ca));
    let web = wish("web", json!({ "vhost": "/" }));
    ours.create(&web).await.expect("created");
    assert!(ours.is_held(&web).await);

    // Another authority; none of ours, so the system's; another name than the certificate's; and a
    // server without TLS behind an address that says TLS.
    let mut unnamed = over_tls(rabbit.tls_port(), &ca);
    unnamed.tls.ca_pem = None;
    let mut misnamed = over_tls(rabbit.tls_port(), &ca);
    misnamed.host = "127.0.0.1".to_owned();
    let refused = [
        (over_tls(rabbit.tls_port(), &other), "unknownissuer"),
        (unnamed, "unknownissuer"),
        (misnamed, "not valid for"),
        (over_tls(rabbit.port(), &ca), "tls"),
    ];
    for (at, why) in refused {
        let before = attempts(&rabbit).await;
        let error = Ours::on(at).holds(&web).await.expect_err("unknown");
        assert_eq!(error.class(), Class::Unreachable, "{error}");
        assert!(error.message().to_lowercase().contains(why), "{error}");
        // One is this test's own.
        assert_eq!(attempts(&rabbit).await, before + 1, "a login was sent");
    }

    // Not verified, in so many words; and then `doctor` says so.
    let mut careless = over_tls(rabbit.tls_port(), &other);
    careless.tls.dangerously_unverified = true;
    let ours = Ours::on(careless);
    assert!(ours.is_held(&web).await);
    let findings = ours.adapter.doctor(&ours.cx).await.expect("doctor");
    assert!(
        findings
            .iter()
            .any(|f| f.about == "tls" && f.message.contains("not verified"))
    );
}
