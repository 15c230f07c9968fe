//! What people's own clients can be taken over as.

use mesh_conformance::servers::{MqttClient, Proxy};
use mesh_sdk::{MarkSeen, Secret};
use serde_json::json;

use super::bench::settings;
use super::{Ours, usual, wish, wish_with};

#[tokio::test(flavor = "multi_thread")]
async fn h18_clients_of_people_are_found_with_what_values_cannot_say() {
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
    let all = ours.found_all().await;
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

#[tokio::test(flavor = "multi_thread")]
async fn o12_an_adopted_client_keeps_its_password_and_what_a_person_gave() {
    let broker = usual().await;
    let proxy = Proxy::before(broker.port()).await.expect("a proxy");
    let ours = Ours::on(settings(proxy.port()));
    let mut admin = MqttClient::admin(broker.port()).await.expect("an admin");
    admin
        .command(&[
            json!({ "command": "createGroup", "groupname": "staff" }),
            json!({
                "command": "createClient", "username": "app", "password": "password-of-app",
                "roles": [{ "rolename": "readers" }], "groups": [{ "groupname": "staff" }],
            }),
        ])
        .await
        .expect("made");
    let app = wish("app", json!({ "publish": ["app/#"] }));
    let taken = wish_with("app", json!({}), |parts| {
        parts.password = Some(Secret::from("another"));
    });
    let lost = ours.lost(&taken).await;
    assert!(
        lost.mark == MarkSeen::None && !lost.password_fits,
        "{lost:?}"
    );
    for _ in 0..2 {
        let held = ours.adopted(&app).await;
        assert!(held.warning.is_some_and(|told| told.contains("readers")));
    }
    let sent = String::from_utf8_lossy(&proxy.asked().concat()).into_owned();
    for command in [
        "modifyClient",
        "setClientPassword",
        "removeClientRole",
        "removeGroupClient",
    ] {
        assert!(!sent.contains(command), "{command}");
    }
    let found = ours.adapter.find(&ours.cx, &ours.marker).await;
    let found = found.expect("found").into_iter();
    let kept = found.filter(|one| one.login.as_str() == "app");
    let kept: Vec<_> = kept.map(|one| (one.values, one.beyond)).collect();
    let values = json!({ "publish": ["app/#"], "roles": ["readers"] });
    assert_eq!(kept, [(values, vec!["group staff".to_owned()])]);
}
