//! What every word of a person needs, and the words pause, resume, ack and silence.

use std::collections::BTreeSet;

use mesh_sdk::bus::{Bucket, Key};
use mesh_sdk::name::NameError;
use mesh_sdk::{ConsumerName, ProviderName, Time};

use super::Context;
use super::online::{Online, store_fault};
use crate::cli::{PauseArgs, ResumeArgs, SilenceArgs};
use crate::desk::message::kind_named;
use crate::errors::Fault;
use crate::manifest::Manifest;
use crate::status::{self, time_text};
use crate::wiring::installation::Installation;
use crate::wiring::shapes::{ProviderEntry, Subject, Word};
use crate::wiring::words;

/// A name as it was typed.
pub(super) fn parse<T: TryFrom<String, Error = NameError>>(
    what: &str,
    text: &str,
) -> Result<T, Fault> {
    T::try_from(text.to_owned()).map_err(|error| Fault::Usage(format!("{what}: {error}")))
}

pub(super) struct Speaker<'a> {
    pub(super) cx: &'a Context<'a>,
    pub(super) online: Online,
    pub(super) installation: Installation,
    /// Only for names that nothing was applied for yet; a broken one keeps nobody from speaking.
    pub(super) manifest: Option<Manifest>,
}

impl<'a> Speaker<'a> {
    pub(super) fn new(cx: &'a Context<'a>) -> Result<Self, Fault> {
        let manifest = cx.manifest_if_usable();
        let online = Online::start(cx)?;
        let (readable, mesh) = online.open_to_read(&cx.settings.data)?;
        drop(readable);
        let installation = online.open(&cx.settings.data, &mesh)?;
        Ok(Self {
            cx,
            online,
            installation,
            manifest,
        })
    }
    pub(super) fn now(&self) -> Time {
        self.online.clock.now()
    }
    /// Says a word and tells the person what follows from it.
    pub(super) fn say(&self, word: &Word, told: &str) -> Result<u8, Fault> {
        let bus = self.installation.bus.as_ref();
        self.online
            .run(words::say(bus, word, self.now()))
            .map_err(store_fault)?;
        let when = if super::online::is_running(self.cx, &self.online, &self.installation)? {
            "now"
        } else {
            "at the next `mesh apply`"
        };
        if self.cx.printer.is_json() {
            self.cx.printer.json(word);
        } else {
            self.cx
                .printer
                .answer(&format!("{told}; it takes effect {when}."));
        }
        Ok(0)
    }
    /// Whether the manifest or the store knows a provider.
    fn knows_provider(&self, name: &ProviderName) -> Result<bool, Fault> {
        let named = |m: &Manifest| m.providers.contains_key(name);
        if self.manifest.as_ref().is_some_and(named) {
            return Ok(true);
        }
        Ok(self.provider(name)?.is_some())
    }
    /// A provider as the store knows it.
    pub(super) fn provider(&self, name: &ProviderName) -> Result<Option<ProviderEntry>, Fault> {
        let all = status::providers(self.installation.bus.as_ref());
        let all = self.online.run(all).map_err(store_fault)?;
        Ok(all.into_iter().find(|entry| entry.provider == *name))
    }
    /// A provider that the store knows.
    pub(super) fn applied_provider(&self, name: &ProviderName) -> Result<ProviderEntry, Fault> {
        self.provider(name)?.ok_or_else(|| {
            Fault::failed(
                format!("no provider `{name}` was ever applied"),
                "`mesh status` lists them",
            )
        })
    }
    /// Whether the manifest asks anything for a consumer, or the store knows that somebody did: of one
    /// provider, or of any.
    pub(super) fn knows_consumer(
        &self,
        name: &ConsumerName,
        provider: Option<&ProviderName>,
    ) -> Result<bool, Fault> {
        let fits = |p: &ProviderName| provider.is_none_or(|provider| p == provider);
        let named = |m: &Manifest| {
            let mut all = m.provisions.iter();
            all.any(|needed| needed.consumer == *name && fits(&needed.provider))
        };
        if self.manifest.as_ref().is_some_and(named) {
            return Ok(true);
        }
        let bus = self.installation.bus.as_ref();
        let known = self.online.run(async {
            for known in status::providers(bus).await? {
                let key = Key::of(&[known.provider.as_str(), name.as_str()]);
                if fits(&known.provider) && bus.get(Bucket::Wish, &key).await?.is_some() {
                    return Ok(true);
                }
            }
            Ok::<bool, mesh_sdk::bus::Fault>(false)
        });
        known.map_err(store_fault)
    }
    /// A consumer or a provider by that name.
    pub(super) fn subject(&self, name: &str) -> Result<Subject, Fault> {
        let provider = match ProviderName::new(name) {
            Ok(name) => self.knows_provider(&name)?.then_some(name),
            Err(_) => None,
        };
        let consumer = match ConsumerName::new(name) {
            Ok(name) => self.knows_consumer(&name, None)?.then_some(name),
            Err(_) => None,
        };
        match (provider, consumer) {
            (Some(provider), None) => Ok(Subject::Provider(provider)),
            (None, Some(consumer)) => Ok(Subject::Consumer(consumer)),
            (Some(_), Some(_)) => Err(Fault::Usage(format!(
                "`{name}` is a provider and a consumer: say `provider/{name}` or `consumer/{name}`"
            ))),
            (None, None) => self.prefixed(name),
        }
    }
    fn prefixed(&self, name: &str) -> Result<Subject, Fault> {
        match name.split_once('/') {
            Some(("provider", name)) => Ok(Subject::Provider(parse("provider", name)?)),
            Some(("consumer", name)) => Ok(Subject::Consumer(parse("consumer", name)?)),
            _ => Err(Fault::failed(
                format!("there is no provider and no consumer `{name}`"),
                "`mesh status` lists both",
            )),
        }
    }
}

