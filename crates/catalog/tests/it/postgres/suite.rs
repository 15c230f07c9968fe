//! The suite, on each version, with a superuser and with the least rights.

use mesh_catalog::postgres::PostgresKind;
use mesh_conformance::servers::PostgresFlavor;

use super::bench::{PostgresBench, Who};
use crate::judged::judge;

async fn judged(flavor: PostgresFlavor, who: Who) {
    let bench = PostgresBench::new(flavor, who).await;
    let how = match who {
        Who::Super => "superuser",
        Who::Least => "least",
        Who::Blind => "blind",
    };
    let name = format!("postgres-{}-{how}", flavor.major());
    judge(&PostgresKind, &bench, &name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_postgres_15_with_a_superuser() {
    judged(PostgresFlavor::V15, Who::Super).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_postgres_15_with_the_least_rights() {
    judged(PostgresFlavor::V15, Who::Least).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_postgres_15_without_a_look_at_verifiers() {
    judged(PostgresFlavor::V15, Who::Blind).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_postgres_16_with_the_least_rights() {
    judged(PostgresFlavor::V16, Who::Least).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_postgres_18_with_the_least_rights() {
    judged(PostgresFlavor::V18, Who::Least).await;
}
