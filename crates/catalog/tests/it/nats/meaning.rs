//! The values mean on the server what they say, and what they do not say is not granted.

use mesh_conformance::servers::NatsClient;
use serde_json::json;

use super::{Ours, usual, wish};

async fn may(client: &mut NatsClient, line: &str) -> bool {
    client.say(line).await.expect("said");
    client.ping().await.expect("an answer").is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_values_mean_what_they_say() {
    let nats = usual().await;
    let ours = Ours::of(&nats);
    let values = json!({
        "publish": ["orders.>"], "publish_deny": ["orders.secret"],
        "subscribe": ["orders.new workers", "_INBOX.>"], "subscribe_deny": ["_INBOX.other"],
    });
    ours.create(&wish("web", values)).await.expect("created");
    ours.create(&wish("none", json!({})))
        .await
        .expect("created");
    ours.create(&wish(
        "all",
        json!({ "publish": [">"], "subscribe": [">"] }),
    ))
    .await
    .expect("created");
    ours.create(&wish(
        "answers",
        json!({ "subscribe": ["ask"], "allow_responses": true }),
    ))
    .await
    .expect("created");
    let mut clients = Vec::new();
    for name in ["web", "none", "all"] {
        let mut client = NatsClient::connect(nats.port())
            .await
            .expect("a connection");
        assert!(
            client
                .log_in(name, &format!("password-of-{name}"))
                .await
                .expect("an answer")
        );
        clients.push(client);
    }
    for (line, web, all) in [
        ("PUB orders.a 0\r\n", true, true),
        ("PUB orders.secret 0\r\n", false, true),
        ("PUB other 0\r\n", false, true),
        ("SUB orders.new workers 1", true, true),
        ("SUB orders.new 2", false, true),
        ("SUB _INBOX.a 3", true, true),
        ("SUB _INBOX.other 4", false, true),
        ("SUB else 5", false, true),
    ] {
        assert_eq!(may(&mut clients[0], line).await, web, "web: {line}");
        assert!(!may(&mut clients[1], line).await, "none: {line}");
        assert_eq!(may(&mut clients[2], line).await, all, "all: {line}");
    }

    // One that may answer, and do nothing else.
    let mut answers = NatsClient::connect(nats.port())
        .await
        .expect("a connection");
    assert!(
        answers
            .log_in("answers", "password-of-answers")
            .await
            .expect("an answer")
    );
    assert!(!may(&mut answers, "PUB _INBOX.a 0\r\n").await);
    assert!(may(&mut answers, "SUB ask 1").await);
    assert!(may(&mut clients[0], "SUB _INBOX.reply 6").await);
    assert!(may(&mut clients[2], "PUB ask _INBOX.reply 0\r\n").await);
    // The server hands the question on before it answers a ping that comes later.
    assert!(answers.ping().await.expect("an answer").is_none());
    assert!(
        may(&mut answers, "PUB _INBOX.reply 0\r\n").await,
        "it may not answer"
    );
}
