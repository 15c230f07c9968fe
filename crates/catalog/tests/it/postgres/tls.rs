//! TLS with verification, from the settings alone (O-34, S-5).

use mesh_conformance::servers::{PostgresFlavor, PostgresOptions, PostgresServer};
use mesh_sdk::Class;
use mesh_sdk::adapter::ProviderSettings;

use super::bench::{Who, settings, shop};
use super::{Ours, readonly, wish, with};
use crate::authority::Authority;

async fn server_of(ca: &Authority) -> PostgresServer {
    // The server wants its key for itself.
    let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(ca.files().key, own).expect("its own");
    let tls = ca.files();
    let options = PostgresOptions {
        tls: Some(tls),
        ..with(&[("log_connections", "on")])
    };
    shop(PostgresFlavor::V15, Who::Super, options).await
}

fn over_tls(server: &PostgresServer, ca: &Authority) -> ProviderSettings {
    let mut at = settings(server.port(), Who::Super);
    at.scheme = "postgres+tls".to_owned();
    at.host = "localhost".to_owned();
    at.tls.ca_pem = Some(ca.pem.clone());
    at
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_with_the_right_authority_all_works_and_is_encrypted() {
    let ca = Authority::new("a", "localhost", false);
    let server = server_of(&ca).await;
    let ours = Ours::on(over_tls(&server, &ca));
    ours.made(&wish("web", readonly())).await;
    let log = server.log();
    let ours_in_log = log
        .lines()
        .filter(|line| line.contains("application_name=meshkeeper"));
    assert!(ours_in_log.clone().count() > 0);
    for line in ours_in_log {
        assert!(line.contains("SSL enabled"), "{line}");
    }
}

/// Refused while the connection is made: no login was sent, and nobody was lost.
async fn refused(at: ProviderSettings, server: &PostgresServer, why: &str) {
    let ours = Ours::on(at);
    let logins = || server.log().matches("application_name=meshkeeper").count();
    let before = logins();
    let error = ours
        .holds(&wish("web", readonly()))
        .await
        .expect_err("unknown");
    assert_eq!(error.class(), Class::Unreachable, "{error}");
    assert!(error.message().to_lowercase().contains(why), "{error}");
    assert_eq!(logins(), before, "a login was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn o34_another_authority_another_name_and_an_old_certificate_are_refused() {
    let ca = Authority::new("a", "localhost", false);
    let other = Authority::new("b", "localhost", false);
    let server = server_of(&ca).await;
    refused(over_tls(&server, &other), &server, "unknownissuer").await;
    let mut unnamed = over_tls(&server, &ca);
    unnamed.tls.ca_pem = None;
    refused(unnamed, &server, "unknownissuer").await;

    let elsewhere = Authority::new("c", "elsewhere.example", false);
    let server = server_of(&elsewhere).await;
    refused(over_tls(&server, &elsewhere), &server, "not valid for").await;

    let old = Authority::new("d", "localhost", true);
    let server = server_of(&old).await;
    refused(over_tls(&server, &old), &server, "expired").await;

    // Not verified, in so many words; and then `doctor` says so.
    let mut careless = over_tls(&server, &old);
    careless.tls.dangerously_unverified = true;
    let ours = Ours::on(careless);
    ours.made(&wish("web", readonly())).await;
    let findings = ours.adapter.doctor(&ours.cx).await.expect("findings");
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
    let server = shop(
        PostgresFlavor::V15,
        Who::Super,
        with(&[("log_connections", "on")]),
    )
    .await;
    let ours = Ours::on(over_tls(&server, &ca));
    let before = server.log().matches("application_name=meshkeeper").count();
    let error = ours
        .holds(&wish("web", readonly()))
        .await
        .expect_err("unknown");
    assert_eq!(error.class(), Class::Unreachable, "{error}");
    let after = server.log().matches("application_name=meshkeeper").count();
    assert_eq!(after, before, "a login was sent");
}
