//! `mesh task claim | extend | finish`: what an agent says.

use std::time::Duration;

use mesh_sdk::decide::tasks::{NotTaken, Outcome, Stage, Task};
use serde_json::Value;

use super::Context;
use super::online::{Online, store_fault};
use super::tasks::{as_json, kind_named, standing};
use crate::cli::{ClaimArgs, ExtendArgs, FinishArgs, HowEnded, TaskWord};
use crate::errors::{EXIT_NOT_WELL, Fault};
use crate::status::time_text;
use crate::wiring::installation::Installation;
use crate::wiring::tasks::{self, TaskFault};

/// The longest claim.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The longest name of an agent, in characters.
const LONGEST_NAME: usize = 80;

/// Runs it.
pub(super) fn run(word: &TaskWord, cx: &Context<'_>) -> Result<u8, Fault> {
    let online = Online::start(cx)?;
    let (readable, mesh) = online.open_to_read(&cx.settings.data)?;
    drop(readable);
    let installation = online.open(&cx.settings.data, &mesh)?;
    match word {
        TaskWord::Claim(args) => claim(args, cx, &online, &installation),
        TaskWord::Extend(args) => extend(args, cx, &online, &installation),
        TaskWord::Finish(args) => finish(args, cx, &online, &installation),
    }
}

/// A claim that was made: the task, and the token that its other words need.
pub(super) struct Claimed {
    pub(super) task: Task,
    pub(super) token: String,
    pub(super) json: Value,
}

/// Takes the worst open task that fits; `None` if there is none. Whoever is quicker gets it, and the next
/// one is tried.
pub(super) fn take(
    cx: &Context<'_>,
    (online, installation): (&Online, &Installation),
    fits: impl Fn(&Task) -> bool,
    (by, lease): (&str, Duration),
) -> Result<Option<Claimed>, Fault> {
    let all = standing(cx, online, installation)?;
    let open = all
        .into_iter()
        .filter(|task| task.stage == Stage::Open && fits(task));
    for task in open {
        let token = tasks::token().map_err(store_fault)?;
        let bus = installation.bus.as_ref();
        let claimed = tasks::claim(bus, &task, (by, token.clone()), online.clock.now(), lease);
        match online.run(claimed) {
            Ok(handled) => {
                let until = handled.claim.map(|claim| claim.until);
                let task = Task {
                    stage: Stage::Claimed,
                    by: Some(by.to_owned()),
                    until,
                    attempts: handled.attempts,
                    ..task
                };
                let mut json = as_json(&task);
                json["token"] = Value::String(token.clone());
                return Ok(Some(Claimed { task, token, json }));
            }
            Err(TaskFault::NotTaken(_)) => {}
            Err(TaskFault::Store(fault)) => return Err(store_fault(fault)),
        }
    }
    Ok(None)
}

fn claim(
    args: &ClaimArgs,
    cx: &Context<'_>,
    online: &Online,
    installation: &Installation,
) -> Result<u8, Fault> {
    let kind = args.kind.as_deref().map(kind_named).transpose()?;
    let by = name_of(&args.by)?;
    let lease = bounded(args.length)?;
    if let Some(id) = &args.id {
        let all = standing(cx, online, installation)?;
        let task = all.into_iter().find(|task| task.id == *id);
        let task = task.ok_or_else(|| no_such(id))?;
        task.is_open().map_err(|why| refused(&why))?;
    }
    let fits = |task: &Task| match &args.id {
        Some(id) => task.id == *id,
        None => kind.is_none_or(|kind| task.kind == kind),
    };
    let Some(claimed) = take(cx, (online, installation), fits, (by, lease))? else {
        cx.printer
            .note("no such task is open; `mesh tasks` shows all");
        return Ok(EXIT_NOT_WELL);
    };
    cx.printer.json(&claimed.json);
    Ok(0)
}

fn extend(
    args: &ExtendArgs,
    cx: &Context<'_>,
    online: &Online,
    installation: &Installation,
) -> Result<u8, Fault> {
    let (bus, now) = (installation.bus.as_ref(), online.clock.now());
    let lease = bounded(args.length)?;
    let extended = online.run(tasks::extend(bus, &args.id, &args.token, now, lease));
    let until = extended.map_err(told)?.claim.map(|claim| claim.until);
    let until = until.map_or(String::new(), time_text);
    if cx.printer.is_json() {
        cx.printer
            .json(&serde_json::json!({ "id": args.id, "until": until }));
    } else {
        cx.printer
            .answer(&format!("Task {} is yours until {until}.", args.id));
    }
    Ok(0)
}

fn finish(
    args: &FinishArgs,
    cx: &Context<'_>,
    online: &Online,
    installation: &Installation,
) -> Result<u8, Fault> {
    let outcome = match args.outcome {
        HowEnded::Done => Outcome::Done,
        HowEnded::Failed => Outcome::Failed,
        HowEnded::Person => Outcome::Person,
    };
    let (bus, now) = (installation.bus.as_ref(), online.clock.now());
    let note = online.scrubber.scrub(&args.note);
    let finished = tasks::finish(bus, &args.id, &args.token, now, (outcome, &note));
    online.run(finished).map_err(told)?;
    let what = match outcome {
        Outcome::Done => "its owner looks again, and that look decides",
        Outcome::Failed => "the next agent reads what was tried",
        Outcome::Person => "it waits for a person",
    };
    if cx.printer.is_json() {
        cx.printer
            .json(&serde_json::json!({ "id": args.id, "outcome": outcome }));
    } else {
        cx.printer.answer(&format!("Task {}: {what}.", args.id));
    }
    Ok(0)
}

/// A name that can stand in a line of the history.
pub(super) fn name_of(by: &str) -> Result<&str, Fault> {
    let long = by.chars().count() > LONGEST_NAME;
    if by.trim().is_empty() || long || by.chars().any(char::is_control) {
        return Err(Fault::Usage(format!(
            "--by is a name of one line, of at most {LONGEST_NAME} characters"
        )));
    }
    Ok(by)
}

fn bounded(length: Duration) -> Result<Duration, Fault> {
    if length > LONGEST {
        return Err(Fault::Usage(
            "at most 24h; `mesh task extend` makes it longer".to_owned(),
        ));
    }
    Ok(length)
}

fn no_such(id: &str) -> Fault {
    Fault::failed(format!("no task `{id}` stands"), "`mesh tasks` lists them")
}

fn refused(not_taken: &NotTaken) -> Fault {
    Fault::failed(not_taken.to_string(), "`mesh tasks` shows who has what")
}

pub(super) fn told(fault: TaskFault) -> Fault {
    match fault {
        TaskFault::NotTaken(not_taken) => refused(&not_taken),
        TaskFault::Store(fault) => store_fault(fault),
    }
}
