//! Our own login on each provider, which must be in every list before that list can remove anybody.

use mesh_sdk::mark::keyed;
use mesh_sdk::{ConsumerName, Login, MeshId, ProviderName, Secret};

use crate::manifest::{CANARY_LOGINS, Needed, PasswordSource, Provider, refusal};

/// The bytes of its password: 192 bits, as many as a generated one has.
const PASSWORD_BYTES: usize = 24;

/// What became of the canary of one provider.
pub(super) enum Canary {
    /// It is asked for like any other provision.
    Wanted(Box<Needed>, Secret),
    /// There is none: the manifest or the kind says so, or nothing there can be listed.
    None,
    /// The kind does not take its own values.
    Refused(String),
}

/// The canary of a provider. Nothing of it is stored: its login and its password follow from the
/// installation's key, so that it can be made anew whatever was lost.
pub(super) fn of(provider: &Provider, mesh: &MeshId, key: &Secret) -> Canary {
    let capabilities = provider.kind.descriptor.capabilities;
    let Some(node) = provider.nodes.first() else {
        return Canary::None;
    };
    if !provider.canary || !capabilities.list {
        return Canary::None;
    }
    let Some(values) = provider.kind.kind.canary(&node.settings) else {
        return Canary::None;
    };
    let needed = Needed {
        base: None,
        rotates: crate::manifest::Rotates::default(),
        consumer: ConsumerName::canary(),
        provider: provider.name.clone(),
        login: match login(&provider.name, mesh, key) {
            Ok(login) => login,
            Err(error) => return Canary::Refused(error.to_string()),
        },
        password: PasswordSource::Generated,
        values,
        enabled: !capabilities.disable,
        adopt: false,
        exact: false,
        weak: false,
        line: provider.line,
        span: provider.span.clone(),
    };
    let secret = password(&provider.name, mesh, key);
    match refusal(provider, mesh, &needed, secret.clone()) {
        Ok(()) => Canary::Wanted(Box::new(needed), secret),
        Err(refusal) => Canary::Refused(refusal.to_string()),
    }
}

/// Two meshes, or two providers, on one server have each their own.
fn login(
    provider: &ProviderName,
    mesh: &MeshId,
    key: &Secret,
) -> Result<Login, mesh_sdk::name::NameError> {
    let id = hex(provider, mesh, key, b"canary", 5);
    Login::new(&format!("{CANARY_LOGINS}{id}"))
}

fn password(provider: &ProviderName, mesh: &MeshId, key: &Secret) -> Secret {
    Secret::from(hex(provider, mesh, key, b"canary password", PASSWORD_BYTES))
}

fn hex(
    provider: &ProviderName,
    mesh: &MeshId,
    key: &Secret,
    domain: &[u8],
    bytes: usize,
) -> String {
    let parts = [mesh.as_str().as_bytes(), provider.as_str().as_bytes()];
    let keyed = keyed(key, domain, &parts);
    keyed
        .iter()
        .take(bytes)
        .map(|b| format!("{b:02x}"))
        .collect()
}
