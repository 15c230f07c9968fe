//! What a manifest may ask of a RabbitMQ server for one consumer, and how apps reach it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The values of a `needs` table for a provider of the kind `rabbitmq`. What is not named is not granted.
///
/// `configure`, `write` and `read` are regular expressions over the names of queues and exchanges, as
/// RabbitMQ has them; one that is not there matches nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RabbitValues {
    /// The virtual host; the one that every server has is `/`. Without it there is no access to any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vhost: Option<String>,
    /// What may be declared and deleted: `^web\.`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub configure: String,
    /// What may be published to and bound.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub write: String,
    /// What may be consumed from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub read: String,
    /// Further virtual hosts, each with its own patterns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Access>,
    /// Limits on routing keys, for each topic exchange that is named. A topic exchange that is not named
    /// takes every key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<Topic>,
    /// The user's tags: `management`, `monitoring`, `policymaker`, `impersonator` and `administrator` give
    /// rights, any other word is a note.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Make the virtual hosts that are not there. Otherwise a missing one is told, and waited for. It is
    /// never removed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub create_vhost: bool,
}

/// Access to one more virtual host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// The virtual host.
    pub vhost: String,
    /// What may be declared and deleted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub configure: String,
    /// What may be published to and bound.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub write: String,
    /// What may be consumed from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub read: String,
}

/// Which routing keys may be used with one topic exchange. `{username}` and `{vhost}` in a pattern stand
/// for what they say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Topic {
    /// The exchange: `amq.topic`.
    pub exchange: String,
    /// Its virtual host, where that is not the main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vhost: Option<String>,
    /// The keys that may be published with.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub write: String,
    /// The keys that may be bound.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub read: String,
}

/// The `options` table of a provider of the kind `rabbitmq`: where apps find the broker. The provider's
/// `url` is the management interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RabbitOptions {
    /// `amqp` or `amqps`; without it `amqps` where the management interface is `https`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amqp_scheme: Option<Amqp>,
    /// The broker's host, where it is not that of the management interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amqp_host: Option<String>,
    /// The broker's port; without it 5672, or 5671 for `amqps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amqp_port: Option<u16>,
}

/// How apps speak to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Amqp {
    /// In plain.
    Amqp,
    /// Over TLS.
    Amqps,
}
