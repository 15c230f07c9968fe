//! The other way round: what is found of users that others made, what is kept, and what may be purged. One
//! server for all of them.

use mesh_catalog::rabbitmq::RabbitKind;
use mesh_conformance::servers::RabbitServer;
use mesh_sdk::adapter::Found;
use mesh_sdk::handle::AnyKind;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, ConsumerName, Login, Wish};
use serde_json::{Value, json};

use super::bench::{has_message, settings, user};
use super::{Ours, server, wish, wish_with};

#[tokio::test(flavor = "multi_thread")]
async fn the_other_way_round_on_rabbitmq() {
    let rabbit = server(None).await;
    let ours = Ours::on(settings(rabbit.port()));
    h18_what_others_made_is_found_with_what_values_cannot_say(&rabbit, &ours).await;
    r5_queues_are_kept_and_purged_only_where_nobody_may_use_them(&rabbit, &ours).await;
    r6_connections_are_told_at_once(&rabbit, &ours).await;
    r14_the_canary_may_do_nothing_and_is_found_by_nobody(&rabbit, &ours).await;
}

async fn put(rabbit: &RabbitServer, path: &str, body: Value) {
    rabbit.must("PUT", path, body).await.expect(path);
}

async fn found(ours: &Ours) -> Vec<Found<Value>> {
    let found = ours.adapter.find(&ours.cx, &ours.marker).await;
    found.expect("logins")
}

fn of<'f>(found: &'f [Found<Value>], login: &str) -> Option<&'f Found<Value>> {
    found.iter().find(|one| one.login.as_str() == login)
}

fn going(wish: &Wish) -> Departing {
    Departing::new(wish.consumer().clone(), wish.login().clone())
}

async fn h18_what_others_made_is_found_with_what_values_cannot_say(
    rabbit: &RabbitServer,
    ours: &Ours,
) {
    put(rabbit, "vhosts/shop", json!({})).await;
    let clerk = json!({ "password": "clerk", "tags": "monitoring,team a" });
    put(rabbit, &user("clerk"), clerk).await;
    let rights = json!({ "configure": "", "write": "^a", "read": ".*" });
    put(rabbit, "permissions/shop/clerk", rights.clone()).await;
    put(rabbit, "permissions/%2F/clerk", rights).await;
    let topic = json!({ "exchange": "amq.topic", "write": "^k", "read": "" });
    put(rabbit, "topic-permissions/shop/clerk", topic).await;
    put(
        rabbit,
        "user-limits/clerk/max-channels",
        json!({ "value": 7 }),
    )
    .await;
    put(
        rabbit,
        &user("certified"),
        json!({ "password_hash": "", "tags": "" }),
    )
    .await;
    let all = found(ours).await;
    let clerk = of(&all, "clerk").expect("the clerk");
    let values = json!({ "vhost": "/", "write": "^a", "read": ".*",
        "also": [{ "vhost": "shop", "write": "^a", "read": ".*" }],
        "topics": [{ "exchange": "amq.topic", "vhost": "shop", "write": "^k" }],
        "tags": ["monitoring", "team a"] });
    assert_eq!(clerk.values, values);
    assert!(
        clerk.enabled && clerk.beyond == ["limit max-channels 7"],
        "{clerk:?}"
    );
    let certified = of(&all, "certified").expect("one without a password");
    assert!(
        !certified.enabled && certified.beyond.len() == 1,
        "{certified:?}"
    );
    for never in ["guest", "mesh"] {
        assert_eq!(of(&all, never), None);
    }
}

