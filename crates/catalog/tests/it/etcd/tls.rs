//! TLS with verification, from the settings alone (O-34, S-5).

use mesh_conformance::servers::{EtcdFlavor, EtcdServer, TlsFiles};
use mesh_sdk::Class;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::json;

use super::bench::settings;
use super::{Ours, wish};

#[tokio::test(flavor = "multi_thread")]
async fn o34_only_the_server_that_the_settings_trust_is_spoken_to() {
    let authority = |who: &str| {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, format!("authority {who}"));
        let key = KeyPair::generate().expect("a key");
        CertifiedIssuer::self_signed(params, key).expect("an authority")
    };
    let (ca, other) = (authority("a"), authority("b"));
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &ca).expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    let files = TlsFiles {
        certificate: folder.path().join("cert.pem"),
        key: folder.path().join("key.pem"),
    };
    std::fs::write(&files.certificate, certificate.pem()).expect("written");
    std::fs::write(&files.key, key.serialize_pem()).expect("written");
    // Authentication is not enabled: whoever gets so far is told that.
    let etcd = EtcdServer::start(EtcdFlavor::Etcd35, Some(files), true)
        .await
        .expect("a server");
    let mut at = settings(etcd.port());
    at.scheme = "https".to_owned();
    at.host = "localhost".to_owned();
    at.tls.ca_pem = Some(ca.pem().into_bytes());
    let web = wish("web", json!({}));
    let error = Ours::on(at.clone()).holds(&web).await.expect_err("unknown");
    assert_eq!(error.class(), Class::Denied, "{error}");

    let mut untrusted = at.clone();
    untrusted.tls.ca_pem = Some(other.pem().into_bytes());
    let mut misnamed = at.clone();
    misnamed.host = "127.0.0.1".to_owned();
    let mut plain = at.clone();
    plain.scheme = "http".to_owned();
    for (at, why) in [
        (untrusted, "unknownissuer"),
        (misnamed, "not valid for"),
        (plain, ""),
    ] {
        let error = Ours::on(at).holds(&web).await.expect_err("unknown");
        assert!(error.message().to_lowercase().contains(why), "{error}");
        assert_ne!(error.class(), Class::Denied, "{error}");
    }
}
