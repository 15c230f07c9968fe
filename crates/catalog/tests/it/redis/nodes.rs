//! Replicas, and a server that comes back.

use std::time::Duration;

use mesh_conformance::servers::{Flavor, Options, RespClient, until};
use mesh_sdk::{Answer, Class};
use serde_json::json;
use tokio::time::timeout;

use super::bench::{ADMIN, settings};
use super::{Ours, server, wish};

fn with_password() -> Options {
    Options {
        requirepass: Some(ADMIN.to_owned()),
        ..Options::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h21_a_replica_is_asked_and_written_for_itself() {
    for flavor in Flavor::ALL {
        let mut main = server(flavor, with_password()).await;
        let replica = server(
            flavor,
            Options {
                replica_of: Some(main.port()),
                config: vec![("masterauth".to_owned(), ADMIN.to_owned())],
                ..with_password()
            },
        )
        .await;
        until(
            "the link to the main server",
            Duration::from_secs(20),
            || async {
                let mut client = replica.client().await.map_err(|e| e.to_string())?;
                let info = client
                    .must(&["INFO", "replication"])
                    .await
                    .map_err(|e| e.to_string())?
                    .text();
                if info.contains("master_link_status:up") {
                    Ok(())
                } else {
                    Err(info)
                }
            },
        )
        .await
        .expect("a replica");
        let (on_main, on_replica) = (
            Ours::on(settings(main.port())),
            Ours::on(settings(replica.port())),
        );
        let web = wish("web", json!({ "keys": ["web:*"], "commands": ["+@read"] }));
        on_main.create(&web).await.expect("created");
        // Logins are not replicated: the replica has none, and says so.
        assert!(
            matches!(on_replica.holds(&web).await, Ok(Answer::Lost(_))),
            "{flavor:?}"
        );
        let told = on_replica
            .adapter
            .server(&on_replica.cx)
            .await
            .expect("told");
        assert_eq!(told.read_only, None, "it takes changes of logins");
        on_replica
            .create(&web)
            .await
            .expect("created on the replica");
        assert!(
            matches!(on_replica.holds(&web).await, Ok(Answer::Held(_))),
            "{flavor:?}"
        );
        // After a failover apps log in at once.
        main.kill9().await.expect("killed");
        replica
            .client()
            .await
            .expect("a client")
            .must(&["REPLICAOF", "NO", "ONE"])
            .await
            .expect("main now");
        let mut client = RespClient::connect(replica.port()).await.expect("a client");
        client
            .must(&["AUTH", "web", "password-of-web"])
            .await
            .expect("in");
        assert!(
            matches!(on_replica.holds(&web).await, Ok(Answer::Held(_))),
            "{flavor:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h14_a_kill_is_hinted_as_soon_as_the_server_is_back() {
    let mut redis = server(Flavor::Redis7, with_password()).await;
    let ours = Ours::on(settings(redis.port()));
    let mut hint = Box::pin(ours.adapter.hint(&ours.cx));
    assert!(
        timeout(Duration::from_millis(300), &mut hint)
            .await
            .is_err(),
        "too early"
    );
    redis.kill9().await.expect("killed");
    assert!(
        timeout(Duration::from_millis(300), &mut hint)
            .await
            .is_err(),
        "it is away"
    );
    redis.start_again().await.expect("back");
    let hinted = timeout(Duration::from_secs(2), hint).await;
    assert_eq!(hinted, Ok(Ok(())));
    // The next one knows the new run, and waits.
    let mut hint = Box::pin(ours.adapter.hint(&ours.cx));
    assert!(
        timeout(Duration::from_millis(300), &mut hint)
            .await
            .is_err(),
        "nothing happened since"
    );
    drop(hint);
    // A restart between two hints is not missed.
    redis.restart().await.expect("a restart");
    let hinted = timeout(Duration::from_secs(2), ours.adapter.hint(&ours.cx)).await;
    assert_eq!(hinted, Ok(Ok(())));
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_a_refused_admin_is_never_somebody_else() {
    // Whoever connects here is let in as the default user; an admin with a wrong password is not.
    let redis = server(Flavor::Redis7, Options::default()).await;
    let mut client = redis.client().await.expect("a client");
    client
        .must(&["ACL", "SETUSER", "boss", "on", ">right", "~*", "+@all"])
        .await
        .expect("a boss");
    let mut at = settings(redis.port());
    if let Some(admin) = &mut at.admin {
        admin.user = "boss".to_owned();
        admin.password = Some(mesh_sdk::Secret::from("planted-wrong"));
    }
    let ours = Ours::on(at);
    let web = wish("web", json!({}));
    let error = ours.create(&web).await.expect_err("refused");
    assert_eq!(error.class(), Class::Denied, "{error}");
    assert!(!format!("{error} {error:?}").contains("planted"));
    let users = client.must(&["ACL", "USERS"]).await.expect("names");
    assert_eq!(users.list().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a5_a_login_that_is_not_utf_8_is_listed_and_is_nobody_of_ours() {
    let redis = server(Flavor::Redis7, with_password()).await;
    let ours = Ours::on(settings(redis.port()));
    let mut client = redis.client().await.expect("a client");
    let mark = ours
        .marker
        .mark(&mesh_sdk::ConsumerName::new("web").expect("a name"));
    let rule = format!("(~{mark})");
    let args: [&[u8]; 5] = [b"ACL", b"SETUSER", b"w\xffeb", rule.as_bytes(), b"on"];
    client.call_bytes(&args).await.expect("made");
    let listed = ours
        .adapter
        .list(&ours.cx, &ours.marker)
        .await
        .expect("a list");
    let odd = listed
        .iter()
        .find(|one| one.login.as_str().contains('\u{FFFD}'))
        .expect("listed");
    assert_eq!(odd.mark, mesh_sdk::MarkSeen::None);
}
