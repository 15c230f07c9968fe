//! Many by an import of definitions: what it cannot do, what it leaves behind, and whom it leaves alone
//! (decision 0124). One server for all of them.

use std::time::Duration;

use mesh_conformance::servers::{Proxy, RabbitServer};
use mesh_sdk::{Class, Difference, Wish};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::bench::{requests, settings, user, writes};
use super::{Ours, server, wish, wish_with};

/// So many of one name, each with its own queue in `/`.
fn many(name: &str, count: usize) -> Vec<Wish> {
    (0..count).map(|n| one(&format!("{name}-{n:03}"))).collect()
}

fn one(name: &str) -> Wish {
    let topic = json!({ "exchange": "amq.topic", "write": format!("^{name}\\.") });
    let own = format!("^{name}");
    wish(
        name,
        json!({ "vhost": "/", "write": own, "read": own, "topics": [topic] }),
    )
}

/// All that the server keeps of users and rights, but for what our own looks change in it: nothing.
async fn kept(rabbit: &RabbitServer) -> Value {
    let all = rabbit.must("GET", "definitions", Value::Null).await;
    let all = all.expect("the definitions");
    let sorted = |name: &str| {
        let list = all[name].as_array().cloned().unwrap_or_default();
        let mut list: Vec<String> = list.iter().map(Value::to_string).collect();
        list.sort();
        json!(list)
    };
    ["users", "permissions", "topic_permissions", "vhosts"]
        .map(sorted)
        .into()
}

async fn is_there(rabbit: &RabbitServer, login: &str) -> bool {
    let asked = rabbit.ask("GET", &user(login), Value::Null).await;
    asked.expect("an answer").0 == 200
}

