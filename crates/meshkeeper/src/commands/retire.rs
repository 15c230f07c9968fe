//! `mesh retire`: lets a login go that its consumer had before another one.

use std::collections::BTreeSet;

use mesh_sdk::harness::read_records;
use mesh_sdk::{ConsumerName, Login, ProviderName};

use super::Context;
use super::asking::for_a_shell;
use super::online::store_fault;
use super::words::{Speaker, parse};
use crate::cli::RetireArgs;
use crate::errors::Fault;
use crate::status;
use crate::wiring::shapes::{ProviderEntry, Word};

/// The logins of one consumer on one provider.
#[derive(Default)]
struct Logins {
    now: BTreeSet<Login>,
    superseded: BTreeSet<Login>,
}

/// Runs it.
pub(super) fn run(args: &RetireArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let consumer: ConsumerName = parse("consumer", &args.consumer)?;
    let provider: ProviderName = parse("provider", &args.provider)?;
    let login: Option<Login> = match &args.login {
        Some(text) => Some(parse("login", text)?),
        None => None,
    };
    let speaker = Speaker::new(cx)?;
    let known = speaker.applied_provider(&provider)?;
    let logins = logins_of(&speaker, &known, &consumer)?;
    let login = chosen(&known, &consumer, login, logins)?;
    let told = format!(
        "{consumer} on {provider}: the login `{}` that it had before is switched off and later dropped; \
         data stays",
        login.as_str().escape_debug()
    );
    let word = Word::Retire {
        provider,
        consumer,
        login,
        at: speaker.now(),
    };
    speaker.say(&word, &told)
}

fn logins_of(
    speaker: &Speaker<'_>,
    known: &ProviderEntry,
    consumer: &ConsumerName,
) -> Result<Logins, Fault> {
    let bus = speaker.installation.bus.as_ref();
    let mut logins = Logins::default();
    for label in status::labels_of(std::slice::from_ref(known), &known.provider) {
        let records = speaker.online.run(read_records(bus, &label));
        let mut records = records.map_err(store_fault)?.into_iter();
        if let Some((_, record)) = records.find(|(name, _)| name == consumer) {
            logins.superseded.extend(record.superseded);
            logins.now.insert(record.login);
        }
    }
    Ok(logins)
}

/// The login that is meant. Only a superseded one is ever retired.
fn chosen(
    known: &ProviderEntry,
    consumer: &ConsumerName,
    asked: Option<Login>,
    logins: Logins,
) -> Result<Login, Fault> {
    let provider = &known.provider;
    let listed = "`mesh status` lists them under what is left over";
    let Logins { now, superseded } = logins;
    let shown = |login: &Login| login.as_str().escape_debug().to_string();
    match asked {
        Some(login) if superseded.contains(&login) => Ok(login),
        Some(login) if now.contains(&login) => Err(Fault::failed(
            format!(
                "`{}` is the login that {consumer} has on {provider}",
                shown(&login)
            ),
            "to take it away, take its `needs` table out of the manifest",
        )),
        Some(login) => Err(Fault::failed(
            format!(
                "`{}` is no login that {consumer} had on {provider} before",
                shown(&login)
            ),
            listed,
        )),
        None => {
            let mut all = superseded.iter();
            match (all.next(), all.next()) {
                (Some(only), None) => Ok(only.clone()),
                (None, _) => Err(Fault::failed(
                    format!("{consumer} has no superseded login on {provider}"),
                    listed,
                )),
                (Some(first), Some(_)) => {
                    let names: Vec<String> = superseded.iter().map(shown).collect();
                    Err(Fault::failed(
                        format!(
                            "{consumer} had several logins on {provider}: {}",
                            names.join(", ")
                        ),
                        format!(
                            "say which one: `mesh retire {consumer} {provider} {}`",
                            for_a_shell(first.as_str())
                        ),
                    ))
                }
            }
        }
    }
}
