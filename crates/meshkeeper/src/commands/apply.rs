//! `mesh apply`: one full pass of everything, then the end. Beside a daemon it asks that for the pass.

use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::Time;
use mesh_sdk::bus::Fault as BusFault;
use mesh_sdk::harness::PassReport;
use serde::Serialize;

use super::Context;
use super::online::{Online, run_fault, store_fault};
use crate::errors::{EXIT_FAILED, EXIT_NOT_WELL, Fault};
use crate::manifest::Manifest;
use crate::printer::Tone;
use crate::status::{self, Picture};
use crate::wiring::installation::{Installation, Turn, take_turn};
use crate::wiring::oneshot::{self, Outcome};
use crate::wiring::shapes::Word;
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
    let manifest = cx.manifest()?;
    let online = Online::start(cx)?;
    let mesh = manifest.mesh.clone();
    match take_turn(&cx.settings.data).map_err(super::online::told)? {
        Turn::Mine(turn) => {
            let installation = online.open(&cx.settings.data, &mesh)?;
            let outcome = online.run(alone(&online, &installation, manifest))?;
            drop(turn);
            let picture = online.run(picture(&online, &installation, mesh.as_str()))?;
            Ok(show(cx, &outcome, &picture, false))
        }
        Turn::Taken => {
            let installation = online.open(&cx.settings.data, &mesh)?;
            cx.printer
                .note("a daemon runs here; it is asked for the pass");
            online.run(ask_daemon(&online, &installation))?;
            let picture = online.run(picture(&online, &installation, mesh.as_str()))?;
            Ok(show(cx, &Outcome::default(), &picture, true))
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
) -> Result<Picture, Fault> {
    let bus = installation.bus.as_ref();
    status::read(bus, mesh, online.clock.now(), false)
        .await
        .map_err(store_fault)
}

/// Asks the running daemon for a pass, and waits until every loop has answered it.
async fn ask_daemon(online: &Online, installation: &Installation) -> Result<(), Fault> {
    let bus = installation.bus.as_ref();
    let asked_at = online.clock.now();
    let number = words::next_pass(bus).await.map_err(store_fault)?;
    words::say(bus, &Word::Pass { number }, asked_at)
        .await
        .map_err(store_fault)?;
    loop {
        if answered(installation, number, asked_at)
            .await
            .map_err(store_fault)?
        {
            return Ok(());
        }
        if online.clock.now().since(asked_at) > PATIENCE {
            return Err(Fault::failed(
                "the daemon has not made the pass within two minutes",
                "`mesh status` shows its loops; its log tells more",
            ));
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = online.stop.cancelled() => {
                return Err(Fault::failed("stopped while waiting for the daemon's pass", "run it again"));
            }
        }
    }
}

async fn answered(installation: &Installation, number: u64, now: Time) -> Result<bool, BusFault> {
    let bus = installation.bus.as_ref();
    let providers = status::providers(bus).await?;
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
                .map(|(p, why)| (p.to_string(), why.clone()))
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
        .for_each(|(_, why)| cx.printer.error(why));
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
