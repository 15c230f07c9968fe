//! `mesh apply`: one full pass of everything, then the end. Beside a daemon it asks that for the pass.

use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::Time;
use mesh_sdk::bus::Fault as BusFault;
use mesh_sdk::harness::PassReport;
use serde::Serialize;

use super::Context;
use super::online::{Online, run_fault, store_fault, tell_unreadable, told};
use crate::errors::{EXIT_FAILED, EXIT_NOT_WELL, Fault};
use crate::manifest::Manifest;
use crate::printer::Tone;
use crate::status::{self, Picture};
use crate::wiring::installation::{
    Claim, Claiming, Holder, Installation, Runner, Turn, running, take_turn,
};
use crate::wiring::oneshot::{self, Outcome};
use crate::wiring::words;
use crate::wiring::{delivery, host};

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
    let (whose, installation) = online.run(whose_pass(cx, &online, &manifest))?;
    let (outcome, by_daemon) = match whose {
        Pass::Mine(turn, claim) => {
            let outcome = online.run(alone(
                &online,
                &installation,
                (manifest, &cx.settings.host),
                claim,
            ))?;
            drop(turn);
            (outcome, false)
        }
        Pass::Daemons => (Outcome::default(), true),
    };
    let picture = online.run(picture(&online, &installation, mesh.as_str(), by_daemon))?;
    super::status::remember(cx, &installation, &picture);
    Ok(show(cx, &outcome, &picture, by_daemon))
}

/// Who makes the pass.
enum Pass {
    /// This process, for as long as the right to it is kept: that of the folder, and that of the bus where
    /// several hosts share one.
    Mine(std::fs::File, Option<(Arc<Claim>, Holder)>),
    /// A daemon was asked for it, and has made it.
    Daemons,
}

/// Who has the right to make a pass now.
enum Has {
    /// This process.
    Me(Pass, Installation),
    /// A `mesh apply`: it ends soon.
    OneShot,
    /// A daemon.
    Daemon,
}

/// Takes the right to make the pass, or asks the daemon that has it. Another `apply` is waited for; if
/// the daemon ends meanwhile, the pass is made here.
async fn whose_pass(
    cx: &Context<'_>,
    online: &Online,
    manifest: &Manifest,
) -> Result<(Pass, Installation), Fault> {
    let began = online.clock.now();
    let mut asked: Option<(Installation, u64)> = None;
    loop {
        let has = match &asked {
            Some((installation, _)) if installation.is_shared() => Has::Daemon,
            _ => who_has_it(cx, online, manifest).await?,
        };
        match (&asked, has) {
            (_, Has::Me(pass, installation)) => return Ok((pass, installation)),
            (Some((installation, number)), _) => {
                let here = &cx.settings.host;
                let here = [delivery::name_of(here), host::name_of(here)];
                let runs = running(&cx.settings.data) == Some(Runner::Daemon);
                let about = (online.clock.now(), runs.then_some(&here));
                let answered = answered(installation, *number, about);
                if answered.await.map_err(store_fault)? {
                    let asked = asked.take().map(|(installation, _)| installation);
                    let installation = asked.ok_or_else(|| Fault::failed("a bug", "tell us"))?;
                    return Ok((Pass::Daemons, installation));
                }
            }
            (None, Has::OneShot) => {}
            (None, Has::Daemon) => {
                let opened = online.open_for(&cx.settings.data, manifest).await;
                let installation = opened.map_err(told)?;
                cx.printer.note(&who_is_asked(&installation).await);
                let number = words::ask_for_pass(installation.bus.as_ref()).await;
                asked = Some((installation, number.map_err(store_fault)?));
            }
        }
        if online.clock.now().since(began) > PATIENCE {
            return Err(Fault::failed(
                "whoever has the loops has not made the pass within two minutes",
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

async fn who_has_it(cx: &Context<'_>, online: &Online, manifest: &Manifest) -> Result<Has, Fault> {
    let folder = &cx.settings.data;
    let turn = match take_turn(folder, Runner::OneShot).await.map_err(told)? {
        Turn::Mine(turn) => turn,
        Turn::Taken(Runner::OneShot) => return Ok(Has::OneShot),
        Turn::Taken(Runner::Daemon) => return Ok(Has::Daemon),
    };
    let installation = online.open_for(folder, manifest).await.map_err(told)?;
    let me = online.holder(cx, Runner::OneShot)?;
    let claiming = installation.claim(me.clone());
    let answer = tokio::select! {
        answer = claiming => answer.map_err(store_fault)?,
        () = online.stop.cancelled() => {
            return Err(Fault::failed("stopped while waiting for its turn", "run it again"));
        }
    };
    Ok(match answer {
        None => Has::Me(Pass::Mine(turn, None), installation),
        Some(Claiming::Mine(claim)) => {
            let claim = Arc::new(claim);
            let installation = installation.under(&claim);
            Has::Me(Pass::Mine(turn, Some((claim, me))), installation)
        }
        Some(Claiming::Other(other)) if other.runner == Runner::OneShot.as_str() => Has::OneShot,
        Some(Claiming::Other(_)) => Has::Daemon,
    })
}

/// What is told of the daemon that is asked.
async fn who_is_asked(installation: &Installation) -> String {
    match installation.holder().await {
        Ok(Some(holder)) => format!(
            "`mesh up` on {} puts the wish in force, by the manifest there; each host is asked for the pass of its loops",
            holder.host
        ),
        _ => "a daemon runs here; it is asked for the pass".to_owned(),
    }
}

async fn alone(
    online: &Online,
    installation: &Installation,
    (manifest, host): (Manifest, &str),
    claim: Option<(Arc<Claim>, Holder)>,
) -> Result<Outcome, Fault> {
    let (scrubber, stop) = (Arc::clone(&online.scrubber), online.stop.child_token());
    let (claim, me) = claim.unzip();
    let clock = online.clock;
    let pass = oneshot::apply(
        installation,
        manifest,
        clock,
        scrubber,
        (me, host),
        stop.clone(),
    );
    let outcome = match &claim {
        None => pass.await,
        Some(claim) => {
            let ends = claim.lost();
            tokio::pin!(pass, ends);
            tokio::select! {
                outcome = &mut pass => outcome,
                () = &mut ends => {
                    stop.cancel();
                    pass.await
                }
            }
        }
    };
    if let Some(claim) = claim {
        claim.give_back().await;
    }
    outcome.map_err(run_fault)
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

/// Whether every loop that runs has made a pass that answers the request. `here`: delivery and host loop of this host, where
/// a daemon runs on it; other hosts are not waited for.
async fn answered(
    installation: &Installation,
    number: u64,
    (now, here): (Time, Option<&[String; 2]>),
) -> Result<bool, BusFault> {
    let bus = installation.bus.as_ref();
    let mut providers = status::providers(bus).await?;
    // Whoever has no loop answers nothing, and a condition says so.
    providers.retain(|provider| provider.closed.is_none());
    let loops = status::loops(bus, &providers, now, true).await?;
    let mut waited_for = loops.iter().filter(|(view, _)| {
        view.class == "provisioner" || here.is_some_and(|names| names.contains(&view.name))
    });
    Ok(waited_for.all(|(_, record)| {
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
