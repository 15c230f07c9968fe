//! `mesh status`: the whole picture on one screen.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mesh_loops::rotation::journal::Step;
use mesh_sdk::Time;
use mesh_sdk::condition::{ConditionType, Severity};
use mesh_sdk::decide::State;

use super::Context;
use super::online::{Online, daemon_of, store_fault};
use crate::cli::StatusArgs;
use crate::errors::{EXIT_NOT_WELL, Fault};
use crate::printer::{Table, Tone};
use crate::status::{
    self, ConditionView, DeliveryView, LoopView, Picture, ProvisionView, RotationView, time_text,
};
use crate::wiring::health::Health;
use crate::wiring::installation::{self, Installation, Runner};
use crate::wiring::watchdog;

/// More provisions than this are shown only where something is amiss.
const SHOW_ALL: usize = 60;
/// More than this are counted, not shown.
const SHOW_AMISS: usize = 200;

/// Runs it.
pub(super) fn run(args: &StatusArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let online = Online::start(cx)?;
    if args.check
        && let Some(code) = soon(cx, &online)
    {
        return Ok(code);
    }
    let (installation, mesh) = online.open_to_read(&cx.settings.data)?;
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
            return Ok(check(cx, &picture));
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

/// How long a monitor waits for a bus beyond this machine, where this host's daemon knows an answer of its
/// own.
const SOON: Duration = Duration::from_millis(120);
/// What a daemon knew so long ago says nothing of now.
const OLD: Duration = Duration::from_secs(60);

/// The one line for monitors where the bus lies beyond this machine and a daemon runs here: by the bus if it
/// answers soon, else by what the daemon knew last. `None`: no daemon here knows anything.
fn soon(cx: &Context<'_>, online: &Online) -> Option<u8> {
    let folder = &cx.settings.data;
    let known = Health::read(folder).filter(|_| is_daemon(folder))?;
    let scrubber = Arc::clone(&online.scrubber);
    let by_bus = async {
        let (installation, mesh) = Installation::open_to_read(folder, scrubber).await.ok()?;
        let (bus, now) = (installation.bus.as_ref(), online.clock.now());
        let daemon = installation.holder().await.ok()?.is_some();
        let head = status::read_head(bus, mesh.as_str(), now, daemon)
            .await
            .ok()?;
        status::read_rest(bus, head).await.ok()
    };
    let picture = online.run(async { tokio::time::timeout(SOON, by_bus).await });
    if let Ok(Some(picture)) = picture {
        return Some(check(cx, &picture));
    }
    Some(from_folder(cx, &known, online.clock.now()))
}

fn is_daemon(folder: &Path) -> bool {
    installation::running(folder) == Some(Runner::Daemon)
}

fn from_folder(cx: &Context<'_>, known: &Health, now: Time) -> u8 {
    let (age, tried) = (now.since(known.at), now.since(known.tried));
    let worst = known.worst.as_ref();
    let worst = worst.map(|worst| format!("; {worst}")).unwrap_or_default();
    let (word, code, why) = if known.at == Time::default() {
        (
            "UNKNOWN",
            1,
            "; the bus did not answer the daemon on this host yet",
        )
    } else if tried > OLD {
        (
            "UNKNOWN",
            1,
            "; the daemon on this host does not look any more",
        )
    } else if age > watchdog::EVERY * 3 {
        ("NOT WELL", EXIT_NOT_WELL, "; the bus does not answer")
    } else if known.well {
        ("OK", 0, "")
    } else {
        ("NOT WELL", EXIT_NOT_WELL, "")
    };
    let (fine, all) = (known.fine, known.all);
    let ago = ago(Some(known.at), now);
    cx.printer.answer(&format!(
        "{word}: {fine} of {all} held on this host, as of {ago}{why}{worst}"
    ));
    code
}

fn code(picture: &Picture) -> u8 {
    if picture.is_well() { 0 } else { EXIT_NOT_WELL }
}

/// One line for monitors.
fn check(cx: &Context<'_>, picture: &Picture) -> u8 {
    let fine = picture
        .provisions
        .iter()
        .filter(|p| p.state.is_fine())
        .count();
    let worst = picture
        .conditions
        .iter()
        .find(|c| c.condition.severity != Severity::Info);
    let worst = worst.map(|c| format!("; {} {}", c.condition.id.kind, c.condition.id.subject));
    let word = if picture.is_well() { "OK" } else { "NOT WELL" };
    let all = picture.provisions.len();
    cx.printer.answer(&format!(
        "{word}: {fine} of {all} held{}",
        worst.unwrap_or_default()
    ));
    code(picture)
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
    loops(cx, all, at);
}

fn show_rest(cx: &Context<'_>, picture: &Picture) {
    provisions(cx, picture);
    deliveries(cx, picture.deliveries.iter(), picture.at);
    rotations(cx, picture.rotations.iter(), picture.at);
    leftovers(cx, picture);
    held(cx, picture);
    strangers(cx, picture);
    conditions(cx, &picture.conditions, picture.at);
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
pub(super) fn ago(time: Option<Time>, now: Time) -> String {
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

fn loops<'l>(cx: &Context<'_>, all: impl Iterator<Item = &'l LoopView>, at: Time) {
    let all: Vec<&LoopView> = all.collect();
    let mut head = vec![
        "LOOP",
        "STATE",
        "SERVER",
        "LAST PASS",
        "NEXT PASS",
        "ASKED",
        "HELD",
    ];
    let several = all.iter().any(|one| one.host.is_some());
    if several {
        head.insert(2, "HOST");
    }
    let mut table = Table::new(head);
    for one in all {
        let mut row = loop_row(cx, one, at).to_vec();
        if several {
            row.insert(2, one.host.clone().unwrap_or("-".to_owned()));
        }
        table.row(row);
    }
    if !table.is_empty() {
        cx.printer.answer("");
        cx.printer.table(&table);
    }
}

fn loop_row(cx: &Context<'_>, one: &LoopView, now: Time) -> [String; 7] {
    let tone = match one.state {
        "late" | "stuck" | "closed" => Tone::Bad,
        _ => Tone::Good,
    };
    let next = one.next_pass.map_or("-".to_owned(), |at| {
        format!("in {} s", at.since(now).as_secs())
    });
    let asked = match one.asked {
        true => one.summary.asked.to_string(),
        false => "not asked: the adapter cannot".to_owned(),
    };
    let state = cx.printer.paint(tone, one.state);
    let held = one.summary.held.to_string();
    [
        one.name.clone(),
        state,
        one.server.clone(),
        ago(one.last_pass, now),
        next,
        asked,
        held,
    ]
}

fn provisions(cx: &Context<'_>, picture: &Picture) {
    let all = picture.provisions.len() <= SHOW_ALL;
    let shown = picture
        .provisions
        .iter()
        .filter(|p| all || !p.state.is_fine());
    let mut table = Table::new(vec![
        "PROVIDER",
        "CONSUMER",
        "LOGIN",
        "STATE",
        "PROVEN BY",
        "CHECKED",
        "WHY",
    ]);
    for one in shown.clone().take(SHOW_AMISS) {
        table.row(provision_row(cx, one, picture.at));
    }
    if !table.is_empty() {
        cx.printer.answer("");
        cx.printer.table(&table);
    }
    let left_out = shown.count().saturating_sub(SHOW_AMISS);
    if left_out > 0 {
        cx.printer.answer(&format!(
            "… and {left_out} more; `mesh status --json` has all"
        ));
    }
}

fn provision_row(cx: &Context<'_>, one: &ProvisionView, now: Time) -> [String; 7] {
    [
        one.provider.to_string(),
        one.consumer.to_string(),
        one.login
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        cx.printer.paint(tone(one.state), one.state.as_str()),
        one.proof.map(|p| p.to_string()).unwrap_or_default(),
        ago(one.checked_at, now),
        one.why.clone().unwrap_or_default(),
    ]
}

/// Where credentials are brought, and what is outstanding there.
pub(super) fn deliveries<'d>(
    cx: &Context<'_>,
    all: impl ExactSizeIterator<Item = &'d DeliveryView>,
    now: Time,
) {
    let few = all.len() <= SHOW_ALL;
    let mut table = Table::new(vec![
        "DELIVERED TO",
        "PLACE",
        "WANTED",
        "WRITTEN",
        "TAKEN UP",
        "OUTSTANDING",
        "WHY",
    ]);
    for one in all
        .filter(|one| few || one.since.is_some() || one.why.is_some())
        .take(SHOW_AMISS)
    {
        let version = |version: &Option<String>| version.clone().unwrap_or("-".to_owned());
        let (tone, outstanding) = match (one.retired, one.since) {
            (true, _) => (Tone::Dim, "no more asked for".to_owned()),
            (false, Some(since)) => (Tone::Warning, ago(Some(since), now).replace(" ago", "")),
            (false, None) => (Tone::Good, "-".to_owned()),
        };
        table.row([
            one.consumer.to_string(),
            one.place.clone(),
            version(&one.wanted),
            version(&one.written),
            version(&one.acknowledged),
            cx.printer.paint(tone, &outstanding),
            one.why.clone().unwrap_or_default(),
        ]);
    }
    if !table.is_empty() {
        cx.printer.answer("");
        cx.printer.table(&table);
    }
}

/// Rotations that are under way, with who is waited for and since when.
pub(super) fn rotations<'r>(
    cx: &Context<'_>,
    all: impl Iterator<Item = &'r RotationView>,
    now: Time,
) {
    let mut table = Table::new(vec![
        "ROTATES",
        "ON",
        "STEP",
        "SINCE",
        "WAITS FOR",
        "UNBLOCKED BY",
    ]);
    let under_way = all.filter(|one| one.step != Step::Resting);
    for one in under_way.take(SHOW_AMISS) {
        let waits = one
            .waits_on
            .iter()
            .map(|waits| super::rotate::line(now, waits));
        let waits: Vec<String> = waits.collect();
        let unblock = one
            .waits_on
            .iter()
            .map(|waits| waits.unblock.clone())
            .next();
        table.row([
            one.consumer.to_string(),
            one.provider.to_string(),
            one.step.as_str().to_owned(),
            ago(Some(one.since), now).replace(" ago", ""),
            waits.join("; "),
            unblock.unwrap_or_default(),
        ]);
    }
    if !table.is_empty() {
        cx.printer.answer("");
        cx.printer.table(&table);
    }
}

