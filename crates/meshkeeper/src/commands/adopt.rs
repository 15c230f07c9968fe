//! `mesh adopt`: takes over a login that exists, or that another consumer of ours had (H-18, R-13).
//!
//! The password is proven by the loop before anything is written, and never changed. Where the manifest gives
//! none, it is the one under which Meshkeeper made or took the login for a consumer that was renamed.

use mesh_sdk::harness::read_records;
use mesh_sdk::{ConsumerName, ProviderName, Secret};

use super::Context;
use super::online::store_fault;
use super::servers::known_here;
use super::words::{Speaker, parse};
use crate::cli::AdoptArgs;
use crate::errors::Fault;
use crate::manifest::{Needed, PasswordSource};
use crate::status;
use crate::wiring::secrets::Known;
use crate::wiring::shapes::Word;

/// Somebody of ours who had the login.
#[derive(Debug)]
struct Former {
    provider: ProviderName,
    consumer: ConsumerName,
    /// Nearest first: of this provider, and leaving.
    rank: u8,
    secret: Secret,
}

/// Runs it.
pub(super) fn run(args: &AdoptArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let consumer: ConsumerName = parse("consumer", &args.consumer)?;
    let provider: ProviderName = parse("provider", &args.provider)?;
    let speaker = Speaker::new(cx)?;
    if !speaker.knows_consumer(&consumer, Some(&provider))? {
        return Err(Fault::failed(
            format!("the manifest asks nothing of {provider} for {consumer}"),
            "write its `needs` table first, with the login and the password that it has",
        ));
    }
    let former = hand_over(&speaker, &provider, &consumer)?;
    let told = match former {
        Some((name, login)) => format!(
            "{consumer} on {provider}: the login `{login}` and its password are taken over from {name} \
             once the password is proven; it is never changed"
        ),
        None => {
            format!("{consumer} on {provider}: its password is proven first, and never changed")
        }
    };
    let word = Word::Adopt {
        provider,
        consumer,
        exact: args.exact,
        at: speaker.now(),
    };
    speaker.say(&word, &told)
}

/// Makes the password of whoever had the login the consumer's own, if it has none of its own. Answers from
/// whom, and which login.
fn hand_over(
    speaker: &Speaker<'_>,
    provider: &ProviderName,
    consumer: &ConsumerName,
) -> Result<Option<(String, String)>, Fault> {
    let secrets = &speaker.installation.secrets;
    let own = speaker.online.run(secrets.current(provider, consumer));
    if !matches!(own.map_err(store_fault)?, Known::Nothing) {
        return Ok(None);
    }
    let needed = speaker
        .manifest
        .as_ref()
        .and_then(|manifest| crate::wiring::needed(manifest, provider, consumer));
    let Some(needed) = needed.filter(|n| n.password == PasswordSource::Generated) else {
        return Ok(None);
    };
    let login = needed.login.as_str().escape_debug().to_string();
    let former = one_of(formers(speaker, needed)?, &login)?;
    let name = match former.provider == *provider {
        true => former.consumer.to_string(),
        false => format!("{} on {}", former.consumer, former.provider),
    };
    let given = vec![(consumer.clone(), former.secret)];
    speaker
        .online
        .run(secrets.take_given(provider, given))
        .map_err(store_fault)?;
    Ok(Some((name, login)))
}

/// Every consumer of ours that has or had this login on this server, with its password.
fn formers(speaker: &Speaker<'_>, needed: &Needed) -> Result<Vec<Former>, Fault> {
    let Some(manifest) = &speaker.manifest else {
        return Ok(Vec::new());
    };
    let Some(here) = manifest.providers.get(&needed.provider) else {
        return Ok(Vec::new());
    };
    let installation = &speaker.installation;
    let bus = installation.bus.as_ref();
    let known = speaker.online.run(known_here(installation, here))?;
    let mut formers = Vec::new();
    for entry in &known {
        for label in status::labels_of(std::slice::from_ref(entry), &entry.provider) {
            let records = speaker.online.run(read_records(bus, &label));
            for (consumer, record) in records.map_err(store_fault)? {
                let itself = entry.provider == needed.provider && consumer == needed.consumer;
                let leaves = record.departure_of(&needed.login).is_some();
                if itself || consumer.is_canary() || !record.had(&needed.login) {
                    continue;
                }
                if manifest.refuses(&entry.provider, &consumer) {
                    return Err(Fault::failed(
                        format!(
                            "{consumer} on {} has that login, and its entry in the manifest cannot be \
                             read: nobody takes it over",
                            entry.provider
                        ),
                        "`mesh check` shows the mistake",
                    ));
                }
                let secret = installation.secrets.current(&entry.provider, &consumer);
                let secret = speaker.online.run(secret).map_err(store_fault)?;
                let Known::Version(secret) = secret else {
                    continue;
                };
                let elsewhere = u8::from(entry.provider != needed.provider);
                let stays = u8::from(!leaves);
                formers.push(Former {
                    provider: entry.provider.clone(),
                    consumer,
                    rank: elsewhere * 2 + stays,
                    secret,
                });
            }
        }
    }
    Ok(formers)
}

/// The one whose password it must be.
fn one_of(mut formers: Vec<Former>, login: &str) -> Result<Former, Fault> {
    formers.sort_by_key(|former| former.rank);
    let mut formers = formers.into_iter();
    let Some(first) = formers.next() else {
        return Err(Fault::failed(
            format!(
                "nothing here knows the password of `{login}`, and without it nothing is taken over"
            ),
            "give the one that it has in its `needs` table: password = { file = … } or { env = … }",
        ));
    };
    let rival = formers.find(|one| one.rank == first.rank && one.secret != first.secret);
    if let Some(rival) = rival {
        return Err(Fault::failed(
            format!(
                "`{login}` was {}'s and {}'s, with different passwords",
                first.consumer, rival.consumer
            ),
            "give the one that it has in its `needs` table: password = { file = … } or { env = … }",
        ));
    }
    Ok(first)
}
