//! TLS with verification, from the settings alone (O-34, S-5).

use mesh_conformance::servers::{LdapOptions, LdapServer};
use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::{Answer, Class};
use serde_json::json;

use super::bench::{LEAST, server, settings};
use super::{Ours, wish};
use crate::authority::Authority;

async fn server_of(ca: &Authority) -> LdapServer {
    server(LdapOptions {
        access: LEAST.to_owned(),
        tls: Some(ca.files()),
        ..LdapOptions::default()
    })
    .await
}

fn over_tls(slapd: &LdapServer, ca: &Authority) -> ProviderSettings {
    let mut at = settings(slapd.tls_port(), json!({}));
    at.scheme = "ldaps".to_owned();
    at.host = "localhost".to_owned();
    at.tls.ca_pem = Some(ca.pem.clone());
    at
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_only_a_verified_server_is_spoken_to() {
    let ca = Authority::new("a", "localhost", false);
    let slapd = server_of(&ca).await;
    let ours = Ours::on(over_tls(&slapd, &ca));
    ours.create(&wish("web")).await.expect("create");
    assert!(matches!(
        ours.holds(&wish("web")).await,
        Ok(Answer::Held(_))
    ));

    // Another authority; another name; no TLS behind the port.
    let other = Authority::new("b", "localhost", false);
    let mut elsewhere = over_tls(&slapd, &ca);
    elsewhere.host = "127.0.0.1".to_owned();
    let mut plain = over_tls(&slapd, &ca);
    plain.port = slapd.port();
    for at in [over_tls(&slapd, &other), elsewhere, plain] {
        let error = Ours::on(at)
            .holds(&wish("web"))
            .await
            .expect_err("not verified");
        assert_eq!(error.class(), Class::Unreachable, "{error}");
    }
    let mut trusting = over_tls(&slapd, &other);
    trusting.tls.dangerously_unverified = true;
    assert!(matches!(
        Ours::on(trusting).holds(&wish("web")).await,
        Ok(Answer::Held(_))
    ));
}
