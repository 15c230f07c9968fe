//! What people's own users can be taken over as, and who is in use.

use mesh_conformance::servers::{NatsClient, NatsOptions};
use mesh_sdk::adapter::FindingLevel;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, ConsumerName, MarkSeen, Marker, MeshId, ProviderName, Secret, Wish};
use serde_json::json;

use super::bench::least;
use super::{Ours, found, server, users, usual, wish, wish_with};

fn going(wish: &Wish) -> [Departing; 1] {
    [Departing::new(
        wish.consumer().clone(),
        wish.login().clone(),
    )]
}

#[tokio::test(flavor = "multi_thread")]
async fn h18_users_of_people_are_found_with_what_values_cannot_say() {
    let nats = usual().await;
    let ours = Ours::of(&nats);
    let web = ConsumerName::new("web").expect("a name");
    let mesh = MeshId::new("other").expect("a name");
    let provider = ProviderName::new("events").expect("a name");
    let foreign = Marker::new(mesh, "i9", provider, Secret::from("other key"));
    let hash = "$2a$04$abcdefghijklmnopqrstuuF5g7wvqYQ0y2eGXnGqkqk3nOZvXgk7S";
    let theirs = format!(
        "users: [\n  {{user: plain, password: secret}}\n  \
         {{user: some, password: \"{hash}\", permissions: {{publish: [a.>, b], subscribe: \
         {{allow: \"c.> q\", deny: c.x}}, allow_responses: {{max: 5}}}}, allowed_connection_types: [MQTT]}}\n  \
         {{user: more, password: \"{hash}\", permissions: {{publish: {{deny: \">\"}}, subscribe: {{deny: \">\"}}}}, \
         proxy_required: true}}\n  \
         {{user: nobody}}\n  \
         {{user: away, password: \"{hash}\"}} # {}\n  \
         {{user: mesh-canary, password: \"{hash}\"}} # {}\n]\n",
        foreign.mark(&web),
        ours.marker.mark(&ConsumerName::canary()),
    );
    std::fs::write(nats.users_file(), &theirs).expect("written");
    let all = ours.found_all().await;
    let told: Vec<_> = all
        .iter()
        .map(|one| (one.login.as_str(), one.values.clone(), one.beyond.len()))
        .collect();
    let everything = json!({ "publish": [">"], "subscribe": [">"] });
    let some = json!({
        "publish": ["a.>", "b"], "subscribe": ["c.> q"], "subscribe_deny": ["c.x"],
        "allow_responses": true, "connection_types": ["MQTT"],
    });
    let wanted = [
        ("more", json!({}), 1),
        ("plain", everything, 1),
        ("some", some, 1),
    ];
    assert_eq!(told, wanted);
    assert!(all[0].beyond[0].contains("proxy_required"), "{all:?}");
    assert!(all[1].beyond[0].contains("plain text"), "{all:?}");
    assert!(all[2].beyond[0].contains("allow_responses"), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r6_uses_are_told_until_the_server_forgets_and_our_own_proofs_are_none() {
    let mut nats = usual().await;
    let ours = Ours::of(&nats);
    let web = wish("web", json!({}));
    ours.create(&web).await.expect("created");
    // Proven by logging in as it.
    assert!(ours.is_held(&web).await);
    let uses = async |ours: &Ours| {
        let told = ours.adapter.uses(&ours.cx, &going(&web)).await;
        told.expect("told").pop().flatten()
    };
    assert_eq!(uses(&ours).await, None);
    let mut client = NatsClient::connect(nats.port()).await.expect("a client");
    assert!(client.log_in("web", "password-of-web").await.expect("in"));
    let open = uses(&ours).await.expect("in use");
    assert!(
        open.ago.is_zero() && open.how.contains("1 open"),
        "{open:?}"
    );
    // Switching off cuts it off, which is told as the use that it was.
    let [leaving] = going(&web);
    ours.adapter
        .disable(&ours.cx, &ours.marker, &leaving)
        .await
        .expect("off");
    let over = uses(&ours).await.expect("it was in use");
    assert!(!over.ago.is_zero() && over.how.contains("over"), "{over:?}");
    let mut client = NatsClient::connect(nats.port()).await.expect("a client");
    assert!(
        !client
            .log_in("web", "password-of-web")
            .await
            .expect("an answer")
    );
    let tried = uses(&ours).await.expect("it was tried");
    assert!(tried.how.contains("refused"), "{tried:?}");
    nats.restart().await.expect("started");
    assert_eq!(uses(&Ours::of(&nats)).await, None, "nothing is made up");
}

#[tokio::test(flavor = "multi_thread")]
async fn r6_an_admin_that_may_not_ask_who_is_connected_is_told() {
    let system_users = least().replace("\"$SYS.REQ.SERVER.*.CONNZ\", ", "");
    let nats = server(NatsOptions {
        system_users,
        ..NatsOptions::default()
    })
    .await;
    let ours = Ours::of(&nats);
    let web = wish("web", json!({}));
    ours.create(&web).await.expect("that needs no such right");
    let error = ours.adapter.uses(&ours.cx, &going(&web)).await;
    assert_eq!(error.expect_err("denied").class(), Class::Denied);
    let findings = ours.doctor().await;
    assert!(found(&findings, "admin rights", FindingLevel::Warning));
    assert!(
        findings.iter().any(|one| one
            .action
            .as_deref()
            .is_some_and(|action| action.contains("CONNZ"))),
        "{findings:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn o12_an_adopted_user_keeps_its_hash_and_what_a_person_gave() {
    let nats = usual().await;
    let ours = Ours::of(&nats);
    let hash = bcrypt::hash("password-of-app", 4).expect("a hash");
    let theirs = format!(
        "users: [\n  {{user: app, password: \"{hash}\", permissions: {{publish: a.>, subscribe: b}}}}\n]\n"
    );
    std::fs::write(nats.users_file(), &theirs).expect("written");
    nats.reload().await.expect("loaded");
    let app = wish("app", json!({ "subscribe": ["b"] }));
    // With another password it is told as somebody else's, and its file is not touched.
    let taken = wish_with("app", json!({}), |parts| {
        parts.password = Some(Secret::from("another"));
    });
    let lost = ours.lost(&taken).await;
    assert!(
        lost.mark == MarkSeen::None && !lost.password_fits,
        "{lost:?}"
    );
    assert_eq!(users(&nats), theirs);
    for _ in 0..2 {
        let held = ours.adopted(&app).await;
        let now = users(&nats);
        assert!(now.contains(&hash) && now.contains("a.>"), "{now}");
        assert!(held.warning.is_some_and(|told| told.contains("a.>")));
    }
}
