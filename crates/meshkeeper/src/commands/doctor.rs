//! `mesh doctor`: what will not work, before it does not.

use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::adapter::{Cx, Finding, FindingLevel};
use mesh_sdk::handle::AdapterHandle;
use serde::Serialize;

use super::Context;
use super::online::Online;
use crate::cli::DoctorArgs;
use crate::errors::{EXIT_FAILED, Fault};
use crate::manifest::{Machine, Manifest, Provider};
use crate::printer::Tone;

/// The longest that one server is asked.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Serialize)]
struct Examined {
    subject: String,
    findings: Vec<Finding>,
}

/// Runs it. Exit 0 if nothing will fail, 1 otherwise.
pub(super) fn run(args: &DoctorArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let manifest = cx.manifest()?;
    let online = Online::start(cx)?;
    let mut all = vec![Examined {
        subject: "this machine".to_owned(),
        findings: here(cx, &manifest),
    }];
    let wanted = |p: &&Provider| {
        args.provider
            .as_deref()
            .is_none_or(|name| p.name.as_str() == name)
    };
    let providers: Vec<&Provider> = manifest.providers.values().filter(wanted).collect();
    if providers.is_empty()
        && let Some(name) = &args.provider
    {
        let message = format!("the manifest has no provider `{name}`");
        return Err(Fault::failed(message, "`mesh status` lists them"));
    }
    for provider in providers {
        all.extend(online.run(examine(&online, provider)));
    }
    if cx.printer.is_json() {
        cx.printer.json(&all);
    } else {
        all.iter().for_each(|one| show(cx, one));
    }
    let bad = all
        .iter()
        .flat_map(|e| &e.findings)
        .any(|f| f.level == FindingLevel::Error);
    Ok(if bad { EXIT_FAILED } else { 0 })
}

/// `check --connect`: asks every server who it is. Reads only. Exit 1 if one does not answer.
pub fn check_connect(cx: &Context<'_>, manifest: &Manifest) -> Result<u8, Fault> {
    let online = Online::start(cx)?;
    let mut code = 0;
    for provider in manifest.providers.values() {
        for (name, answer) in online.run(versions(provider)) {
            match answer {
                Ok(version) => cx.printer.note(&format!("{name}: {version}")),
                Err(why) => {
                    code = EXIT_FAILED;
                    cx.printer
                        .error(&format!("{name}: {}", online.scrubber.scrub(&why)));
                }
            }
        }
    }
    Ok(code)
}

async fn versions(provider: &Provider) -> Vec<(String, Result<String, String>)> {
    let mut answers = Vec::new();
    for (name, adapter) in adapters(provider) {
        let answer = match adapter {
            Ok(adapter) => {
                match tokio::time::timeout(PATIENCE, adapter.server(&Cx::default())).await {
                    Ok(Ok(server)) => Ok(server.version),
                    Ok(Err(error)) => Err(error.to_string()),
                    Err(_) => Err("no answer within 30 s".to_owned()),
                }
            }
            Err(why) => Err(why),
        };
        answers.push((name, answer));
    }
    answers
}

fn adapters(provider: &Provider) -> Vec<(String, Result<AdapterHandle, String>)> {
    let settings = match provider.resolve(&Machine) {
        Ok(settings) => settings,
        Err(troubles) => {
            let why = troubles
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; ");
            return vec![(provider.name.to_string(), Err(why))];
        }
    };
    let opened = settings.into_iter().map(|settings| {
        let name = format!("{} {}", provider.name, settings.address());
        (
            name,
            provider
                .kind
                .kind
                .open(settings)
                .map_err(|error| error.to_string()),
        )
    });
    opened.collect()
}

async fn examine(online: &Online, provider: &Provider) -> Vec<Examined> {
    let mut all = Vec::new();
    for (subject, adapter) in adapters(provider) {
        let findings = match adapter {
            Ok(adapter) => {
                match tokio::time::timeout(PATIENCE, adapter.doctor(&Cx::default())).await {
                    Ok(Ok(findings)) => findings,
                    Ok(Err(error)) => vec![failed("connection", error.to_string())],
                    Err(_) => vec![failed("connection", "no answer within 30 s".to_owned())],
                }
            }
            Err(why) => vec![failed("settings", why)],
        };
        let scrubber = Arc::clone(&online.scrubber);
        let scrub = |f: Finding| {
            let mut clean =
                Finding::new(f.level, &f.about, scrubber.scrub(&f.message).into_owned());
            clean.action = f.action;
            clean
        };
        all.push(Examined {
            subject,
            findings: findings.into_iter().map(scrub).collect(),
        });
    }
    all
}

fn failed(about: &str, message: String) -> Finding {
    Finding::new(FindingLevel::Error, about, message)
}

/// What can be seen without a server: the data folder, its key, files that others may read.
fn here(cx: &Context<'_>, manifest: &Manifest) -> Vec<Finding> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut findings = Vec::new();
    let data = &cx.settings.data;
    match std::fs::metadata(data) {
        Err(_) => findings.push(
            Finding::new(
                FindingLevel::Warning,
                "data folder",
                format!("{} is not there yet", data.display()),
            )
            .with_action("mesh apply"),
        ),
        Ok(meta) if meta.permissions().mode() & 0o077 != 0 => findings.push(
            Finding::new(
                FindingLevel::Warning,
                "data folder",
                format!(
                    "{} can be read by others; it holds the key of every password",
                    data.display()
                ),
            )
            .with_action(format!("chmod 700 {}", data.display())),
        ),
        Ok(_) => findings.push(Finding::new(
            FindingLevel::Ok,
            "data folder",
            "there, and only yours",
        )),
    }
    for file in manifest.files() {
        let mode = std::fs::metadata(&file).map(|meta| meta.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o004 != 0) {
            let message = format!("everybody on this machine can read {}", file.display());
            let fix = format!("chmod o-r {}", file.display());
            findings.push(
                Finding::new(FindingLevel::Warning, "secret files", message).with_action(fix),
            );
        }
    }
    findings
}

fn show(cx: &Context<'_>, one: &Examined) {
    cx.printer
        .answer(&cx.printer.paint(Tone::Head, &one.subject));
    for finding in &one.findings {
        let (tone, word) = match finding.level {
            FindingLevel::Ok => (Tone::Good, "ok"),
            FindingLevel::Warning => (Tone::Warning, "warning"),
            FindingLevel::Error => (Tone::Bad, "error"),
        };
        let word = cx.printer.paint(tone, word);
        cx.printer
            .answer(&format!("  {word}  {}: {}", finding.about, finding.message));
        if let Some(action) = &finding.action {
            cx.printer
                .answer(&format!("      {}", cx.printer.paint(Tone::Dim, action)));
        }
    }
}
