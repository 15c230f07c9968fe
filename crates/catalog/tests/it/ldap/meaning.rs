//! What a directory means by its answers: locks, hashes, names, rights, codes.

use mesh_catalog::ldap::LdapKind;
use mesh_conformance::adapter::Bench as _;
use mesh_conformance::servers::{LdapOptions, LdapServer};
use mesh_sdk::adapter::{FindingLevel, ProviderSettings};
use mesh_sdk::handle::AnyKind;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Answer, Class, Difference, Login, Proof, Secret};
use serde_json::json;

use super::bench::{ADMIN, BASE, LEAST, LdapBench, decoded, dn, failed, line, server, settings};
use super::{Ours, wish, wish_with};

/// A directory with the rights of the page.
async fn plain() -> (LdapServer, Ours) {
    with_access(LEAST).await
}

async fn with_access(access: &str) -> (LdapServer, Ours) {
    let options = LdapOptions {
        access: access.to_owned(),
        ..LdapOptions::default()
    };
    let slapd = server(options).await;
    let ours = Ours::on(settings(
        slapd.port(),
        json!({ "groups": "ou=groups,dc=example" }),
    ));
    (slapd, ours)
}

/// The admin may write passwords, and not read them.
fn unreadable() -> String {
    LEAST.replacen(
        "access to dn.subtree=\"ou=apps,dc=example\"",
        "access to dn.subtree=\"ou=apps,dc=example\" attrs=userPassword by dn.exact=\"uid=mesh,ou=apps,dc=example\" =w \
         by anonymous auth by * none\naccess to dn.subtree=\"ou=apps,dc=example\"",
        1,
    )
}

fn lost(answer: Result<Answer, mesh_sdk::Error>) -> mesh_sdk::Lost {
    match answer {
        Ok(Answer::Lost(lost)) => *lost,
        other => panic!("it should be lost: {other:?}"),
    }
}

async fn binds(slapd: &LdapServer, login: &str, password: &str) -> bool {
    let dn = dn(login);
    let ran = slapd
        .client("ldapwhoami", Some((&dn, password)), &[], "")
        .await;
    ran.expect("ldapwhoami").0 == 0
}

