//! Many: pages in place of single questions, and a slice of logins.

use mesh_conformance::servers::Proxy;
use mesh_sdk::{Answer, Proof};
use serde_json::{Value, json};

use super::bench::{settings, writes};
use super::{Ours, usual, wish_with};

const MANY: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn h16_ten_thousand_take_a_handful_of_calls() {
    let mut broker = usual().await;
    let ours = Ours::of(&broker);
    // The broker takes most of an hour to make so many: one is made, and the others are put into its
    // file beside it, with the same password.
    let same = |n: usize| {
        wish_with(
            &format!("app-{n:05}"),
            json!({ "publish": [format!("app{n}/#")] }),
            |parts| {
                parts.password = Some("password-of-app-00000".into());
            },
        )
    };
    let many: Vec<_> = (0..MANY).map(same).collect();
    ours.create(&many[0]).await.expect("created");
    broker.end().await.expect("ended");
    fill(&broker.file(), &ours, &many);
    broker.start_again().await.expect("started");

    let proxy = Proxy::before(broker.port()).await.expect("a proxy");
    let ours = Ours::on(settings(proxy.port()));
    let first = ours.answers(&many).await;
    let second = ours.answers(&many).await;
    let proven = |answers: &[Answer]| -> Vec<usize> {
        let is = |one: &Answer| matches!(one, Answer::Held(held) if held.proof == Proof::Login);
        (0..answers.len()).filter(|at| is(&answers[*at])).collect()
    };
    assert!(
        first
            .iter()
            .chain(&second)
            .all(|one| matches!(one, Answer::Held(_)))
    );
    assert_eq!(proven(&first), (0..1000).collect::<Vec<_>>());
    assert_eq!(
        proven(&second),
        (1000..2000).collect::<Vec<_>>(),
        "the next ones"
    );
    let asked = proxy.asked();
    let questions = |bytes: &Vec<u8>| {
        String::from_utf8_lossy(bytes)
            .matches("\"commands\"")
            .count()
    };
    let questions: usize = asked.iter().map(questions).sum();
    assert!(questions <= 2 * 22, "{questions} questions");
    assert_eq!(writes(&proxy), 0);
}

/// Copies what was made of the first to all.
fn fill(file: &std::path::Path, ours: &Ours, many: &[mesh_sdk::Wish]) {
    let text = std::fs::read_to_string(file).expect("the plugin's file");
    let mut all: Value = serde_json::from_str(&text).expect("JSON");
    let find = |list: &Value, key: &str, name: &str| {
        let list = list.as_array().expect("a list");
        list.iter()
            .find(|one| one[key] == name)
            .expect(name)
            .clone()
    };
    let first = many[0].login().as_str();
    let client = find(&all["clients"], "username", first);
    let role = find(&all["roles"], "rolename", &format!("meshkeeper/{first}"));
    for (n, wish) in many.iter().enumerate().skip(1) {
        let name = format!("meshkeeper/{}", wish.login());
        let (mut client, mut role) = (client.clone(), role.clone());
        client["username"] = wish.login().as_str().into();
        client["roles"] = json!([{ "rolename": name }]);
        role["rolename"] = name.into();
        // The name under which the file has it differs from that of the commands.
        let key = if role["textName"].is_null() {
            "textname"
        } else {
            "textName"
        };
        role[key] = ours.marker.mark(wish.consumer()).as_str().into();
        role["acls"] = json!([{ "acltype": "publishClientSend", "topic": format!("app{n}/#"), "allow": true }]);
        all["clients"].as_array_mut().expect("a list").push(client);
        all["roles"].as_array_mut().expect("a list").push(role);
    }
    std::fs::write(file, all.to_string()).expect("written");
}
