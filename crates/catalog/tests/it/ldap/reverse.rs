//! What people's own entries can be taken over as.

use mesh_conformance::servers::LdapOptions;
use serde_json::json;

use super::bench::{BASE, LEAST, dn, line, server, settings};
use super::{Ours, wish_with};

#[tokio::test(flavor = "multi_thread")]
async fn h18_o10_entries_of_people_are_found_where_their_name_is_nobody_elses() {
    // A policy allows no second password.
    let slapd = server(LdapOptions {
        access: LEAST.to_owned(),
        lenient: true,
        ..LdapOptions::default()
    })
    .await;
    let ours = Ours::on(settings(
        slapd.port(),
        json!({ "groups": "ou=groups,dc=example" }),
    ));
    let entry = |name: &str, more: &str| {
        [
            line("dn", &dn(name)),
            "objectClass: account\nobjectClass: simpleSecurityObject\n".to_owned(),
            line("uid", name),
            line("userPassword", "theirs"),
            more.to_owned(),
        ]
        .concat()
    };
    for text in [
        entry("hand", "description: the printer\n"),
        entry("Upper", ""),
        entry("two", "userPassword: another\n"),
        entry("a*", ""),
        entry("ab", ""),
    ] {
        slapd.add(&text).await.expect("an entry");
    }
    let group = format!(
        "dn: cn=Printers,ou=groups,dc=example\nobjectClass: groupOfNames\ncn: Printers\nmember: uid=hand,{BASE}\n"
    );
    slapd.add(&group).await.expect("a group");
    let all = ours.found_all().await;
    let told: Vec<_> = all
        .iter()
        .map(|one| (one.login.as_str(), one.beyond.join("; ")))
        .collect();
    let wanted = [
        ("a*", String::new()),
        ("ab", String::new()),
        ("hand", "group Printers".to_owned()),
        (
            "two",
            "a second password, which goes when it is adopted".to_owned(),
        ),
    ];
    assert_eq!(told, wanted);
    assert!(all.iter().all(|one| one.values == json!({}) && one.enabled));
    // And it is held so, but for the mark; what is beyond stays.
    let hand = wish_with("hand", json!({}), |parts| {
        parts.password = Some("theirs".into());
    });
    let asked = mesh_sdk::handle::Asked {
        wish: &hand,
        adopted: true,
    };
    ours.adapter
        .create(&ours.cx, &ours.marker, asked)
        .await
        .expect("adopted");
    let kept = slapd
        .search("ou=groups,dc=example", "(cn=Printers)", &["member"])
        .await
        .expect("a search");
    assert!(kept.contains("uid=hand"), "{kept}");
}