async fn r5_queues_are_kept_and_purged_only_where_nobody_may_use_them(
    rabbit: &RabbitServer,
    ours: &Ours,
) {
    let stays = async |name: &str| {
        let looked = ours.adapter.data(&ours.cx, name).await.expect_err("data");
        let purged = ours.adapter.purge(&ours.cx, name).await.expect_err("purge");
        assert_eq!(
            (looked.class(), looked.message()),
            (purged.class(), purged.message())
        );
        (purged.class(), purged.message().to_owned())
    };
    assert_eq!(stays("/").await.0, Class::RefusedValue);
    assert_eq!(ours.adapter.data(&ours.cx, "nowhere else").await, Ok(None));
    ours.adapter
        .purge(&ours.cx, "nowhere else")
        .await
        .expect("nothing");
    let (class, why) = stays("shop").await;
    assert!(
        class == Class::Exists && why.contains("did not make it"),
        "{why}"
    );

    let values = json!({ "vhost": "tea", "configure": ".*", "write": ".*", "read": ".*", "create_vhost": true });
    let web = wish("web", values);
    assert!(ours.create(&web).await.is_ok() && ours.is_held(&web).await);
    assert_eq!(AnyKind::data_of(&RabbitKind, &web), ["tea"]);
    assert!(AnyKind::data_of(&RabbitKind, &wish("web", json!({ "vhost": "/" }))).is_empty());
    let client = rabbit
        .log_in("web", "password-of-web", "tea")
        .await
        .expect("an answer");
    client
        .expect("in")
        .leave("kept", b"tea")
        .await
        .expect("a message");
    assert!(stays("tea").await.1.contains("`web`"));
    ours.adapter
        .disable(&ours.cx, &ours.marker, &going(&web))
        .await
        .expect("off");
    assert!(stays("tea").await.1.contains("`web`"), "it may come back");
    ours.adapter
        .remove(&ours.cx, &ours.marker, &going(&web))
        .await
        .expect("removed");
    ours.adapter
        .remove(&ours.cx, &ours.marker, &going(&web))
        .await
        .expect("again");
    assert!(
        has_message(rabbit, "tea").await.expect("an answer"),
        "its queue went"
    );
    // The one that comes back finds it again.
    assert!(ours.create(&web).await.is_ok());
    assert!(has_message(rabbit, "tea").await.expect("an answer"));
    ours.adapter
        .remove(&ours.cx, &ours.marker, &going(&web))
        .await
        .expect("removed");
    // A stranger that may do nothing there may still connect.
    put(
        rabbit,
        "permissions/tea/clerk",
        json!({ "configure": "", "write": "", "read": "" }),
    )
    .await;
    assert!(stays("tea").await.1.contains("`clerk`"));
    let gone = rabbit
        .must("DELETE", "permissions/tea/clerk", Value::Null)
        .await;
    gone.expect("taken");
    let told = ours
        .adapter
        .data(&ours.cx, "tea")
        .await
        .expect("data")
        .expect("there");
    assert!(told.starts_with("virtual host `tea`"), "{told}");
    ours.adapter.purge(&ours.cx, "tea").await.expect("purged");
    ours.adapter.purge(&ours.cx, "tea").await.expect("again");
    assert_eq!(ours.adapter.data(&ours.cx, "tea").await, Ok(None));
    let left = rabbit.must("GET", "vhosts/shop", Value::Null).await;
    left.expect("another's is still there");
}

async fn r6_connections_are_told_at_once(rabbit: &RabbitServer, ours: &Ours) {
    let all = ["r6a", "r6b"].map(|name| wish(name, json!({ "vhost": "/" })));
    for one in &all {
        ours.create(one).await.expect("created");
    }
    let those = all.each_ref().map(going);
    assert_eq!(
        ours.adapter.uses(&ours.cx, &those).await,
        Ok(vec![None, None])
    );
    let log_in = async || {
        rabbit
            .log_in("r6b", "password-of-r6b", "/")
            .await
            .expect("an answer")
            .expect("in")
    };
    let _open = (log_in().await, log_in().await);
    let told = ours.adapter.uses(&ours.cx, &those).await.expect("told");
    assert_eq!(told[0], None);
    let how = told[1]
        .as_ref()
        .map(|one| (one.ago.is_zero(), one.how.as_str()));
    assert_eq!(how, Some((true, "2 open connections")));
}

async fn r14_the_canary_may_do_nothing_and_is_found_by_nobody(rabbit: &RabbitServer, ours: &Ours) {
    let canary = AnyKind::canary(&RabbitKind, &settings(rabbit.port())).expect("values");
    let off = wish_with("canary", json!({}), |parts| {
        parts.consumer = ConsumerName::canary();
        parts.login = Login::new("mesh-canary").expect("a login");
        parts.values = canary.values;
        parts.canonical_values = canary.canonical;
        parts.enabled = false;
    });
    assert!(ours.create(&off).await.is_ok() && ours.is_held(&off).await);
    let path = format!("{}/permissions", user("mesh-canary"));
    let held = rabbit.must("GET", &path, Value::Null).await;
    assert_eq!(held.expect("a list"), json!([]));
    assert_eq!(of(&found(ours).await, "mesh-canary"), None);
}
