//! Many: one writing of the file, one reload, one question, and a few logins.

use mesh_conformance::servers::Proxy;
use mesh_sdk::Answer;
use serde_json::json;

use super::bench::settings;
use super::{Ours, users, usual, wish};

const MANY: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn h16_ten_thousand_take_a_handful_of_calls() {
    let nats = usual().await;
    let proxy = Proxy::before(nats.port()).await.expect("a proxy");
    let ours = Ours::on(settings(&nats, proxy.port()));
    let of = |n: usize| {
        wish(
            &format!("app-{n:05}"),
            json!({ "publish": [format!("app{n}.>")] }),
        )
    };
    let many: Vec<_> = (0..MANY).map(of).collect();
    assert!(ours.create_all(&many).await.iter().all(Result::is_ok));
    let calls = |what: &str| {
        let asked = proxy.asked();
        let count = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).matches(what).count();
        asked.iter().map(count).sum::<usize>()
    };
    assert_eq!((calls(".RELOAD"), calls("CONNECT")), (1, 1));
    let text = users(&nats);
    for pass in 1..=3 {
        let held = ours.answers(&many).await;
        assert!(held.iter().all(|one| matches!(one, Answer::Held(_))));
        assert!(
            calls("CONNECT") <= 1 + 5 * pass,
            "{} connections",
            calls("CONNECT")
        );
    }
    // One line is lost: one line is written.
    let line = text
        .lines()
        .find(|line| line.contains("\"app-00007\""))
        .expect("its line");
    std::fs::write(nats.users_file(), text.replace(&format!("{line}\n"), "")).expect("written");
    nats.reload().await.expect("loaded");
    let lost = ours.answers(&many).await;
    let lost = lost
        .iter()
        .filter(|one| matches!(one, Answer::Lost(_)))
        .count();
    assert_eq!(lost, 1);
    assert!(ours.create_all(&many).await.iter().all(Result::is_ok));
    assert_eq!(users(&nats).lines().count(), text.lines().count());
    assert_eq!(calls(".RELOAD"), 2);
}
