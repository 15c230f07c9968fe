//! The suite, with an admin that has the least rights.

use mesh_catalog::rabbitmq::RabbitKind;

use super::bench::RabbitBench;
use crate::judged::judge;

#[tokio::test(flavor = "multi_thread")]
async fn a8_rabbitmq_310() {
    judge(&RabbitKind, &RabbitBench::new().await, "rabbitmq-3.10").await;
}
