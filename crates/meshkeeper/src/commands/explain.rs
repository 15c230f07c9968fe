//! `mesh explain`: why a consumer stands as it does: wish, record, last answer, history.

use mesh_sdk::bus::Key;
use mesh_sdk::decide::Record;
use mesh_sdk::event::Event;
use mesh_sdk::harness::read_records;
use mesh_sdk::{ConsumerName, ProviderName};
use serde::Serialize;

use super::Context;
use super::online::{Online, is_running, store_fault};
use super::words::parse;
use crate::cli::ExplainArgs;
use crate::errors::Fault;
use crate::printer::Tone;
use crate::status::{self, ConditionView, Picture, ProvisionView, time_text};
use crate::wiring::installation::Installation;

/// The newest events that are shown.
const EVENTS: usize = 10;

#[derive(Serialize)]
struct Story {
    provision: ProvisionView,
    records: Vec<(String, Record)>,
    conditions: Vec<ConditionView>,
    events: Vec<Event>,
}

/// Runs it.
pub(super) fn run(args: &ExplainArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let manifest = cx.manifest()?;
    let consumer: ConsumerName = parse("consumer", &args.consumer)?;
    let provider: Option<ProviderName> = args
        .provider
        .as_deref()
        .map(|p| parse("provider", p))
        .transpose()?;
    let online = Online::start(cx)?;
    let installation = online.open_to_read(&cx.settings.data, &manifest.mesh)?;
    let (mesh, now) = (manifest.mesh.as_str(), online.clock.now());
    let picture = online
        .run(status::read(
            installation.bus.as_ref(),
            mesh,
            now,
            is_running(cx),
        ))
        .map_err(store_fault)?;
    let stories = online.run(stories(
        &installation,
        &picture,
        &consumer,
        provider.as_ref(),
    ))?;
    if stories.is_empty() {
        return Err(Fault::failed(
            format!(
                "nobody asks anything for {consumer}{}",
                provider.map(|p| format!(" of {p}")).unwrap_or_default()
            ),
            "`mesh status` lists every consumer",
        ));
    }
    if cx.printer.is_json() {
        cx.printer.json(&stories);
    } else {
        stories.iter().for_each(|story| show(cx, story, &picture));
    }
    Ok(0)
}

async fn stories(
    installation: &Installation,
    picture: &Picture,
    consumer: &ConsumerName,
    provider: Option<&ProviderName>,
) -> Result<Vec<Story>, Fault> {
    let bus = installation.bus.as_ref();
    let wanted = picture.provisions.iter().filter(|p| {
        p.consumer == *consumer && provider.is_none_or(|provider| p.provider == *provider)
    });
    let mut stories = Vec::new();
    for provision in wanted {
        let mut records = Vec::new();
        for one in &picture.loops {
            let label = one
                .name
                .split_once('/')
                .map_or(one.name.as_str(), |(_, label)| label);
            if label.split('@').next() != Some(provision.provider.as_str()) {
                continue;
            }
            let all = read_records(bus, label).await.map_err(store_fault)?;
            records.extend(
                all.into_iter()
                    .filter(|(c, _)| c == consumer)
                    .map(|(_, r)| (label.to_owned(), r)),
            );
        }
        let provider = provision.provider.as_str();
        let about = |c: &&ConditionView| {
            let (head, tail) = c
                .condition
                .id
                .subject
                .split_once('/')
                .unwrap_or((&c.condition.id.subject, ""));
            let here = head.split('@').next() == Some(provider);
            here && (tail.is_empty() || tail == consumer.as_str())
        };
        let lines = bus
            .history(&Key::everything(), 0, 100_000)
            .await
            .map_err(store_fault)?;
        let mut events: Vec<Event> = lines.iter().filter_map(super::events::event_of).collect();
        events.retain(|e| {
            let mine = e.consumer == consumer.as_str() || e.consumer.is_empty();
            mine && e.provider.split('@').next() == Some(provision.provider.as_str())
        });
        events.drain(..events.len().saturating_sub(EVENTS));
        let conditions = picture.conditions.iter().filter(about).cloned().collect();
        stories.push(Story {
            provision: provision.clone(),
            records,
            conditions,
            events,
        });
    }
    Ok(stories)
}

fn show(cx: &Context<'_>, story: &Story, picture: &Picture) {
    let one = &story.provision;
    let head = format!("{} on {}", one.consumer, one.provider);
    let state = cx
        .printer
        .paint(super::status::tone(one.state), one.state.as_str());
    cx.printer
        .answer(&format!("{}: {state}", cx.printer.paint(Tone::Head, &head)));
    let say = |what: &str, text: &str| cx.printer.answer(&format!("  {what:<12} {text}"));
    say("login", one.login.as_ref().map_or("-", |l| l.as_str()));
    if let Some(why) = &one.why {
        say("why", why);
    }
    let proof = one
        .proof
        .map_or("not proven".to_owned(), |p| format!("proven by {p}"));
    say(
        "last answer",
        &format!(
            "{}, {proof}",
            super::status::ago(one.checked_at, picture.at)
        ),
    );
    say(
        "applied",
        &one.applied_at.map_or("never".to_owned(), time_text),
    );
    for (label, record) in &story.records {
        let mut notes = Vec::new();
        if record.adopted {
            notes.push("adopted: it was there before us".to_owned());
        }
        if record.strikes > 0 {
            notes.push(format!("lost again after {} repairs", record.strikes));
        }
        if record.tug > 0 {
            notes.push("something else keeps changing it".to_owned());
        }
        if let Some(at) = record.not_before.filter(|at| *at > picture.at) {
            notes.push(format!("not asked before {}", time_text(at)));
        }
        if record.intent.is_some() {
            notes.push("an apply was begun and not seen to its end".to_owned());
        }
        if !notes.is_empty() {
            say(&format!("record {label}"), &notes.join("; "));
        }
    }
    super::status::conditions(cx, &story.conditions, picture.at);
    if !story.events.is_empty() {
        cx.printer.answer("  history");
        story.events.iter().for_each(|e| {
            cx.printer
                .answer(&format!("    {}", super::events::line(cx, e)))
        });
    }
}
