//! What the admin login needs, what `doctor` says of it (S-8), and who the server is.

use mesh_sdk::Class;
use mesh_sdk::adapter::{Finding, FindingLevel};
use serde_json::{Value, json};

use super::bench::{ADMIN, settings, user};
use super::{Ours, server, wish};

fn of<'f>(findings: &'f [Finding], about: &str, level: FindingLevel) -> Vec<&'f Finding> {
    findings
        .iter()
        .filter(|f| f.about == about && f.level == level)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_the_doctor_tells_rights_that_are_missing_and_too_many() {
    let mut rabbit = server(None).await;
    let ours = Ours::on(settings(rabbit.port()));
    let findings = ours.adapter.doctor(&ours.cx).await.expect("findings");
    assert!(
        findings.iter().all(|f| f.level != FindingLevel::Error),
        "{findings:?}"
    );
    assert!(
        of(&findings, "rights", FindingLevel::Warning).is_empty(),
        "{findings:?}"
    );
    let guest = of(&findings, "default user", FindingLevel::Warning);
    assert_eq!(
        guest[0].action.as_deref(),
        Some("rabbitmqctl delete_user guest")
    );
    rabbit
        .must("DELETE", &user("guest"), Value::Null)
        .await
        .expect("gone");

    let all = json!({ "configure": ".*", "write": ".*", "read": ".*" });
    let path = format!("permissions/%2F/{}", ADMIN.0);
    rabbit.must("PUT", &path, all).await.expect("more");
    let findings = ours.adapter.doctor(&ours.cx).await.expect("findings");
    let more = of(&findings, "rights", FindingLevel::Warning);
    assert!(
        more[0]
            .action
            .as_deref()
            .is_some_and(|a| a.contains("clear_permissions"))
    );
    assert!(
        of(&findings, "default user", FindingLevel::Warning).is_empty(),
        "{findings:?}"
    );

    // Less than an administrator sees no users: nothing is lost, and it is said what is missing.
    let web = wish("web", json!({ "vhost": "/" }));
    ours.create(&web).await.expect("created");
    let less = json!({ "password": ADMIN.1, "tags": "monitoring" });
    rabbit
        .must("PUT", &user(ADMIN.0), less)
        .await
        .expect("less");
    let class = ours.holds(&web).await.map_err(|error| error.class());
    assert_eq!(class, Err(Class::Denied));
    let findings = ours.adapter.doctor(&ours.cx).await.expect("findings");
    let missing = of(&findings, "rights", FindingLevel::Error);
    assert!(
        missing[0]
            .action
            .as_deref()
            .is_some_and(|a| a.contains("set_user_tags mesh"))
    );
    let full = json!({ "password": ADMIN.1, "tags": "administrator" });
    rabbit
        .must("PUT", &user(ADMIN.0), full)
        .await
        .expect("as before");

    // A restart changes the run and not the identity (H-11, H-20), and forgets nobody.
    let before = ours.adapter.server(&ours.cx).await.expect("a server");
    assert!(before.version.starts_with("RabbitMQ 3.10"), "{before:?}");
    assert!(
        before
            .identity
            .as_ref()
            .is_some_and(|id| id.starts_with("rabbitmq-cluster-id-"))
    );
    assert_eq!(ours.adapter.server(&ours.cx).await.as_ref(), Ok(&before));
    rabbit.restart().await.expect("again");
    let after = ours.adapter.server(&ours.cx).await.expect("a server");
    assert_eq!(after.identity, before.identity);
    assert!(
        before.run.is_some() && after.run != before.run,
        "{before:?} {after:?}"
    );
    assert!(ours.is_held(&web).await);
}
