//! TLS with verification, from the settings alone (O-34, S-5).

use std::path::PathBuf;

use mesh_conformance::servers::{PostgresFlavor, PostgresOptions, PostgresServer, TlsFiles};
use mesh_sdk::Class;
use mesh_sdk::adapter::ProviderSettings;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tempfile::TempDir;

use super::bench::{Who, settings, shop};
use super::{Ours, readonly, wish, with};

/// An authority, and a server's certificate from it, in files.
struct Authority {
    pem: Vec<u8>,
    folder: TempDir,
}

impl Authority {
    fn new(who: &str, name: &str, expired: bool) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, format!("authority {who}"));
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        if expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2020, 2, 1);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("cert.pem"), certificate.pem()).expect("written");
        let secret = folder.path().join("key.pem");
        std::fs::write(&secret, key.serialize_pem()).expect("written");
        use std::os::unix::fs::PermissionsExt;
        let own = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&secret, own).expect("its own");
        Self {
            pem: issuer.pem().into_bytes(),
            folder,
        }
    }
    async fn server(&self) -> PostgresServer {
        let path = |name: &str| -> PathBuf { self.folder.path().join(name) };
        let tls = TlsFiles {
            certificate: path("cert.pem"),
            key: path("key.pem"),
        };
        let options = PostgresOptions {
            tls: Some(tls),
            ..with(&[("log_connections", "on")])
        };
        shop(PostgresFlavor::V15, Who::Super, options).await
    }
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
    let server = ca.server().await;
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
    let server = ca.server().await;
    refused(over_tls(&server, &other), &server, "unknownissuer").await;
    let mut unnamed = over_tls(&server, &ca);
    unnamed.tls.ca_pem = None;
    refused(unnamed, &server, "unknownissuer").await;

    let elsewhere = Authority::new("c", "elsewhere.example", false);
    let server = elsewhere.server().await;
    refused(over_tls(&server, &elsewhere), &server, "not valid for").await;

    let old = Authority::new("d", "localhost", true);
    let server = old.server().await;
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