#[tokio::test(flavor = "multi_thread")]
async fn o23_a_look_never_locks_and_a_locked_login_is_seen_and_healed() {
    let (slapd, ours) = plain().await;
    let app = wish("app");
    ours.create(&app).await.expect("create");
    // A look at another password fails no login here: the hash is read.
    let other = wish_with("app", json!({}), |p| {
        p.password = Some(Secret::from("another one"))
    });
    for _ in 0..5 {
        let lost = lost(ours.holds(&other).await);
        assert_eq!(lost.differences, Difference::Password.into());
    }
    assert_eq!(failed(&slapd).await, 0);
    assert!(binds(&slapd, "app", "password-of-app").await);
    // Somebody else locks it.
    for _ in 0..3 {
        assert!(!binds(&slapd, "app", "wrong").await);
    }
    assert!(!binds(&slapd, "app", "password-of-app").await, "locked");
    let seen = lost(ours.holds(&app).await);
    assert_eq!(seen.differences, Difference::Disabled.into());
    assert!(
        seen.password_fits && seen.detail.contains("policy"),
        "{seen:?}"
    );
    ours.create(&app).await.expect("create");
    assert!(matches!(ours.holds(&app).await, Ok(Answer::Held(_))));
    assert!(binds(&slapd, "app", "password-of-app").await, "healed");
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_without_a_policy_a_second_password_and_one_switched_off_are_seen() {
    let slapd = server(LdapOptions {
        access: LEAST.to_owned(),
        lenient: true,
        ..LdapOptions::default()
    })
    .await;
    let ours = Ours::on(settings(slapd.port(), json!({})));
    let app = wish("app");
    ours.create(&app).await.expect("create");
    let second = format!(
        "{}changetype: modify\nadd: userPassword\nuserPassword: one more\n",
        line("dn", &dn("app"))
    );
    slapd.modify(&second).await.expect("a second password");
    assert!(binds(&slapd, "app", "one more").await);
    let seen = lost(ours.holds(&app).await);
    assert_eq!(seen.differences, Difference::Password.into());
    assert!(seen.password_fits, "ours still fits");
    ours.create(&app).await.expect("create");
    assert!(!binds(&slapd, "app", "one more").await);
    assert!(matches!(ours.holds(&app).await, Ok(Answer::Held(_))));
    // Switched off, nobody binds: not with the password, not with what is stored.
    let going = Departing::new(app.consumer().clone(), app.login().clone());
    ours.adapter
        .disable(&ours.cx, &ours.marker, &going)
        .await
        .expect("disable");
    assert!(!binds(&slapd, "app", "password-of-app").await);
    let stored = slapd
        .search(BASE, "(uid=app)", &["userPassword"])
        .await
        .expect("a search");
    let stored = stored
        .lines()
        .find_map(|line| line.strip_prefix("userPassword:: "));
    let stored = decoded(stored.expect("a value"));
    assert!(stored.starts_with("{SSHA}!"), "{stored}");
    assert!(!binds(&slapd, "app", &stored).await);
    assert_eq!(
        lost(ours.holds(&app).await).differences,
        Difference::Disabled.into()
    );
    ours.create(&app).await.expect("create");
    assert!(
        binds(&slapd, "app", "password-of-app").await,
        "with the same password as before"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_where_the_hash_cannot_be_read_logging_in_is_the_proof() {
    let (slapd, ours) = with_access(&unreadable()).await;
    let app = wish("app");
    ours.create(&app).await.expect("create");
    assert_eq!(ours.holds(&app).await, Ok(Answer::held(Proof::Login)));
    assert_eq!(failed(&slapd).await, 0, "no failed login while all is well");
    let other = wish_with("app", json!({}), |p| {
        p.password = Some(Secret::from("another one"))
    });
    let seen = lost(ours.holds(&other).await);
    assert_eq!(seen.differences, Difference::Password.into());
    assert_eq!(failed(&slapd).await, 1, "one wrong login a look");
    ours.create(&other).await.expect("create");
    assert_eq!(
        failed(&slapd).await,
        1,
        "and none more by the repair (O-23)"
    );
    assert_eq!(ours.holds(&other).await, Ok(Answer::held(Proof::Login)));
    let writes = slapd.log().matches(" MOD dn=").count();
    ours.create(&other).await.expect("again");
    assert_eq!(
        slapd.log().matches(" MOD dn=").count(),
        writes,
        "again changes nothing"
    );
    let found = ours.adapter.doctor(&ours.cx).await.expect("findings");
    assert!(found.iter().any(|one| one.about == "rights"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn h16_a_bulk_look_proves_a_slice_by_logging_in_and_the_rest_in_turn() {
    let (slapd, ours) = with_access(&unreadable()).await;
    let wishes: Vec<_> = (0..300).map(|n| wish(&format!("app-{n:03}"))).collect();
    ours.made_all(&wishes).await;
    let mut proven = std::collections::BTreeSet::new();
    for look in 1..=2 {
        let answers = ours.answers(&wishes).await;
        let binds = slapd.log().matches(" BIND dn=\"uid=app-").count();
        // Each is told twice: as asked, and as done.
        assert!(binds <= look * 256 * 2, "look {look}: {binds}");
        for (n, answer) in answers.iter().enumerate() {
            match answer {
                Answer::Held(held) if held.proof == Proof::Login => drop(proven.insert(n)),
                Answer::Held(held) => assert_eq!(held.proof, Proof::Presence),
                other => panic!("{n}: {other:?}"),
            }
        }
        assert!(look == 2 || proven.len() == 256, "{}", proven.len());
    }
    assert_eq!(proven.len(), 300);
    assert_eq!(failed(&slapd).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_a_scheme_that_the_server_does_not_know_is_told_and_not_held() {
    let slapd = server(LdapOptions {
        access: LEAST.to_owned(),
        ..LdapOptions::default()
    })
    .await;
    let ours = Ours::on(settings(slapd.port(), json!({ "hash": "ssha512" })));
    let app = wish("app");
    let error = ours.create(&app).await.expect_err("nobody can log in");
    assert_eq!(error.class(), Class::RefusedValue, "{error}");
    assert!(error.message().contains("pw-sha2"), "{error}");
    assert!(!matches!(ours.holds(&app).await, Ok(Answer::Held(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn o04_a_name_of_two_attributes_and_a_neighbour_are_nobody_of_ours() {
    let (slapd, ours) = plain().await;
    let evil = format!(
        "dn: uid=jack+cn=evil,{BASE}\nobjectClass: account\nobjectClass: simpleSecurityObject\n\
         objectClass: extensibleObject\nuid: jack\ncn: evil\nuserPassword: theirs\n"
    );
    slapd.add(&evil).await.expect("an entry of two names");
    let jack = wish("jack");
    let seen = lost(ours.holds(&jack).await);
    assert_eq!(seen.differences, Difference::Absent.into());
    ours.create(&jack).await.expect("create");
    let named = wish_with("named", json!({}), |p| {
        p.login = Login::new("jack+cn=evil").expect("a login");
    });
    ours.create(&named).await.expect("create");
    let listed = ours
        .adapter
        .list(&ours.cx, &ours.marker)
        .await
        .expect("a list");
    let names: Vec<&str> = listed.iter().map(|one| one.login.as_str()).collect();
    assert!(
        names.contains(&"jack") && names.contains(&"jack+cn=evil"),
        "{names:?}"
    );
    assert_eq!(names.len(), 3, "the admin's, and ours: {names:?}");
    let going = Departing::new(named.consumer().clone(), named.login().clone());
    ours.adapter
        .remove(&ours.cx, &ours.marker, &going)
        .await
        .expect("remove");
    assert!(matches!(ours.holds(&jack).await, Ok(Answer::Held(_))));
    let kept = slapd
        .search(BASE, "(cn=evil)", &["uid"])
        .await
        .expect("a search");
    assert!(kept.contains("uid: jack"), "{kept}");
}

#[tokio::test(flavor = "multi_thread")]
async fn o10_a_name_that_differs_in_case_only_is_refused() {
    let (slapd, ours) = plain().await;
    let app = wish("app");
    ours.create(&app).await.expect("create");
    let upper = wish_with("other", json!({}), |p| {
        p.login = Login::new("App").expect("a login")
    });
    let checked = AnyKind::check(
        &LdapKind,
        &settings(slapd.port(), json!({})),
        &upper,
        &ours.marker,
    );
    assert_eq!(checked.expect_err("refused").field, "login");
    let error = ours.create(&upper).await.expect_err("refused");
    assert_eq!(error.class(), Class::RefusedValue);
    assert!(matches!(ours.holds(&app).await, Ok(Answer::Held(_))));
    // And a person's entry in other letters is that same login.
    let by_hand = [
        line("dn", &dn("Web")),
        "objectClass: account\nobjectClass: simpleSecurityObject\n".to_owned(),
        line("uid", "Web"),
        line("userPassword", "theirs"),
    ];
    slapd.add(&by_hand.concat()).await.expect("an entry");
    let error = ours.create(&wish("web")).await.expect_err("it is there");
    assert_eq!(error.class(), Class::Exists, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_what_a_real_server_refuses_has_its_class() {
    // Not the admin, an admin that may not write, one that may not even see the base.
    let (slapd, _) = plain().await;
    let with = |change: fn(&mut ProviderSettings)| {
        let mut settings = settings(slapd.port(), json!({ "groups": "ou=groups,dc=example" }));
        change(&mut settings);
        Ours::on(settings)
    };
    let wrong =
        with(|s| s.admin.as_mut().expect("an admin").password = Some(Secret::from("wrong")));
    let error = wrong.holds(&wish("a")).await.expect_err("wrong password");
    assert_eq!(error.class(), Class::Denied, "{error}");
    let away = with(|s| s.path = "ou=nowhere,dc=example".to_owned());
    let error = away.holds(&wish("a")).await.expect_err("no such base");
    assert_eq!(error.class(), Class::Gone, "{error}");

    let reads = LEAST.replace(
        &format!("by dn.exact=\"{ADMIN}\" write"),
        &format!("by dn.exact=\"{ADMIN}\" read"),
    );
    let (_slapd, reader) = with_access(&reads).await;
    let error = reader
        .create(&wish("a"))
        .await
        .expect_err("read only rights");
    assert_eq!(error.class(), Class::Denied, "{error}");
    let nothing = LEAST.replace(
        &format!("by dn.exact=\"{ADMIN}\" write"),
        &format!("by dn.exact=\"{ADMIN}\" none"),
    );
    let (_slapd, blind) = with_access(&nothing).await;
    let error = blind
        .holds(&wish("a"))
        .await
        .expect_err("unknown, never absent");
    assert!(
        matches!(error.class(), Class::Denied | Class::Gone),
        "{error}"
    );

    let frozen = server(LdapOptions {
        access: LEAST.to_owned(),
        read_only: true,
        ..LdapOptions::default()
    })
    .await;
    let frozen_ours = Ours::on(settings(frozen.port(), json!({})));
    assert_eq!(frozen_ours.holds(&wish("a")).await, Ok(Answer::absent()));
    let error = frozen_ours
        .create(&wish("a"))
        .await
        .expect_err("takes no writes");
    assert_eq!(error.class(), Class::ReadOnly, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_a_list_that_is_cut_short_is_an_error() {
    let limited = LEAST.replace("size=unlimited", "size.soft=5 size.hard=5");
    let (_slapd, ours) = with_access(&limited).await;
    let wishes: Vec<_> = (0..8).map(|n| wish(&format!("app-{n}"))).collect();
    for wish in &wishes {
        ours.create(wish).await.expect("create");
    }
    let error = ours
        .adapter
        .list(&ours.cx, &ours.marker)
        .await
        .expect_err("not whole");
    assert_eq!(error.class(), Class::Denied, "{error}");
    assert!(ours.holds_all(&wishes).await.iter().all(Result::is_err));
}

#[tokio::test(flavor = "multi_thread")]
async fn h16_a_thousand_logins_cost_a_handful_of_calls() {
    let (slapd, ours) = plain().await;
    let wishes: Vec<_> = (0..1000)
        .map(|n| {
            wish_with(
                &format!("app-{n:04}"),
                json!({ "groups": ["readers"] }),
                |_| (),
            )
        })
        .collect();
    ours.made_all(&wishes).await;
    let searches = || slapd.log().matches(" SRCH base=").count();
    let before = searches();
    assert!(ours.all_held(&wishes).await);
    let calls = searches() - before;
    assert!(
        calls <= 6,
        "{calls} searches: the base, pages of 500, the groups"
    );
    let writes = slapd.log().matches(" MOD dn=").count();
    ours.made_all(&wishes).await;
    assert_eq!(
        slapd.log().matches(" MOD dn=").count(),
        writes,
        "again changes nothing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_what_cannot_be_ended_is_told() {
    let (_slapd, ours) = plain().await;
    let found = ours.adapter.doctor(&ours.cx).await.expect("findings");
    let told = found
        .iter()
        .find(|one| one.about == "sessions")
        .expect("a finding");
    assert_eq!(told.level, FindingLevel::Warning);
    assert!(
        found.iter().all(|one| one.level != FindingLevel::Error),
        "{found:?}"
    );
    // As it is: a connection that was bound before goes on after the login is gone.
    let bench = LdapBench::new(false, false).await;
    bench.make("gone", "their own").await.expect("an entry");
    let mut session = bench
        .open_session("gone", "their own")
        .await
        .expect("a session");
    bench.drop_login("gone").await.expect("dropped");
    assert!(
        session.is_alive().await,
        "slapd ended it: the page must say so"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn h20_the_identity_of_the_base_outlives_restarts() {
    let (mut slapd, ours) = plain().await;
    let before = ours.adapter.server(&ours.cx).await.expect("a server");
    assert!(before.identity.is_some(), "{before:?}");
    slapd.restart().await.expect("a restart");
    let after = ours.adapter.server(&ours.cx).await.expect("a server");
    assert_eq!(before.identity, after.identity);
    let (_other, elsewhere) = plain().await;
    let other = elsewhere
        .adapter
        .server(&elsewhere.cx)
        .await
        .expect("a server");
    assert_ne!(before.identity, other.identity);
}
