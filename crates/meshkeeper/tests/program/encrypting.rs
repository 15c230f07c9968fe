//! TLS: a server that cannot be verified is unknown, and nothing is ever said to it in plain (S-5, O-34).

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::lab::{Lab, need};
use crate::redis::{Redis, free_port};

/// An authority, and a server's certificate signed by it.
pub(crate) struct Papers {
    pub(crate) ca: PathBuf,
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

pub(crate) fn papers(folder: &Path, name: &str, host: &str) -> Papers {
    let mut params = CertificateParams::new(Vec::new()).expect("params");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = KeyPair::generate().expect("key");
    let authority = CertifiedIssuer::self_signed(params, authority).expect("authority");
    let key = KeyPair::generate().expect("key");
    let server = CertificateParams::new(vec![host.to_owned()]).expect("params");
    let cert = server.signed_by(&key, &authority).expect("certificate");
    let write = |what: &str, text: String| {
        let path = folder.join(format!("{name}-{what}.pem"));
        std::fs::write(&path, text).expect("written");
        path
    };
    Papers {
        ca: write("ca", authority.pem()),
        cert: write("cert", cert.pem()),
        key: write("key", key.serialize_pem()),
    }
}

/// A Redis that speaks TLS on a port of its own, beside its plain one.
fn with_tls(papers: &Papers) -> (Redis, u16) {
    let port = free_port();
    let args = [
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &papers.cert.display().to_string(),
        "--tls-key-file",
        &papers.key.display().to_string(),
        "--tls-ca-cert-file",
        &papers.ca.display().to_string(),
        "--tls-auth-clients",
        "no",
    ];
    (Redis::with(&args), port)
}

fn manifest(lab: &Lab, port: u16, tls: &str) {
    lab.write("admin.password", "the-admins-password");
    let mut text = format!(
        "[mesh]\nid = \"home\"\n\n[provider.cache]\nkind = \"redis\"\nurl = \"rediss://localhost:{port}\"\n\
         unknown_after = \"1s\"\n{tls}\n"
    );
    need(&mut text, "web", "cache", "");
    lab.manifest(&text);
}

#[test]
fn s5_with_the_right_authority_it_works() {
    let lab = Lab::new();
    let papers = papers(lab.path(), "right", "localhost");
    let (redis, port) = with_tls(&papers);
    manifest(&lab, port, "tls = { ca = \"right-ca.pem\" }");
    lab.mesh(&["apply"]).ends(0);
    assert!(redis.lets_in("web", &lab.password("web", "cache")));
    let credentials = lab.mesh(&["credentials", "web", "cache"]).ends(0);
    assert!(
        credentials.out.contains("rediss://web:"),
        "{credentials:#?}"
    );
}

#[test]
fn s5_o34_a_server_that_cannot_be_verified_is_unknown_and_nothing_falls_back() {
    let mut lab = Lab::new();
    let right = papers(lab.path(), "right", "localhost");
    papers(lab.path(), "wrong", "localhost");
    let other = papers(lab.path(), "other", "elsewhere.example");
    let (redis, port) = with_tls(&right);
    let (stranger, strange) = with_tls(&other);
    // Variables that switch checks off elsewhere mean nothing here.
    for name in [
        "SSL_CERT_FILE",
        "PGSSLMODE",
        "NODE_TLS_REJECT_UNAUTHORIZED",
        "PYTHONHTTPSVERIFY",
    ] {
        lab.set(name, "0");
    }
    for (port, tls, why) in [
        (port, "tls = { ca = \"wrong-ca.pem\" }", "certificate"),
        (port, "", "certificate"),
        (strange, "tls = { ca = \"other-ca.pem\" }", "certificate"),
    ] {
        manifest(&lab, port, tls);
        let plan = lab.mesh(&["plan"]).ends(1);
        assert!(
            plan.out.contains("unknown") && plan.out.contains(why),
            "{tls}: {plan:#?}"
        );
        lab.mesh(&["apply"]).ends(3);
        assert_eq!(lab.states(), ["web=unknown"], "{tls}");
        lab.mesh(&["explain", "web"]).ends(0).says(why);
        lab.mesh(&["doctor"]).ends(1);
    }
    for server in [&redis, &stranger] {
        assert!(server.users().is_empty());
        let calls = server.calls();
        let said = |name: &str| calls.contains_key(name);
        assert!(
            !said("auth") && !said("acl|list") && !said("acl|getuser"),
            "{calls:?}"
        );
    }
}

#[test]
fn s5_unverified_is_a_word_in_the_manifest_and_stands_as_a_condition() {
    let lab = Lab::new();
    let right = papers(lab.path(), "right", "localhost");
    let (redis, port) = with_tls(&right);
    manifest(&lab, port, "tls = { dangerously_unverified = true }");
    lab.mesh(&["apply"]).ends(3);
    assert!(redis.users().contains("web"));
    let told = lab.conditions();
    assert!(told.contains(&"TlsUnverified cache".to_owned()), "{told:?}");
    lab.mesh(&["silence", "TlsUnverified", "cache", "--reason", "a lab"])
        .ends(0);
    lab.mesh(&["status"]).ends(0);
}

#[test]
fn s5_a_plain_server_behind_a_tls_scheme_is_unknown() {
    let (lab, redis) = (Lab::new(), Redis::start());
    manifest(&lab, redis.port, "ask_timeout = \"2s\"");
    lab.mesh(&["apply"]).ends(3);
    assert_eq!(lab.states(), ["web=unknown"]);
    assert!(redis.users().is_empty());
}
