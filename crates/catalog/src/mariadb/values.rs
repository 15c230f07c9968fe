//! What a manifest may ask of a MariaDB server for one consumer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The values of a `needs` table for a provider of the kind `mariadb`. What is not named is not granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MariadbValues {
    /// The database that the login works in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// What it may do there: `owner` (everything but handing rights on; a missing database is made),
    /// `readwrite` (the default), `readonly`, or a list of MariaDB's own names for privileges:
    /// `["SELECT", "EXECUTE"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privileges: Option<Privileges>,
    /// Further databases, each with what the login may do there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<DatabaseRights>,
    /// Privileges on the whole server, by MariaDB's own names: `["PROCESS", "SLAVE MONITOR"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub global: Vec<String>,
    /// Where it may connect from, as MariaDB writes hosts: `%` (the default, everywhere), `10.0.%`,
    /// `localhost`, `10.0.0.0/255.255.255.0`. The account is the login and this together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How it logs in.
    #[serde(skip_serializing_if = "Auth::is_default")]
    pub auth: Auth,
    /// How many connections it may have at once; without it there is no limit of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
}

/// Rights in one further database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseRights {
    /// The database.
    pub database: String,
    /// What the login may do there, as in `privileges`.
    pub privileges: Privileges,
}

/// What a login may do in a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Privileges {
    /// A set of privileges by one word.
    Set(Set),
    /// MariaDB's own names for privileges.
    Each(Vec<String>),
}

/// The words for sets of privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Set {
    /// Everything in the database but handing rights on. The database is made where it is missing.
    Owner,
    /// SELECT, INSERT, UPDATE, DELETE, EXECUTE, SHOW VIEW, CREATE TEMPORARY TABLES, LOCK TABLES.
    Readwrite,
    /// SELECT and SHOW VIEW.
    Readonly,
}

/// How a login proves itself to the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// `mysql_native_password`: every client knows it.
    #[default]
    Native,
    /// `ed25519`: stronger, for clients of MariaDB. The server needs `INSTALL SONAME 'auth_ed25519'`.
    Ed25519,
}

impl Auth {
    fn is_default(&self) -> bool {
        *self == Auth::default()
    }
}

impl MariadbValues {
    /// The host part of the account, as the server keeps it.
    pub(super) fn account_host(&self) -> String {
        match &self.host {
            Some(host) => host.to_ascii_lowercase(),
            None => "%".to_owned(),
        }
    }
    /// Every database that is named, with what is asked for there.
    pub(super) fn databases(&self) -> impl Iterator<Item = (&str, &Privileges)> {
        const DEFAULT: &Privileges = &Privileges::Set(Set::Readwrite);
        let first = self.database.iter().map(|name| {
            let asked = self.privileges.as_ref().unwrap_or(DEFAULT);
            (name.as_str(), asked)
        });
        let further = self.also.iter();
        first.chain(further.map(|one| (one.database.as_str(), &one.privileges)))
    }
}
