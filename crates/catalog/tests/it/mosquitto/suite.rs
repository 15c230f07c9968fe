//! The suite, with the least rights that the page names.

use mesh_catalog::mosquitto::MosquittoKind;

use super::bench::MosquittoBench;
use crate::judged::judge;

#[tokio::test(flavor = "multi_thread")]
async fn a8_mosquitto() {
    let bench = MosquittoBench::new().await;
    judge(&MosquittoKind, &bench, "mosquitto-2.0").await;
}