fn leftovers(cx: &Context<'_>, picture: &Picture) {
    let mut table = Table::new(vec![
        "LEFT OVER ON",
        "WAS FOR",
        "LOGIN",
        "KIND",
        "UNTIL AT LEAST",
    ]);
    for one in &picture.leftovers {
        let until = one.until.map(time_text).unwrap_or_default();
        let (consumer, login) = (one.consumer.to_string(), one.login.to_string());
        table.row([
            one.provider.clone(),
            consumer,
            login,
            one.kind.to_owned(),
            until,
        ]);
    }
    if !table.is_empty() {
        cx.printer.answer("");
        cx.printer.table(&table);
    }
}

/// Removals that wait for a person, with the word that lets exactly these go.
fn held(cx: &Context<'_>, picture: &Picture) {
    for set in &picture.removals {
        let is_held = picture.conditions.iter().any(|one| {
            let id = &one.condition.id;
            let about = id.subject.split('@').next();
            id.kind == ConditionType::RemovalHeld && about == Some(set.provider.as_str())
        });
        if is_held {
            cx.printer.answer(&set.line());
        }
    }
}

fn strangers(cx: &Context<'_>, picture: &Picture) {
    if picture.strangers.is_empty() {
        return;
    }
    cx.printer.answer("");
    for (provider, seen) in &picture.strangers {
        let damaged = match seen.damaged {
            0 => String::new(),
            n => format!(", {n} of them with a damaged or forged mark of ours"),
        };
        let logins = match seen.count {
            1 => "1 login is".to_owned(),
            n => format!("{n} logins are"),
        };
        let line = format!("{provider}: {logins} not ours{damaged}");
        cx.printer.answer(&cx.printer.paint(Tone::Dim, &line));
    }
}

