//! What a manifest may ask of a NATS server for one consumer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The values of a `needs` table for a provider of the kind `nats`. What is not named is not granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NatsValues {
    /// Subjects to publish to, as NATS writes them: `orders.>`, `orders.*.new`. A lone `>` means every
    /// subject.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub publish: Vec<String>,
    /// Subjects that must not be published to, although `publish` covers them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub publish_deny: Vec<String>,
    /// Subjects to subscribe to; a queue group may follow behind a space: `orders.> workers`. Answers to
    /// requests come in on `_INBOX.>`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subscribe: Vec<String>,
    /// Subjects that must not be subscribed to, although `subscribe` covers them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subscribe_deny: Vec<String>,
    /// Whether requests that arrive may be answered, whatever `publish` says.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_responses: bool,
    /// How it may connect; none named means every way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connection_types: Vec<ConnectionType>,
}

/// A way to connect.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ConnectionType {
    /// A plain or TLS connection of a NATS client.
    Standard,
    /// A NATS client over WebSocket.
    Websocket,
    /// Another server as a leaf node.
    Leafnode,
    /// A leaf node over WebSocket.
    LeafnodeWs,
    /// An MQTT client.
    Mqtt,
    /// An MQTT client over WebSocket.
    MqttWs,
    /// A client within the server's own process.
    InProcess,
}

impl ConnectionType {
    const ALL: [Self; 7] = [
        Self::Standard,
        Self::Websocket,
        Self::Leafnode,
        Self::LeafnodeWs,
        Self::Mqtt,
        Self::MqttWs,
        Self::InProcess,
    ];
    /// The one with this word.
    pub(super) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }
    /// The word in the server's configuration.
    pub(super) const fn word(self) -> &'static str {
        match self {
            ConnectionType::Standard => "STANDARD",
            ConnectionType::Websocket => "WEBSOCKET",
            ConnectionType::Leafnode => "LEAFNODE",
            ConnectionType::LeafnodeWs => "LEAFNODE_WS",
            ConnectionType::Mqtt => "MQTT",
            ConnectionType::MqttWs => "MQTT_WS",
            ConnectionType::InProcess => "IN_PROCESS",
        }
    }
}

/// The `options` table of a provider of the kind `nats`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NatsOptions {
    /// The file with the account's `users`, which the server's configuration includes: an absolute path
    /// on this machine.
    pub users_file: String,
    /// The bcrypt cost for passwords that people chose, 4 to 14. The server spends it on every login and,
    /// at a reload, on every open connection. Passwords that Meshkeeper made need no more than 4.
    #[serde(default = "default_cost")]
    pub bcrypt_cost: u32,
}

fn default_cost() -> u32 {
    11
}
