//! What a manifest may say of a program: its options, and the values that it is handed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The values of a `needs` table for a provider of the kind `exec`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecValues {
    /// What the program needs to know beside login and password, in its own words. It is handed over as it
    /// is, and the program refuses what it does not know.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
    /// What it leaves behind that outlives its login, under the names by which the program's `purge` knows
    /// it. Nothing is done with it unless a person says `mesh purge`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<String>,
}

/// The `options` table of a provider of the kind `exec`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecOptions {
    /// Arguments of the program's command line. Anybody on this machine can read them: never a secret.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// What the program needs to know of its backend, in its own words: handed over when it starts.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
    /// The `values` of a login that may do nothing, in the program's own words. With them Meshkeeper keeps one
    /// such login of its own, and only where that is in the list is anybody removed who left the manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<Map<String, Value>>,
    /// The address that apps are told, such as `https://git.example`; the program's own, if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}
