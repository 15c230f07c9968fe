//! `mesh events`: what happened, newest last.

use std::future::Future;
use std::time::Duration;

use mesh_sdk::bus::{Bus, Key, LogLine};
use mesh_sdk::event::{Event, EventKind};
use mesh_sdk::{Time, bus};

use super::Context;
use super::conditions::is_about;
use super::online::{Online, store_fault};
use crate::cli::EventsArgs;
use crate::errors::Fault;
use crate::printer::Tone;
use crate::status::time_text;

/// How often the history is read while following it.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);
/// Lines of the history that are read first, how many times more each time that this was not enough, and
/// at most.
const READ_FIRST: usize = 256;
const READ_MORE: usize = 8;
const READ_AT_MOST: usize = 100_000;

/// Runs it.
pub(super) fn run(args: &EventsArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let online = Online::start(cx)?;
    let (installation, _) = online.open_to_read(&cx.settings.data)?;
    let bus = installation.bus.as_ref();
    let since = args.since.map(|length| online.clock.now() - length);
    let about = |event: &Event| {
        let subject = args.subject.as_deref();
        subject.is_none_or(|asked| is_about(&subject_of(event), asked))
    };
    let mut after = 0;
    let mut limit = args.limit;
    let (mut begun, mut away) = (false, false);
    loop {
        match online.run(until_stopped(
            &online,
            newest(bus, after, limit, since, about),
        )) {
            None => return Ok(0),
            // A bus that is away comes back; one that was replaced counts its lines anew.
            Some(Err(bus::Fault::Unreachable(why))) if args.follow && begun => {
                if !std::mem::replace(&mut away, true) {
                    cx.printer
                        .note(&format!("the bus cannot be read now: {why}"));
                }
            }
            Some(Err(fault)) => return Err(store_fault(fault)),
            Some(Ok((last, events))) => {
                if std::mem::take(&mut away) {
                    cx.printer.note("the bus can be read again");
                }
                show(cx, &events, after == 0 && !args.follow);
                // From here on everything is shown, however much comes at once.
                (after, limit, begun) = (last.unwrap_or(after), usize::MAX, true);
            }
        }
        if !args.follow {
            return Ok(0);
        }
        cx.printer.flush();
        let stopped = online.run(async {
            tokio::select! {
                () = tokio::time::sleep(FOLLOW_EVERY) => false,
                () = online.stop.cancelled() => true,
            }
        });
        if stopped {
            return Ok(0);
        }
    }
}

/// The outcome, unless it is time to stop before there is one.
async fn until_stopped<T>(online: &Online, what: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        outcome = what => Some(outcome),
        () = online.stop.cancelled() => None,
    }
}

/// The newest `wanted` events that fit, oldest first, and the number of the newest line of all. It reads
/// as far back as that takes.
pub(super) async fn newest(
    bus: &dyn Bus,
    after: u64,
    wanted: usize,
    since: Option<Time>,
    fits: impl Fn(&Event) -> bool,
) -> Result<(Option<u64>, Vec<Event>), bus::Fault> {
    let mut limit = wanted.clamp(READ_FIRST, READ_AT_MOST);
    loop {
        let lines = bus.history(&Key::everything(), after, limit).await?;
        let last = lines.last().map(|line| line.seq);
        let events: Vec<Event> = lines.iter().filter_map(event_of).collect();
        let oldest = events.first().map(|event| event.at);
        let reached = since.is_some_and(|since| oldest.is_some_and(|at| at < since));
        let mut found = events;
        found.retain(|event| fits(event) && since.is_none_or(|since| event.at >= since));
        if lines.len() < limit || reached || found.len() >= wanted || limit == READ_AT_MOST {
            let surplus = found.len().saturating_sub(wanted);
            found.drain(..surplus);
            return Ok((last, found));
        }
        limit = limit.saturating_mul(READ_MORE).min(READ_AT_MOST);
    }
}

/// An event of the history; a line of a newer program that does not read is passed over.
fn event_of(line: &LogLine) -> Option<Event> {
    serde_json::from_str(&line.value).ok()
}

fn subject_of(event: &Event) -> String {
    match (event.provider.as_str(), event.consumer.as_str()) {
        (provider, "") => provider.to_owned(),
        ("", consumer) => consumer.to_owned(),
        (provider, consumer) => format!("{provider}/{consumer}"),
    }
}

/// One event as a line.
pub(super) fn line(cx: &Context<'_>, event: &Event) -> String {
    let tone = match event.kind {
        EventKind::Braked | EventKind::Taken | EventKind::Failed | EventKind::Raised => Tone::Bad,
        EventKind::Unknown | EventKind::Leaving | EventKind::SwitchedOff => Tone::Warning,
        EventKind::Healed | EventKind::Applied | EventKind::Cleared => Tone::Good,
        _ => Tone::Dim,
    };
    let kind = cx.printer.paint(tone, event.kind.as_str());
    format!(
        "{}  {kind}  {}  {}",
        time_text(event.at),
        subject_of(event),
        event.detail
    )
}

fn show(cx: &Context<'_>, events: &[Event], say_none: bool) {
    for event in events {
        if cx.printer.is_json() {
            cx.printer.json(event);
        } else {
            cx.printer.answer(&line(cx, event));
        }
    }
    if events.is_empty() && say_none && !cx.printer.is_json() {
        cx.printer.answer("Nothing happened yet.");
    }
}
