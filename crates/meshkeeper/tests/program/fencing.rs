//! B-4: the number of a provider's lease stands on the server that can check it, and grows with each holder.

use std::time::Duration;

use rustix::process::Signal;

use crate::lab::{Lab, Up};
use crate::postgres::{Postgres, login_alone};
use crate::shared::{Nats, host, joined};
use crate::wait::{stays, until};

fn well(lab: &Lab) {
    until("the picture is well", 30, || match lab.mesh(&["status"]) {
        ran if ran.code == 0 => Ok(()),
        ran => Err(ran),
    });
}

#[test]
fn b4_the_fence_on_a_server_grows_with_each_holder_and_a_stopped_one_leaves_it_alone() {
    let (nats, postgres) = (Nats::start(1), Postgres::start());
    let sql = |text: &str| postgres.sql(text).trim().to_owned();
    let fence = || {
        sql("SELECT shobj_description(oid, 'pg_authid') FROM pg_roles \
             WHERE rolname LIKE 'mesh-canary-%'")
    };
    let is_there = |name: &str| {
        sql(&format!(
            "SELECT count(*) FROM pg_roles WHERE rolname = '{name}'"
        )) == "1"
    };
    let asks_for = |labs: &[Lab], consumers: &[&str]| {
        for lab in labs {
            postgres.asked_for(lab, &nats.line(), consumers, login_alone, "");
        }
    };
    let made = |name: &str, up: &Up| {
        until("it is made", 90, || match is_there(name) {
            true => Ok(()),
            false => Err(up.log()),
        });
    };
    let first = host("one");
    asks_for(std::slice::from_ref(&first), &["web"]);
    first.mesh(&["bus", "bootstrap"]).ends(0);
    let second = joined("two", &first);
    let labs = [first, second];
    asks_for(&labs, &["web"]);
    let one = labs[0].up(&[]);
    made("web", &one);
    asks_for(&labs, &["web", "next"]);
    made("next", &one);
    let (before, by) = (fence(), "-one mk1.");
    assert!(
        before.starts_with("mkf1.") && before.contains(by),
        "{before}"
    );

    let two = labs[1].up(&[]);
    well(&labs[0]);
    one.halt();
    sql("DROP ROLE web");
    made("web", &two);
    let after = fence();
    assert!(
        after.contains(".2.") && after.contains("-two mk1."),
        "{after}"
    );
    two.halt();
    sql("DROP ROLE next");
    one.signal(Signal::CONT);
    stays("nothing is written", Duration::from_secs(8), || {
        (!is_there("next") && fence() == after, one.log())
    });
    two.signal(Signal::CONT);
    made("next", &two);
    let told = fence();
    assert!(told.starts_with("mkf1.") && told != before, "{told}");
}
