//! What a manifest may ask of a PostgreSQL server for one consumer, and what a provider may say of itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The values of a `needs` table for a provider of the kind `postgres`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PostgresValues {
    /// The database. Where `privileges` is `owner` it is made if it is not there.
    pub database: String,
    /// What the login may do in it: `owner`, `readwrite`, `readonly`, or `none`.
    pub privileges: Privileges,
    /// The schemas that the privileges are about: `public` unless said otherwise. Those of an owner are
    /// made if they are not there.
    #[serde(default = "public", skip_serializing_if = "is_public")]
    pub schemas: Vec<String>,
    /// Extensions that an owner's database must have. None is ever dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// How many connections at once the login may have; without it, no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_limit: Option<u32>,
}

/// What a login may do in its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Privileges {
    /// The database is its own: it may make and drop what it likes there.
    Owner,
    /// Reads and writes the rows of all tables, now and later, of the schemas.
    ReadWrite,
    /// Reads the rows of all tables, now and later, of the schemas.
    ReadOnly,
    /// Nothing is granted: what it may do comes from everybody's rights, and from roles that a person makes
    /// it a member of.
    #[serde(rename = "none")]
    Nothing,
}

impl Privileges {
    /// The word in the manifest.
    pub const fn as_str(self) -> &'static str {
        match self {
            Privileges::Owner => "owner",
            Privileges::ReadWrite => "readwrite",
            Privileges::ReadOnly => "readonly",
            Privileges::Nothing => "none",
        }
    }
}

fn public() -> Vec<String> {
    vec!["public".to_owned()]
}

fn is_public(schemas: &[String]) -> bool {
    schemas == ["public"]
}

/// A provider's own settings: `[provider.x.options]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PostgresOptions {
    /// Rounds of the SCRAM verifier of a password that Meshkeeper made. Fewer than 4096 make new logins
    /// far cheaper for the server and weaken nothing, and some clients (JDBC) refuse them.
    pub generated_rounds: u32,
    /// Rounds of the SCRAM verifier of a password that a person chose: 4096 at least.
    pub given_rounds: u32,
    /// How many connections to the server work at once, at most; one more waits for hints.
    pub connections: u32,
    /// How many idle sessions are kept for the next pass, at most, one for each database that is asked; never
    /// more than an eighth of the server's `max_connections`. 0 keeps none. While one is kept in a database,
    /// nobody drops, renames or copies that without `FORCE`.
    pub kept_sessions: u32,
    /// The role that owns what removed logins leave behind. It cannot log in.
    pub keeper: String,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            generated_rounds: 4096,
            given_rounds: 4096,
            connections: 3,
            kept_sessions: 16,
            keeper: "meshkeeper_keeper".to_owned(),
        }
    }
}
