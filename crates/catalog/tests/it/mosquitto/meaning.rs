//! The values mean on the broker what they say, and what they do not say is not granted.

use mesh_conformance::servers::MqttClient;
use serde_json::json;

use super::{Ours, log_in, usual, wish};

#[tokio::test(flavor = "multi_thread")]
async fn a7_values_mean_what_they_say() {
    let broker = usual().await;
    let ours = Ours::of(&broker);
    // Even where the broker's defaults hand on nothing.
    let mut admin = MqttClient::admin(broker.port()).await.expect("an admin");
    let closed = json!({
        "command": "setDefaultACLAccess",
        "acls": [
            { "acltype": "publishClientReceive", "allow": false },
            { "acltype": "unsubscribe", "allow": false },
        ],
    });
    admin.command(&[closed]).await.expect("closed");
    let role = json!({
        "command": "modifyRole", "rolename": "readers",
        "acls": [
            { "acltype": "subscribePattern", "topic": "extra/#", "allow": true },
            { "acltype": "publishClientReceive", "topic": "extra/#", "allow": true },
        ],
    });
    admin.command(&[role]).await.expect("a role");

    let values =
        json!({ "publish": ["web/+", "extra/#"], "subscribe": ["web/#"], "roles": ["readers"] });
    ours.create(&wish("web", values)).await.expect("created");
    ours.create(&wish("none", json!({})))
        .await
        .expect("created");
    ours.create(&wish(
        "all",
        json!({ "publish": ["#"], "subscribe": ["#"] }),
    ))
    .await
    .expect("created");
    let mut web = log_in(&broker, "web", "password-of-web")
        .await
        .expect("let in");
    let mut none = log_in(&broker, "none", "password-of-none")
        .await
        .expect("let in");
    let mut all = log_in(&broker, "all", "password-of-all")
        .await
        .expect("let in");
    for (topic, allowed) in [
        ("web/a", true),
        ("web/#", true),
        ("extra/x", true),
        ("other", false),
        ("#", false),
    ] {
        assert_eq!(web.subscribe(topic).await, Ok(allowed), "web: {topic}");
        assert_eq!(none.subscribe(topic).await, Ok(false), "none: {topic}");
    }
    assert_eq!(all.subscribe("#").await, Ok(true));

    for topic in ["web/a", "web/a/b", "extra/x", "other"] {
        web.publish(topic, "hello").await.expect("sent");
        none.publish(topic, "hello").await.expect("sent");
    }
    // What was sent before an answer to a ping has been handed on.
    web.ping().await.expect("alive");
    none.ping().await.expect("alive");
    let heard = all.ping().await.expect("alive");
    assert_eq!(
        heard,
        ["web/a", "extra/x"],
        "one of each, and nothing from the other"
    );
    for topic in ["web/b", "web/b/c", "other", "extra/y"] {
        all.publish(topic, "hello").await.expect("sent");
    }
    all.ping().await.expect("alive");
    let mut heard = web.ping().await.expect("alive");
    // It subscribed to some of them twice.
    heard.dedup();
    assert!(
        heard.contains(&"web/b/c".to_owned()) && !heard.contains(&"other".to_owned()),
        "{heard:?}"
    );
}
