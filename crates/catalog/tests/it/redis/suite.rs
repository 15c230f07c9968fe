//! The suite, on each product, without and with an ACL file.

use mesh_catalog::redis::RedisKind;
use mesh_conformance::servers::Flavor;

use super::bench::RedisBench;
use crate::judged::judge;

async fn judged(flavor: Flavor, aclfile: bool) {
    let bench = RedisBench::new(flavor, aclfile).await;
    let version = match flavor {
        Flavor::Redis7 => "7.0",
        Flavor::Redis62 => "6.2",
        Flavor::Valkey9 => "valkey9",
    };
    let file = if aclfile { "-aclfile" } else { "" };
    judge(&RedisKind, &bench, &format!("redis-{version}{file}")).await;
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
