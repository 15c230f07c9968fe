//! The suite, with each kind of admin and each way of logging in.

use mesh_catalog::mariadb::MariadbKind;

use super::bench::{ALL, LEAST, MariadbBench};
use crate::judged::judge;

/// With no more rights than the kind's page names.
#[tokio::test(flavor = "multi_thread")]
async fn a8_s8_with_the_least_rights() {
    let bench = MariadbBench::new("least rights", LEAST, "native").await;
    judge(&MariadbKind, &bench, "mariadb-10.11").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_with_an_admin_of_all_rights() {
    let bench = MariadbBench::new("an admin of all rights", ALL, "native").await;
    judge(&MariadbKind, &bench, "mariadb-10.11-all-rights").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_with_ed25519() {
    let bench = MariadbBench::new("ed25519", LEAST, "ed25519").await;
    judge(&MariadbKind, &bench, "mariadb-10.11-ed25519").await;
}
