//! `mesh loops`: the inventory, from what the loops declare in code.

use mesh_loops::delivery::Delivery;
use mesh_loops::rotation::keeper::Rotation;
use mesh_sdk::harness::Provisioner;
use mesh_sdk::harness::skeleton::Declared;
use serde::Serialize;

use super::Context;
use super::online::{Online, is_running, store_fault};
use crate::errors::Fault;
use crate::printer::Tone;
use crate::status::{self, LoopView, time_text};
use crate::wiring::watchdog;

#[derive(Serialize)]
struct Answer {
    classes: Vec<Declared>,
    loops: Vec<LoopView>,
}

/// Every class of loop that this program has.
fn classes() -> Vec<Declared> {
    let wish = Declared {
        class: "wish",
        compares_against: "the manifest and the files that it names",
        repairs: "nothing; it puts the wish in force, and keeps the last good one",
        may_take_away: "nothing",
        blind_spots: "whether what is asked is what was meant",
        raises: [
            "WishUnreadable",
            "Refused",
            "SecretUnreadable",
            "WeakPassword",
            "TlsUnverified",
            "ProviderGone",
            "BusReplaced",
        ]
        .to_vec(),
        period: "when a file changes, on SIGHUP, and every list_every",
    };
    let member = Declared {
        class: "member",
        compares_against: "the wish in force on the bus, where several hosts share one",
        repairs: "nothing; it takes the leases that suit its host, and gives back those that suit another better",
        may_take_away: "nothing",
        blind_spots: "a host that cannot reach the bus: it stops, and another takes over",
        raises: [
            "ManifestDiffers",
            "WishUnreadable",
            "SecretUnreadable",
            "Refused",
            "LookUnknown",
        ]
        .to_vec(),
        period: "every second",
    };
    vec![
        Provisioner::declared(),
        Delivery::declared(),
        Rotation::declared(),
        wish,
        member,
        watchdog::declared(),
    ]
}

/// Runs it. Where nothing was ever applied it tells the classes alone.
pub(super) fn run(cx: &Context<'_>) -> Result<u8, Fault> {
    let loops = running(cx)?;
    let answer = Answer {
        classes: classes(),
        loops,
    };
    if cx.printer.is_json() {
        cx.printer.json(&answer);
        return Ok(0);
    }
    for class in &answer.classes {
        cx.printer
            .answer(&cx.printer.paint(Tone::Head, class.class));
        let raises = class.raises.join(", ");
        for (what, text) in [
            ("compares against", class.compares_against),
            ("repairs", class.repairs),
            ("may take away", class.may_take_away),
            ("cannot see", class.blind_spots),
            ("raises", &raises),
            ("period", class.period),
        ] {
            cx.printer.answer(&format!("  {what:<17} {text}"));
        }
    }
    for one in &answer.loops {
        let last = one.last_pass.map_or("never".to_owned(), time_text);
        let next = one.next_pass.map_or("-".to_owned(), time_text);
        let host = one.host.as_ref().map(|host| format!("  on {host}"));
        cx.printer.answer(&format!(
            "{}  {}{}  last {last}  next {next}",
            one.name,
            one.state,
            host.unwrap_or_default()
        ));
    }
    Ok(0)
}

fn running(cx: &Context<'_>) -> Result<Vec<LoopView>, Fault> {
    let online = Online::start(cx)?;
    let Some(installation) = online.read_if_there(&cx.settings.data)? else {
        return Ok(Vec::new());
    };
    let daemon = is_running(cx, &online, &installation)?;
    let bus = installation.bus.as_ref();
    let loops = online.run(async {
        let providers = status::providers(bus).await.map_err(store_fault)?;
        status::loops(bus, &providers, online.clock.now(), daemon)
            .await
            .map_err(store_fault)
    })?;
    Ok(loops.into_iter().map(|(view, _)| view).collect())
}
