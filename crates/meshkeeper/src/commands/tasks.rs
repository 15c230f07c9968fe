//! `mesh tasks`: what an agent can take on.

use super::Context;
use super::online::Online;
use super::reach::{Does, checked, reach, told};
use crate::cli::TasksArgs;
use crate::desk::message::{List, Question, TaskView};
use crate::errors::Fault;
use crate::printer::Table;

/// Runs it.
pub(super) fn run(args: &TasksArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let question = checked(Question::List(List {
        types: args.kind.iter().cloned().collect(),
        open: args.open,
    }))?;
    let online = Online::start(cx)?;
    let way = reach(&args.reach, cx, &online, Does::Look)?;
    let answer = online.run(way.ask(&question)).map_err(told)?;
    if cx.printer.is_json() {
        cx.printer.json(&answer);
        return Ok(0);
    }
    let tasks = answer.get("tasks").cloned().unwrap_or_default();
    let all: Vec<TaskView> = serde_json::from_value(tasks).map_err(|error| {
        Fault::failed(
            format!("the answer cannot be read: {error}"),
            "use the same version of `mesh` on both sides",
        )
    })?;
    if all.is_empty() {
        cx.printer.answer("No task stands.");
        return Ok(0);
    }
    let mut table = Table::new(["task", "severity", "what", "about", "stage", "since"]);
    for task in &all {
        table.row([
            task.id.clone(),
            task.severity.clone(),
            task.kind.clone(),
            about(task),
            stage(task),
            task.since.clone(),
        ]);
    }
    cx.printer.table(&table);
    if let Some(left_off) = answer["left_off"].as_u64() {
        cx.printer.note(&format!("and {left_off} more"));
    }
    Ok(0)
}

fn about(task: &TaskView) -> String {
    let first = task.subjects.first().map_or("", String::as_str);
    match task.count {
        0 | 1 => first.to_owned(),
        more => format!("{first} and {} more", more - 1),
    }
}

fn stage(task: &TaskView) -> String {
    match (task.stage.as_str(), &task.by) {
        ("claimed", Some(by)) => format!("claimed by {by}"),
        ("open" | "claimed", _) if task.attempts > 0 => format!("open, {} tried", task.attempts),
        ("open" | "claimed", _) => "open".to_owned(),
        ("verifying", _) => "done, it is said".to_owned(),
        ("person", _) => "waits for a person".to_owned(),
        (other, _) => other.to_owned(),
    }
}
