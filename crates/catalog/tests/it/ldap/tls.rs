//! TLS with verification, from the settings alone (O-34, S-5).

use mesh_conformance::servers::{LdapOptions, LdapServer, TlsFiles};
use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::{Answer, Class};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::json;
use tempfile::TempDir;

use super::bench::{LEAST, server, settings};
use super::{Ours, wish};

/// An authority, and a certificate from it for this name, in files.
struct Authority {
    pem: Vec<u8>,
    folder: TempDir,
}

impl Authority {
    fn new(who: &str, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, format!("authority {who}"));
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("cert.pem"), certificate.pem()).expect("written");
        std::fs::write(folder.path().join("key.pem"), key.serialize_pem()).expect("written");
        Self {
            pem: issuer.pem().into_bytes(),
            folder,
        }
    }
    async fn server(&self) -> LdapServer {
        server(LdapOptions {
            access: LEAST.to_owned(),
            tls: Some(TlsFiles {
                certificate: self.folder.path().join("cert.pem"),
                key: self.folder.path().join("key.pem"),
            }),
            ..LdapOptions::default()
        })
        .await
    }
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
    let ca = Authority::new("a", "localhost");
    let slapd = ca.server().await;
    let ours = Ours::on(over_tls(&slapd, &ca));
    ours.create(&wish("web")).await.expect("create");
    assert!(matches!(
        ours.holds(&wish("web")).await,
        Ok(Answer::Held(_))
    ));

    // Another authority; another name; no TLS behind the port.
    let other = Authority::new("b", "localhost");
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
