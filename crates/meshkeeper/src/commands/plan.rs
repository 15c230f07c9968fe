//! `mesh plan`: what `apply` would do now. It writes nothing, and makes no folder.

use std::sync::Arc;

use mesh_sdk::decide::{Last, Slot, Step, Why};
use serde::Serialize;

use super::Context;
use super::online::{Online, run_fault};
use crate::errors::{EXIT_CHANGES, EXIT_FAILED, Fault};
use crate::printer::{Table, Tone};
use crate::wiring::oneshot::{self, Plan, Planned};

/// One line of a plan.
#[derive(Debug, Serialize)]
struct Line {
    provider: String,
    consumer: String,
    login: String,
    action: &'static str,
    why: String,
}

/// What `plan --json` answers.
#[derive(Serialize)]
struct Answer {
    changes: Vec<Line>,
    leaving: Vec<Line>,
    waiting: Vec<Line>,
    unknown: Vec<Line>,
    problems: Vec<String>,
}

/// Runs it.
pub(super) fn run(cx: &Context<'_>) -> Result<u8, Fault> {
    let manifest = cx.manifest()?;
    let online = Online::start(cx)?;
    let installation = online.open_if_there(&cx.settings.data, &manifest)?;
    let (scrubber, stop) = (Arc::clone(&online.scrubber), online.stop.clone());
    let plan = oneshot::plan(
        installation.as_ref(),
        manifest,
        online.clock,
        scrubber,
        stop,
    );
    let plan = online.run(plan).map_err(run_fault)?;
    let answer = answer_of(&plan);
    if cx.printer.is_json() {
        cx.printer.json(&answer);
    } else {
        show(cx, &answer);
    }
    let not_told = !answer.unknown.is_empty() || !answer.problems.is_empty();
    Ok(match (not_told, answer.changes.is_empty()) {
        (true, _) => EXIT_FAILED,
        (false, false) => EXIT_CHANGES,
        (false, true) => 0,
    })
}

fn answer_of(plan: &Plan) -> Answer {
    let mut answer = Answer {
        changes: Vec::new(),
        leaving: Vec::new(),
        waiting: Vec::new(),
        unknown: Vec::new(),
        problems: Vec::new(),
    };
    for part in &plan.loops {
        answer.changes.extend(
            part.steps
                .iter()
                .map(|(slot, step)| change(part, slot, *step)),
        );
        answer
            .leaving
            .extend(part.leaving.iter().map(|slot| leaving(part, slot)));
        answer
            .waiting
            .extend(part.waiting.iter().map(|slot| waiting(part, slot)));
        for (consumer, why) in &part.unknown {
            answer.unknown.push(Line {
                provider: part.label.clone(),
                consumer: consumer.to_string(),
                login: String::new(),
                action: "unknown",
                why: why.clone(),
            });
        }
    }
    answer.problems.extend(
        plan.without_loop
            .iter()
            .map(|(_, closed)| closed.why.clone()),
    );
    let facts = plan.built.facts.iter();
    answer.problems.extend(facts.filter_map(|fact| {
        let serious = fact.kind.severity() == mesh_sdk::condition::Severity::Error;
        serious.then(|| format!("{}: {}", fact.subject, fact.message))
    }));
    answer
}

fn line(part: &Planned, slot: &Slot, action: &'static str, why: String) -> Line {
    Line {
        provider: part.label.clone(),
        consumer: slot.consumer.to_string(),
        login: slot.record.login.to_string(),
        action,
        why,
    }
}

fn change(part: &Planned, slot: &Slot, step: Step) -> Line {
    let what = match &slot.record.last {
        Last::Lost {
            differences,
            detail,
            ..
        } if detail.is_empty() => differences.to_string(),
        Last::Lost {
            differences,
            detail,
            ..
        } => format!("{differences}: {detail}"),
        _ => String::new(),
    };
    match step {
        Step::Mint => line(
            part,
            slot,
            "create",
            "new; a password would be made".to_owned(),
        ),
        Step::Create(Why::New) if what == "absent" => line(part, slot, "create", "new".to_owned()),
        Step::Create(Why::New) => line(part, slot, "take over", what),
        Step::Create(Why::Changed) => {
            line(part, slot, "update", format!("the wish changed; {what}"))
        }
        Step::Create(Why::Lost(_)) => line(part, slot, "heal", format!("lost: {what}")),
        Step::Create(Why::Started | Why::ServerRestarted | Why::Word) => line(
            part,
            slot,
            "create",
            "the adapter cannot be asked".to_owned(),
        ),
        Step::Disable => {
            let why = "asked for no more: switched off, sessions ended; its data stays";
            line(part, slot, "disable", why.to_owned())
        }
        Step::Remove => {
            let why = "its grace is over: the login is dropped; its data stays";
            line(part, slot, "drop", why.to_owned())
        }
    }
}

fn leaving(part: &Planned, slot: &Slot) -> Line {
    let why = slot
        .record
        .departure
        .as_ref()
        .and_then(|d| d.left_alone.clone());
    let why = why.unwrap_or_else(|| "asked for no more".to_owned());
    line(part, slot, "leaving", why)
}

fn waiting(part: &Planned, slot: &Slot) -> Line {
    let why = match &slot.wanted {
        Some(wanted) => match &wanted.secret {
            mesh_sdk::decide::SecretState::Lost(why) => why.clone(),
            _ if slot.record.taken.is_some() => "the login exists and is not ours".to_owned(),
            _ => "braked: lost again after each repair".to_owned(),
        },
        None => String::new(),
    };
    line(part, slot, "waits", why)
}

fn show(cx: &Context<'_>, answer: &Answer) {
    let mut table = Table::new(vec!["ACTION", "PROVIDER", "CONSUMER", "LOGIN", "WHY"]);
    let all = answer
        .changes
        .iter()
        .chain(&answer.leaving)
        .chain(&answer.waiting)
        .chain(&answer.unknown);
    for line in all {
        let tone = match line.action {
            "create" | "update" | "heal" | "take over" => Tone::Good,
            "disable" | "drop" => Tone::Bad,
            _ => Tone::Warning,
        };
        let action = cx.printer.paint(tone, line.action);
        let (provider, consumer) = (line.provider.clone(), line.consumer.clone());
        table.row([
            action,
            provider,
            consumer,
            line.login.clone(),
            line.why.clone(),
        ]);
    }
    if !table.is_empty() {
        cx.printer.table(&table);
    }
    answer
        .problems
        .iter()
        .for_each(|problem| cx.printer.error(problem));
    let changes = answer.changes.len();
    let unknown = answer.unknown.len();
    cx.printer.answer(&match (changes, unknown) {
        (0, 0) => "Nothing to do.".to_owned(),
        (n, 0) => format!("{n} to do; `mesh apply` does it."),
        (n, u) => format!("{n} to do, as far as could be told; {u} could not be asked."),
    });
}
