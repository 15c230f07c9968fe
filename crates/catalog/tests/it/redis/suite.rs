//! The suite, on each product, without and with an ACL file.

use mesh_catalog::redis::RedisKind;
use mesh_conformance::adapter::run;
use mesh_conformance::servers::Flavor;

use super::bench::RedisBench;

async fn judged(flavor: Flavor, aclfile: bool) {
    let bench = RedisBench::new(flavor, aclfile).await;
    let report = run(&RedisKind, &bench).await;
    println!("{report}");
    report.assert_all_ran();
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_redis_7_without_a_file() {
    judged(Flavor::Redis7, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_redis_7_with_a_file() {
    judged(Flavor::Redis7, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_redis_62_without_a_file() {
    judged(Flavor::Redis62, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_redis_62_with_a_file() {
    judged(Flavor::Redis62, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_valkey_9_without_a_file() {
    judged(Flavor::Valkey9, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_valkey_9_with_a_file() {
    judged(Flavor::Valkey9, true).await;
}
