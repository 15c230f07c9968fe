//! What a manifest may ask of a Mosquitto broker for one consumer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The values of a `needs` table for a provider of the kind `mosquitto`. What is not named is not granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MosquittoValues {
    /// Topics to publish to, with MQTT's wildcards: `house/+/state`, `house/#`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub publish: Vec<String>,
    /// Topics to subscribe to and to receive, with MQTT's wildcards.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subscribe: Vec<String>,
    /// Roles that exist on the broker and that this consumer is to have beside its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
}
