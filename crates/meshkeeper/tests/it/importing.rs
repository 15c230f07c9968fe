//! `mesh import`: what is printed is a manifest's text, whatever the logins are called.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use mesh_sdk::{ConsumerName, Login, ProviderName};
use meshkeeper::manifest::imported::{Candidate, Imported, LeftOut, import, text, united};
use meshkeeper::manifest::{Manifest, Provider};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::manifest::{GOOD, parse, rendered};

fn candidate(login: &str, values: Value) -> Candidate {
    Candidate {
        login: Login::new(login).expect("login"),
        values,
        enabled: true,
        beyond: Vec::new(),
        differs: Vec::new(),
    }
}

fn plain(login: &str) -> Candidate {
    candidate(login, json!({ "boards": ["a:*"] }))
}

fn store(manifest: &Manifest) -> &Provider {
    &manifest.providers[&ProviderName::new("store").expect("name")]
}

/// Imports into a manifest, and demands that the text fits behind it.
fn imported(manifest: &str, candidates: Vec<Candidate>) -> (Imported, String, Manifest) {
    let reading = parse(manifest);
    let before = reading.problems.errors();
    let base = reading.manifest.expect("a manifest");
    let imported = import(&base, store(&base), candidates, &HashSet::new(), true);
    let text = text(store(&base), &imported);
    let whole = parse(&format!("{manifest}{text}"));
    assert_eq!(
        whole.problems.errors(),
        before,
        "{text}\n{}",
        rendered(&whole)
    );
    let read = whole.manifest.expect("a manifest");
    (imported, text, read)
}

fn asked(manifest: &Manifest) -> BTreeMap<String, String> {
    let all = manifest.provisions.iter();
    all.map(|one| (one.login.to_string(), one.consumer.to_string()))
        .collect()
}

const HOSTILE: &[&str] = &[
    "web app",
    "Web.App",
    "\"]\n[mesh]\nid = \"x\"",
    "'''",
    "a\\b",
    "größe",
    "日本\u{202e}",
    "-rf",
    "#",
    "tab\tand\r",
    "\u{7f}\u{0001}",
];

#[test]
fn h18_a5_whatever_logins_are_called_the_text_is_in_order() {
    let candidates: Vec<Candidate> = HOSTILE.iter().map(|login| plain(login)).collect();
    let (imported, text, read) = imported(GOOD, candidates);
    assert_eq!(imported.tables.len(), HOSTILE.len(), "{imported:?}");
    let asked = asked(&read);
    for login in HOSTILE {
        assert!(asked.contains_key(*login), "{login:?} in {text}");
    }
    insta::assert_snapshot!(text);
    for needed in read.provisions.iter().filter(|one| one.line > 24) {
        assert!(needed.adopt, "{needed:?}");
    }
}

#[test]
fn h18_an_import_tells_what_is_off_beyond_and_different() {
    let mut one = candidate(
        "old",
        json!({ "boards": ["x"], "access": "look", "room": null }),
    );
    one.enabled = false;
    one.beyond = vec!["it may also climb\nthe ladder".to_owned()];
    one.differs = vec!["[2001:db8::7]:7400 does not have it, and would get it".to_owned()];
    let two = candidate("api", json!({ "boards": [], "access": "put", "room": 7 }));
    let (_, text, read) = imported(
        GOOD.split("[consumer.api").next().expect("half"),
        vec![one, two],
    );
    insta::assert_snapshot!(text);
    let old = read
        .provisions
        .iter()
        .find(|one| one.login.as_str() == "old");
    assert!(old.is_some_and(|one| !one.enabled));
}

