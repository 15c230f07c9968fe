//! A provider's servers, opened for one command that asks them itself.

use std::collections::HashSet;
use std::time::Duration;

use mesh_sdk::Error;
use mesh_sdk::handle::AdapterHandle;

use super::online::{Online, store_fault};
use crate::errors::Fault;
use crate::manifest::{Machine, Provider};
use crate::status;
use crate::wiring::installation::Installation;
use crate::wiring::shapes::ProviderEntry;

/// One server of a provider.
pub(super) struct Server {
    /// `host:port`, as it names its loop where there are several.
    pub(super) name: String,
    /// The adapter for it.
    pub(super) adapter: AdapterHandle,
}

/// Opens a provider's servers. Nothing is asked yet.
pub(super) fn open(online: &Online, provider: &Provider) -> Result<Vec<Server>, Fault> {
    let resolved = provider.resolve(&Machine).map_err(|troubles| {
        let told: Vec<String> = troubles.iter().map(ToString::to_string).collect();
        let message = format!("provider {}: {}", provider.name, told.join("; "));
        Fault::failed(message, "`mesh check` shows what cannot be read")
    })?;
    let mut servers = Vec::with_capacity(resolved.len());
    for (node, settings) in provider.nodes.iter().zip(resolved) {
        let password = settings.admin.as_ref().and_then(|a| a.password.clone());
        if let Some(password) = password {
            online.scrubber.add(password);
        }
        let opened = provider.kind.kind.open(settings);
        let adapter = opened.map_err(|error| failed(online, provider, &node.name, &error))?;
        servers.push(Server {
            name: node.name.clone(),
            adapter,
        });
    }
    Ok(servers)
}

/// Waits for an answer, not for ever and not after a signal.
pub(super) async fn answer<T>(
    online: &Online,
    provider: &Provider,
    server: &str,
    patience: Duration,
    what: impl Future<Output = Result<T, Error>>,
) -> Result<T, Fault> {
    tokio::select! {
        answered = tokio::time::timeout(patience, what) => match answered {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(failed(online, provider, server, &error)),
            Err(_) => Err(Fault::failed(
                format!("{} ({server}) gave no answer within {} s", provider.name, patience.as_secs()),
                "`mesh doctor` shows what fails",
            )),
        },
        () = online.stop.cancelled() => Err(Fault::failed("stopped by a signal", "run it again")),
    }
}

/// Every provider of the store that is, at least in part, this server.
pub(super) async fn known_here(
    installation: &Installation,
    provider: &Provider,
) -> Result<Vec<ProviderEntry>, Fault> {
    let all = status::providers(installation.bus.as_ref()).await;
    let mut all = all.map_err(store_fault)?;
    let addresses: HashSet<String> = provider
        .nodes
        .iter()
        .map(|node| node.settings.address())
        .collect();
    all.retain(|known| {
        let shares = known.addresses.iter().any(|a| addresses.contains(a));
        known.provider == provider.name || known.kind == provider.kind.descriptor.kind && shares
    });
    Ok(all)
}

/// A server's refusal, for people.
fn failed(online: &Online, provider: &Provider, server: &str, error: &Error) -> Fault {
    let message = online.scrubber.scrub(error.message());
    Fault::failed(
        format!("{} ({server}): {message}", provider.name),
        help(provider, error),
    )
}

fn help(provider: &Provider, error: &Error) -> String {
    use mesh_sdk::Class;
    let kind = provider.kind.descriptor.kind;
    match error.class() {
        Class::Cannot => format!("`mesh adapters {kind}` tells what this kind can do"),
        Class::Denied => format!("`mesh adapters {kind}` tells which rights the admin login needs"),
        Class::Exists => "nothing was deleted; take that away first".to_owned(),
        Class::ReadOnly => "name the node that takes writes".to_owned(),
        _ => format!("`mesh doctor {}` shows what fails", provider.name),
    }
}
