//! Several nodes that do not share logins, replicas included (H-21, O-21).

use crate::lab::{Lab, need};
use crate::redis::{Redis, free_port};
use crate::restarting::settled;
use crate::wait::until_true;

fn manifest(lab: &Lab, urls: &[String], lines: &str) {
    let mut text = format!(
        "[mesh]\nid = \"home\"\n\n[provider.cache]\nkind = \"redis\"\nurls = {urls:?}\n{lines}\n"
    );
    need(&mut text, "web", "cache", "");
    need(&mut text, "api", "cache", "");
    lab.manifest(&text);
}

#[test]
fn h21_o21_users_are_put_on_master_and_replica_and_a_failover_needs_no_pass() {
    let (lab, mut master) = (Lab::new(), Redis::start());
    let replica = Redis::with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    manifest(&lab, &[master.url(), replica.url()], "");
    lab.mesh(&["apply"]).ends(0);
    let password = lab.password("web", "cache");
    for node in [&master, &replica] {
        assert!(node.lets_in("web", &password) && node.users().len() == 2);
    }
    master.kill();
    replica.ask(&["REPLICAOF", "NO", "ONE"]);
    assert!(replica.lets_in("web", &password));
    // One node away: neither held nor lost, and never a write for it elsewhere.
    lab.mesh(&["apply"]).ends(3);
    assert_eq!(lab.states(), ["api=unknown", "web=unknown"]);
    let why = lab.mesh(&["explain", "web"]).ends(0);
    assert!(
        why.out
            .contains(&format!("cache@127.0.0.1:{}", master.port)),
        "{why:#?}"
    );
}

#[test]
fn h21_a_node_that_was_down_is_filled_when_it_returns() {
    let (lab, one) = (Lab::new(), Redis::start());
    let mut two = Redis::start();
    manifest(&lab, &[one.url(), two.url()], "verify_every = \"1s\"");
    two.kill();
    lab.mesh(&["apply"]).ends(3);
    let password = lab.password("web", "cache");
    assert!(one.lets_in("web", &password));
    assert_eq!(lab.states(), ["api=unknown", "web=unknown"]);
    let _up = lab.up(&[]);
    two.start_again();
    until_true("the second node is filled", 20, || {
        (two.users().len() == 2, two.users())
    });
    assert!(two.lets_in("web", &password));
    settled(&lab);
    // A loss on one node is healed on that node alone.
    let writes = one.writes();
    two.ask(&["ACL", "DELUSER", "web"]);
    until_true("healed on its node", 20, || {
        (two.users().len() == 2, two.users())
    });
    assert_eq!(one.writes(), writes);
}

#[test]
fn h21_a_provision_is_held_when_every_node_holds_it() {
    let (lab, one, two) = (Lab::new(), Redis::start(), Redis::start());
    manifest(&lab, &[one.url(), two.url()], "");
    lab.mesh(&["apply"]).ends(0);
    lab.mesh(&["apply"]).ends(0);
    two.ask(&["ACL", "SETUSER", "web", "off"]);
    let plan = lab.mesh(&["plan", "--json"]).ends(2).json();
    let changes = plan["changes"].as_array().expect("changes");
    assert_eq!(changes.len(), 1, "{plan:#}");
    assert_eq!(
        changes[0]["provider"],
        format!("cache@127.0.0.1:{}", two.port)
    );
}

#[test]
fn c3_conditions_of_a_node_that_is_named_no_more_are_closed() {
    let (lab, one) = (Lab::new(), Redis::start());
    let away = format!("redis://127.0.0.1:{}", free_port());
    manifest(&lab, &[one.url(), away], "unknown_after = \"1s\"");
    lab.mesh(&["apply"]).ends(3);
    until_true("it is told", 20, || {
        lab.mesh(&["apply"]);
        let all = lab.conditions();
        (all.iter().any(|c| c.starts_with("BackendUnreachable")), all)
    });
    manifest(&lab, &[one.url()], "");
    lab.mesh(&["apply"]);
    lab.mesh(&["apply"]).ends(0);
    let over = lab.mesh(&["conditions", "--all"]).ends(0);
    assert!(over.out.contains("SubjectRetired"), "{over:#?}");
}
