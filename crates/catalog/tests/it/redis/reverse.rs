//! The other way round: who is in use, what is found of logins that others made, and what may be purged.

use std::time::Duration;

use mesh_catalog::redis::RedisKind;
use mesh_conformance::servers::{Flavor, Options, RedisServer, RespClient};
use mesh_sdk::adapter::{Admin, Found};
use mesh_sdk::handle::AnyKind;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, Secret};
use serde_json::{Value, json};

use super::bench::{ADMIN, settings};
use super::{Ours, server, wish};
use crate::wishes::going;

/// The rights on the page, with those for `mesh purge` or without.
fn rules(purging: bool) -> Vec<String> {
    let rights = AnyKind::descriptor(&RedisKind).admin_rights;
    let of = |right: &&'static str| -> Option<&'static str> {
        let right: &'static str = right;
        right
            .strip_prefix("for `mesh purge` only: ")
            .filter(|_| purging)
    };
    let more = rights.iter().filter_map(of);
    let always = rights
        .iter()
        .copied()
        .filter(|right| right.starts_with('+'));
    let all = always.chain(more).flat_map(|rules| rules.split(' '));
    all.map(str::to_owned).collect()
}

/// A server, and the adapter with an admin of the least rights.
async fn least(flavor: Flavor, purging: bool) -> (RedisServer, RespClient, Ours) {
    let options = Options {
        requirepass: Some(ADMIN.to_owned()),
        ..Options::default()
    };
    let redis = server(flavor, options).await;
    let mut client = redis.client().await.expect("a client");
    let rights = rules(purging);
    let rights: Vec<&str> = rights.iter().map(String::as_str).collect();
    let args = [
        &["ACL", "SETUSER", "mesh", "on", ">secret", "-@all"],
        &rights[..],
    ]
    .concat();
    client.must(&args).await.expect("an admin");
    let mut at = settings(redis.port());
    at.admin = Some(Admin {
        user: "mesh".to_owned(),
        password: Some(Secret::from("secret")),
    });
    (redis, client, Ours::on(at))
}

fn of<'f>(found: &'f [Found<Value>], login: &str) -> Option<&'f Found<Value>> {
    found.iter().find(|one| one.login.as_str() == login)
}

