//! What Dovecot makes of the file, and when.

use mesh_conformance::servers::{DovecotOptions, dovecot_hash};
use mesh_sdk::{Login, Secret};
use serde_json::json;

use super::{server, wish};
use crate::logins_file::LoginsFile;

/// A file that is changed twice in one second, with as many bytes, would never be read again.
#[tokio::test(flavor = "multi_thread")]
async fn h1_a_password_that_is_changed_at_once_is_the_one_that_counts() {
    let (server, ours) = server(DovecotOptions::default()).await;
    let with = |password: String| {
        wish("web", json!({ "cost": 5 }), |parts| {
            parts.password = Some(Secret::from(password.as_str()));
        })
    };
    for n in 0..5 {
        let old = with(format!("old-{n}"));
        ours.made(&old).await;
        let lets_in = async |password: String| {
            let let_in = server.log_in("web", &password).await;
            let_in.expect("an answer").is_some()
        };
        assert!(lets_in(format!("old-{n}")).await);
        // Dovecot has read it, and this second is not over.
        ours.made(&with(format!("new-{n}"))).await;
        assert!(lets_in(format!("new-{n}")).await, "{n}: {}", server.log());
        assert!(
            !lets_in(format!("old-{n}")).await,
            "{n}: the old one lets in"
        );
    }
}

/// What the page says of Dovecot's cache.
#[tokio::test(flavor = "multi_thread")]
async fn h1_its_cache_keeps_no_old_password_and_no_removed_login() {
    let cache = true;
    let (server, ours) = server(DovecotOptions {
        cache,
        ..DovecotOptions::default()
    })
    .await;
    let (web, api) = (
        wish("web", json!({}), |_| ()),
        wish("api", json!({}), |_| ()),
    );
    let new = wish("web", json!({}), |parts| {
        parts.password = Some(Secret::from("new"))
    });
    let lets_in = async |login: &str, password: &str| {
        let let_in = server.log_in(login, password).await;
        let_in.expect("an answer").is_some()
    };
    ours.made(&web).await;
    ours.made(&api).await;
    assert!(lets_in("web", "password-of-web").await && lets_in("api", "password-of-api").await);
    ours.made(&new).await;
    ours.remove(&api).await.expect("removed");
    assert!(!lets_in("web", "password-of-web").await);
    assert!(lets_in("web", "new").await && !lets_in("api", "password-of-api").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a5_o10_a_name_that_is_refused_dovecot_would_not_find() {
    let (server, ours) = server(DovecotOptions::default()).await;
    let hash = dovecot_hash("pw").await.expect("a hash");
    let file = LoginsFile::at(server.file());
    let named = |login: &str| {
        wish("odd", json!({}), |parts| {
            parts.login = Login::new(login).expect("a login")
        })
    };
    for odd in ["Web", "a b", "it's", "ü", "a+b"] {
        let refused = ours.create(&named(odd)).await.expect_err("refused");
        assert!(refused.message().contains("`login`"), "{refused}");
        // Made by hand it lets nobody in.
        file.write(&format!("{odd}:{hash}::::::\n"))
            .expect("written");
        let told = server.log_in(odd, "pw").await.expect("an answer");
        assert!(told.is_none(), "{odd}");
        file.write("").expect("written");
    }
    let usual = named("a.b@c-d_1");
    ours.made(&usual).await;
    let told = server.log_in("a.b@c-d_1", "password-of-odd").await;
    assert!(told.expect("an answer").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn r4_others_lines_stay_and_a_login_that_is_off_is_off_for_everybody() {
    let (server, ours) = server(DovecotOptions::default()).await;
    let hash = dovecot_hash("theirs").await.expect("a hash");
    let others =
        format!("# people\r\nann:{hash}:::Ann A.::/bin/sh:allow_nets=127.0.0.0/8\n\nodd\n");
    std::fs::write(server.file(), &others).expect("written");
    let text = || std::fs::read_to_string(server.file()).expect("the file");
    let lets_in = async |login: &str, password: &str| {
        let let_in = server.log_in(login, password).await;
        let_in.expect("an answer").is_some()
    };
    let values = json!({ "allow_nets": ["127.0.0.1"], "cost": 5 });
    let on = wish("web", values.clone(), |_| ());
    ours.made(&on).await;
    assert!(lets_in("web", "password-of-web").await && lets_in("ann", "theirs").await);
    let off = wish("web", values, |parts| parts.enabled = false);
    ours.made(&off).await;
    let line = text().lines().last().expect("a line").to_owned();
    let field = line.split(':').nth(1).expect("a hash").to_owned();
    assert!(field.starts_with("{CRYPT}!{BLF-CRYPT}$2y$05$"), "{line}");
    for password in ["password-of-web", &field, &field[7..], "", "!"] {
        assert!(!lets_in("web", password).await, "{password}");
    }
    ours.made(&on).await;
    let mut open = server
        .log_in("web", "password-of-web")
        .await
        .expect("an answer")
        .expect("in");
    // Another network than the one that we come from.
    let elsewhere = wish(
        "web",
        json!({ "allow_nets": ["10.0.0.0/8"], "cost": 5 }),
        |_| (),
    );
    ours.made(&elsewhere).await;
    assert!(!lets_in("web", "password-of-web").await);
    ours.remove(&elsewhere).await.expect("removed");
    assert_eq!(text(), others);
    assert!(lets_in("ann", "theirs").await && !lets_in("web", "password-of-web").await);
    // As the page says: nothing ends an open session.
    assert!(open.is_alive().await);
}
