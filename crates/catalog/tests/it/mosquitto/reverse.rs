//! What people's own clients can be taken over as.

use mesh_conformance::servers::MqttClient;
use serde_json::json;

use super::{Ours, usual, wish};

#[tokio::test(flavor = "multi_thread")]
async fn h18_people_s_clients_are_found_with_what_values_cannot_say() {
    let broker = usual().await;
    let ours = Ours::of(&broker);
    let values = json!({ "publish": ["web/#"], "subscribe": ["web/+"], "roles": ["readers"] });
    ours.create(&wish("web", values.clone()))
        .await
        .expect("made");
    let mut admin = MqttClient::admin(broker.port()).await.expect("an admin");
    let acl = |kind: &str, topic: &str, allow: bool| json!({ "acltype": kind, "topic": topic, "allow": allow });
    admin
        .command(&[
            json!({ "command": "createGroup", "groupname": "staff" }),
            json!({
                "command": "createClient", "username": "hand", "password": "p", "clientid": "one",
                "roles": [{ "rolename": "readers" }], "groups": [{ "groupname": "staff" }],
            }),
            json!({ "command": "createClient", "username": "off", "password": "p" }),
            json!({ "command": "disableClient", "username": "off" }),
            json!({ "command": "createRole", "rolename": "meshkeeper/odd", "acls": [
                acl("subscribePattern", "half", true), acl("publishClientSend", "no", false),
            ] }),
            json!({
                "command": "createClient", "username": "odd", "password": "p",
                "roles": [{ "rolename": "meshkeeper/odd" }, { "rolename": "meshkeeper/web" }],
            }),
        ])
        .await
        .expect("made");
    let mut all = ours
        .adapter
        .find(&ours.cx, &ours.marker)
        .await
        .expect("found");
    all.sort_by(|one, two| one.login.cmp(&two.login));
    let told: Vec<_> = all
        .iter()
        .map(|one| (one.login.as_str(), one.values.clone(), one.enabled))
        .collect();
    // The broker's first admin is a client like any other; ours is left out.
    let wanted = [
        ("admin", json!({ "roles": ["admin"] }), true),
        ("hand", json!({ "roles": ["readers"] }), true),
        ("odd", json!({}), true),
        ("off", json!({}), false),
        ("web", values, true),
    ];
    assert_eq!(told, wanted);
    let beyond = |at: usize| all[at].beyond.join("; ");
    assert_eq!(beyond(1), "group staff; may only use the session name one");
    assert_eq!(
        beyond(2),
        "role meshkeeper/web; subscribePattern half; publishClientSend no is denied, until it is adopted"
    );
    assert_eq!(beyond(4), "");
}
