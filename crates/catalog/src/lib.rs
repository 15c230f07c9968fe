//! The adapters that ship with Meshkeeper: one folder a backend, one cargo feature each.

#[cfg(feature = "dovecot")]
pub mod dovecot;
#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(feature = "exec")]
pub mod exec;
#[cfg(feature = "htpasswd")]
pub mod htpasswd;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
pub use http::{get as http_get, post as http_post};
#[cfg(feature = "ldap")]
pub mod ldap;
#[cfg(feature = "mariadb")]
pub mod mariadb;
#[cfg(feature = "mosquitto")]
pub mod mosquitto;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
#[cfg(feature = "redis")]
pub mod redis;

#[cfg(feature = "password_file")]
mod password_file;

#[allow(dead_code, reason = "a build with few kinds needs few of them")]
mod offered;

#[cfg(any(
    feature = "redis",
    feature = "http",
    feature = "postgres",
    feature = "mariadb",
    feature = "nats",
    feature = "mosquitto",
    feature = "ldap"
))]
#[allow(dead_code, reason = "a build with few kinds needs few of them")]
mod failure;

#[cfg(any(feature = "redis", feature = "postgres", feature = "mariadb"))]
mod guess;

#[cfg(any(
    feature = "redis",
    feature = "http",
    feature = "postgres",
    feature = "mariadb",
    feature = "nats",
    feature = "mosquitto",
    feature = "ldap"
))]
#[cfg_attr(
    not(any(
        feature = "redis",
        feature = "http",
        feature = "postgres",
        feature = "nats",
        feature = "mosquitto",
        feature = "ldap"
    )),
    expect(
        dead_code,
        reason = "the client library for MariaDB takes authorities, and no config"
    )
)]
mod tls;

use std::sync::Arc;

use mesh_sdk::handle::AnyKind;

/// Every kind of backend that this build knows. This is the only list of them.
pub fn catalogue() -> Vec<Arc<dyn AnyKind>> {
    vec![
        #[cfg(feature = "redis")]
        Arc::new(redis::RedisKind),
        #[cfg(feature = "postgres")]
        Arc::new(postgres::PostgresKind),
        #[cfg(feature = "mariadb")]
        Arc::new(mariadb::MariadbKind),
        #[cfg(feature = "rabbitmq")]
        Arc::new(rabbitmq::RabbitKind),
        #[cfg(feature = "nats")]
        Arc::new(nats::NatsKind),
        #[cfg(feature = "mosquitto")]
        Arc::new(mosquitto::MosquittoKind),
        #[cfg(feature = "ldap")]
        Arc::new(ldap::LdapKind),
        #[cfg(feature = "etcd")]
        Arc::new(etcd::EtcdKind),
        #[cfg(feature = "htpasswd")]
        Arc::new(htpasswd::HtpasswdKind),
        #[cfg(feature = "dovecot")]
        Arc::new(dovecot::DovecotKind),
        #[cfg(feature = "exec")]
        Arc::new(exec::ExecKind),
    ]
}
