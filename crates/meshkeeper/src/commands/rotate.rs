//! `mesh rotate`, and `mesh ack rotation`: another password for a consumer, and what a person says of one.

use mesh_loops::rotation::decide::What;
use mesh_loops::rotation::journal::{Journal, Step, share};
use mesh_sdk::{ConsumerName, ProviderName, Time};

use super::Context;
use super::online::store_fault;
use super::words::{Speaker, parse};
use crate::cli::RotateArgs;
use crate::errors::Fault;
use crate::manifest::{Manifest, Needed};
use crate::status::time_text;
use crate::wiring::rotation::source::asks_of;
use crate::wiring::shapes::Word;

/// Runs it.
pub(super) fn run(args: &RotateArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let speaker = Speaker::new(cx)?;
    let reason = args.reason.clone().unwrap_or_default();
    if args.force || args.back {
        let what = if args.force { What::Force } else { What::Back };
        return about(&speaker, &target(args)?, what, &reason);
    }
    let manifest = speaker.manifest.as_ref().ok_or(Fault::Manifest)?;
    let (now, spread) = (speaker.now(), args.spread.unwrap_or_default());
    let mut words = Vec::new();
    for needed in chosen(&speaker, manifest, args)? {
        let part = u32::from(share(&needed.provider, &needed.consumer));
        words.push(Word::Rotate {
            provider: needed.provider.clone(),
            consumer: needed.consumer.clone(),
            reason: reason.clone(),
            due: now + spread / 256 * part,
            at: now,
        });
    }
    let (last, others) = words.split_last().ok_or_else(|| {
        Fault::failed(
            "nobody has a password that Meshkeeper makes",
            "`mesh status` lists every consumer",
        )
    })?;
    let bus = speaker.installation.bus.as_ref();
    for word in others {
        let said = crate::wiring::words::say(bus, word, now);
        speaker.online.run(said).map_err(store_fault)?;
    }
    let whose = match others.is_empty() {
        true => names(last),
        false => format!("{} provisions", words.len()),
    };
    let when = match spread.is_zero() {
        true => String::new(),
        false => format!(", the last one by {}", time_text(now + spread)),
    };
    let told = format!(
        "another password for {whose}{when}; the old one stays valid until the new one was taken up"
    );
    speaker.say(last, &told)
}

fn names(word: &Word) -> String {
    match word {
        Word::Rotate {
            provider, consumer, ..
        } => format!("{consumer} on {provider}"),
        _ => String::new(),
    }
}

struct Target {
    consumer: ConsumerName,
    provider: Option<ProviderName>,
}

fn target(args: &RotateArgs) -> Result<Target, Fault> {
    let consumer = args.consumer.as_deref().unwrap_or_default();
    let provider = args.provider.as_deref().map(|text| parse("provider", text));
    Ok(Target {
        consumer: parse("consumer", consumer)?,
        provider: provider.transpose()?,
    })
}

/// Whose password is to be another one. Who is named and cannot have one is an error.
fn chosen<'m>(
    speaker: &Speaker<'_>,
    manifest: &'m Manifest,
    args: &RotateArgs,
) -> Result<Vec<&'m Needed>, Fault> {
    let target = if args.all { None } else { Some(target(args)?) };
    let fits = |needed: &&Needed| match &target {
        None => true,
        Some(Target { consumer, provider }) => {
            needed.consumer == *consumer
                && provider.as_ref().is_none_or(|one| needed.provider == *one)
        }
    };
    let mut chosen = Vec::new();
    for needed in manifest.provisions.iter().filter(fits) {
        let why = cannot(speaker, manifest, needed)?;
        match why {
            None => chosen.push(needed),
            Some(_) if args.all => {}
            Some((why, help)) => {
                let what = format!("{} on {}: {why}", needed.consumer, needed.provider);
                return Err(Fault::failed(what, help));
            }
        }
    }
    match (&target, chosen.is_empty()) {
        (Some(target), true) => {
            let of = target.provider.as_ref().map(|one| format!(" of {one}"));
            let what = format!(
                "nobody asks anything for {}{}",
                target.consumer,
                of.unwrap_or_default()
            );
            Err(Fault::failed(what, "`mesh status` lists every consumer"))
        }
        _ => Ok(chosen),
    }
}