/// Conditions as people read them: what, since when, what to do.
pub(super) fn conditions(cx: &Context<'_>, all: &[ConditionView], now: Time) {
    if !all.is_empty() {
        cx.printer.answer("");
    }
    for one in all {
        let condition = &one.condition;
        let tone = match condition.severity {
            Severity::Error => Tone::Bad,
            Severity::Warning => Tone::Warning,
            Severity::Info => Tone::Dim,
        };
        let kind = cx.printer.paint(tone, condition.id.kind.as_str());
        let mut marks = Vec::new();
        if condition.flapping {
            marks.push("flapping".to_owned());
        }
        if one.stale {
            marks.push("stale: its loop is late".to_owned());
        }
        if condition.status == mesh_sdk::condition::Status::Unknown {
            marks.push("cannot be told now".to_owned());
        }
        if let Some(until) = one.silenced_until {
            marks.push(format!("silenced until {}", time_text(until)));
        } else if let Some(until) = one.acknowledged_until {
            marks.push(format!("acknowledged until {}", time_text(until)));
        }
        let marks = if marks.is_empty() {
            String::new()
        } else {
            format!(" [{}]", marks.join("; "))
        };
        let since = ago(Some(condition.since), now);
        cx.printer.answer(&format!(
            "{kind} {} since {since}{marks}: {}",
            condition.id.subject, condition.message
        ));
        cx.printer.answer(&format!(
            "    {}",
            cx.printer.paint(Tone::Dim, &condition.action)
        ));
    }
}
