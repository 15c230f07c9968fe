//! `mesh apply`: one full pass of everything, then the end. Beside a daemon it asks that for the pass.

use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::bus::Fault as BusFault;
use mesh_sdk::harness::PassReport;
use mesh_sdk::{MeshId, Time};
use serde::Serialize;

use super::Context;
use super::online::{Online, run_fault, store_fault, tell_unreadable};
use crate::errors::{EXIT_FAILED, EXIT_NOT_WELL, Fault};
use crate::manifest::Manifest;
use crate::printer::Tone;
use crate::status::{self, Picture};
use crate::wiring::installation::{Installation, Runner, Turn, take_turn};
use crate::wiring::oneshot::{self, Outcome};
use crate::wiring::words;

/// How long the pass of a daemon, or another `apply`, is waited for.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What `apply --json` answers.
#[derive(Serialize)]
struct Answer<'a> {
    well: bool,
    by_daemon: bool,
    without_loop: Vec<(String, String)>,
    faults: &'a [String],
    status: &'a Picture,
}

/// Runs it.
pub(super) fn run(cx: &Context<'_>) -> Result<u8, Fault> {
    let online = Online::start(cx)?;
    let manifest = match cx.manifest() {
        Ok(manifest) => manifest,
        Err(fault) => {
            let told = online.run(tell_unreadable(cx, &online, &fault));
            return told.and(Err(fault));
        }
    };
    let mesh = manifest.mesh.clone();
    let whose = online.run(whose_pass(cx, &online, &mesh))?;
    let installation = online.open(&cx.settings.data, &mesh)?;
    let (outcome, by_daemon) = match whose {
        Pass::Mine(turn) => {
            let outcome = online.run(alone(&online, &installation, manifest))?;
            drop(turn);
            (outcome, false)
        }
        Pass::Daemons => (Outcome::default(), true),
    };
    let picture = online.run(picture(&online, &installation, mesh.as_str(), by_daemon))?;
    Ok(show(cx, &outcome, &picture, by_daemon))
}

/// Who makes the pass.
enum Pass {
    /// This process, for as long as the right to it is kept.
    Mine(std::fs::File),
    /// A daemon was asked for it, and has made it.
    Daemons,
}

/// Takes the right to make the pass, or asks the daemon that has it. Another `apply` is waited for; if
/// the daemon ends meanwhile, the pass is made here.
async fn whose_pass(cx: &Context<'_>, online: &Online, mesh: &MeshId) -> Result<Pass, Fault> {
    let began = online.clock.now();
    let folder = &cx.settings.data;
    let mut asked: Option<(Installation, u64)> = None;
    loop {
        let turn = take_turn(folder, Runner::OneShot).await;
        let runner = match turn.map_err(super::online::told)? {
            Turn::Mine(turn) => return Ok(Pass::Mine(turn)),
            Turn::Taken(runner) => runner,
        };
        match (&asked, runner) {
            (Some((installation, number)), _) => {
                let answered = answered(installation, *number, online.clock.now());
                if answered.await.map_err(store_fault)? {
                    return Ok(Pass::Daemons);
                }
            }
            (None, Runner::OneShot) => {}
            (None, Runner::Daemon) => {
                cx.printer
                    .note("a daemon runs here; it is asked for the pass");
                let scrubber = Arc::clone(&online.scrubber);
                let opened = Installation::open(folder, mesh, online.clock, scrubber);
                let installation = opened.map_err(super::online::told)?;
                let number = words::ask_for_pass(installation.bus.as_ref()).await;
                asked = Some((installation, number.map_err(store_fault)?));
            }
        }
        if online.clock.now().since(began) > PATIENCE {
            return Err(Fault::failed(
                "whoever runs here has not made the pass within two minutes",
                "`mesh status` shows the loops; the daemon's log tells more",
            ));
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = online.stop.cancelled() => {
                return Err(Fault::failed("stopped while waiting for the pass", "run it again"));
            }
        }
    }
}

async fn alone(
    online: &Online,
    installation: &Installation,
    manifest: Manifest,
) -> Result<Outcome, Fault> {
    let (scrubber, stop) = (Arc::clone(&online.scrubber), online.stop.clone());
    oneshot::apply(installation, manifest, online.clock, scrubber, stop)
        .await
        .map_err(run_fault)
}

async fn picture(
    online: &Online,
    installation: &Installation,
    mesh: &str,
    daemon: bool,
) -> Result<Picture, Fault> {
    let bus = installation.bus.as_ref();
    status::read(bus, mesh, online.clock.now(), daemon)
        .await
        .map_err(store_fault)
}

/// Whether every loop that runs has made a pass that answers the request.
async fn answered(installation: &Installation, number: u64, now: Time) -> Result<bool, BusFault> {
    let bus = installation.bus.as_ref();
    let mut providers = status::providers(bus).await?;
    // Whoever has no loop answers nothing, and a condition says so.
    providers.retain(|provider| provider.closed.is_none());
    let loops = status::loops(bus, &providers, now, true).await?;
    Ok(loops.iter().all(|(_, record)| {
        record
            .as_ref()
            .is_some_and(|r| r.answered_request >= number)
    }))
}

fn show(cx: &Context<'_>, outcome: &Outcome, picture: &Picture, by_daemon: bool) -> u8 {
    let well = picture.is_well() && outcome.without_loop.is_empty() && outcome.faults.is_empty();
    if cx.printer.is_json() {
        let without_loop = outcome.without_loop.iter();
        cx.printer.json(&Answer {
            well,
            by_daemon,
            without_loop: without_loop
                .map(|(p, closed)| (p.to_string(), closed.why.clone()))
                .collect(),
            faults: &outcome.faults,
            status: picture,
        });
    } else {
        outcome
            .passes
            .iter()
            .for_each(|pass| cx.printer.answer(&line(cx, pass)));
        super::status::summary(cx, picture);
    }
    outcome
        .without_loop
        .iter()
        .for_each(|(_, closed)| cx.printer.error(&closed.why));
    outcome
        .faults
        .iter()
        .for_each(|fault| cx.printer.error(fault));
    match (outcome.faults.is_empty(), well) {
        (false, _) => EXIT_FAILED,
        (true, true) => 0,
        (true, false) => EXIT_NOT_WELL,
    }
}

fn line(cx: &Context<'_>, pass: &PassReport) -> String {
    let sum = &pass.summary;
    let mut parts = vec![format!("asked {}", sum.asked), format!("held {}", sum.held)];
    let mut add = |n: usize, what: &str, tone: Tone| {
        if n > 0 {
            parts.push(cx.printer.paint(tone, &format!("{what} {n}")));
        }
    };
    add(sum.applied, "applied", Tone::Good);
    add(sum.lost, "not as asked", Tone::Warning);
    add(sum.unknown, "unknown", Tone::Warning);
    add(sum.not_asked, "not asked", Tone::Warning);
    add(sum.failed, "failed", Tone::Bad);
    format!(
        "{}: {} in {} ms",
        pass.label,
        parts.join(", "),
        pass.took.as_millis()
    )
}
