//! TLS with verification, from the settings alone (O-34, S-5).

use mesh_conformance::servers::{EtcdFlavor, EtcdServer};
use mesh_sdk::Class;
use serde_json::json;

use super::bench::settings;
use super::{Ours, wish};
use crate::authority::Authority;

#[tokio::test(flavor = "multi_thread")]
async fn o34_only_the_server_that_the_settings_trust_is_spoken_to() {
    let ca = Authority::new("a", "localhost", false);
    let other = Authority::new("b", "localhost", false);
    // Authentication is not enabled: whoever gets so far is told that.
    let etcd = EtcdServer::start(EtcdFlavor::Etcd35, Some(ca.files()), true)
        .await
        .expect("a server");
    let mut at = settings(etcd.port());
    at.scheme = "https".to_owned();
    at.host = "localhost".to_owned();
    at.tls.ca_pem = Some(ca.pem.clone());
    let web = wish("web", json!({}));
    let error = Ours::on(at.clone()).holds(&web).await.expect_err("unknown");
    assert_eq!(error.class(), Class::Denied, "{error}");

    let mut untrusted = at.clone();
    untrusted.tls.ca_pem = Some(other.pem.clone());
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
