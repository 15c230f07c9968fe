//! No command of ours blocks the server for long (H-16).

use std::time::Duration;

use mesh_conformance::servers::{Flavor, Options};

use super::bench::{ADMIN, settings};
use super::{Ours, dear, server};

/// Four times the budget: a test machine that is busy makes every command look slower than it is. The
/// list that is not to be sent takes twice that.
const FAR_BEYOND: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread")]
async fn h16_dear_rules_never_block_redis_7() {
    let options = Options {
        requirepass: Some(ADMIN.to_owned()),
        config: vec![("slowlog-log-slower-than".to_owned(), "10000".to_owned())],
        ..Options::default()
    };
    let mut server = server(Flavor::Redis7, options).await;
    let ours = Ours::on(settings(server.port()));
    let wishes = dear(600);
    ours.made_all(&wishes).await;
    for _ in 0..4 {
        assert!(ours.all_held(&wishes).await);
    }
    let slow = server.slow(FAR_BEYOND).await.expect("the slow log");
    assert!(slow.is_empty(), "{slow:?}");
    assert_eq!(
        server.calls("acl|list").await,
        Ok(0),
        "it would have blocked for half a second"
    );

    // A person's `ACL LIST` works every text out; from then on it is cheap, and the adapter sees that.
    let mut client = server.client().await.expect("a client");
    client.must(&["ACL", "LIST"]).await.expect("a list");
    for _ in 0..2 {
        assert!(ours.all_held(&wishes).await);
    }
    let lists = server.calls("acl|list").await.expect("a count");
    assert!(lists > 1, "it still does not use the list");

    // A restart forgets the texts too; the adapter does not trust what it saw before.
    server.restart().await.expect("a restart");
    ours.made_all(&wishes).await;
    assert!(ours.all_held(&wishes).await);
    assert_eq!(server.calls("acl|list").await, Ok(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_looking_at_many_leaves_no_failed_login_behind() {
    let options = Options {
        requirepass: Some(ADMIN.to_owned()),
        ..Options::default()
    };
    let server = server(Flavor::Redis7, options).await;
    let ours = Ours::on(settings(server.port()));
    let wishes = dear(600);
    ours.made_all(&wishes).await;
    let mut client = server.client().await.expect("a client");
    for gone in ["app-0003", "app-0400"] {
        client.must(&["ACL", "DELUSER", gone]).await.expect("gone");
    }
    for _ in 0..3 {
        assert!(!ours.all_held(&wishes).await);
    }
    let log = client.must(&["ACL", "LOG"]).await.expect("the log");
    assert_eq!(log.list().len(), 0, "who is not there is not tried");
}
