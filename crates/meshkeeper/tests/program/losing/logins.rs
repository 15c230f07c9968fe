//! Logging in to the bus by credentials file and by NKey, and a bus that speaks TLS alone: the whole program
//! on each.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mesh_conformance::servers::{JetOptions, TlsFiles};
use nkeys::KeyPair;
use serde_json::{Value, json};

use crate::encrypting::papers;
use crate::lab::Lab;
use crate::redis::Redis;
use crate::shared::{Nats, host, manifest};

/// Makes the streams, applies, goes on, and shows; then with a way in that does not fit.
fn works(lab: &Lab, redis: &Redis, bus: &str, not_quoted: &str, spoil: impl FnOnce()) {
    lab.manifest(&manifest(bus, redis, "", &["web"]));
    lab.mesh(&["check"]).ends(0);
    lab.mesh(&["bus", "bootstrap"])
        .ends(0)
        .says("made KV_mesh_home");
    lab.mesh(&["apply"]).ends(0).says("applied 1");
    let (password, writes) = (lab.password("web", "cache"), redis.writes());
    assert!(redis.lets_in("web", &password));
    lab.mesh(&["apply"]).ends(0).says("held 1");
    assert_eq!(redis.writes(), writes, "again changes nothing");
    let mut up = lab.up(&[]);
    crate::restarting::settled(lab);
    let ran = up.stop().ends(0);
    assert!(!ran.err.contains(not_quoted), "{ran:#?}");
    spoil();
    for words in [vec!["status"], vec!["apply"]] {
        let ran = lab.mesh(&words).ends(1);
        assert!(!ran.err.contains(not_quoted), "{ran:#?}");
    }
    assert_eq!(redis.writes(), writes);
}

fn one(authorization: String, admin: Option<(&str, &str)>) -> Nats {
    Nats::with(JetOptions {
        authorization,
        admin: admin.map(|(user, password)| (user.to_owned(), password.to_owned())),
        ..JetOptions::default()
    })
}

fn seed(pair: &KeyPair) -> String {
    pair.seed().expect("seed")
}

#[test]
fn b2_the_bus_is_entered_by_an_nkey() {
    let (user, other) = (KeyPair::new_user(), KeyPair::new_user());
    let (lab, redis) = (host("one"), Redis::start());
    let users = format!(
        "authorization {{ users: [ {{ user: admin, password: admin-password }}, {{ nkey: {} }} ] }}\n",
        user.public_key()
    );
    let nats = one(users, Some(("admin", "admin-password")));
    lab.write("bus.seed", &(seed(&user) + "\n"));
    let bus = format!(
        "[mesh.bus]\nurl = \"nats://127.0.0.1:{}\"\nnkey = {{ file = \"bus.seed\" }}",
        nats.cluster.ports()[0]
    );
    works(&lab, &redis, &bus, &seed(&user), || {
        drop(lab.write("bus.seed", &seed(&other)));
    });
    let refused = lab.mesh(&["status"]).ends(1).warns("refuse the login");
    assert!(!refused.err.contains(&seed(&other)), "{refused:#?}");
}

/// A claim that `by` signs for, as NATS's servers read it.
fn jwt(by: &KeyPair, about: &KeyPair, name: &str, nats: Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let head = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let claim = json!({
        "jti": name, "iat": 1_700_000_000, "iss": by.public_key(), "sub": about.public_key(),
        "name": name, "nats": nats
    });
    let text = format!("{}.{}", encode(&head), encode(&claim));
    let signed = by.sign(text.as_bytes()).expect("signed");
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signed))
}

fn account(by: &KeyPair, about: &KeyPair, name: &str, storage: i64) -> String {
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
        "conn": -1, "leaf": -1, "mem_storage": storage, "disk_storage": storage,
        "streams": storage, "consumer": storage
    });
    jwt(
        by,
        about,
        name,
        json!({ "type": "account", "version": 2, "limits": limits }),
    )
}

#[test]
fn b2_the_bus_is_entered_by_a_credentials_file() {
    let (operator, system) = (KeyPair::new_operator(), KeyPair::new_account());
    let (mesh, user) = (KeyPair::new_account(), KeyPair::new_user());
    let (lab, redis) = (host("one"), Redis::start());
    let itself = json!({ "type": "operator", "version": 2, "system_account": system.public_key() });
    let mut config = format!(
        "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n",
        jwt(&operator, &operator, "operator", itself),
        system.public_key()
    );
    for (pair, name, storage) in [(&system, "SYS", 0), (&mesh, "MESH", -1)] {
        let text = account(&operator, pair, name, storage);
        writeln!(config, "  {}: {text}", pair.public_key()).expect("text");
    }
    let nats = one(config + "}\n", None);
    let rights = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
    let creds = format!(
        "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        jwt(&mesh, &user, "loops", rights),
        seed(&user)
    );
    lab.write("bus.creds", &creds);
    let bus = format!(
        "[mesh.bus]\nurl = \"nats://127.0.0.1:{}\"\ncreds = {{ file = \"bus.creds\" }}",
        nats.cluster.ports()[0]
    );
    works(&lab, &redis, &bus, &seed(&user), || {
        let other = KeyPair::new_user();
        let spoilt = creds.replace(&seed(&user), &seed(&other));
        drop(lab.write("bus.creds", &spoilt));
    });
    lab.mesh(&["status"]).ends(1).warns("refuse the login");
    lab.write("bus.creds", "nothing of the kind");
    lab.mesh(&["status"])
        .ends(1)
        .warns("not a NATS credentials file");
}

#[test]
fn s5_the_bus_is_entered_by_tls_with_its_authority_alone() {
    let (lab, redis) = (host("one"), Redis::start());
    let right = papers(lab.path(), "right", "localhost");
    let wrong = papers(lab.path(), "wrong", "localhost");
    let nats = Nats::with(JetOptions {
        tls: Some(TlsFiles {
            certificate: right.cert,
            key: right.key,
        }),
        ..JetOptions::default()
    });
    let bus = format!(
        "[mesh.bus]\nurl = \"tls://localhost:{}\"\ntls = {{ ca = \"right-ca.pem\" }}",
        nats.cluster.ports()[0]
    );
    works(&lab, &redis, &bus, "PRIVATE KEY", || {
        std::fs::copy(wrong.ca, lab.path().join("right-ca.pem")).expect("copied");
    });
}
