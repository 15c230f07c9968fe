//! `mesh plan`: what `apply` would do now. It writes nothing, and makes no folder.

use std::sync::Arc;

use mesh_loops::delivery::Is;
use mesh_loops::host::Is as Runs;
use mesh_sdk::decide::{Last, Leaver, Phase, Slot, Step, Why};
use serde::Serialize;

use super::Context;
use super::online::{Online, run_fault};
use crate::errors::{EXIT_CHANGES, EXIT_FAILED, Fault};
use crate::printer::{Table, Tone};
use crate::status::{self, RemovalSet, time_text};
use crate::wiring::oneshot::{self, Plan, Planned};

/// One line of a plan.
#[derive(Debug, Serialize)]
struct Line {
    provider: String,
    consumer: String,
    login: String,
    action: &'static str,
    why: String,
    /// What stays on the backend when the login goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    keeps: Option<&'static str>,
}

/// What `plan --json` answers.
#[derive(Serialize)]
struct Answer {
    changes: Vec<Line>,
    leaving: Vec<Line>,
    waiting: Vec<Line>,
    own: Vec<Line>,
    unknown: Vec<Line>,
    problems: Vec<String>,
    /// What is leaving, by provider, as an approval names it.
    removals: Vec<RemovalSet>,
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
        (online.clock, &cx.settings.host),
        scrubber,
        stop,
    );
    let plan = online.run(plan).map_err(run_fault)?;
    let answer = answer_of(&plan);
    if cx.printer.is_json() {
        cx.printer.json(&answer);
    } else {
        let is_held = |set: &RemovalSet| {
            let mut held = plan.loops.iter().filter(|part| part.held.is_some());
            held.any(|part| part.label.split('@').next() == Some(set.provider.as_str()))
        };
        show(cx, &answer, is_held);
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
        own: Vec::new(),
        unknown: Vec::new(),
        problems: Vec::new(),
        removals: removals(plan),
    };
    for part in &plan.loops {
        for (slot, step) in &part.steps {
            // Meshkeeper's own login is nobody's provision: it is shown, and no change.
            let to = match slot.consumer.is_canary() {
                true => &mut answer.own,
                false => &mut answer.changes,
            };
            to.push(change(part, slot, *step));
        }
        let slots = part.leaving.iter();
        answer
            .leaving
            .extend(slots.flat_map(|slot| leaving(part, slot)));
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
                keeps: None,
            });
        }
    }
    for one in &plan.deliveries {
        let line = |action, why: &str| Line {
            provider: "delivery".to_owned(),
            consumer: one.consumer.to_string(),
            login: String::new(),
            action,
            why: format!("{}: {why}", one.place),
            keeps: None,
        };
        match &one.is {
            Is::ToWrite(why) => answer.changes.push(line("deliver", why)),
            Is::Amiss(why) => answer.unknown.push(line("unknown", why)),
        }
    }
    for one in &plan.hosted {
        let line = |action, why: &str| Line {
            provider: "host".to_owned(),
            consumer: one.consumer.to_string(),
            login: String::new(),
            action,
            why: format!("{}: {why}", one.thing),
            keeps: None,
        };
        match &one.is {
            Runs::ToMake(why) => answer.changes.push(line("restart", why)),
            Runs::ToStart(why) => answer.changes.push(line("start", why)),
            Runs::Amiss(why) => answer.unknown.push(line("unknown", why)),
        }
    }
    for (provider, consumer, why) in &plan.rotations {
        answer.changes.push(Line {
            provider: provider.to_string(),
            consumer: consumer.to_string(),
            login: String::new(),
            action: "rotate",
            why: why.clone(),
            keeps: None,
        });
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

fn removals(plan: &Plan) -> Vec<RemovalSet> {
    let parts = plan.loops.iter();
    status::sets_by_provider(parts.flat_map(|part| {
        let going = part.going.iter().cloned();
        going.map(|pair| (part.label.as_str(), pair))
    }))
}

fn line(part: &Planned, slot: &Slot, action: &'static str, why: String) -> Line {
    Line {
        provider: part.label.clone(),
        consumer: slot.consumer.to_string(),
        login: slot.going().to_string(),
        action,
        why,
        keeps: None,
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
            let departure = slot.record.departure_of(slot.going());
            let why = match departure.is_some_and(|departure| departure.retired) {
                true => "a person retired it: switched off, sessions ended; its data stays",
                false => "asked for no more: switched off, sessions ended; its data stays",
            };
            removal(part, slot, "disable", why)
        }
        Step::Remove => {
            let why = "its grace is over: the login is dropped; its data stays";
            removal(part, slot, "drop", why)
        }
    }
}

fn removal(part: &Planned, slot: &Slot, action: &'static str, why: &str) -> Line {
    Line {
        keeps: Some(part.keeps),
        ..line(part, slot, action, why.to_owned())
    }
}

/// Each login that leaves: why, what it waits for, and what stays.
fn leaving<'p>(part: &'p Planned, slot: &'p Slot) -> impl Iterator<Item = Line> + 'p {
    slot.record.leavers(&slot.consumer).map(|leaver| Line {
        login: leaver.login.to_string(),
        keeps: Some(part.keeps),
        ..line(part, slot, "leaving", leaving_why(part, leaver))
    })
}

fn leaving_why(part: &Planned, leaver: Leaver<'_>) -> String {
    let departure = leaver.departure;
    let asked = if departure.retired {
        "a person retired it"
    } else {
        "asked for no more"
    };
    if let Some(why) = &departure.left_alone {
        return format!("{asked}; left alone: {why}");
    }
    let until = time_text(departure.until(&part.times));
    let next = match departure.phase() {
        Phase::Leaving if departure.is_approved() => format!("a person lets it go, from {until}"),
        Phase::Leaving if leaver.elder => {
            "it existed before us, and waits for a person's word".to_owned()
        }
        Phase::Leaving => match &part.held {
            Some(held) => format!("it waits for a person's word: {held}"),
            None => format!("it is switched off from {until}"),
        },
        Phase::Off => format!("it is off, and dropped from {until}"),
    };
    match departure.used_since() {
        Some(used) => format!(
            "{asked}; {next}; in use at {}: {}",
            time_text(used.at),
            used.how
        ),
        None => format!("{asked}; {next}"),
    }
}

fn waiting(part: &Planned, slot: &Slot) -> Line {
    let why = match &slot.wanted {
        Some(wanted) => match &wanted.secret {
            mesh_sdk::decide::SecretState::Lost(why) => why.clone(),
            _ if slot.record.taken.is_some() => slot.record.taken_words(&slot.consumer),
            _ => "braked: lost again after each repair".to_owned(),
        },
        None => String::new(),
    };
    line(part, slot, "waits", why)
}

fn show(cx: &Context<'_>, answer: &Answer, is_held: impl Fn(&RemovalSet) -> bool) {
    let mut table = Table::new(vec!["ACTION", "PROVIDER", "CONSUMER", "LOGIN", "WHY"]);
    let all = answer
        .changes
        .iter()
        .chain(&answer.leaving)
        .chain(&answer.waiting)
        .chain(&answer.own)
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
            match line.keeps {
                Some(keeps) if !keeps.is_empty() => format!("{}; stays: {keeps}", line.why),
                _ => line.why.clone(),
            },
        ]);
    }
    if !table.is_empty() {
        cx.printer.table(&table);
    }
    let held = answer.removals.iter().filter(|set| is_held(set));
    held.for_each(|set| cx.printer.answer(&set.line()));
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