#[test]
fn h18_what_is_asked_for_or_reserved_or_ours_is_left_out() {
    let manifest = format!(
        "{GOOD}\n[provider.same]\nkind = \"shelf\"\nurl = \"shelf://127.0.0.1\"\n\
         [consumer.job.needs.same]\nboards = []\n"
    );
    let names = [
        "web",
        "api-1",
        "api",
        "job",
        "mesh-canary",
        "sys_x",
        "web__b",
        "new",
        "new__b",
        "a-login-that-is-too-long-for-a-shelf",
    ];
    let candidates = names.iter().map(|login| plain(login)).collect();
    let (imported, _, read) = imported(&manifest, candidates);
    let left: BTreeMap<&str, &LeftOut> = imported
        .left_out
        .iter()
        .map(|(login, why)| (login.as_str(), why))
        .collect();
    for (login, why) in [
        ("web", LeftOut::AskedFor),
        ("api-1", LeftOut::AskedFor),
        ("job", LeftOut::AskedFor),
        ("mesh-canary", LeftOut::Canary),
        ("web__b", LeftOut::Twin),
        ("new__b", LeftOut::Twin),
    ] {
        assert_eq!(left.get(login), Some(&&why), "{login}");
    }
    for login in ["sys_x", "a-login-that-is-too-long-for-a-shelf"] {
        assert!(
            matches!(left.get(login), Some(LeftOut::Refused(_))),
            "{login}"
        );
    }
    // `api` needs `store` already, under another login: this one is somebody else's.
    let tables: Vec<&str> = imported
        .tables
        .iter()
        .map(|t| t.candidate.login.as_str())
        .collect();
    assert_eq!(tables, ["api", "new"]);
    assert_ne!(asked(&read)["api"], "api");
    assert_eq!(asked(&read)["new"], "new");
}

#[test]
fn h18_a_consumer_of_that_name_is_joined_and_others_are_never_taken() {
    let manifest = format!(
        "{GOOD}\n[provider.other]\nkind = \"shelf\"\nurl = \"shelf://127.0.0.9\"\n\
         [consumer.both.needs.other]\nboards = []\n"
    );
    let (imported, text, read) = imported(&manifest, vec![plain("both"), plain("Both")]);
    let joins: Vec<(&str, bool)> = imported
        .tables
        .iter()
        .map(|table| (table.candidate.login.as_str(), table.joins))
        .collect();
    assert_eq!(joins, [("Both", false), ("both", true)], "{text}");
    assert_eq!(asked(&read)["both"], "both");
    assert!(asked(&read)["Both"].starts_with("both-"), "{text}");
}

#[test]
fn h18_one_login_gets_the_same_name_whoever_else_is_there() {
    let name = |candidates: Vec<Candidate>| {
        let (_, _, read) = imported(GOOD, candidates);
        asked(&read)["Web"].clone()
    };
    let alone = name(vec![plain("Web")]);
    assert_eq!(alone, name(vec![plain("Web"), plain("new"), plain("x")]));
    assert!(alone.starts_with("web-"), "{alone}");
}

#[test]
fn h18_nodes_that_hold_the_same_are_one_login() {
    use mesh_sdk::adapter::Found;
    let found = || {
        let login = Login::new("web").expect("login");
        vec![Found::new(login, json!({ "boards": [] }))]
    };
    let all = united(vec![("a".to_owned(), found()), ("b".to_owned(), found())]);
    assert_eq!(all.len(), 1);
    assert!(all[0].differs.is_empty());
}

proptest! {
    #[test]
    fn h18_a5_every_login_becomes_a_table_of_its_own(
        logins in proptest::collection::btree_set("[^\0]{1,6}|[a-z-]{1,5}", 0..12),
        board in "\\PC*",
    ) {
        let logins: BTreeSet<String> = logins;
        let values = json!({ "boards": [format!("b{board}"), "\"'\\\n"] });
        let candidates = logins.iter().map(|login| candidate(login, values.clone())).collect();
        let (imported, _, read) = imported(GOOD, candidates);
        let names: HashSet<&ConsumerName> =
            imported.tables.iter().map(|table| &table.consumer).collect();
        prop_assert_eq!(names.len(), imported.tables.len());
        prop_assert_eq!(imported.tables.len() + imported.left_out.len(), logins.len());
        let asked = asked(&read);
        for table in &imported.tables {
            let consumer = asked.get(table.candidate.login.as_str()).map(String::as_str);
            prop_assert_eq!(consumer, Some(table.consumer.as_str()));
        }
    }
}