/// `mesh pause`.
pub(super) fn pause(args: &PauseArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let speaker = Speaker::new(cx)?;
    let subject = speaker.subject(&args.target)?;
    let (at, until) = (speaker.now(), speaker.now() + bounded(args.length)?);
    let told = format!(
        "{subject} is paused until {}: looks go on, writes do not",
        time_text(until)
    );
    let reason = "by `mesh pause`".to_owned();
    speaker.say(
        &Word::Pause {
            subject,
            until,
            reason,
            at,
        },
        &told,
    )
}

/// `mesh resume`.
pub(super) fn resume(args: &ResumeArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let speaker = Speaker::new(cx)?;
    let subject = speaker.subject(&args.target)?;
    let at = speaker.now();
    let bus = speaker.installation.bus.as_ref();
    let ended = Word::Pause {
        subject: subject.clone(),
        until: at,
        reason: "ended by `mesh resume`".to_owned(),
        at,
    };
    speaker
        .online
        .run(words::say(bus, &ended, at))
        .map_err(store_fault)?;
    let told = format!("{subject}: pause, brake and delays end");
    speaker.say(&Word::Resume { subject, at }, &told)
}

/// `mesh ack` and `mesh silence`.
pub(super) fn about_condition(
    args: &SilenceArgs,
    cx: &Context<'_>,
    silence: bool,
) -> Result<u8, Fault> {
    let speaker = Speaker::new(cx)?;
    if !silence && args.condition == DELIVERY {
        return about_delivery(args, &speaker);
    }
    if !silence && args.condition == ROTATION {
        return super::rotate::taken(&args.subject, &args.reason, &speaker);
    }
    let kind = kind_named(&args.condition).map_err(|refusal| Fault::Usage(refusal.message))?;
    let bus = speaker.installation.bus.as_ref();
    let now = speaker.now();
    let standing = speaker
        .online
        .run(status::conditions(bus, &[], now))
        .map_err(store_fault)?;
    let found = standing
        .iter()
        .find(|c| c.condition.id.kind == kind && c.condition.id.subject == args.subject);
    let found = found.ok_or_else(|| {
        Fault::failed(
            format!("no condition {kind} stands about `{}`", args.subject),
            "`mesh conditions` lists those that do",
        )
    })?;
    let until = now + bounded(args.length)?;
    let (condition, reason) = (found.key.clone(), args.reason.clone());
    let (word, told) = if silence {
        let told = format!(
            "{kind} about {} does not count until {}",
            args.subject,
            time_text(until)
        );
        (
            Word::Silence {
                condition,
                reason,
                until,
                at: now,
            },
            told,
        )
    } else {
        let told = format!(
            "{kind} about {} is known until {}",
            args.subject,
            time_text(until)
        );
        (
            Word::Ack {
                condition,
                reason,
                until,
                at: now,
            },
            told,
        )
    };
    speaker.say(&word, &told)
}

/// `mesh ack delivery CONSUMER`: a person says that a consumer has what lies there for it.
const DELIVERY: &str = "delivery";
/// `mesh ack rotation CONSUMER`: a person says that a consumer has the new password.
const ROTATION: &str = "rotation";

fn about_delivery(args: &SilenceArgs, speaker: &Speaker<'_>) -> Result<u8, Fault> {
    let consumer: ConsumerName = parse("consumer", &args.subject)?;
    let bus = speaker.installation.bus.as_ref();
    let all = speaker.online.run(mesh_loops::delivery::read_all(bus));
    let all =
        all.map_err(|fault| Fault::failed(fault.to_string(), "`mesh doctor` looks at the store"))?;
    let of = all.into_iter();
    let of = of.filter(|record| record.consumer == consumer && !record.retired);
    let of: Vec<_> = of.collect();
    let open = of.iter().filter(|record| !record.is_settled());
    let written = open.filter_map(|record| record.written.as_ref());
    let versions: BTreeSet<String> = written.map(|since| since.version.0.clone()).collect();
    if of.is_empty() || versions.is_empty() {
        let what = match of.is_empty() {
            true => format!("nothing is delivered to {consumer}"),
            false => format!("nothing lies there for {consumer} that waits for its word"),
        };
        return Err(Fault::failed(
            what,
            "`mesh status` shows what is outstanding",
        ));
    }
    let shown: Vec<&str> = versions.iter().map(String::as_str).collect();
    let told = format!("{consumer} has taken up version {}", shown.join(" and "));
    let word = Word::Taken {
        consumer,
        versions,
        reason: args.reason.clone(),
        at: speaker.now(),
    };
    speaker.say(&word, &told)
}

fn bounded(length: std::time::Duration) -> Result<std::time::Duration, Fault> {
    if length > words::LONGEST {
        return Err(Fault::Usage(
            "at most seven days; say it again when they are over".to_owned(),
        ));
    }
    Ok(length)
}
