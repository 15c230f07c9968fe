//! `mesh tasks`: what an agent can take on.

use mesh_sdk::Time;
use mesh_sdk::condition::ConditionType;
use mesh_sdk::decide::tasks::{Stage, Task};
use serde_json::{Value, json};

use super::Context;
use super::online::{Online, is_running, store_fault};
use crate::cli::TasksArgs;
use crate::errors::Fault;
use crate::printer::Table;
use crate::status::{self, time_text};
use crate::wiring::installation::Installation;
use crate::wiring::tasks;

/// A condition's type as it was typed.
pub(super) fn kind_named(text: &str) -> Result<ConditionType, Fault> {
    let mut all = ConditionType::ALL.iter();
    let found = all.find(|kind| kind.as_str().eq_ignore_ascii_case(text));
    found
        .copied()
        .ok_or_else(|| Fault::Usage(format!("there is no condition type `{text}`")))
}

/// Every task that stands.
pub(super) fn standing(
    cx: &Context<'_>,
    online: &Online,
    installation: &Installation,
) -> Result<Vec<Task>, Fault> {
    let (bus, now) = (installation.bus.as_ref(), online.clock.now());
    let running = is_running(cx, online, installation)?;
    online.run(async {
        let providers = status::providers(bus).await.map_err(store_fault)?;
        let loops = status::loops(bus, &providers, now, running).await;
        let loops = loops.map_err(store_fault)?;
        let conditions = status::conditions(bus, &loops, now).await;
        let conditions = conditions.map_err(store_fault)?;
        let standing = tasks::standing(bus, &conditions, now).await;
        standing.map_err(store_fault)
    })
}

/// A task as programs read it: times are RFC 3339.
pub(super) fn as_json(task: &Task) -> Value {
    let time = |at: Time| Value::String(time_text(at));
    let reports = task.reports.iter().map(|report| {
        json!({ "at": time(report.at), "by": report.by, "outcome": report.outcome, "note": report.note })
    });
    json!({
        "id": task.id, "type": task.kind, "severity": task.severity, "owner": task.owner,
        "subjects": task.subjects, "count": task.count, "meaning": task.meaning,
        "action": task.action, "evidence": task.evidence, "since": time(task.since),
        "stage": task.stage, "by": task.by, "until": task.until.map(time),
        "attempts": task.attempts, "reports": reports.collect::<Vec<_>>(),
    })
}

/// Runs it.
pub(super) fn run(args: &TasksArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let kind = args.kind.as_deref().map(kind_named).transpose()?;
    let online = Online::start(cx)?;
    let (installation, _) = online.open_to_read(&cx.settings.data)?;
    let mut all = standing(cx, &online, &installation)?;
    all.retain(|task| kind.is_none_or(|kind| task.kind == kind));
    all.retain(|task| !args.open || task.stage == Stage::Open);
    if cx.printer.is_json() {
        let all: Vec<Value> = all.iter().map(as_json).collect();
        cx.printer.json(&json!({ "tasks": all }));
        return Ok(0);
    }
    if all.is_empty() {
        cx.printer.answer("No task stands.");
        return Ok(0);
    }
    let mut table = Table::new(["task", "severity", "what", "about", "stage", "since"]);
    for task in &all {
        table.row([
            task.id.clone(),
            task.severity.as_str().to_owned(),
            task.kind.to_string(),
            about(task),
            stage(task),
            time_text(task.since),
        ]);
    }
    cx.printer.table(&table);
    Ok(0)
}

fn about(task: &Task) -> String {
    let first = task.subjects.first().map_or("", String::as_str);
    match task.count {
        0 | 1 => first.to_owned(),
        more => format!("{first} and {} more", more - 1),
    }
}

fn stage(task: &Task) -> String {
    match (task.stage, &task.by) {
        (Stage::Claimed, Some(by)) => format!("claimed by {by}"),
        (Stage::Open | Stage::Claimed, _) if task.attempts > 0 => {
            format!("open, {} tried", task.attempts)
        }
        (Stage::Open | Stage::Claimed, _) => "open".to_owned(),
        (Stage::Verifying, _) => "done, it is said".to_owned(),
        (Stage::Person, _) => "waits for a person".to_owned(),
    }
}
