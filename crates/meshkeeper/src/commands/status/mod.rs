//! `mesh status`: the whole picture on one screen.

mod kept;
mod standing;
mod tables;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use mesh_bus::jetstream::{OpenFault, greets};
use mesh_sdk::condition::Severity;
use mesh_sdk::decide::State;
use mesh_sdk::{MeshId, Time};
use tokio::time::timeout;

use self::kept::Kept;
pub(super) use self::kept::{keep, remember};
pub(super) use self::standing::conditions;
pub(super) use self::tables::{deliveries, hosts};
use super::online::{Online, daemon_of, store_fault, unseen, who_runs};
use super::{Context, monitor};
use crate::cli::StatusArgs;
use crate::errors::{EXIT_NOT_WELL, Fault};
use crate::printer::Tone;
use crate::status::{self, ConditionView, LoopView, Picture, time_text};
use crate::wiring::health::Health;
use crate::wiring::installation::{Installation, InstallationFault};
use crate::wiring::memory::Memory;
use crate::wiring::{link, watchdog};

/// Runs it.
pub(super) fn run(args: &StatusArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let online = Online::start(cx)?;
    if args.check
        && let Some(code) = monitor::soon(cx, &online)
    {
        return Ok(code);
    }
    let (installation, mesh) = match args.check {
        true => online.open_to_read(&cx.settings.data)?,
        false => open(cx, &online)?,
    };
    loop {
        let (bus, now) = (installation.bus.as_ref(), online.clock.now());
        let daemon = daemon_of(cx, &online, &installation)?;
        let head = status::read_head(bus, mesh.as_str(), now, daemon.runs);
        let mut head = online.run(head).map_err(store_fault)?;
        head.daemon_host = daemon.host;
        let text = !args.check && !cx.printer.is_json();
        if text {
            if args.watch.is_some() && cx.printer.is_terminal() {
                cx.printer.clear();
            }
            let top = (
                head.mesh.as_str(),
                head.at,
                who(head.daemon, head.daemon_host.as_deref()),
            );
            show_top(cx, top, head.loops());
            // The many consumers take longer to read than a person waits for the first line.
            cx.printer.flush();
        }
        let picture = online
            .run(status::read_rest(bus, head))
            .map_err(store_fault)?;
        if args.check {
            return Ok(monitor::check(cx, &picture));
        }
        if text {
            show_rest(cx, &picture);
        } else {
            cx.printer.json(&picture);
        }
        let Some(every) = args.watch else {
            return Ok(code(&picture));
        };
        cx.printer.flush();
        let stopped = online.run(async {
            tokio::select! {
                () = tokio::time::sleep(every) => false,
                () = online.stop.cancelled() => true,
            }
        });
        if stopped {
            return Ok(code(&picture));
        }
    }
}

/// How long a bus beyond this machine is waited for, where there is something to show without it.
const SOON: Duration = Duration::from_millis(150);
/// The same, where it is there: one of its servers greeted by then, or the daemon on this host has answers from it.
const FAR: Duration = Duration::from_secs(2);

/// Opens what is to be shown. Where the bus does not answer, shows what this host knew last, and fails.
fn open(cx: &Context<'_>, online: &Online) -> Result<(Installation, MeshId), Fault> {
    let folder = &cx.settings.data;
    let beyond = Memory::read(folder).ok().flatten();
    let (Some(memory), Some(kept)) = (beyond, Kept::read(folder)) else {
        return online.open_to_read(folder);
    };
    let now = online.clock.now();
    let lately =
        Health::read(folder).is_some_and(|known| now.since(known.at) < watchdog::EVERY * 3);
    let opening = Installation::open_to_read(folder, Arc::clone(&online.scrubber));
    let opened = online.run(async {
        let mut opening = pin!(opening);
        let servers = link::servers(&memory.nats);
        let greeted = async { lately || greets(&servers, SOON).await };
        match tokio::join!(timeout(SOON, &mut opening), greeted) {
            (Ok(opened), _) => Ok(opened),
            (Err(_), false) => Err(SOON),
            (Err(_), true) => timeout(FAR - SOON, opening).await.map_err(|_| FAR),
        }
    });
    let why = match opened {
        Ok(Ok(opened)) => return Ok(opened),
        Ok(Err(fault)) if is_of_the_bus(&fault) => fault.to_string(),
        Ok(Err(fault)) => return Err(unseen(fault, folder)),
        Err(patience) => format!("the bus does not answer within {} ms", patience.as_millis()),
    };
    let help = format!(
        "look at the NATS servers and the way to them; {}",
        who_runs(folder)
    );
    let fault = Fault::failed(why, help);
    kept.show(cx, now);
    cx.printer.flush();
    Err(fault)
}

