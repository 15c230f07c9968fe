//! `mesh loops`: the inventory, from what the loops declare in code.

use mesh_sdk::harness::declared::Declared;
use serde::Serialize;

use super::Context;
use super::online::{Online, is_running, store_fault};
use crate::errors::Fault;
use crate::printer::Tone;
use crate::status::{self, LoopView, time_text};
use crate::wiring::inventory;

#[derive(Serialize)]
struct Answer {
    classes: Vec<Declared>,
    loops: Vec<LoopView>,
}

/// Runs it. Where nothing was ever applied it tells the classes alone.
pub(super) fn run(cx: &Context<'_>) -> Result<u8, Fault> {
    let loops = running(cx)?;
    let answer = Answer {
        classes: inventory::classes(),
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
