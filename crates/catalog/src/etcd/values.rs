//! What a manifest may ask of an etcd cluster for one consumer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The values of a `needs` table for a provider of the kind `etcd`. What is not named is not granted.
///
/// A prefix is every key that begins with it; the empty one is every key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EtcdValues {
    /// Prefixes of keys to read and write: `/web/`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prefixes: Vec<String>,
    /// Prefixes of keys to read only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_prefixes: Vec<String>,
    /// Prefixes of keys to write only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write_prefixes: Vec<String>,
    /// Single keys to read and write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Single keys to read only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_keys: Vec<String>,
    /// Single keys to write only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write_keys: Vec<String>,
}

/// The `options` table of a provider of the kind `etcd`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EtcdOptions {
    /// The cost of the bcrypt hash that is made here of a password that a person chose, 4 to 15; without
    /// it 10. One that Meshkeeper made has cost 4: no guessing can reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bcrypt_cost: Option<u32>,
}
