//! What a manifest may ask of Dovecot's file of logins for one consumer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The values of a `needs` table for a provider of the kind `dovecot`. What is left out is empty in the file, and
/// Dovecot's own defaults hold (`default_fields`, `mail_uid`, `mail_home`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DovecotValues {
    /// The networks that may log in, each an address or `ADDRESS/BITS`, or `local` for connections without an
    /// address: Dovecot's `allow_nets`. Without any, logins come from anywhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_nets: Vec<String>,
    /// The number of the user whose mail it is. Not 0: Dovecot refuses root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The number of that user's group. Not 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// The home folder, an absolute path. Nothing makes it, moves it or takes it away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// How dear the hash is to work out: 2 to the power of this many rounds of bcrypt, 5 to 14. Dovecot works it
    /// out for each login, in the one process that all logins wait for. Without it at least 5 for a password
    /// that Meshkeeper made, which nobody can guess, and at least 10 for one that a person chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u32>,
}

/// The `options` table of a provider of the kind `dovecot`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DovecotOptions {
    /// Dovecot takes any name of a login, as it is written: its `auth_username_chars` is empty and its
    /// `auth_username_format` is `%u`. By itself it takes `a-z`, `0-9`, `.`, `-`, `_` and `@` only, and makes
    /// letters small.
    pub any_login: bool,
    /// The mode of a file that is made anew, in octal: `0640`, the default. A file that is there keeps its
    /// owner and its mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}
