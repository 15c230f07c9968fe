//! The screen's tables: loops, consumers, deliveries, and what is left over.

use mesh_loops::rotation::journal::Step;
use mesh_sdk::Time;
use mesh_sdk::condition::ConditionType;

use super::{ago, tone};
use crate::commands::Context;
use crate::printer::{Table, Tone};
use crate::status::{
    DeliveryView, HostView, LoopView, Picture, ProvisionView, RotationView, time_text,
};

/// More provisions than this are shown only where something is amiss.
const SHOW_ALL: usize = 60;
/// More than this are counted, not shown.
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

pub(super) fn provisions(cx: &Context<'_>, picture: &Picture) {
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
pub(in crate::commands) fn deliveries<'d>(
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
        "CHECKED",
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
            ago(one.checked_at, now),
            one.why.clone().unwrap_or_default(),
        ]);
    }
    if !table.is_empty() {
        cx.printer.answer("");
        cx.printer.table(&table);
    }
}

/// What runs for consumers: when it was restarted last, and why.
pub(in crate::commands) fn hosts<'d>(
    cx: &Context<'_>,
    all: impl ExactSizeIterator<Item = &'d HostView>,
    now: Time,
) {
    let few = all.len() <= SHOW_ALL;
    let mut table = Table::new(vec![
        "RUNS FOR",
        "WHAT",
        "STATE",
        "RESTARTED",
        "BECAUSE",
        "NOW",
    ]);
    for one in all.filter(|one| few || one.why.is_some()).take(SHOW_AMISS) {
        use mesh_loops::host::record::State;
        let (tone, state) = match (one.retired, one.state) {
            (true, _) => (Tone::Dim, "no more asked for"),
            (false, state @ State::Running) => (Tone::Good, state.as_str()),
            (false, state @ (State::Unknown | State::Starting)) => (Tone::Warning, state.as_str()),
            (false, state) => (Tone::Bad, state.as_str()),
        };
        table.row([
            one.consumer.to_string(),
            one.container.clone(),
            cx.printer.paint(tone, state),
            one.recreated_at
                .map_or("-".to_owned(), |at| ago(Some(at), now)),
            one.reasons.join("; "),
            one.why.clone().unwrap_or_default(),
        ]);
    }
    if !table.is_empty() {
        cx.printer.answer("");
        cx.printer.table(&table);
    }
}

/// Rotations that are under way, with who is waited for and since when.
pub(in crate::commands) fn rotations<'r>(
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
            .map(|waits| crate::commands::rotate::line(now, waits));
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

pub(super) fn leftovers(cx: &Context<'_>, picture: &Picture) {
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
