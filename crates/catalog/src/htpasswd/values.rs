//! What a manifest may ask of a password file for one consumer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The values of a `needs` table for a provider of the kind `htpasswd`. A password file knows no rights:
/// who is in it is let in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HtpasswdValues {
    /// How dear the hash is to work out: 2 to the power of this many rounds of bcrypt, 5 to 14. The reader
    /// works it out for each request, and whoever stole the file for each guess. Without it at least 5 for
    /// a password that Meshkeeper made, which nobody can guess, and at least 10 for one that a person chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u32>,
}

/// The `options` table of a provider of the kind `htpasswd`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HtpasswdOptions {
    /// The mode of a file that is made anew, in octal: `0640`, the default. A file that is there keeps its
    /// owner and its mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}
