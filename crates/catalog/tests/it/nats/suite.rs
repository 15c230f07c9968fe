//! The suite, with the least rights that the page names.

use mesh_catalog::nats::NatsKind;

use super::bench::NatsBench;
use crate::judged::judge;

#[tokio::test(flavor = "multi_thread")]
async fn a8_nats() {
    let bench = NatsBench::new().await;
    judge(&NatsKind, &bench, "nats-2.15").await;
}
