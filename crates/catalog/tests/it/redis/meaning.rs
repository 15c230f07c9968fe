//! Rules compare by what they allow, whatever the server makes of their text.

use mesh_conformance::servers::{Flavor, Options, Reply, RespClient};
use mesh_sdk::Answer;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

use super::bench::{ADMIN, settings};
use super::{Ours, server, wish};

const LISTS: usize = 150;

async fn texts(client: &mut RespClient, args: &[&str]) -> Vec<String> {
    let reply = client.must(args).await.expect("a list");
    reply.list().iter().map(Reply::text).collect()
}

/// Whatever list of rules the server takes, it is held after it was created: what the server shows means
/// to us what was asked for.
async fn any_list_is_held(flavor: Flavor) {
    let options = Options {
        requirepass: Some(ADMIN.to_owned()),
        ..Options::default()
    };
    let server = server(flavor, options).await;
    let ours = Ours::on(settings(server.port()));
    let mut client = server.client().await.expect("a client");
    let categories = texts(&mut client, &["ACL", "CAT"]).await;
    let mut names = Vec::new();
    for category in &categories {
        names.extend(texts(&mut client, &["ACL", "CAT", category]).await);
    }
    names.extend(
        categories
            .iter()
            .flat_map(|category| vec![format!("@{category}"); 8]),
    );
    names.extend(["@all", "select|0", "select|1", "auth|x"].map(str::to_owned));
    names.sort();
    let rule = (any::<bool>(), proptest::sample::select(names)).prop_map(|(on, name)| {
        let first_argument = name.starts_with("select|") || name.starts_with("auth|");
        format!("{}{name}", if on || first_argument { '+' } else { '-' })
    });
    let lists = proptest::collection::vec(rule, 0..8);
    let mut runner = TestRunner::new(Config::default());
    for n in 0..LISTS {
        let rules = lists.new_tree(&mut runner).expect("a list").current();
        let wish = wish(
            &format!("any-{n}"),
            json!({ "keys": ["a:*"], "commands": rules }),
        );
        ours.create(&wish)
            .await
            .unwrap_or_else(|error| panic!("{rules:?}: {error}"));
        match ours.holds(&wish).await {
            Ok(Answer::Held(_)) => {}
            other => panic!("{rules:?}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_any_list_of_rules_is_held_on_redis_7() {
    any_list_is_held(Flavor::Redis7).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_any_list_of_rules_is_held_on_redis_62() {
    any_list_is_held(Flavor::Redis62).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_any_list_of_rules_is_held_on_valkey_9() {
    any_list_is_held(Flavor::Valkey9).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_channels_are_as_asked_where_the_server_would_give_all() {
    for flavor in Flavor::ALL {
        let options = Options {
            requirepass: Some(ADMIN.to_owned()),
            config: vec![("acl-pubsub-default".to_owned(), "allchannels".to_owned())],
            ..Options::default()
        };
        let server = server(flavor, options).await;
        let ours = Ours::on(settings(server.port()));
        let none = wish("none", json!({ "keys": ["a:*"], "commands": ["+@pubsub"] }));
        ours.create(&none).await.expect("created");
        assert!(
            matches!(ours.holds(&none).await, Ok(Answer::Held(_))),
            "{flavor:?}"
        );
        let mut client = RespClient::connect(server.port()).await.expect("a client");
        client
            .must(&["AUTH", "none", "password-of-none"])
            .await
            .expect("in");
        let reply = client
            .call(&["PUBLISH", "any", "thing"])
            .await
            .expect("a reply");
        assert!(reply.is_error(), "{flavor:?}: {reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r11_the_mark_grants_nothing() {
    for flavor in Flavor::ALL {
        let options = Options {
            requirepass: Some(ADMIN.to_owned()),
            ..Options::default()
        };
        let server = server(flavor, options).await;
        let ours = Ours::on(settings(server.port()));
        let all = wish("all", json!({ "keys": ["*"], "commands": ["+get"] }));
        let made = ours.create(&all).await;
        if !flavor.has_selectors() {
            // There is no room for a mark beside every key, and that is said before anything is written.
            let error = made.expect_err("refused");
            assert!(error.message().contains("keys"), "{error}");
            let client = server
                .client()
                .await
                .expect("a client")
                .must(&["ACL", "USERS"])
                .await;
            assert_eq!(client.expect("names").list().len(), 1);
            continue;
        }
        made.expect("created");
        let bare = wish("bare", json!({}));
        ours.create(&bare).await.expect("created");
        assert!(
            matches!(ours.holds(&bare).await, Ok(Answer::Held(_))),
            "{flavor:?}"
        );
        let mut client = RespClient::connect(server.port()).await.expect("a client");
        client
            .must(&["AUTH", "bare", "password-of-bare"])
            .await
            .expect("in");
        let key = ours.marker.mark(bare.consumer());
        let reply = client.call(&["GET", key.as_str()]).await.expect("a reply");
        assert!(reply.is_error(), "{flavor:?}: {reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a5_the_longest_password_that_passes_the_check_lets_in() {
    use mesh_catalog::redis::RedisKind;
    use mesh_sdk::handle::AnyKind;
    use mesh_sdk::provision::WishParts;
    use mesh_sdk::{ConsumerName, Login, Secret, Wish};
    for flavor in Flavor::ALL {
        let options = Options {
            requirepass: Some(ADMIN.to_owned()),
            ..Options::default()
        };
        let server = server(flavor, options).await;
        let ours = Ours::on(settings(server.port()));
        let of = |length: usize| {
            let consumer = ConsumerName::new("long").expect("a name");
            let parsed = RedisKind.parse_values(json!({})).expect("values");
            let parts = WishParts {
                login: Login::from(&consumer),
                consumer,
                password: Some(Secret::from("x".repeat(length))),
                values: parsed.values,
                canonical_values: parsed.canonical,
                enabled: true,
                adopt: false,
                exact: false,
                second: None,
                base: None,
                generated: false,
            };
            Wish::new(parts, &Secret::from("key"))
        };
        let longest = of(16 * 1024);
        let at = settings(server.port());
        assert!(AnyKind::check(&RedisKind, &at, &longest, &ours.marker).is_ok());
        assert!(AnyKind::check(&RedisKind, &at, &of(16 * 1024 + 1), &ours.marker).is_err());
        ours.create(&longest).await.expect("created");
        let mut client = RespClient::connect(server.port()).await.expect("a client");
        let password = "x".repeat(16 * 1024);
        client.must(&["AUTH", "long", &password]).await.expect("in");
    }
}
