//! What a manifest may ask of a Redis or Valkey server for one consumer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The values of a `needs` table for a provider of the kind `redis`. What is not named is not granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RedisValues {
    /// Patterns of keys to read and write, as Redis writes them without `~`: `web:*`. A lone `*` means
    /// every key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Patterns of keys to read only (Redis 7.0 or later, Valkey).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_keys: Vec<String>,
    /// Patterns of keys to write only (Redis 7.0 or later, Valkey).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write_keys: Vec<String>,
    /// Patterns of publish/subscribe channels, without `&`. A lone `*` means every channel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
    /// Rules for commands, in their order, starting from no command: `+@read`, `+set`, `-flushall`,
    /// `+config|get`, `allcommands`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Further sets of rules; a command is allowed if any one set allows all of it (Redis 7.0 or later,
    /// Valkey).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<Selector>,
}

/// A further set of rules beside the main one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Selector {
    /// Patterns of keys to read and write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Patterns of keys to read only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_keys: Vec<String>,
    /// Patterns of keys to write only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write_keys: Vec<String>,
    /// Patterns of publish/subscribe channels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
    /// Rules for commands, in their order, starting from no command. A set without any grants nothing
    /// and is refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}
