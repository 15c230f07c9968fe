//! The suite, on each version.

use mesh_catalog::etcd::EtcdKind;
use mesh_conformance::servers::EtcdFlavor;

use super::bench::EtcdBench;
use crate::judged::judge;

#[tokio::test(flavor = "multi_thread")]
async fn a8_etcd_34() {
    judge(
        &EtcdKind,
        &EtcdBench::new(EtcdFlavor::Etcd34).await,
        "etcd-3.4",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_etcd_35() {
    judge(
        &EtcdKind,
        &EtcdBench::new(EtcdFlavor::Etcd35).await,
        "etcd-3.5",
    )
    .await;
}
