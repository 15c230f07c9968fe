//! `mesh check`: reads the manifest and tells every mistake, without a network.

use serde::Serialize;

use super::{Context, unread};
use crate::cli::CheckArgs;
use crate::errors::{EXIT_FAILED, Fault, ProblemLine};
use crate::manifest::{self, Manifest};
use crate::printer::Tone;

#[derive(Serialize)]
struct Answer<'a> {
    manifest: String,
    mesh: Option<&'a str>,
    digest: Option<String>,
    ok: bool,
    providers: usize,
    provisions: usize,
    refused: usize,
    problems: Vec<ProblemLine<'a>>,
}

pub(super) fn run(args: &CheckArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    if args.connect && cx.connect.is_none() {
        return Err(Fault::not_built("check --connect", "the loops"));
    }
    let mut reading = manifest::read(&cx.settings.manifest, cx.kinds).map_err(unread)?;
    if let Some(manifest) = &reading.manifest {
        reading
            .problems
            .extend(manifest::with_secrets(manifest, cx.secrets));
    }
    let errors = reading.problems.errors();
    let manifest = reading.manifest.as_ref();
    if cx.printer.is_json() {
        cx.printer.json(&Answer {
            manifest: cx.settings.manifest.display().to_string(),
            mesh: manifest.map(|m| m.mesh.as_str()),
            digest: manifest.map(|m| m.digest.to_string()),
            ok: errors == 0,
            providers: manifest.map_or(0, |m| m.providers.len()),
            provisions: manifest.map_or(0, |m| m.provisions.len()),
            refused: manifest.map_or(0, |m| m.refused.len()),
            problems: reading.problems.lines().collect(),
        });
    } else {
        cx.printer.problems(&reading.problems);
        let warnings = reading.problems.list().len() - errors;
        cx.printer.answer(&verdict(cx, manifest, errors, warnings));
    }
    match (errors, manifest, cx.connect) {
        (0, Some(manifest), Some(connect)) if args.connect => connect(cx, manifest),
        (0, _, _) => Ok(0),
        _ => Ok(EXIT_FAILED),
    }
}

fn verdict(
    cx: &Context<'_>,
    manifest: Option<&Manifest>,
    errors: usize,
    warnings: usize,
) -> String {
    let path = cx.settings.manifest.display();
    let mut parts = Vec::new();
    if errors > 0 {
        parts.push(cx.printer.paint(Tone::Bad, &count(errors, "mistake")));
    }
    if warnings > 0 {
        parts.push(cx.printer.paint(Tone::Warning, &count(warnings, "warning")));
    }
    let Some(manifest) = manifest else {
        return format!("{path}: {}; nothing of it can be used", parts.join(", "));
    };
    if errors == 0 {
        parts.insert(0, cx.printer.paint(Tone::Good, "in order"));
    }
    let asks = format!(
        "{} on {}",
        count(manifest.provisions.len(), "provision"),
        count(manifest.providers.len(), "provider")
    );
    match errors {
        _ if manifest.provisions.is_empty() && errors > 0 => {
            format!(
                "{path}: {}; no provision of it can be used",
                parts.join(", ")
            )
        }
        0 => format!(
            "{path}: {} · mesh {} · {asks}",
            parts.join(", "),
            manifest.mesh
        ),
        _ => format!(
            "{path}: {} · {asks} could be used all the same",
            parts.join(", ")
        ),
    }
}

fn count(n: usize, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}