fn cannot(
    speaker: &Speaker<'_>,
    manifest: &Manifest,
    needed: &Needed,
) -> Result<Option<(String, String)>, Fault> {
    let Some(provider) = manifest.providers.get(&needed.provider) else {
        return Ok(Some((
            "its provider cannot be used".to_owned(),
            "`mesh check` shows why".to_owned(),
        )));
    };
    let journal = journal(speaker, &needed.provider, &needed.consumer)?;
    let asks = asks_of(manifest, provider, needed, journal.as_ref());
    if asks.given {
        let what = "its password is given in the manifest".to_owned();
        return Ok(Some((
            what,
            "put another one there: that is a rotation, and the old one stays valid meanwhile"
                .to_owned(),
        )));
    }
    if !asks.enabled {
        let what = "its login is switched off in the manifest".to_owned();
        return Ok(Some((
            what,
            "take `enabled = false` out of its table first".to_owned(),
        )));
    }
    Ok(asks.cannot.map(|why| {
        (
            why,
            "`mesh adapters KIND` says what a kind can do".to_owned(),
        )
    }))
}

fn journal(
    speaker: &Speaker<'_>,
    provider: &ProviderName,
    consumer: &ConsumerName,
) -> Result<Option<Journal>, Fault> {
    let secrets = &speaker.installation.secrets;
    let of = (provider.clone(), consumer.clone());
    speaker
        .online
        .run(secrets.journal(&of))
        .map_err(store_fault)
}

/// `mesh ack rotation CONSUMER` or `PROVIDER/CONSUMER`: a person says that the consumer has the new password.
pub(super) fn taken(subject: &str, reason: &str, speaker: &Speaker<'_>) -> Result<u8, Fault> {
    let (provider, consumer) = match subject.split_once('/') {
        Some((provider, consumer)) => (Some(parse("provider", provider)?), consumer),
        None => (None, subject),
    };
    let target = Target {
        consumer: parse("consumer", consumer)?,
        provider,
    };
    about(speaker, &target, What::Taken, reason)
}

/// Says something of the one rotation that is meant.
fn about(speaker: &Speaker<'_>, target: &Target, what: What, reason: &str) -> Result<u8, Fault> {
    let bus = speaker.installation.bus.as_ref();
    let known = speaker
        .online
        .run(crate::status::providers(bus))
        .map_err(store_fault)?;
    let mut open = Vec::new();
    for entry in known {
        if target
            .provider
            .as_ref()
            .is_some_and(|name| *name != entry.provider)
        {
            continue;
        }
        let journal = journal(speaker, &entry.provider, &target.consumer)?;
        open.extend(journal.filter(Journal::is_under_way));
    }
    let consumer = &target.consumer;
    let journal = match open.as_slice() {
        [one] => one,
        [] => {
            let what = format!("no rotation of {consumer} is under way");
            return Err(Fault::failed(what, "`mesh status` shows those that are"));
        }
        [first, ..] => {
            let what = format!("several rotations of {consumer} are under way");
            return Err(Fault::Usage(format!(
                "{what}: name the provider, such as {}",
                first.provider
            )));
        }
    };
    let told = told(speaker, journal, what)?;
    let word = Word::Turn {
        provider: journal.provider.clone(),
        consumer: consumer.clone(),
        number: journal.number,
        turn: journal.turn,
        what,
        reason: reason.to_owned(),
        at: speaker.now(),
    };
    speaker.say(&word, &told)
}

/// What follows from a word; an error where nothing would.
fn told(speaker: &Speaker<'_>, journal: &Journal, what: What) -> Result<String, Fault> {
    let (consumer, provider, number) = (&journal.consumer, &journal.provider, journal.number);
    let given = speaker
        .manifest
        .as_ref()
        .and_then(|m| crate::wiring::needed(m, provider, consumer));
    let given =
        given.is_some_and(|needed| needed.password != crate::manifest::PasswordSource::Generated);
    match (what, journal.step) {
        (What::Taken, Step::Waiting) => {
            Ok(format!("{consumer} has the new password of {provider}"))
        }
        (What::Force, Step::Waiting) => Ok(format!(
            "rotation {number}: the old password of {consumer} on {provider} goes; whoever still uses it loses its access"
        )),
        (What::Back, _) if given => Err(Fault::failed(
            "its password is given in the manifest".to_owned(),
            "put the old one back there",
        )),
        (What::Back, Step::Proving) => Ok(format!("rotation {number} is given up")),
        (What::Back, Step::Waiting) if journal.back => Err(Fault::failed(
            format!("rotation {number} goes back already"),
            "`mesh status` shows who is waited for",
        )),
        (What::Back, Step::Waiting) if journal.other.is_some() => Ok(format!(
            "rotation {number} goes back: the old password of {consumer} on {provider} is in force again, and the new one stays valid until everybody has the old one"
        )),
        _ => Err(Fault::failed(
            format!(
                "rotation {number} is {}: that says nothing now",
                journal.step.as_str()
            ),
            "`mesh status` shows how far it is",
        )),
    }
}

/// A rotation, for `status` and `explain`: since when, and who is waited for.
pub(super) fn line(now: Time, waits: &crate::status::WaitView) -> String {
    format!(
        "{} ({})",
        waits.on,
        super::status::ago(Some(waits.since), now).replace(" ago", "")
    )
}
