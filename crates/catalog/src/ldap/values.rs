//! What a manifest may ask of a directory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The values of a `needs` table for a provider of the kind `ldap`. What is not named is not granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LdapValues {
    /// Groups that it is a member of, by the value of their `cn`, right below the entry that the provider's
    /// option `groups` names. They must be there: groups are not made here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
}

/// The `options` table of a provider of the kind `ldap`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LdapOptions {
    /// The entry that groups lie right below, such as `ou=groups,dc=example`. Without it no memberships are
    /// asked for or looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<String>,
    /// The attribute that holds a group's members by their names: `member`, if not given, or `uniqueMember`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// How passwords are kept.
    pub hash: Hash,
    /// The directory takes one password for each entry, as its overlay `ppolicy` does: a rotation uses two
    /// logins in turn then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub one_password: bool,
}

impl LdapOptions {
    /// The attribute of members.
    pub(super) fn member(&self) -> &str {
        self.member.as_deref().unwrap_or("member")
    }
}

/// A scheme of `userPassword`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Hash {
    /// `{SSHA}`: salted SHA-1, known to every server. Enough for a password that Meshkeeper made.
    #[default]
    Ssha,
    /// `{SSHA512}`: salted SHA-512. OpenLDAP needs its module `pw-sha2`.
    Ssha512,
}
