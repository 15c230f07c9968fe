//! What can be told once secrets may be read too: that they are there, and that the backend takes them.

use mesh_sdk::adapter::Refusal;
use mesh_sdk::{MeshId, Secret};

use super::consumer::{self, Ready};
use super::secrets::{SecretSource, SecretTrouble};
use super::{BusChoice, Manifest, Needed, Provider};
use crate::errors::{Problem, Scope};

/// Reads every given password and certificate and checks them. One that is not there is a warning: it may
/// be there where the daemon runs. One that could never be used is an error.
pub fn with_secrets(manifest: &Manifest, source: &dyn SecretSource) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let BusChoice::Nats(bus) = &manifest.bus
        && let Err(troubles) = bus.resolve(source)
    {
        let told = troubles
            .iter()
            .map(|trouble| told(trouble, &manifest.bus_span, &Scope::Whole));
        problems.extend(told);
    }
    for provider in manifest.providers.values() {
        let scope = Scope::Provider(provider.name.as_str().to_owned());
        match provider.resolve(source) {
            Err(troubles) => {
                let told = troubles
                    .iter()
                    .map(|trouble| told(trouble, &provider.span, &scope));
                problems.extend(told);
            }
            Ok(settings) => {
                let refused = settings
                    .iter()
                    .filter_map(|one| provider.kind.kind.check_provider(one).err());
                problems
                    .extend(refused.map(|refusal| refused_at(&refusal, &provider.span, &scope)));
            }
        }
    }
    for needed in &manifest.provisions {
        let Some(given) = needed.given_password(source) else {
            continue;
        };
        let scope = Scope::Need {
            consumer: needed.consumer.as_str().to_owned(),
            provider: needed.provider.as_str().to_owned(),
        };
        match given {
            Err(trouble) => problems.push(told(&trouble, &needed.span, &scope)),
            Ok(password) => {
                let provider = manifest.providers.get(&needed.provider);
                let refusal = provider
                    .and_then(|provider| refusal(provider, &manifest.mesh, needed, password).err());
                problems.extend(refusal.map(|refusal| refused_at(&refusal, &needed.span, &scope)));
            }
        }
    }
    problems
}

/// Whether the backend could ever take this provision with this password (A-5, H-19): asked again by
/// whoever resolves passwords, before anything is written.
pub fn refusal(
    provider: &Provider,
    mesh: &MeshId,
    needed: &Needed,
    password: Secret,
) -> Result<(), Refusal> {
    consumer::refusal(
        &Ready::new(provider, mesh),
        needed,
        password,
        &Secret::from("check"),
    )
}

fn told(trouble: &SecretTrouble, span: &std::ops::Range<usize>, scope: &Scope) -> Problem {
    let problem = match trouble.is_absence() {
        true => Problem::warning(span.clone(), trouble.to_string()).help(match scope {
            Scope::Whole => "until it can be read, the bus cannot be used",
            Scope::Provider(_) => "until it can be read, this provider is not spoken to",
            _ => "until it can be read, the last known password stays in force and nothing is written",
        }),
        false => Problem::error(span.clone(), trouble.to_string()),
    };
    Problem {
        scope: scope.clone(),
        ..problem
    }
}

fn refused_at(refusal: &Refusal, span: &std::ops::Range<usize>, scope: &Scope) -> Problem {
    let problem = Problem::error(
        span.clone(),
        format!("`{}`: {}", refusal.field, refusal.rule),
    );
    Problem {
        scope: scope.clone(),
        ..problem
    }
}
