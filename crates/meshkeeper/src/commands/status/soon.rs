//! The one line for monitors where the bus lies beyond this machine: at once, by what this host knows.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::Time;

use super::{ago, check};
use crate::commands::Context;
use crate::commands::online::Online;
use crate::errors::EXIT_NOT_WELL;
use crate::status;
use crate::wiring::health::Health;
use crate::wiring::installation::{self, Installation, Runner};
use crate::wiring::watchdog;

/// How long a monitor waits for a bus beyond this machine, where this host's daemon knows an answer of its
/// own.
const SOON: Duration = Duration::from_millis(120);
/// What a daemon knew so long ago says nothing of now.
const OLD: Duration = Duration::from_secs(60);

/// The one line for monitors where the bus lies beyond this machine and a daemon runs here: by the bus if it
/// answers soon, else by what the daemon knew last. `None`: no daemon here knows anything.
pub(super) fn soon(cx: &Context<'_>, online: &Online) -> Option<u8> {
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
    if known.at == Time::default() {
        cx.printer.answer(&format!("{word}{why}"));
        return code;
    }
    let ago = ago(Some(known.at), now);
    cx.printer.answer(&format!(
        "{word}: {fine} of {all} held on this host, as of {ago}{why}{worst}"
    ));
    code
}
