//! TLS with verification, from the settings alone (O-34, S-5).

use mesh_conformance::servers::{MariadbOptions, MariadbServer};
use mesh_sdk::Class;
use mesh_sdk::adapter::ProviderSettings;
use serde_json::json;

use super::bench::{LEAST, server as server_with, settings};
use super::{Ours, wish};
use crate::authority::Authority;

async fn server_of(ca: &Authority, more: &[&str]) -> MariadbServer {
    // The server runs as a user of its own.
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let folder = ca.files().key;
    let folder = folder.parent().expect("a folder");
    std::fs::set_permissions(folder, everybody).expect("a folder");
    let options = MariadbOptions {
        tls: Some(ca.files()),
        options: more.iter().map(|one| (*one).to_owned()).collect(),
    };
    server_with(LEAST, options).await
}

fn over_tls(server: &MariadbServer, ca: &Authority) -> ProviderSettings {
    let mut at = settings(server.port());
    at.scheme = "mariadbs".to_owned();
    at.host = "localhost".to_owned();
    at.tls.ca_pem = Some(ca.pem.clone());
    at
}

/// Refused while the connection is made, before any login.
async fn refused(at: ProviderSettings, server: &MariadbServer, why: &str) {
    let ours = Ours::on(at);
    let before = server.counter("Access_denied_errors").await;
    let error = ours
        .holds(&wish("web", json!({})))
        .await
        .expect_err("unknown");
    assert_eq!(error.class(), Class::Unreachable, "{error}");
    assert!(error.message().to_lowercase().contains(why), "{error}");
    assert_eq!(
        server.counter("Access_denied_errors").await,
        before,
        "a login was sent"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_with_the_right_authority_all_works_and_a_server_may_demand_it() {
    let ca = Authority::new("a", "localhost", false);
    let server = server_of(&ca, &["--require-secure-transport"]).await;
    let ours = Ours::on(over_tls(&server, &ca));
    let many: Vec<_> = (0..100)
        .map(|n| wish(&format!("app-{n}"), json!({})))
        .collect();
    let outcomes = ours.create_all(&many).await;
    assert!(outcomes.iter().all(Result::is_ok));
    assert!(ours.all_held(&many).await);
    // Without TLS that server refuses the admin as if the password were wrong; the message says so.
    let plain = Ours::on(settings(server.port()));
    let error = plain.holds(&many[0]).await.expect_err("unknown");
    assert_eq!(error.class(), Class::Denied, "{error}");
    assert!(
        error.message().contains("require_secure_transport"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn o34_another_authority_another_name_and_an_old_certificate_are_refused() {
    let ca = Authority::new("a", "localhost", false);
    let other = Authority::new("b", "localhost", false);
    let server = server_of(&ca, &[]).await;
    refused(over_tls(&server, &other), &server, "unknownissuer").await;
    let mut unnamed = over_tls(&server, &ca);
    unnamed.tls.ca_pem = None;
    refused(unnamed, &server, "unknownissuer").await;

    let elsewhere = Authority::new("c", "elsewhere.example", false);
    let server = server_of(&elsewhere, &[]).await;
    refused(over_tls(&server, &elsewhere), &server, "not valid for").await;

    let old = Authority::new("d", "localhost", true);
    let server = server_of(&old, &[]).await;
    refused(over_tls(&server, &old), &server, "expired").await;

    // Not verified, in so many words; and then `doctor` says so.
    let mut careless = over_tls(&server, &old);
    careless.tls.dangerously_unverified = true;
    let ours = Ours::on(careless);
    ours.made(&wish("web", json!({}))).await;
    let findings = ours.adapter.doctor(&ours.cx).await.expect("doctor");
    let told = findings
        .iter()
        .find(|one| one.about == "tls")
        .expect("told");
    assert!(told.message.contains("not verified"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn o34_there_is_no_second_try_in_clear() {
    let ca = Authority::new("a", "localhost", false);
    let server = server_with(LEAST, MariadbOptions::default()).await;
    refused(over_tls(&server, &ca), &server, "tls").await;
}
