//! What people's own entries can be taken over as, and what a lost file shows.

use mesh_conformance::servers::htpasswd;
use mesh_sdk::{ConsumerName, MarkSeen, Secret};

use super::{in_folder, read, wish, wish_with};

#[tokio::test(flavor = "multi_thread")]
async fn h18_entries_whose_password_can_be_proven_are_found() {
    let (_folder, path, ours) = in_folder();
    let file = path.to_str().expect("a path");
    for args in [
        ["-cbB", file, "bcrypt", "theirs"],
        ["-bm", file, "md5", "theirs"],
        ["-bs", file, "sha", "theirs"],
    ] {
        assert_eq!(htpasswd(&args).await.expect("it runs"), 0);
    }
    let hash = read(&path)
        .lines()
        .find_map(|line| line.strip_prefix("bcrypt:").map(str::to_owned))
        .expect("a hash");
    let more = format!("off:!{hash}\ntwice:{hash}\ntwice:{hash}\n a:{hash}\n");
    std::fs::write(&path, read(&path) + &more).expect("written");
    ours.made(&wish("web")).await;
    let all = ours.found_all().await;
    let told: Vec<_> = all
        .iter()
        .map(|one| (one.login.as_str(), one.enabled, one.beyond.len()))
        .collect();
    let wanted = [
        ("bcrypt", true, 0),
        ("off", false, 0),
        ("twice", true, 1),
        ("web", true, 0),
    ];
    assert_eq!(told, wanted);
    // Adopted as it stands, without a new hash.
    let theirs = wish_with("bcrypt", |parts| {
        parts.password = Some(Secret::from("theirs"));
    });
    let asked = mesh_sdk::handle::Asked {
        wish: &theirs,
        adopted: true,
    };
    ours.adapter
        .create(&ours.cx, &ours.marker, asked)
        .await
        .expect("adopted");
    assert!(read(&path).contains(&format!("\nbcrypt:{hash}\n")));
}

/// A file that is gone reads as an empty one, which is a whole list: what tells the two apart is the canary.
#[tokio::test(flavor = "multi_thread")]
async fn r14_o36_a_file_that_is_gone_lists_nobody_and_not_even_the_canary() {
    let (_folder, path, ours) = in_folder();
    let canary = wish_with("canary", |parts| {
        parts.consumer = ConsumerName::canary();
        parts.enabled = false;
    });
    ours.made(&wish("web")).await;
    ours.made(&canary).await;
    let listed = async || {
        let all = ours.adapter.list(&ours.cx, &ours.marker).await;
        all.expect("a list")
    };
    let is_canary = |mark: &MarkSeen| *mark == MarkSeen::OursFor(ConsumerName::canary());
    assert!(listed().await.iter().any(|one| is_canary(&one.mark)));
    std::fs::remove_file(&path).expect("gone");
    assert!(listed().await.is_empty());
}
