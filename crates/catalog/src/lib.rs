//! The adapters that ship with Meshkeeper: one folder a backend, one cargo feature each.

#[cfg(feature = "exec")]
pub mod exec;
#[cfg(feature = "redis")]
pub mod redis;

#[cfg(any(
    feature = "redis",
    feature = "http",
    feature = "postgres",
    feature = "mariadb",
    feature = "nats",
    feature = "mosquitto",
    feature = "ldap"
))]
mod tls;

use std::sync::Arc;

use mesh_sdk::handle::AnyKind;

/// Every kind of backend that this build knows. This is the only list of them.
pub fn catalogue() -> Vec<Arc<dyn AnyKind>> {
    vec![
        #[cfg(feature = "redis")]
        Arc::new(redis::RedisKind),
        #[cfg(feature = "exec")]
        Arc::new(exec::ExecKind),
    ]
}