/// Whether it says that the bus cannot be reached, and nothing else.
fn is_of_the_bus(fault: &InstallationFault) -> bool {
    match fault {
        InstallationFault::Slow { .. } => true,
        InstallationFault::Nats(fault) => !matches!(fault, OpenFault::NotBootstrapped { .. }),
        _ => false,
    }
}

pub(super) fn code(picture: &Picture) -> u8 {
    if picture.is_well() { 0 } else { EXIT_NOT_WELL }
}

/// Whether a daemon runs and, where there are several hosts, on which.
fn who(daemon: bool, host: Option<&str>) -> String {
    match (daemon, host) {
        (true, Some(host)) => format!("daemon runs on {host}"),
        (true, None) => "daemon runs".to_owned(),
        (false, _) => "no daemon".to_owned(),
    }
}

pub(super) fn show_top<'l>(
    cx: &Context<'_>,
    (mesh, at, daemon): (&str, Time, String),
    all: impl Iterator<Item = &'l LoopView>,
) {
    let title = cx.printer.paint(Tone::Head, &format!("mesh {mesh}"));
    cx.printer
        .answer(&format!("{title}  {}  ({daemon})", time_text(at)));
    tables::loops(cx, all, at);
}

fn show_rest(cx: &Context<'_>, picture: &Picture) {
    // What needs a person comes first; what is known already, or is for information only, last.
    let needs = |one: &&ConditionView| {
        let is_known = one.silenced_until.or(one.acknowledged_until);
        one.condition.severity != Severity::Info && is_known.is_none_or(|until| until <= picture.at)
    };
    conditions(cx, picture.conditions.iter().filter(needs), picture.at);
    tables::provisions(cx, picture);
    tables::deliveries(cx, picture.deliveries.iter(), picture.at);
    tables::hosts(cx, picture.hosts.iter(), picture.at);
    tables::rotations(cx, picture.rotations.iter(), picture.at);
    tables::leftovers(cx, picture);
    tables::held(cx, picture);
    tables::strangers(cx, picture);
    let rest = picture.conditions.iter().filter(|one| !needs(one));
    conditions(cx, rest, picture.at);
    summary(cx, picture);
}

/// The whole screen.
pub(super) fn show(cx: &Context<'_>, picture: &Picture) {
    let who = who(picture.daemon, picture.daemon_host.as_deref());
    let top = (picture.mesh.as_str(), picture.at, who);
    show_top(cx, top, picture.loops.iter());
    show_rest(cx, picture);
}

/// The last lines of `status` and `apply`.
pub(super) fn summary(cx: &Context<'_>, picture: &Picture) {
    let mut parts = Vec::new();
    for (state, count) in picture.counts() {
        parts.push(
            cx.printer
                .paint(tone(state), &format!("{count} {}", state.as_str())),
        );
    }
    if parts.is_empty() {
        parts.push("nothing is asked for".to_owned());
    }
    let serious = picture
        .conditions
        .iter()
        .filter(|c| c.condition.severity != Severity::Info)
        .count();
    if serious > 0 {
        parts.push(
            cx.printer
                .paint(Tone::Bad, &format!("{serious} conditions")),
        );
    }
    cx.printer.answer(&parts.join(", "));
}

pub(super) fn tone(state: State) -> Tone {
    match state {
        State::Held | State::Disabled => Tone::Good,
        State::Pending | State::Unknown => Tone::Warning,
        State::Lost | State::Braked | State::Refused => Tone::Bad,
    }
}

/// How long ago, in words.
pub(crate) fn ago(time: Option<Time>, now: Time) -> String {
    let Some(time) = time else {
        return "never".to_owned();
    };
    let seconds = now.since(time).as_secs();
    match seconds {
        0 => "now".to_owned(),
        1..=119 => format!("{seconds} s ago"),
        120..=7_199 => format!("{} min ago", seconds / 60),
        7_200..=172_799 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}