/// What the server itself says that it wrote of users and rights.
fn told_writes(rabbit: &RabbitServer) -> usize {
    let log = rabbit.log();
    let wrote = |line: &&str| {
        let wrote = line.contains("Created user") || line.contains("Successfully set");
        wrote && !line.contains("fence-")
    };
    log.lines().filter(wrote).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_by_imports() {
    let rabbit = server(None).await;
    o29_one_that_is_refused_stops_no_other(&rabbit).await;
    a6_what_an_import_left_half_done_is_finished(&rabbit).await;
    h18_a_strangers_login_stays_as_it_is(&rabbit).await;
    r5_a_vhost_is_made_once_for_all_who_name_it(&rabbit).await;
    a6_rights_that_were_all_lost_come_back_by_one_import(&rabbit).await;
    a6_a_connection_that_breaks_in_the_middle_ends_in_the_same_state(&rabbit).await;
}

async fn o29_one_that_is_refused_stops_no_other(rabbit: &RabbitServer) {
    let proxy = Proxy::before(rabbit.port()).await.expect("a proxy");
    let ours = Ours::on(settings(proxy.port()));
    let mut wishes = many("refused", 60);
    // A pattern that is none, of a permission and of a topic; a virtual host that is not there.
    wishes[7] = wish("refused-pattern", json!({ "vhost": "/", "write": "(" }));
    let topic = json!([{ "exchange": "amq.topic", "write": "(" }]);
    wishes[30] = wish("refused-topic", json!({ "vhost": "/", "topics": topic }));
    wishes[59] = wish("refused-vhost", json!({ "vhost": "nowhere", "read": "^a" }));
    let bad = [7, 30, 59];
    for round in 0..2 {
        for (n, outcome) in ours.create_all(&wishes).await.into_iter().enumerate() {
            let told = outcome.map_err(|error| error.class());
            let wanted = if bad.contains(&n) {
                Err(Class::RefusedValue)
            } else {
                Ok(())
            };
            assert_eq!(told, wanted, "{n} in round {round}");
        }
        for n in bad {
            let login = wishes[n].login().as_str();
            assert!(!is_there(rabbit, login).await, "{login} was left behind");
        }
    }
    for n in bad.into_iter().rev() {
        wishes.remove(n);
    }
    let good = wishes;
    assert!(ours.all_held(&good).await);
    let (before, written) = (kept(rabbit).await, writes(&proxy));
    ours.made_all(&good).await;
    assert_eq!(writes(&proxy), written, "again changes nothing");
    assert_eq!(kept(rabbit).await, before, "again changes nothing");
}

async fn a6_what_an_import_left_half_done_is_finished(rabbit: &RabbitServer) {
    let proxy = Proxy::before(rabbit.port()).await.expect("a proxy");
    let ours = Ours::on(settings(proxy.port()));
    let wishes = many("half", 40);
    ours.made_all(&wishes).await;
    let whole = kept(rabbit).await;
    // As when it ended behind the users, or between the permissions.
    for n in 0..40 {
        let path = |what: &str| format!("{what}/%2F/half-{n:03}");
        let must = async |path: String| rabbit.must("DELETE", &path, Value::Null).await;
        must(path("topic-permissions")).await.expect("taken");
        if n % 2 == 0 {
            must(path("permissions")).await.expect("taken");
        }
        if n % 4 == 0 {
            must(user(&format!("half-{n:03}"))).await.expect("dropped");
        }
    }
    let written = writes(&proxy);
    ours.made_all(&wishes).await;
    assert_eq!(writes(&proxy), written + 1, "one import");
    assert_eq!(kept(rabbit).await, whole);
    assert!(ours.all_held(&wishes).await);
}

async fn h18_a_strangers_login_stays_as_it_is(rabbit: &RabbitServer) {
    let ours = Ours::on(settings(rabbit.port()));
    let body = json!({ "password": "their-own", "tags": ["their own", "monitoring"] });
    rabbit
        .must("PUT", &user("stranger"), body)
        .await
        .expect("a user");
    let limit = json!({ "value": 3 });
    let limited = rabbit
        .must("PUT", "user-limits/stranger/max-connections", limit)
        .await;
    limited.expect("a limit");
    let own = json!({ "configure": "^own$", "write": "^own$", "read": "" });
    rabbit
        .must("PUT", "permissions/%2F/stranger", own)
        .await
        .expect("a permission");
    let open = rabbit.log_in("stranger", "their-own", "/").await;
    let mut open = open.expect("an answer").expect("let in");
    let shown = async || {
        let user = rabbit.must("GET", &user("stranger"), Value::Null).await;
        let rights = rabbit
            .must("GET", "users/stranger/permissions", Value::Null)
            .await;
        (user.expect("a user"), rights.expect("permissions"))
    };
    let before = shown().await;
    // Whoever is looked at first is seen, and so not asked for; the import of others does not touch it.
    let lost = ours.lost(&one("stranger")).await;
    assert!(
        lost.differences.contains(Difference::MarkMissing) && !lost.password_fits,
        "{lost:?}"
    );
    let mut wishes = many("beside", 30);
    wishes[3] = wish("beside-bad", json!({ "vhost": "/", "read": "(" }));
    assert_eq!(
        ours.create_all(&wishes)
            .await
            .iter()
            .filter(|outcome| outcome.is_err())
            .count(),
        1
    );
    assert_eq!(shown().await, before);
    assert!(open.is_alive().await, "its session was ended");
    let admin = rabbit.must("GET", "users/mesh", Value::Null).await;
    assert_eq!(admin.expect("our own")["tags"], json!(["administrator"]));
}

async fn r5_a_vhost_is_made_once_for_all_who_name_it(rabbit: &RabbitServer) {
    let proxy = Proxy::before(rabbit.port()).await.expect("a proxy");
    let ours = Ours::on(settings(proxy.port()));
    let of = |n: usize| {
        let values = json!({ "vhost": "common", "read": "^a", "create_vhost": true });
        wish(&format!("common-{n}"), values)
    };
    let wishes: Vec<Wish> = (0..20).map(of).collect();
    ours.made_all(&wishes).await;
    assert!(ours.all_held(&wishes).await);
    let made = requests(&proxy, &["PUT /api/vhosts/"]);
    assert_eq!((made, requests(&proxy, &["POST /"])), (1, 1));
    let path = "vhosts/common/permissions";
    let permissions = rabbit.must("GET", path, Value::Null).await;
    let users = permissions.expect("permissions");
    assert_eq!(
        users.as_array().map(Vec::len),
        Some(20),
        "the admin gave its rights back: {users}"
    );
}

async fn a6_rights_that_were_all_lost_come_back_by_one_import(rabbit: &RabbitServer) {
    let proxy = Proxy::before(rabbit.port()).await.expect("a proxy");
    let ours = Ours::on(settings(proxy.port()));
    let none = Value::Null;
    let vhost = async |how: &str| {
        let body = if how == "PUT" {
            json!({})
        } else {
            none.clone()
        };
        rabbit.must(how, "vhosts/anew", body).await.expect("done")
    };
    vhost("PUT").await;
    let of = |n: usize| {
        wish(
            &format!("anew-{n}"),
            json!({ "vhost": "anew", "write": "^a" }),
        )
    };
    let mut wishes: Vec<Wish> = (0..20).map(of).collect();
    ours.made_all(&wishes).await;
    let hashes = kept(rabbit).await[0].clone();
    vhost("DELETE").await;
    vhost("PUT").await;
    let written = writes(&proxy);
    ours.made_all(&wishes).await;
    assert_eq!(writes(&proxy), written + 1, "one import");
    assert_eq!(kept(rabbit).await[0], hashes, "no user was written");
    assert!(ours.all_held(&wishes).await);
    // Who has too much, is limited or is to be off is no matter for an import.
    let all = json!({ "configure": ".*", "write": ".*", "read": ".*" });
    rabbit
        .must("PUT", "permissions/%2F/anew-1", all)
        .await
        .expect("too much");
    let limit = json!({ "value": 0 });
    let limited = rabbit
        .must("PUT", "user-limits/anew-2/max-connections", limit)
        .await;
    limited.expect("a limit");
    let open = rabbit.log_in("anew-3", "password-of-anew-3", "anew").await;
    let mut open = open.expect("an answer").expect("let in");
    wishes[3] = wish_with(
        "anew-3",
        json!({ "vhost": "anew", "write": "^a" }),
        |parts| {
            parts.enabled = false;
        },
    );
    ours.made_all(&wishes).await;
    assert!(ours.all_held(&wishes).await);
    assert!(!open.is_alive().await, "switched off, and still there");
    assert_eq!(requests(&proxy, &["POST /"]), 2, "imports");
}

/// Waits until the server has worked off every import: one of ours is done behind all before it, and told
/// of in its log.
async fn at_rest(rabbit: &RabbitServer) {
    let name = format!("fence-{}", told_writes(rabbit));
    let fence = json!({ "users": [{ "name": name, "password_hash": "", "tags": [] }] });
    let done = rabbit.must("POST", "definitions", fence).await;
    done.expect("a fence");
    let told = format!("user '{name}'");
    for _ in 0..1_000 {
        if rabbit.log().contains(&told) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rabbit
        .must("DELETE", &user(&name), Value::Null)
        .await
        .expect("no fence");
}

/// Hands on whole connections, but that with an import is cut as soon as the server has begun with it.
async fn cutter(server: u16) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(cut_at_import(client, server));
        }
    });
    port
}

