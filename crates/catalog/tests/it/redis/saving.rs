//! Whether a restart keeps logins: the ACL file (O-18).

use mesh_conformance::servers::{Flavor, Options};
use mesh_sdk::Answer;
use serde_json::json;

use super::bench::{ADMIN, settings};
use super::{Ours, dear, server, wish};

fn with_file() -> Options {
    Options {
        aclfile: true,
        requirepass: Some(ADMIN.to_owned()),
        ..Options::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o18_with_a_file_each_change_is_saved_and_a_healthy_look_saves_nothing() {
    for flavor in Flavor::ALL {
        let mut redis = server(flavor, with_file()).await;
        let ours = Ours::on(settings(redis.port()));
        let web = wish("web", json!({ "keys": ["web:*"], "commands": ["+get"] }));
        ours.create(&web).await.expect("created");
        let many = dear(40);
        ours.made_all(&many).await;
        let file = redis.acl_folder().join("users.acl");
        let saved = std::fs::read_to_string(&file).expect("a file");
        assert_eq!(saved.lines().count(), 42, "{flavor:?}");
        let before = std::fs::metadata(&file)
            .and_then(|m| m.modified())
            .expect("a time");
        for _ in 0..3 {
            ours.create(&web).await.expect("again");
            assert!(ours.all_held(&many).await, "{flavor:?}");
        }
        let after = std::fs::metadata(&file)
            .and_then(|m| m.modified())
            .expect("a time");
        assert_eq!(before, after, "{flavor:?}: a healthy look saved");
        let told = ours.adapter.server(&ours.cx).await.expect("told");
        assert_eq!(told.forgets, None, "{flavor:?}");
        redis.kill9().await.expect("killed");
        redis.start_again().await.expect("back");
        assert!(
            matches!(ours.holds(&web).await, Ok(Answer::Held(_))),
            "{flavor:?}"
        );
        assert!(ours.all_held(&many).await, "{flavor:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o18_a_file_that_cannot_be_written_is_told_and_fails_no_create() {
    for flavor in Flavor::ALL {
        let redis = server(flavor, with_file()).await;
        let ours = Ours::on(settings(redis.port()));
        std::fs::remove_dir_all(redis.acl_folder()).expect("gone");
        let web = wish("web", json!({ "keys": ["web:*"], "commands": ["+get"] }));
        ours.create(&web).await.expect("created all the same");
        assert!(
            matches!(ours.holds(&web).await, Ok(Answer::Held(_))),
            "{flavor:?}"
        );
        let told = ours.adapter.server(&ours.cx).await.expect("told");
        let forgets = told.forgets.expect("not durable");
        assert!(forgets.contains("save"), "{forgets}");
        // Once it can be written, the next change saves all.
        std::fs::create_dir_all(redis.acl_folder()).expect("back");
        let api = wish("api", json!({ "keys": ["api:*"] }));
        ours.create(&api).await.expect("created");
        let told = ours.adapter.server(&ours.cx).await.expect("told");
        assert_eq!(told.forgets, None, "{flavor:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o18_where_saving_would_block_it_is_told_and_a_persons_save_is_seen() {
    let mut redis = server(Flavor::Redis7, with_file()).await;
    let ours = Ours::on(settings(redis.port()));
    // So many that their texts take several times the budget on a fast machine too.
    let many = dear(1600);
    // Made in parts that are saved one by one, each within the budget.
    ours.made_all(&many).await;
    let saved = std::fs::read_to_string(redis.acl_folder().join("users.acl")).expect("a file");
    assert_eq!(saved.lines().count(), 1601);
    assert!(redis.calls("acl|save").await.expect("a count") > 4);
    // A restart forgets the texts, so one change makes the server work all of them out.
    redis.restart().await.expect("a restart");
    let web = wish("web", json!({ "keys": ["web:*"], "commands": ["+get"] }));
    ours.create(&web).await.expect("created");
    let told = ours.adapter.server(&ours.cx).await.expect("told");
    let forgets = told.forgets.expect("behind");
    assert!(forgets.contains("ACL SAVE"), "{forgets}");
    redis
        .client()
        .await
        .expect("a client")
        .must(&["ACL", "SAVE"])
        .await
        .expect("saved");
    assert!(ours.all_held(&many).await);
    let told = ours.adapter.server(&ours.cx).await.expect("told");
    assert_eq!(told.forgets, None);
}
