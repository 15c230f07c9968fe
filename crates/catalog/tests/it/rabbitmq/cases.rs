//! What went wrong for people, and what this server does in its own way. One server for all of them.

use mesh_catalog::rabbitmq::RabbitKind;
use mesh_conformance::servers::RabbitServer;
use mesh_sdk::adapter::Kind;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Answer, Class, Difference, Lost, Provision, Wish};
use serde_json::{Value, json};

use super::bench::{settings, user};
use super::{Ours, server, wish, wish_with};

async fn lost(ours: &Ours, wish: &Wish) -> Lost {
    match ours.holds(wish).await {
        Ok(Answer::Lost(lost)) => *lost,
        other => panic!("{other:?}"),
    }
}

async fn shown(rabbit: &RabbitServer, login: &str) -> Value {
    rabbit
        .must("GET", &user(login), Value::Null)
        .await
        .expect("a user")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cases_of_rabbitmq() {
    let rabbit = server(None).await;
    let ours = Ours::on(settings(rabbit.port()));
    o15_a_vhost_that_was_made_anew_has_its_permissions_again(&rabbit, &ours).await;
    o28_a_login_without_a_hash_gets_its_own_back(&rabbit, &ours).await;
    o29_a_vhost_that_is_missing_stops_nobody_else(&rabbit, &ours).await;
    r5_a_vhost_is_made_where_that_is_asked_for_and_stays(&rabbit, &ours).await;
    r6_switched_off_keeps_hash_tags_and_permissions(&rabbit, &ours).await;
    r11_a_persons_own_tags_stay(&rabbit, &ours).await;
    a7_an_adopted_login_keeps_what_it_has(&rabbit, &ours).await;
    h17_a_hash_of_another_salt_or_algorithm_is_the_same_password(&rabbit, &ours).await;
    o24_a_refused_login_is_counted(&rabbit).await;
}

async fn o15_a_vhost_that_was_made_anew_has_its_permissions_again(
    rabbit: &RabbitServer,
    ours: &Ours,
) {
    rabbit
        .must("PUT", "vhosts/shop", json!({}))
        .await
        .expect("a virtual host");
    let web = wish("o15", json!({ "vhost": "shop", "write": "^o15" }));
    ours.create(&web).await.expect("created");
    rabbit
        .must("DELETE", "vhosts/shop", Value::Null)
        .await
        .expect("gone");
    rabbit
        .must("PUT", "vhosts/shop", json!({}))
        .await
        .expect("a virtual host");
    let hash = shown(rabbit, "o15").await["password_hash"].clone();
    let lost = lost(ours, &web).await;
    assert_eq!(lost.differences, Difference::GrantsMissing.into());
    assert!(
        lost.password_fits && lost.detail.contains("shop"),
        "{lost:?}"
    );
    ours.create(&web).await.expect("healed");
    assert!(ours.is_held(&web).await);
    assert_eq!(
        shown(rabbit, "o15").await["password_hash"],
        hash,
        "the password was not written"
    );
}

async fn o28_a_login_without_a_hash_gets_its_own_back(rabbit: &RabbitServer, ours: &Ours) {
    let web = wish("o28", json!({ "vhost": "/", "write": "^o28" }));
    ours.create(&web).await.expect("created");
    // As `rabbitmqctl clear_password`, or a `PUT` without a password, leaves it.
    let tags = shown(rabbit, "o28").await["tags"].clone();
    rabbit
        .must("PUT", &user("o28"), json!({ "tags": tags }))
        .await
        .expect("cleared");
    assert_eq!(shown(rabbit, "o28").await["password_hash"], json!(""));
    let lost = lost(ours, &web).await;
    assert!(lost.differences.contains(Difference::Disabled), "{lost:?}");
    assert!(
        lost.differences.contains(Difference::Password) && !lost.password_fits,
        "{lost:?}"
    );
    ours.create(&web).await.expect("healed");
    assert!(ours.is_held(&web).await);
    // Nothing of ours ever clears one: without a password to set, nothing is written.
    let none = wish_with("o28", json!({ "vhost": "/" }), |parts| {
        parts.password = None
    });
    assert!(ours.create(&none).await.is_err());
    assert!(ours.is_held(&web).await);
}

async fn o29_a_vhost_that_is_missing_stops_nobody_else(rabbit: &RabbitServer, ours: &Ours) {
    let of = |n: usize| {
        let vhost = if n == 3 { "nowhere" } else { "/" };
        wish(
            &format!("o29-{n}"),
            json!({ "vhost": vhost, "write": "^o29" }),
        )
    };
    let wishes: Vec<Wish> = (0..10).map(of).collect();
    for (n, outcome) in ours.create_all(&wishes).await.into_iter().enumerate() {
        let told = outcome.map_err(|error| {
            assert!(error.message().contains("`nowhere`"), "{error}");
            error.class()
        });
        let wanted = if n == 3 {
            Err(Class::RefusedValue)
        } else {
            Ok(())
        };
        assert_eq!(told, wanted, "{n}");
    }
    let there = rabbit
        .ask("GET", &user("o29-3"), Value::Null)
        .await
        .expect("an answer");
    assert_eq!(there.0, 404, "it left a login behind");
    rabbit
        .must("PUT", "vhosts/nowhere", json!({}))
        .await
        .expect("a virtual host");
    assert!(ours.create_all(&wishes).await.iter().all(Result::is_ok));
    assert!(ours.all_held(&wishes).await);
}

async fn r5_a_vhost_is_made_where_that_is_asked_for_and_stays(rabbit: &RabbitServer, ours: &Ours) {
    let values = json!({ "vhost": "new/one", "write": "^a", "create_vhost": true });
    let web = wish("r5", values);
    ours.create(&web).await.expect("created");
    assert!(ours.is_held(&web).await);
    let path = "vhosts/new%2Fone/permissions";
    let permissions = rabbit
        .must("GET", path, Value::Null)
        .await
        .expect("permissions");
    let users: Vec<&Value> = permissions
        .as_array()
        .into_iter()
        .flatten()
        .map(|p| &p["user"])
        .collect();
    assert_eq!(
        users,
        [&json!("r5")],
        "whoever makes one is given every right there, and gave it back"
    );
    let going = Departing::new(web.consumer().clone(), web.login().clone());
    ours.adapter
        .remove(&ours.cx, &ours.marker, &going)
        .await
        .expect("removed");
    rabbit
        .must("GET", "vhosts/new%2Fone", Value::Null)
        .await
        .expect("it is still there");
}

async fn r6_switched_off_keeps_hash_tags_and_permissions(rabbit: &RabbitServer, ours: &Ours) {
    let values = json!({ "vhost": "/", "write": "^r6", "tags": ["management"] });
    let web = wish("r6", values.clone());
    ours.create(&web).await.expect("created");
    let before = shown(rabbit, "r6").await;
    let going = Departing::new(web.consumer().clone(), web.login().clone());
    ours.adapter
        .disable(&ours.cx, &ours.marker, &going)
        .await
        .expect("off");
    let after = shown(rabbit, "r6").await;
    assert_eq!(after["password_hash"], before["password_hash"]);
    assert_eq!(after["tags"], before["tags"]);
    let permissions = rabbit
        .must("GET", "users/r6/permissions", Value::Null)
        .await;
    assert_eq!(permissions.expect("permissions")[0]["write"], json!("^r6"));
    // Not over AMQP, and not over HTTP either, though it is a management user.
    let login = ["Authorization: Basic cjY6cGFzc3dvcmQtb2YtcjY="];
    let whoami = mesh_conformance::servers::http(rabbit.port(), "GET", "/api/whoami", &login, "");
    assert_eq!(whoami.await.expect("an answer").0, 401);
    assert!(
        rabbit
            .log_in("r6", "password-of-r6", "/")
            .await
            .expect("an answer")
            .is_none()
    );
    let off = wish_with("r6", values, |parts| parts.enabled = false);
    assert!(ours.is_held(&off).await);
    ours.create(&web).await.expect("on");
    assert_eq!(shown(rabbit, "r6").await, before);
    assert!(
        rabbit
            .log_in("r6", "password-of-r6", "/")
            .await
            .expect("an answer")
            .is_some()
    );
}

async fn r11_a_persons_own_tags_stay(rabbit: &RabbitServer, ours: &Ours) {
    let web = wish("r11", json!({ "vhost": "/", "tags": ["management"] }));
    ours.create(&web).await.expect("created");
    // A person puts words of their own, and one that gives rights, in the place of all.
    let hash = shown(rabbit, "r11").await["password_hash"].clone();
    let tags = json!(["ünï", "on call", "administrator"]);
    let body = json!({ "password_hash": hash, "tags": tags });
    rabbit
        .must("PUT", &user("r11"), body)
        .await
        .expect("changed");
    let first = shown(rabbit, "r11").await["tags"][0].clone();
    let lost = lost(ours, &web).await;
    for difference in [
        Difference::MarkMissing,
        Difference::GrantsMissing,
        Difference::GrantsSurplus,
    ] {
        assert!(lost.differences.contains(difference), "{lost:?}");
    }
    ours.create(&web).await.expect("healed");
    assert!(ours.is_held(&web).await);
    let tags = shown(rabbit, "r11").await["tags"].clone();
    let tags: Vec<&Value> = tags.as_array().into_iter().flatten().collect();
    assert!(
        tags.contains(&&json!("on call")) && tags.contains(&&first),
        "{tags:?}"
    );
    assert!(!tags.contains(&&json!("administrator")), "{tags:?}");
}

async fn a7_an_adopted_login_keeps_what_it_has(rabbit: &RabbitServer, ours: &Ours) {
    let body = json!({ "password": "password-of-a7", "tags": ["monitoring"] });
    rabbit.must("PUT", &user("a7"), body).await.expect("a user");
    let own = json!({ "configure": "", "write": "^own$", "read": ".*" });
    rabbit
        .must("PUT", "permissions/%2F/a7", own)
        .await
        .expect("a permission");
    let web = wish(
        "a7",
        json!({ "vhost": "/", "configure": "^c", "write": "^w", "read": "^r" }),
    );
    let adopted = mesh_sdk::handle::Asked {
        wish: &web,
        adopted: true,
    };
    ours.adapter
        .create(&ours.cx, &ours.marker, adopted)
        .await
        .expect("adopted");
    let all = rabbit
        .must("GET", "users/a7/permissions", Value::Null)
        .await
        .expect("permissions");
    assert_eq!(all[0]["configure"], json!("^c"));
    assert_eq!(all[0]["write"], json!("(?:^own$)|(?:^w)"));
    assert_eq!(all[0]["read"], json!(".*"));
    let answer = ours.adapter.holds(&ours.cx, &ours.marker, adopted).await;
    assert!(
        matches!(&answer, Ok(Answer::Held(held)) if held.warning.is_some()),
        "{answer:?}"
    );
}

async fn h17_a_hash_of_another_salt_or_algorithm_is_the_same_password(
    rabbit: &RabbitServer,
    ours: &Ours,
) {
    let web = wish("h17", json!({ "vhost": "/" }));
    ours.create(&web).await.expect("created");
    // The server makes a salt of its own.
    let tags = shown(rabbit, "h17").await["tags"].clone();
    let same = json!({ "password": "password-of-h17", "tags": tags });
    rabbit
        .must("PUT", &user("h17"), same)
        .await
        .expect("the same password");
    let theirs = shown(rabbit, "h17").await["password_hash"].clone();
    assert!(ours.is_held(&web).await);
    ours.create(&web).await.expect("nothing");
    assert_eq!(shown(rabbit, "h17").await["password_hash"], theirs);
    let hashed = |hash: &str, algorithm: &str| {
        let algorithm = format!("rabbit_password_hashing_{algorithm}");
        json!({ "password_hash": hash, "hashing_algorithm": algorithm, "tags": tags })
    };
    let long = "AQIDBBgJtfDQEJ/orLNoxLXRQIq+Yvq0cy6fxykP3+LSIKmXpMwsYc+xCO1vVoFTLUWL+KUWV/Wgr7b3YgJgcD8hJrs=";
    rabbit
        .must("PUT", &user("h17"), hashed(long, "sha512"))
        .await
        .expect("the same password");
    let lets_in = rabbit
        .log_in("h17", "password-of-h17", "/")
        .await
        .expect("an answer");
    assert!(lets_in.is_some() && ours.is_held(&web).await);
    ours.create(&web).await.expect("nothing");
    assert_eq!(shown(rabbit, "h17").await["password_hash"], json!(long));
    // One that cannot be recomputed here proves nothing.
    let old = "AQIDBJNnWRUur86gIZZU+R7a4MQ=";
    rabbit
        .must("PUT", &user("h17"), hashed(old, "md5"))
        .await
        .expect("an old hash");
    assert!(
        lost(ours, &web)
            .await
            .differences
            .contains(Difference::Password)
    );
    ours.create(&web).await.expect("healed");
    assert!(ours.is_held(&web).await);
}

/// What the suite's count of failed logins rests on.
async fn o24_a_refused_login_is_counted(rabbit: &RabbitServer) {
    let failed = || async {
        let path = "auth/attempts/mesh@localhost";
        let all = rabbit
            .must("GET", path, Value::Null)
            .await
            .expect("the attempts");
        let count = |protocol: &Value| protocol["auth_attempts_failed"].as_u64().unwrap_or(0);
        all.as_array().into_iter().flatten().map(count).sum::<u64>()
    };
    let before = failed().await;
    assert!(
        rabbit
            .log_in("h17", "wrong", "/")
            .await
            .expect("an answer")
            .is_none()
    );
    assert_eq!(failed().await, before + 1);
}

#[test]
fn o01_apps_are_told_the_brokers_address_and_the_vhost() {
    let service = |change: fn(&mut mesh_sdk::adapter::ProviderSettings)| {
        let mut at = settings(15672);
        change(&mut at);
        let wish = wish("web", json!({ "vhost": "a/b c" }));
        let marker = Ours::on(settings(1)).marker;
        let view = Provision::of(&wish, false, &marker).expect("typed");
        let service = RabbitKind.service(&at, &view);
        (service.address, service.path)
    };
    let vhost = || "a/b c".to_owned();
    assert_eq!(
        service(|_| ()),
        ("amqp://127.0.0.1:5672".to_owned(), vhost())
    );
    assert_eq!(
        service(|at| at.scheme = "https".into()),
        ("amqps://127.0.0.1:5671".to_owned(), vhost())
    );
    let all = |at: &mut mesh_sdk::adapter::ProviderSettings| {
        let options = json!({ "amqp_scheme": "amqps", "amqp_host": "mq.example", "amqp_port": 1 });
        at.options = options.as_object().expect("a table").clone();
    };
    assert_eq!(service(all), ("amqps://mq.example:1".to_owned(), vhost()));
    assert!(RabbitKind.check_provider(&settings(1)).is_ok());
}