async fn cut_at_import(mut client: TcpStream, server: u16) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let to = TcpStream::connect(("127.0.0.1", server)).await;
    let mut server = to.expect("there");
    let (mut asked, mut answer) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut importing = false;
    loop {
        tokio::select! {
            got = client.read(&mut asked) => match got {
                Ok(got @ 1..) => {
                    importing |= asked[..got].starts_with(b"POST /api/definitions");
                    let _ = server.write_all(&asked[..got]).await;
                }
                _ => return,
            },
            got = server.read(&mut answer) => match got {
                Ok(got @ 1..) if !importing => {
                    let _ = client.write_all(&answer[..got]).await;
                }
                _ => return,
            },
            () = tokio::time::sleep(Duration::from_millis(30)), if importing => return,
        }
    }
}

async fn a6_a_connection_that_breaks_in_the_middle_ends_in_the_same_state(rabbit: &RabbitServer) {
    let wishes = many("cut", 400);
    let cut = Ours::on(settings(cutter(rabbit.port()).await));
    let outcomes = cut.create_all(&wishes).await;
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.as_ref().is_err_and(|e| e.class().is_transient())),
        "{:?}",
        outcomes.first()
    );
    // At once, while the server goes on with the import that nobody waits for any more.
    let ours = Ours::on(settings(rabbit.port()));
    ours.made_all(&wishes).await;
    assert!(ours.all_held(&wishes).await);
    assert!(ours.all_held(&wishes).await);
    // Its own account of the import that was cut: so many users, and so many rights of each kind.
    at_rest(rabbit).await;
    let before = (kept(rabbit).await, told_writes(rabbit));
    ours.made_all(&wishes).await;
    at_rest(rabbit).await;
    let after = (kept(rabbit).await, told_writes(rabbit));
    assert_eq!(after, before, "again changes nothing");
}
