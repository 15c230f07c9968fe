//! `mesh status --check`: one line for monitors, at once, also while the bus does not answer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::Time;
use mesh_sdk::condition::{ConditionType, Severity};

use super::Context;
use super::online::Online;
use super::status::{ago, code};
use crate::errors::EXIT_NOT_WELL;
use crate::status::{self, Picture};
use crate::wiring::health::Health;
use crate::wiring::installation::{self, Installation, Runner};
use crate::wiring::watchdog;

/// How long a monitor waits for a bus beyond this machine, where this host's daemon knows an answer of its
/// own.
const SOON: Duration = Duration::from_millis(120);
/// What a daemon knew so long ago says nothing of now.
const OLD: Duration = Duration::from_secs(60);

/// The one line for monitors where the bus lies beyond this machine and a daemon runs here: by the bus if it
/// answers soon, else by what the daemon knew last. What the daemon knows of the bus itself comes first: such
/// a bus may still be read. `None`: no daemon here knows anything.
pub(super) fn soon(cx: &Context<'_>, online: &Online) -> Option<u8> {
    let folder = &cx.settings.data;
    let known = Health::read(folder).filter(|_| is_daemon(folder))?;
    let now = online.clock.now();
    if known.bus.is_some() && now.since(known.tried) <= OLD {
        return Some(from_folder(cx, &known, now));
    }
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
    let (line, code) = line_of(known, now);
    cx.printer.answer(&line);
    code
}

/// What the daemon's own knowledge comes to. What is not well says why.
fn line_of(known: &Health, now: Time) -> (String, u8) {
    let (age, tried) = (now.since(known.at), now.since(known.tried));
    let no_majority = |(kind, _): &(ConditionType, String)| *kind == ConditionType::BusNoQuorum;
    let silent = age > watchdog::EVERY * 3 || known.bus.as_ref().is_some_and(no_majority);
    let (word, code, why) = if known.at == Time::default() {
        let why = "the bus did not answer the daemon on this host yet";
        ("UNKNOWN", 1, Some(why))
    } else if tried > OLD {
        let why = "the daemon on this host does not look any more";
        ("UNKNOWN", 1, Some(why))
    } else if silent {
        let why = "the bus does not answer";
        ("NOT WELL", EXIT_NOT_WELL, Some(why))
    } else if known.well && known.bus.is_none() {
        ("OK", 0, None)
    } else {
        let why = "not every loop was seen making progress yet";
        ("NOT WELL", EXIT_NOT_WELL, Some(why).filter(|_| known.waits))
    };
    let bus = known.bus.as_ref();
    let bus = bus.map(|(kind, subject)| format!("{kind} {subject}"));
    // It may have been told on the bus as well.
    let worst = known
        .worst
        .clone()
        .filter(|worst| bus.as_ref() != Some(worst));
    let conditions = bus.into_iter().chain(worst);
    let reasons = why.map(str::to_owned).into_iter().chain(conditions);
    let reasons: String = reasons.map(|one| format!("; {one}")).collect();
    if known.at == Time::default() {
        return (format!("{word}{reasons}"), code);
    }
    let (fine, all) = (known.fine, known.all);
    let ago = ago(Some(known.at), now);
    let line = format!("{word}: {fine} of {all} held on this host, as of {ago}{reasons}");
    (line, code)
}

/// One line for monitors.
pub(super) fn check(cx: &Context<'_>, picture: &Picture) -> u8 {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn known(at: i64, tried: i64) -> Health {
        Health {
            at: Time::from_millis(at * 1000),
            tried: Time::from_millis(tried * 1000),
            well: true,
            fine: 1,
            all: 1,
            ..Health::default()
        }
    }
    fn line(known: &Health) -> (String, u8) {
        line_of(known, Time::from_millis(1_014_000))
    }

    #[test]
    fn b8_a_monitor_is_told_why_it_is_not_well() {
        let well = known(1000, 1013);
        let as_of = "1 of 1 held on this host, as of 14 s ago";
        assert_eq!(line(&well), (format!("OK: {as_of}"), 0));
        // The daemon knows it already, although the last look is young.
        let bus = Some((ConditionType::BusNoQuorum, "bus".to_owned()));
        let told = Health {
            bus,
            ..well.clone()
        };
        let why = "the bus does not answer; BusNoQuorum bus";
        assert_eq!(line(&told), (format!("NOT WELL: {as_of}; {why}"), 3));
        let worst = Some("BusNoQuorum bus".to_owned());
        let twice = Health { worst, ..told };
        assert_eq!(line(&twice), (format!("NOT WELL: {as_of}; {why}"), 3));
        let bus = Some((ConditionType::BusTampered, "bus".to_owned()));
        let changed = Health {
            bus,
            ..well.clone()
        };
        let line_of_it = format!("NOT WELL: {as_of}; BusTampered bus");
        assert_eq!(line(&changed), (line_of_it, 3));
        // A process that began just before its last look saw no loop move yet.
        let (well, waits) = (false, true);
        let young = Health {
            well,
            waits,
            ..known(1000, 1013)
        };
        let why = "not every loop was seen making progress yet";
        assert_eq!(line(&young), (format!("NOT WELL: {as_of}; {why}"), 3));
    }

    #[test]
    fn b8_what_the_daemon_knew_long_ago_says_nothing_of_now() {
        let (silent, code) = line(&known(990, 1010));
        assert!(
            silent.ends_with("as of 24 s ago; the bus does not answer"),
            "{silent}"
        );
        assert_eq!(code, 3);
        let (gone, code) = line(&known(900, 950));
        assert!(
            gone.starts_with("UNKNOWN") && gone.ends_with("does not look any more"),
            "{gone}"
        );
        assert_eq!(code, 1);
        let (never, code) = line(&known(0, 1010));
        assert!(
            never.starts_with("UNKNOWN; the bus") && never.ends_with("on this host yet"),
            "{never}"
        );
        assert_eq!(code, 1);
    }
}
