//! A bus of which there are two: after a restore, or servers that disagree (split brain), two hosts each find a bus
//! that says that the lease is theirs, with the same number. No lease excludes that. Nobody's password is another one,
//! nobody is removed, the server itself refuses one of the two (B-4), and once there is one bus again all agree.

use std::time::Duration;

use mesh_conformance::servers::PostgresServer;

use super::mesh::{SOON, copy_tree};
use super::{LOG, STATE};
use crate::lab::{Lab, Up};
use crate::postgres::{Postgres, login_alone};
use crate::shared::{Nats, host, joined};
use crate::wait::{stays, until};

fn asks_for(lab: &Lab, nats: &Nats, postgres: &Postgres, consumers: &[&str]) {
    postgres.asked_for(lab, &nats.line(), consumers, login_alone, "");
}

fn acts(up: &Up) {
    until("it has the lease", 2 * SOON, || match up.log() {
        log if log.contains("this host has the lease") => Ok(()),
        log => Err(log),
    });
}

/// Another bus with everything that this one holds.
fn copied(nats: &mut Nats) -> Nats {
    let mut other = Nats::start(1);
    nats.runtime
        .block_on(nats.cluster.terminate(0))
        .expect("ended");
    other
        .runtime
        .block_on(other.cluster.terminate(0))
        .expect("ended");
    std::fs::remove_dir_all(other.cluster.store(0)).expect("removed");
    copy_tree(&nats.cluster.store(0), &other.cluster.store(0));
    for one in [nats, &mut other] {
        one.cluster.launch_again(0).expect("again");
        for stream in [STATE, LOG] {
            one.runtime
                .block_on(one.cluster.current(stream))
                .expect("current");
        }
    }
    other
}

#[test]
fn b4_two_holders_on_two_copies_of_a_bus_change_nobodys_password() {
    let (mut nats, postgres) = (Nats::start(1), Postgres::start());
    let first = host("one");
    asks_for(&first, &nats, &postgres, &["web"]);
    first.mesh(&["bus", "bootstrap"]).ends(0);
    first.mesh(&["apply"]).ends(0);
    let second = joined("two", &first);
    second.write("admin.password", PostgresServer::PASSWORD);
    second.mesh(&["apply"]).ends(0);
    let web = first.password("web", "it");
    assert_eq!(second.password("web", "it"), web);

    let other = copied(&mut nats);
    asks_for(&second, &other, &postgres, &["web"]);
    let (one, mut two) = (first.up(&[]), second.up(&[]));
    acts(&one);
    acts(&two);
    postgres.sql("DROP ROLE web");
    until("web is back", 2 * SOON, || {
        let back = postgres.enters("web", &web);
        back.then_some(()).ok_or_else(|| (one.log(), two.log()))
    });
    // Each mints a password for who is new, and knows nothing of the other's: one of the two is refused.
    asks_for(&first, &nats, &postgres, &["web", "next"]);
    asks_for(&second, &other, &postgres, &["web", "next"]);
    until("next is there", 2 * SOON, || {
        let count = postgres.sql("SELECT count(*) FROM pg_roles WHERE rolname = 'next'");
        (count.trim() == "1")
            .then_some(())
            .ok_or_else(|| (one.log(), two.log()))
    });
    let rows = postgres.rows();
    stays("the two do not fight", Duration::from_secs(8), || {
        (postgres.rows() == rows, (one.log(), two.log()))
    });
    assert!(postgres.enters("web", &web));

    // One bus again: the first one's.
    two.stop().ends(0);
    asks_for(&second, &nats, &postgres, &["web", "next"]);
    let two = second.up(&[]);
    for (lab, up) in [(&first, &one), (&second, &two)] {
        until("all are held", 2 * SOON, || match lab.states() {
            all if all == ["next=held", "web=held"] => Ok(()),
            all => Err((all, up.log())),
        });
    }
    let next = first.password("next", "it");
    assert!(postgres.enters("web", &web) && postgres.enters("next", &next));
    assert_eq!(second.password("next", "it"), next);
    let rows = postgres.rows();
    until("nothing else is told", 2 * SOON, || {
        let ran = first.mesh(&["apply"]);
        let told = first.conditions();
        let rest = told
            .iter()
            .filter(|one| *one != "BusReplaced store")
            .count();
        (rest == 0).then_some(()).ok_or((ran, told))
    });
    assert_eq!(postgres.rows(), rows, "again changes nothing");
}
