//! What the admin login needs, and what `doctor` says of it (S-8).

use mesh_catalog::redis::RedisKind;
use mesh_conformance::servers::{Flavor, Options, RedisServer};
use mesh_sdk::adapter::{Admin, Finding, FindingLevel};
use mesh_sdk::handle::AnyKind;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Answer, Class, Secret};
use serde_json::json;

use super::bench::settings;
use super::{Ours, dear, server, wish};

/// An admin with these rights only.
async fn with_rights(flavor: Flavor, rights: &[String]) -> (RedisServer, Ours) {
    let redis = server(
        flavor,
        Options {
            aclfile: true,
            ..Options::default()
        },
    )
    .await;
    let mut client = redis.client().await.expect("a client");
    let rights: Vec<&str> = rights.iter().map(String::as_str).collect();
    let args = [
        &["ACL", "SETUSER", "mesh", "on", ">secret", "-@all"],
        &rights[..],
    ]
    .concat();
    client.must(&args).await.expect("an admin");
    let mut at = settings(redis.port());
    at.admin = Some(Admin {
        user: "mesh".to_owned(),
        password: Some(Secret::from("secret")),
    });
    (redis, Ours::on(at))
}

/// The rights on the adapter's own page.
fn on_the_page() -> Vec<String> {
    let rights = AnyKind::descriptor(&RedisKind).admin_rights;
    let always = rights.iter().filter(|right| right.starts_with('+'));
    always.map(|right| (*right).to_owned()).collect()
}

fn errors(findings: &[Finding]) -> Vec<&Finding> {
    findings
        .iter()
        .filter(|f| f.level == FindingLevel::Error)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_the_rights_on_the_page_are_enough() {
    for flavor in Flavor::ALL {
        let (_redis, ours) = with_rights(flavor, &on_the_page()).await;
        let web = wish("web", json!({ "keys": ["web:*"], "commands": ["+@read"] }));
        ours.create(&web).await.expect("create");
        assert!(
            matches!(ours.holds(&web).await, Ok(Answer::Held(_))),
            "{flavor:?}"
        );
        let many = dear(100);
        ours.made_all(&many).await;
        assert!(ours.all_held(&many).await, "{flavor:?}");
        assert_eq!(
            ours.adapter
                .list(&ours.cx, &ours.marker)
                .await
                .map(|l| l.len()),
            Ok(103)
        );
        let going = Departing::new(web.consumer().clone(), web.login().clone());
        ours.adapter
            .disable(&ours.cx, &ours.marker, &going)
            .await
            .expect("disable");
        ours.adapter
            .remove(&ours.cx, &ours.marker, &going)
            .await
            .expect("remove");
        ours.adapter.server(&ours.cx).await.expect("server");
        let findings = ours.adapter.doctor(&ours.cx).await.expect("doctor");
        assert!(errors(&findings).is_empty(), "{flavor:?}: {findings:?}");
        let told: Vec<&str> = findings.iter().map(|f| f.about.as_str()).collect();
        // The default user of this server lets everybody in.
        assert!(told.contains(&"default user"), "{findings:?}");
        let too_much = findings
            .iter()
            .any(|f| f.about == "acl rights" && f.level != FindingLevel::Ok);
        assert!(!too_much, "{flavor:?}: {findings:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_a_missing_right_is_named_with_the_command_that_gives_it() {
    for flavor in Flavor::ALL {
        let all = on_the_page();
        let fewer: Vec<String> = all
            .iter()
            .filter(|r| *r != "+acl|deluser")
            .cloned()
            .collect();
        let (_redis, ours) = with_rights(flavor, &fewer).await;
        let findings = ours.adapter.doctor(&ours.cx).await.expect("doctor");
        let errors = errors(&findings);
        assert_eq!(errors.len(), 1, "{flavor:?}: {findings:?}");
        assert!(
            errors[0].message.contains("+acl|deluser"),
            "{:?}",
            errors[0]
        );
        let action = errors[0].action.as_deref().unwrap_or_default();
        assert!(
            action.starts_with("ACL SETUSER mesh ") && action.contains("+acl|deluser"),
            "{action}"
        );
        // A right that is missing is no loss of anybody.
        let none: Vec<String> = vec!["+info".into(), "+ping".into()];
        let (_redis, ours) = with_rights(flavor, &none).await;
        let web = wish("web", json!({}));
        let class = ours.holds(&web).await.map_err(|error| error.class());
        assert_eq!(class, Err(Class::Denied), "{flavor:?}");
        assert!(
            !ours
                .adapter
                .doctor(&ours.cx)
                .await
                .expect("doctor")
                .is_empty()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_an_admin_that_may_everything_is_warned_of() {
    let (_redis, ours) = with_rights(Flavor::Redis7, &["+@all".into(), "~*".into()]).await;
    let findings = ours.adapter.doctor(&ours.cx).await.expect("doctor");
    assert!(errors(&findings).is_empty(), "{findings:?}");
    let warned = findings
        .iter()
        .any(|f| f.about == "acl rights" && f.level == FindingLevel::Warning);
    assert!(warned, "{findings:?}");
}
