//! What a program tells of logins that leave and of those that could be taken over.

use mesh_catalog::exec::ExecKind;
use mesh_sdk::handle::AnyKind;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, ConsumerName, Login, Wish};
use serde_json::{Value, json};

use super::process::Double;
use super::settings;
use crate::wishes::wish_of;

const ALL: [&str; 4] = ["holds", "find", "uses", "purge"];

/// A program that answers each question without a consumer with these lines.
fn that_says(lines: &[Value]) -> Double {
    let texts: Vec<String> = lines
        .iter()
        .map(|line| line.to_string().replace("\"$ID\"", "$ID"))
        .collect();
    Double::told(json!({
        "hello": { "version": 1, "name": "a double", "capabilities": ALL, "reserved": ["root"] },
        "": { "say": texts },
    }))
}

fn going(name: &str) -> Departing {
    let login = Login::new(name).expect("a login");
    Departing::new(ConsumerName::new(name).expect("a name"), login)
}

#[test]
fn r14_the_canary_is_what_the_options_say_and_nothing_is_guessed() {
    let path = std::path::Path::new("/opt/adapter");
    let canary = |options: Value| {
        let settings = settings(path, options);
        AnyKind::check_provider(&ExecKind, &settings).expect("settings");
        let canary = AnyKind::canary(&ExecKind, &settings)?;
        serde_json::from_slice::<Value>(&canary.canonical).ok()
    };
    assert_eq!(canary(json!({})), None);
    assert_eq!(canary(json!({ "canary": {} })), Some(json!({})));
    let rights = json!({ "rights": [] });
    assert_eq!(
        canary(json!({ "canary": rights })),
        Some(json!({ "values": rights }))
    );
    let odd = settings(path, json!({ "canary": "nothing" }));
    let refusal = AnyKind::check_provider(&ExecKind, &odd).expect_err("no table");
    assert_eq!(refusal.field, "options");
}

#[test]
fn r5_data_is_what_the_manifest_names() {
    let of = |values: Value| -> Wish { wish_of(&ExecKind, "web", values, |_| ()) };
    let named = of(json!({ "values": { "rights": [] }, "data": ["web", "/srv/web"] }));
    assert_eq!(AnyKind::data_of(&ExecKind, &named), ["web", "/srv/web"]);
    let none = of(json!({ "values": { "data": "the program's own word" } }));
    assert!(AnyKind::data_of(&ExecKind, &none).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn r4_of_what_a_program_finds_the_reserved_and_strangers_are_left_out() {
    let item = |login: &str, mark: Value| {
        json!({ "id": "$ID", "item": {
            "login": login, "mark": mark, "enabled": true, "values": { "rights": ["read"] }, "beyond": ["a\nquota"],
        } })
    };
    let double = that_says(&[
        item("web", Value::Null),
        item("boss", Value::Null),
        item("root", Value::Null),
        item("away", json!("mk1.other.i9.x.web.aaaaaaaaaaaaaaaaaaaaaaaa")),
    ]);
    let ours = double.ours();
    let all = ours.adapter.find(&ours.cx, &ours.marker).await;
    let all = all.expect("found");
    let names: Vec<&str> = all.iter().map(|one| one.login.as_str()).collect();
    assert_eq!(names, ["web"]);
    assert_eq!(all[0].values, json!({ "values": { "rights": ["read"] } }));
    assert_eq!(all[0].beyond, ["a quota"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn r6_uses_come_back_in_the_order_of_asking_and_odd_ones_are_a_fault() {
    let item = |index: u32, seconds: f64| json!({ "id": "$ID", "item": { "index": index, "seconds": seconds, "how": "a try" } });
    let double = that_says(&[item(2, 0.0), item(0, 12.5)]);
    let ours = double.ours();
    let asked = [going("a"), going("b"), going("c")];
    let told = ours.adapter.uses(&ours.cx, &asked).await.expect("told");
    let seconds: Vec<Option<f64>> = told
        .iter()
        .map(|one| one.as_ref().map(|one| one.ago.as_secs_f64()))
        .collect();
    assert_eq!(seconds, [Some(12.5), None, Some(0.0)]);
    for odd in [item(3, 0.0), item(0, -1.0)] {
        let double = that_says(std::slice::from_ref(&odd));
        let ours = double.ours();
        let error = ours.adapter.uses(&ours.cx, &asked).await;
        assert_eq!(error.expect_err("odd").class(), Class::Bug, "{odd}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r5_a_program_that_says_who_may_use_its_data_is_told_as_that() {
    let trouble = json!({ "class": "exists", "message": "web may still use it" });
    let double = that_says(&[json!({ "id": "$ID", "error": trouble })]);
    let ours = double.ours();
    let data = ours.adapter.data(&ours.cx, "web").await;
    let error = data.expect_err("refused");
    assert_eq!(
        (error.class(), error.message()),
        (Class::Exists, "the program: web may still use it")
    );
    let double = that_says(&[json!({ "id": "$ID", "error": trouble })]);
    let ours = double.ours();
    let error = ours.adapter.purge(&ours.cx, "web").await;
    assert_eq!(error.expect_err("refused").class(), Class::Exists);
}

#[tokio::test(flavor = "multi_thread")]
async fn a10_a_program_of_before_cannot_and_is_not_asked() {
    let double = Double::told(json!({}));
    let ours = double.ours();
    let told = [
        ours.adapter
            .find(&ours.cx, &ours.marker)
            .await
            .map(drop)
            .map_err(|error| error.class()),
        ours.adapter
            .uses(&ours.cx, &[going("web")])
            .await
            .map(drop)
            .map_err(|error| error.class()),
        ours.adapter
            .data(&ours.cx, "web")
            .await
            .map(drop)
            .map_err(|error| error.class()),
        ours.adapter
            .purge(&ours.cx, "web")
            .await
            .map_err(|error| error.class()),
    ];
    assert_eq!(told, [Err(Class::Cannot); 4]);
    let can = ours.adapter.capabilities();
    assert!(!can.find && !can.uses && !can.purge, "{can:?}");
    for op in ["find", "uses", "data", "purge"] {
        assert_eq!(double.count(op), 0, "{op}");
    }
}
