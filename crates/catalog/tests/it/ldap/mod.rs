//! LDAP directories.

mod bench;
mod meaning;
mod reverse;
mod suite;
mod tls;

use mesh_catalog::ldap::LdapKind;
use mesh_sdk::Wish;
use mesh_sdk::provision::WishParts;
use serde_json::{Value, json};

use crate::wishes::wish_of;

type Ours = crate::ours::Ours<LdapKind>;

fn wish_with(name: &str, values: Value, change: impl FnOnce(&mut WishParts)) -> Wish {
    wish_of(&LdapKind, name, values, change)
}

fn wish(name: &str) -> Wish {
    wish_with(name, json!({}), |_| ())
}
