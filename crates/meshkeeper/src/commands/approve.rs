//! `mesh approve`: lets happen what waits for a person, and exactly what that person saw.

use mesh_sdk::ProviderName;
use mesh_sdk::bus::{Bucket, Key};
use mesh_sdk::harness::LoopRecord;

use super::Context;
use super::asking;
use super::online::store_fault;
use super::words::{Speaker, parse};
use crate::cli::{Approval, ApproveArgs};
use crate::errors::{EXIT_FAILED, Fault};
use crate::status::{self, RemovalSet};
use crate::wiring::shapes::{ProviderEntry, Word};

/// Runs it.
pub(super) fn run(args: &ApproveArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let provider: ProviderName = parse("provider", &args.provider)?;
    if args.set.is_some() && args.what == Approval::Server {
        let why = "`--set` names a set of removals; a server has none";
        return Err(Fault::Usage(why.to_owned()));
    }
    let speaker = Speaker::new(cx)?;
    let known = speaker.applied_provider(&provider)?;
    match args.what {
        Approval::Server => server(&speaker, &known),
        Approval::Removals => removals(&speaker, &known, args.set.as_deref()),
    }
}

fn server(speaker: &Speaker<'_>, known: &ProviderEntry) -> Result<u8, Fault> {
    let mut shown = None;
    for name in &known.loops {
        let bus = speaker.installation.bus.as_ref();
        let entry = speaker
            .online
            .run(bus.get(Bucket::Loop, &Key::of(&[name])))
            .map_err(store_fault)?;
        let record: Option<LoopRecord> = entry.and_then(|e| serde_json::from_slice(&e.value).ok());
        shown = shown.or_else(|| record.and_then(|r| r.server.changed_to));
    }
    let identity = shown.ok_or_else(|| {
        Fault::failed(
            format!("no other server answers for {}", known.provider),
            "`mesh conditions` shows what waits for a word",
        )
    })?;
    let told = format!("the server {identity} is meant for {}", known.provider);
    let (provider, at) = (known.provider.clone(), speaker.now());
    speaker.say(
        &Word::ApproveServer {
            provider,
            identity,
            at,
        },
        &told,
    )
}

/// The set that was shown goes, and no other: whoever names another one than waits now is shown that.
fn removals(speaker: &Speaker<'_>, known: &ProviderEntry, set: Option<&str>) -> Result<u8, Fault> {
    let bus = speaker.installation.bus.as_ref();
    let waiting = speaker.online.run(status::removals_of(bus, known));
    let waiting = waiting.map_err(store_fault)?.ok_or_else(|| {
        Fault::failed(
            format!("nothing is leaving {}", known.provider),
            "`mesh plan` shows what would go",
        )
    })?;
    let command = waiting.command();
    match set {
        Some(set) if set == waiting.set => {}
        Some(_) => {
            show(speaker, &waiting);
            let why = format!(
                "what waits on {} is not what that set was: look at it anew",
                known.provider
            );
            return Err(Fault::failed(
                why,
                format!("to let exactly these go: `{command}`"),
            ));
        }
        None => {
            show(speaker, &waiting);
            let question = format!("Let these {} go? [y/N] ", waiting.removals.len());
            match asking::ask(speaker.cx, &speaker.online, &question).as_deref() {
                Some("y" | "Y" | "yes") => {}
                Some(_) => {
                    speaker.cx.printer.answer("Nothing was approved.");
                    return Ok(EXIT_FAILED);
                }
                None => {
                    let why = "nothing was approved: say which set is meant";
                    return Err(Fault::failed(why, format!("`{command}`")));
                }
            }
        }
    }
    let count = waiting.removals.len();
    for one in waiting.removals.iter().filter(|_| set.is_some()) {
        let (consumer, login) = (&one.consumer, one.login.as_str().escape_debug());
        speaker.cx.printer.note(&format!(
            "may go: {consumer} (login {login}); its data stays"
        ));
    }
    let told = format!(
        "{count} removals of {} may go, and no others",
        known.provider
    );
    let word = Word::ApproveRemovals {
        provider: known.provider.clone(),
        removals: waiting.pairs(),
        at: speaker.now(),
    };
    speaker.say(&word, &told)
}

fn show(speaker: &Speaker<'_>, waiting: &RemovalSet) {
    let printer = &speaker.cx.printer;
    if printer.is_json() {
        return printer.json(waiting);
    }
    for one in &waiting.removals {
        let login = one.login.as_str().escape_debug();
        printer.answer(&format!("{} (login {login})", one.consumer));
    }
    let count = waiting.removals.len();
    printer.answer(&format!(
        "{count} logins of {} would be switched off and later dropped; data stays.",
        waiting.provider
    ));
}
