//! What people's own entries can be taken over as, and what a lost file shows.

use mesh_conformance::servers::{DovecotOptions, dovecot_hash};
use mesh_sdk::{ConsumerName, MarkSeen, Secret};
use serde_json::{Value, json};

use super::{server, wish};

#[tokio::test(flavor = "multi_thread")]
async fn h18_entries_whose_password_can_be_proven_are_found() {
    let (server, ours) = server(DovecotOptions::default()).await;
    let hash = dovecot_hash("theirs").await.expect("a hash");
    let bare = hash.strip_prefix("{BLF-CRYPT}").expect("bcrypt");
    let nets = "allow_nets=127.0.0.1,local";
    let lines = [
        format!("all:{hash}:70:71:Ann A.:/m/all::{nets}"),
        format!("beyond:{{CRYPT}}{bare}:mail:07::/m/%u::{nets},odd proxy pass=secret"),
        format!("bare:{bare}::::::{nets}"),
        format!("off:{{CRYPT}}!{bare}"),
        format!("nologin:{hash}::::::nologin=gone"),
        format!("twice:{hash}\ntwice:{hash}"),
        // A password of another scheme, none, any, a name that Dovecot makes small, and networks that asking for
        // none of them would open to all.
        "sha:{SHA256}K7gNU3sdo+OL0wNhqoVWhr3g6s1xYv72ol/pe/Unols=".to_owned(),
        "none".to_owned(),
        format!("open:{hash}::::::nopassword"),
        format!("Big:{hash}"),
        format!("odd:{hash}::::::allow_nets=odd"),
    ];
    std::fs::write(server.file(), lines.join("\n") + "\n").expect("written");
    ours.made(&wish("web", json!({ "cost": 5 }), |_| ())).await;
    let all = ours.found_all().await;
    let told: Vec<_> = all
        .iter()
        .map(|one| (one.login.as_str(), one.enabled, one.beyond.join(", ")))
        .collect();
    let more = "gid 07, home /m/%u, logins from odd, uid mail, extra field proxy, extra field pass";
    let again = "a second entry further down, which goes when it is adopted";
    let wanted = [
        ("all", true, ""),
        ("bare", true, ""),
        ("beyond", true, more),
        ("nologin", false, ""),
        ("off", false, ""),
        ("twice", true, again),
        ("web", true, ""),
    ]
    .map(|(login, enabled, beyond)| (login, enabled, beyond.to_owned()));
    assert_eq!(told, wanted);
    let nets = json!(["127.0.0.1/32", "local"]);
    let full = json!({ "allow_nets": nets, "uid": 70, "gid": 71, "home": "/m/all" });
    let values: Vec<Value> = all.iter().map(|one| one.values.clone()).collect();
    let only = json!({ "allow_nets": nets });
    assert_eq!(values[..3], [full, only.clone(), only]);
    // Adopted as they stand: no new hash, and nothing that was allowed is taken or given.
    for (at, line) in [
        (0, &lines[0]),
        (1, &lines[2]),
        (2, &lines[1]),
        (4, &lines[3]),
    ] {
        let one = &all[at];
        let theirs = wish(one.login.as_str(), one.values.clone(), |parts| {
            parts.password = Some(Secret::from("theirs"));
            parts.enabled = one.enabled;
        });
        let asked = mesh_sdk::handle::Asked {
            wish: &theirs,
            adopted: true,
        };
        let adopted = ours.adapter.create(&ours.cx, &ours.marker, asked).await;
        adopted.expect("adopted");
        let (login, rest) = line.split_once(':').expect("a line");
        let now = std::fs::read_to_string(server.file()).expect("the file");
        let now = now.lines().find_map(|now| now.strip_prefix(login));
        let fields = |line: &str| -> Vec<String> {
            let mut fields: Vec<String> = line.splitn(7, ':').map(str::to_owned).collect();
            fields.resize(7, String::new());
            // The mark's field, and networks in their own order, as whole ones.
            fields[3].clear();
            let extra = fields[6].replace("127.0.0.1,", "127.0.0.1/32,");
            let mut words: Vec<&str> = extra.split(' ').collect();
            words.sort_unstable();
            fields[6] = words.join(" ");
            fields
        };
        let now = now.and_then(|now| now.strip_prefix(':')).expect("a line");
        assert_eq!(fields(now), fields(rest), "{login}");
    }
    assert!(
        server
            .log_in("bare", "theirs")
            .await
            .expect("an answer")
            .is_some()
    );
}

/// A file that is gone reads as an empty one, which is a whole list: what tells the two apart is the canary.
#[tokio::test(flavor = "multi_thread")]
async fn r14_o36_a_file_that_is_gone_lists_nobody_and_not_even_the_canary() {
    let (server, ours) = server(DovecotOptions::default()).await;
    let canary = wish("canary", json!({}), |parts| {
        parts.consumer = ConsumerName::canary();
        parts.enabled = false;
    });
    ours.made(&wish("web", json!({ "cost": 5 }), |_| ())).await;
    ours.made(&canary).await;
    let listed = async || {
        let all = ours.adapter.list(&ours.cx, &ours.marker).await;
        all.expect("a list")
    };
    let is_canary = |mark: &MarkSeen| *mark == MarkSeen::OursFor(ConsumerName::canary());
    assert!(listed().await.iter().any(|one| is_canary(&one.mark)));
    let told = server.log_in("canary", "password-of-canary").await;
    assert!(told.expect("an answer").is_none(), "the canary is let in");
    std::fs::remove_file(server.file()).expect("gone");
    assert!(listed().await.is_empty());
}
