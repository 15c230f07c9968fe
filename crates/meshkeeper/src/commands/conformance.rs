//! `mesh conformance`: the suite that every adapter here passes, on a program of an author's own.

use std::path::{Path, PathBuf};

use mesh_conformance::exec::{Author, ExecBench};
use mesh_conformance::report::{Outcome, Report};
use mesh_sdk::adapter::Admin;
use mesh_sdk::handle::AnyKind;
use serde_json::{Map, Value, json};

use super::Context;
use super::online::Online;
use crate::cli::ConformanceArgs;
use crate::errors::{EXIT_NOT_WELL, Fault};
use crate::manifest::SecretRef;
use crate::printer::{Table, Tone};

/// Runs the suite. Exit 0 if no trial failed, 3 if one did, 1 if it could not run.
pub(super) fn run(args: &ConformanceArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let kind = cx.kinds.get("exec").ok_or_else(|| {
        let help = "it comes with the adapter `exec` of the catalogue";
        Fault::failed("this program was built without the exec adapter", help)
    })?;
    let author = author(args, cx)?;
    let online = Online::start(cx)?;
    if let Some(admin) = author
        .admin
        .as_ref()
        .and_then(|admin| admin.password.clone())
    {
        online.scrubber.add(admin);
    }
    let judged = online.run(async {
        tokio::select! {
            report = judge(kind.kind.as_ref(), author) => Some(report),
            () = online.stop.cancelled() => None,
        }
    });
    let report = match judged {
        Some(report) => report?,
        None => {
            return Err(Fault::failed(
                "stopped before its end",
                "nothing was judged",
            ));
        }
    };
    tell(&report, cx);
    Ok(match report.failed().next() {
        Some(_) => EXIT_NOT_WELL,
        None => 0,
    })
}

async fn judge(kind: &dyn AnyKind, author: Author) -> Result<Report, Fault> {
    let bench = ExecBench::start(author).await.map_err(|error| {
        let help =
            "the bench is a second program: `docs/spec/exec-adapter.md` says what it answers";
        Fault::failed(error.to_string(), help)
    })?;
    Ok(mesh_conformance::adapter::run(kind, &bench).await)
}

fn author(args: &ConformanceArgs, cx: &Context<'_>) -> Result<Author, Fault> {
    let admin = match &args.admin {
        None => None,
        Some(user) => {
            let password = args.admin_password_file.as_deref();
            let password = password.map(|file| password_in(file, cx)).transpose()?;
            Some(Admin {
                user: user.clone(),
                password,
            })
        }
    };
    Ok(Author {
        program: PathBuf::from(&args.exec),
        args: args.arg.clone(),
        bench: args.bench.clone(),
        settings: settings(args.settings.as_deref())?,
        admin,
    })
}

fn password_in(file: &Path, cx: &Context<'_>) -> Result<mesh_sdk::Secret, Fault> {
    let place = SecretRef::File(file.to_owned());
    place
        .password(cx.secrets, true)
        .map_err(|trouble| Fault::failed(trouble.to_string(), "look at --admin-password-file"))
}

fn settings(file: Option<&Path>) -> Result<Map<String, Value>, Fault> {
    let Some(file) = file else {
        return Ok(Map::new());
    };
    let wrong = |why: String| {
        let help = "--settings names a file with one JSON object: the provider's `settings`";
        Fault::failed(format!("{}: {why}", file.display()), help)
    };
    let text = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))
}

fn tell(report: &Report, cx: &Context<'_>) {
    if cx.printer.is_json() {
        return cx.printer.json(&as_json(report));
    }
    let mut table = Table::new(["", "TRIAL", "WHY"]);
    for trial in &report.trials {
        let (tone, word, why) = match &trial.outcome {
            Outcome::Ran => (Tone::Good, "ran", ""),
            Outcome::Skipped(why) => (Tone::Dim, "skipped", why.as_str()),
            Outcome::Failed(how) => (Tone::Bad, "failed", how.as_str()),
        };
        let word = cx.printer.paint(tone, word);
        table.row([word, trial.name.clone(), why.to_owned()]);
    }
    cx.printer.table(&table);
    let (failed, skipped) = (report.failed().count(), report.skipped().count());
    cx.printer.answer(&format!(
        "\n{}: {} of {} trials ran well, {skipped} skipped, {failed} failed",
        report.title,
        report.ran(),
        report.expected
    ));
}

fn as_json(report: &Report) -> Value {
    let trials = report.trials.iter().map(|trial| match &trial.outcome {
        Outcome::Ran => json!({ "trial": trial.name, "outcome": "ran" }),
        Outcome::Skipped(why) => {
            json!({ "trial": trial.name, "outcome": "skipped", "why": why })
        }
        Outcome::Failed(how) => json!({ "trial": trial.name, "outcome": "failed", "why": how }),
    });
    json!({
        "title": report.title,
        "expected": report.expected,
        "ran": report.ran(),
        "skipped": report.skipped().count(),
        "failed": report.failed().count(),
        "trials": trials.collect::<Vec<_>>(),
    })
}
