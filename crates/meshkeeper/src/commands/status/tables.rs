//! The screen's tables: loops, consumers, deliveries, and what is left over.

use mesh_loops::host::record::State;
use mesh_loops::rotation::journal::Step;
use mesh_sdk::Time;
use mesh_sdk::condition::ConditionType;

use super::{ago, tone};
use crate::commands::Context;
use crate::commands::rotate::line;
use crate::printer::{Printer, Table, Tone};
use crate::status::{
    DeliveryView, HostView, LoopView, Picture, ProvisionView, RotationView, time_text,
};

/// More provisions than this are shown only where something is amiss.
const SHOW_ALL: usize = 60;
/// More of a kind than this are counted, not shown.
const SHOW_AMISS: usize = 200;

pub(super) fn loops<'l>(cx: &Context<'_>, all: impl Iterator<Item = &'l LoopView>, at: Time) {
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
    apart(cx.printer, &table);
}

/// A table, apart from what stands above it.
fn apart(printer: &Printer, table: &Table) {
    if !table.is_empty() {
        printer.answer("");
        printer.table(table);
    }
}

/// A row for each, as far as a person reads: how many more there are is told behind them.
fn rows<T, const N: usize>(
    printer: &Printer,
    head: [&'static str; N],
    mut all: impl Iterator<Item = T>,
    row: impl Fn(T) -> [String; N],
) {
    let mut table = Table::new(head);
    all.by_ref()
        .take(SHOW_AMISS)
        .for_each(|one| table.row(row(one)));
    apart(printer, &table);
    let left_out = all.count();
    if left_out > 0 {
        printer.answer(&format!(
            "… and {left_out} more; `mesh status --json` has all"
        ));
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

pub(super) fn provisions(cx: &Context<'_>, picture: &Picture) {
    let all = picture.provisions.len() <= SHOW_ALL;
    let shown = picture
        .provisions
        .iter()
        .filter(|p| all || !p.state.is_fine());
    let head = [
        "PROVIDER",
        "CONSUMER",
        "LOGIN",
        "STATE",
        "PROVEN BY",
        "CHECKED",
        "WHY",
    ];
    rows(cx.printer, head, shown, |one| {
        provision_row(cx, one, picture.at)
    });
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
pub(in crate::commands) fn deliveries<'d>(
    cx: &Context<'_>,
    all: impl ExactSizeIterator<Item = &'d DeliveryView>,
    now: Time,
) {
    let few = all.len() <= SHOW_ALL;
    let shown = all.filter(|one| few || one.since.is_some() || one.why.is_some());
    let head = [
        "DELIVERED TO",
        "PLACE",
        "WANTED",
        "WRITTEN",
        "TAKEN UP",
        "OUTSTANDING",
        "CHECKED",
        "WHY",
    ];
    rows(cx.printer, head, shown, |one| delivery_row(cx, one, now));
}

fn delivery_row(cx: &Context<'_>, one: &DeliveryView, now: Time) -> [String; 8] {
    let version = |version: &Option<String>| version.clone().unwrap_or("-".to_owned());
    let (tone, outstanding) = match (one.retired, one.since) {
        (true, _) => (Tone::Dim, "no more asked for".to_owned()),
        (false, Some(since)) => (Tone::Warning, ago(Some(since), now).replace(" ago", "")),
        (false, None) => (Tone::Good, "-".to_owned()),
    };
    [
        one.consumer.to_string(),
        one.place.clone(),
        version(&one.wanted),
        version(&one.written),
        version(&one.acknowledged),
        cx.printer.paint(tone, &outstanding),
        ago(one.checked_at, now),
        one.why.clone().unwrap_or_default(),
    ]
}

/// What runs for consumers: when it was restarted last, and why.
pub(in crate::commands) fn hosts<'d>(
    cx: &Context<'_>,
    all: impl ExactSizeIterator<Item = &'d HostView>,
    now: Time,
) {
    let few = all.len() <= SHOW_ALL;
    let shown = all.filter(|one| few || one.why.is_some());
    let head = ["RUNS FOR", "WHAT", "STATE", "RESTARTED", "BECAUSE", "NOW"];
    rows(cx.printer, head, shown, |one| host_row(cx, one, now));
}

fn host_row(cx: &Context<'_>, one: &HostView, now: Time) -> [String; 6] {
    let (tone, state) = match (one.retired, one.state) {
        (true, _) => (Tone::Dim, "no more asked for"),
        (false, state @ State::Running) => (Tone::Good, state.as_str()),
        (false, state @ (State::Unknown | State::Starting)) => (Tone::Warning, state.as_str()),
        (false, state) => (Tone::Bad, state.as_str()),
    };
    [
        one.consumer.to_string(),
        one.container.clone(),
        cx.printer.paint(tone, state),
        one.recreated_at
            .map_or("-".to_owned(), |at| ago(Some(at), now)),
        one.reasons.join("; "),
        one.why.clone().unwrap_or_default(),
    ]
}

/// Rotations that are under way, with who is waited for and since when.
pub(in crate::commands) fn rotations<'r>(
    cx: &Context<'_>,
    all: impl Iterator<Item = &'r RotationView>,
    now: Time,
) {
    let under_way = all.filter(|one| one.step != Step::Resting);
    let head = [
        "ROTATES",
        "ON",
        "STEP",
        "SINCE",
        "WAITS FOR",
        "UNBLOCKED BY",
    ];
    rows(cx.printer, head, under_way, |one| rotation_row(one, now));
}

fn rotation_row(one: &RotationView, now: Time) -> [String; 6] {
    let waits = one.waits_on.iter().map(|waits| line(now, waits));
    let waits: Vec<String> = waits.collect();
    let unblock = one.waits_on.first().map(|waits| waits.unblock.clone());
    [
        one.consumer.to_string(),
        one.provider.to_string(),
        one.step.as_str().to_owned(),
        ago(Some(one.since), now).replace(" ago", ""),
        waits.join("; "),
        unblock.unwrap_or_default(),
    ]
}

pub(super) fn leftovers(cx: &Context<'_>, picture: &Picture) {
    let head = ["LEFT OVER ON", "WAS FOR", "LOGIN", "KIND", "UNTIL AT LEAST"];
    rows(cx.printer, head, picture.leftovers.iter(), |one| {
        [
            one.provider.clone(),
            one.consumer.to_string(),
            one.login.to_string(),
            one.kind.to_owned(),
            one.until.map(time_text).unwrap_or_default(),
        ]
    });
}

/// Removals that wait for a person, with the word that lets exactly these go.
pub(super) fn held(cx: &Context<'_>, picture: &Picture) {
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

pub(super) fn strangers(cx: &Context<'_>, picture: &Picture) {
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

#[cfg(test)]
mod tests {
    //! What does not fit is counted.
    use super::super::kept::Page;
    use super::*;

    fn shown(count: usize) -> String {
        let page = Page::default();
        let printer = page.printer();
        let row = |n: usize| [format!("row {n}")];
        rows(&printer, ["ROW"], 1..=count, row);
        printer.flush();
        page.text()
    }

    #[test]
    fn what_is_left_out_is_counted_and_nothing_is_where_all_fits() {
        assert_eq!(shown(0), "");
        let (all, more) = (shown(SHOW_AMISS), shown(SHOW_AMISS + 30));
        assert!(all.ends_with(&format!("row {SHOW_AMISS}\n")), "{all}");
        assert_eq!(more, all + "… and 30 more; `mesh status --json` has all\n");
    }
}