#[tokio::test(flavor = "multi_thread")]
async fn h18_what_others_made_is_found_with_what_values_cannot_say() {
    for flavor in Flavor::ALL {
        let (_redis, mut client, ours) = least(flavor, false).await;
        // What values have no word for differs: Valkey 9 shows the one of Redis no more.
        let odd = match flavor {
            Flavor::Valkey9 => "db=0,2",
            _ => "skip-sanitize-payload",
        };
        let made: [&[&str]; 7] = [
            &[
                "web",
                "on",
                ">pw",
                "resetchannels",
                "~web:*",
                "&news:*",
                "+@read",
                "-hget",
            ],
            &["all", "on", ">pw", "allkeys", "allchannels", "+@all"],
            &["off", "off", ">pw", "resetchannels", "~x:*", "+get"],
            &["none", "on", "resetchannels", "~x:*", "+get"],
            &["open", "on", "nopass", "~*", "+@all"],
            &["two", "on", ">one", ">other", "~*", "+@all"],
            &["raw", "on", ">pw", "resetchannels", "~x:*", "+get", odd],
        ];
        for rules in made {
            let args = [&["ACL", "SETUSER"], rules].concat();
            client.must(&args).await.expect("a user");
        }
        let found = ours
            .adapter
            .find(&ours.cx, &ours.marker)
            .await
            .expect("found");
        let web = of(&found, "web").expect("web");
        assert_eq!(web.values["keys"], json!(["web:*"]), "{flavor:?} {web:?}");
        assert_eq!(web.values["channels"], json!(["news:*"]));
        assert!(web.enabled && web.beyond.is_empty(), "{web:?}");
        let all = of(&found, "all").expect("all");
        assert_eq!(
            all.values,
            json!({ "keys": ["*"], "channels": ["*"], "commands": ["+@all"] })
        );
        // Where there is no room for a mark, that is said before somebody tries.
        assert_eq!(all.beyond.is_empty(), flavor.has_selectors(), "{all:?}");
        assert_eq!(of(&found, "off").map(|one| one.enabled), Some(false));
        assert_eq!(of(&found, "none").map(|one| one.enabled), Some(false));
        let raw = of(&found, "raw").expect("raw");
        assert_eq!(raw.beyond, [odd], "{flavor:?}");
        for never in ["open", "two", "default", "mesh"] {
            assert_eq!(of(&found, never), None, "{flavor:?} {never}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r5_keys_that_nobody_may_use_are_purged_in_every_database() {
    for flavor in Flavor::ALL {
        let (_redis, mut client, ours) = least(flavor, true).await;
        let web = wish(
            "web",
            json!({ "keys": ["web:*"], "commands": ["+@all", "-@admin"] }),
        );
        ours.create(&web).await.expect("created");
        for database in ["0", "3"] {
            client
                .must(&["SELECT", database])
                .await
                .expect("a database");
            for n in 0..1_200 {
                client
                    .must(&["SET", &format!("web:{n}"), "kept"])
                    .await
                    .expect("a key");
            }
            client
                .must(&["SET", "web2:x", "another's"])
                .await
                .expect("a key");
        }
        let stays = async |name: &str| {
            let looked = ours.adapter.data(&ours.cx, name).await.expect_err("data");
            let purged = ours.adapter.purge(&ours.cx, name).await.expect_err("purge");
            assert_eq!(
                (looked.class(), purged.class()),
                (Class::Exists, Class::Exists)
            );
            purged.message().to_owned()
        };
        assert!(stays("web:*").await.contains("`web`"));
        ours.adapter
            .disable(&ours.cx, &ours.marker, &going(&web))
            .await
            .expect("off");
        assert!(stays("web:*").await.contains("`web`"), "it may come back");
        ours.adapter
            .remove(&ours.cx, &ours.marker, &going(&web))
            .await
            .expect("removed");
        assert_eq!(
            client.must(&["GET", "web:7"]).await.expect("kept").text(),
            "kept"
        );
        for every in ["*", "?eb:*", "[w]eb:*"] {
            assert!(stays(every).await.contains("wildcard"), "{every}");
        }
        for pattern in ["~w*", "~web:7", "%R~*"] {
            if !flavor.has_selectors() && pattern.starts_with('%') {
                continue;
            }
            client
                .must(&[
                    "ACL", "SETUSER", "reader", "reset", "on", ">pw", pattern, "+get",
                ])
                .await
                .expect("a user");
            assert!(stays("web:*").await.contains("`reader`"), "{pattern}");
        }
        // One that may do nothing, one that is an admin, and one of other keys do not count.
        client
            .must(&["ACL", "SETUSER", "reader", "reset", "~*"])
            .await
            .expect("nothing");
        client
            .must(&["ACL", "SETUSER", "ops", "on", ">pw", "~*", "+@all"])
            .await
            .expect("an admin");
        client
            .must(&["ACL", "SETUSER", "two", "on", ">pw", "~web2:*", "+get"])
            .await
            .expect("another");
        let told = ours.adapter.data(&ours.cx, "web:*").await.expect("data");
        assert_eq!(told.as_deref(), Some("2400 keys that match `web:*`"));
        ours.adapter.purge(&ours.cx, "web:*").await.expect("purged");
        ours.adapter.purge(&ours.cx, "web:*").await.expect("again");
        assert_eq!(ours.adapter.data(&ours.cx, "web:*").await, Ok(None));
        for database in ["0", "3"] {
            client
                .must(&["SELECT", database])
                .await
                .expect("a database");
            let left = client.must(&["KEYS", "*"]).await.expect("keys");
            let left: Vec<String> = left.list().iter().map(|key| key.text()).collect();
            assert_eq!(left, ["web2:x"], "{flavor:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r6_sessions_and_refusals_are_told_for_each() {
    for flavor in Flavor::ALL {
        let (redis, _client, ours) = least(flavor, false).await;
        let all = ["used", "knocks", "idle", "reaches"].map(|name| {
            wish(
                name,
                json!({ "keys": [format!("{name}:*")], "commands": ["+get"] }),
            )
        });
        for one in &all {
            ours.create(one).await.expect("created");
        }
        let connect = async || {
            RespClient::connect(redis.port())
                .await
                .expect("a connection")
        };
        let mut open = connect().await;
        open.must(&["AUTH", "used", "password-of-used"])
            .await
            .expect("in");
        let mut wrong = connect().await;
        assert!(
            wrong
                .call(&["AUTH", "knocks", "another"])
                .await
                .expect("an answer")
                .is_error()
        );
        let mut reaches = connect().await;
        reaches
            .must(&["AUTH", "reaches", "password-of-reaches"])
            .await
            .expect("in");
        assert!(
            reaches
                .call(&["GET", "used:1"])
                .await
                .expect("an answer")
                .is_error()
        );
        drop(reaches);
        let those: Vec<Departing> = all.iter().map(going).collect();
        let told = ours.adapter.uses(&ours.cx, &those).await.expect("told");
        let [used, knocks, idle, reaches] = &told[..] else {
            panic!("{told:?}")
        };
        let ago = |one: &Option<mesh_sdk::adapter::Use>| one.as_ref().map(|one| one.ago);
        assert_eq!(ago(used), Some(Duration::ZERO), "{flavor:?}");
        assert!(
            ago(knocks).is_some_and(|ago| ago < Duration::from_secs(60)),
            "{told:?}"
        );
        assert!(
            ago(reaches).is_some_and(|ago| ago < Duration::from_secs(60)),
            "{told:?}"
        );
        assert_eq!(idle, &None);
    }
}
