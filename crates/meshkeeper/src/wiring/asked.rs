//! What a manifest asks for, as one digest: by it a host knows whether the wish that another put in force is
//! its own manifest's, too.
//!
//! Nothing of it depends on the host: not what its secret store holds, not which passwords were minted, not
//! where a secret lies, not what people said.

use mesh_sdk::mark::keyed;
use mesh_sdk::{Secret, Wish};

use super::fleet;
use super::wish::hex;
use crate::manifest::{Manifest, Needed, PasswordSource};

fn digest(domain: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    keyed(&Secret::from("wish"), domain, parts)
}

/// What one provision asks for, with the password that a person gave.
pub(super) fn by(needed: &Needed, password: Option<&Secret>, key: &Secret) -> [u8; 32] {
    let given = match needed.password {
        PasswordSource::Given(_) => password.cloned(),
        PasswordSource::Generated => None,
    };
    one(needed, &needed.wish(given, key))
}

fn one(needed: &Needed, wish: &Wish) -> [u8; 32] {
    let digest_of = String::from(wish.digest());
    digest(
        b"asked",
        &[
            needed.provider.as_str().as_bytes(),
            needed.consumer.as_str().as_bytes(),
            needed.login.as_str().as_bytes(),
            digest_of.as_bytes(),
            &[
                u8::from(needed.enabled),
                u8::from(needed.adopt),
                u8::from(needed.exact),
            ],
        ],
    )
}

/// A provision whose given password cannot be read here, and was never read before.
pub(super) fn unreadable(needed: &Needed) -> [u8; 32] {
    digest(
        b"unreadable",
        &[
            needed.provider.as_str().as_bytes(),
            needed.consumer.as_str().as_bytes(),
        ],
    )
}

/// What the whole manifest asks for.
pub(super) fn of(manifest: &Manifest, asking: &[[u8; 32]]) -> String {
    let mut parts: Vec<Vec<u8>> = vec![manifest.mesh.to_string().into_bytes()];
    for provider in manifest.providers.values() {
        let mut entry = serde_json::to_vec(&fleet::entry_of(provider)).unwrap_or_default();
        entry.extend(provider.max_removals.to_be_bytes());
        entry.extend([
            u8::from(provider.canary),
            u8::from(provider.dangerously_plain),
            u8::from(provider.tls.dangerously_unverified),
        ]);
        parts.push(entry);
    }
    for refused in &manifest.refused {
        let names = [&refused.provider, &refused.consumer, &refused.login];
        let names = names.map(|name| name.as_deref().unwrap_or("*"));
        parts.push(names.join("/").into_bytes());
    }
    let provisions: Vec<&[u8]> = asking.iter().map(<[u8; 32]>::as_slice).collect();
    parts.push(digest(b"provisions", &provisions).to_vec());
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    hex(&digest(b"asked", &parts))
}
