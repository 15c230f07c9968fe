//! `mesh events`: what happened, newest last.

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
/// Lines read at once when a subject or time narrows them down.
const READ_AT_MOST: usize = 100_000;

/// Runs it.
pub(super) fn run(args: &EventsArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let manifest = cx.manifest()?;
    let online = Online::start(cx)?;
    let installation = online.open_to_read(&cx.settings.data, &manifest.mesh)?;
    let bus = installation.bus.as_ref();
    let since = args.since.map(|length| online.clock.now() - length);
    let mut after = 0;
    let mut first = true;
    loop {
        let read = newest(bus, after, args, since);
        let (last, events) = online.run(read).map_err(store_fault)?;
        after = last.unwrap_or(after);
        show(cx, &events, first && !args.follow);
        first = false;
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

async fn newest(
    bus: &dyn Bus,
    after: u64,
    args: &EventsArgs,
    since: Option<Time>,
) -> Result<(Option<u64>, Vec<Event>), bus::Fault> {
    let narrowed = args.subject.is_some() || since.is_some();
    let limit = if narrowed { READ_AT_MOST } else { args.limit };
    let lines = bus.history(&Key::everything(), after, limit).await?;
    let last = lines.last().map(|line| line.seq);
    let about = |event: &Event| {
        args.subject
            .as_deref()
            .is_none_or(|asked| is_about(&subject_of(event), asked))
            && since.is_none_or(|since| event.at >= since)
    };
    let mut events: Vec<Event> = lines.iter().filter_map(event_of).filter(about).collect();
    let surplus = events.len().saturating_sub(args.limit);
    events.drain(..surplus);
    Ok((last, events))
}

/// An event of the history; a line of a newer program that does not read is passed over.
pub(super) fn event_of(line: &LogLine) -> Option<Event> {
    serde_json::from_str(&line.value).ok()
}

fn subject_of(event: &Event) -> String {
    if event.consumer.is_empty() {
        event.provider.clone()
    } else {
        format!("{}/{}", event.provider, event.consumer)
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
