//! `mesh explain`: why a consumer stands as it does: wish, record, last answer, history.

use mesh_sdk::bus::Bus;
use mesh_sdk::decide::Record;
use mesh_sdk::event::Event;
use mesh_sdk::{ConsumerName, ProviderName, Time};
use serde::Serialize;

use super::Context;
use super::online::{Online, is_running, store_fault};
use super::words::parse;
use crate::cli::ExplainArgs;
use crate::errors::Fault;
use crate::printer::Tone;
use crate::status::{
    self, ConditionView, DeliveryView, Head, HostView, One, ProvisionView, RotationView, time_text,
};

/// The newest events that are shown.
const EVENTS: usize = 10;

/// What conditions and events of delivery and of the host loop are about, in the place of a provider.
const LOOPS: [&str; 2] = ["delivery", "host"];

#[derive(Serialize)]
struct Story {
    provision: ProvisionView,
    records: Vec<(String, Record)>,
    conditions: Vec<ConditionView>,
    /// Where the consumer's credentials are brought, whoever they are of.
    deliveries: Vec<DeliveryView>,
    /// What runs for the consumer, and why it was restarted last.
    hosts: Vec<HostView>,
    /// The newest rotation, if there ever was one.
    rotation: Option<RotationView>,
    events: Vec<Event>,
}

/// Runs it.
pub(super) fn run(args: &ExplainArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let consumer: ConsumerName = parse("consumer", &args.consumer)?;
    let provider: Option<ProviderName> = args
        .provider
        .as_deref()
        .map(|p| parse("provider", p))
        .transpose()?;
    let online = Online::start(cx)?;
    let (installation, mesh) = online.open_to_read(&cx.settings.data)?;
    let daemon = is_running(cx, &online, &installation)?;
    let (bus, now) = (installation.bus.as_ref(), online.clock.now());
    let stories = online.run(async {
        let head = status::read_head(bus, mesh.as_str(), now, daemon).await;
        let head = head.map_err(store_fault)?;
        stories(bus, &head, &consumer, provider.as_ref()).await
    })?;
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
        show(cx, &stories, now);
    }
    Ok(0)
}

/// In order: what is asked for and how that stands, where it was brought, what needs someone, what happened.
fn show(cx: &Context<'_>, stories: &[Story], now: Time) {
    stories.iter().for_each(|story| show_one(cx, story, now));
    let places = stories.first().map_or(&[][..], |story| &story.deliveries);
    super::status::deliveries(cx, places.iter(), now);
    let hosts = stories.first().map_or(&[][..], |story| &story.hosts);
    super::status::hosts(cx, hosts.iter(), now);
    // What is about the consumer, or about its provider, is in several stories.
    let mut conditions: Vec<&ConditionView> = Vec::new();
    let mut events: Vec<&Event> = Vec::new();
    for story in stories {
        for one in &story.conditions {
            if !conditions.iter().any(|other| other.key == one.key) {
                conditions.push(one);
            }
        }
        for one in &story.events {
            if !events.contains(&one) {
                events.push(one);
            }
        }
    }
    super::status::conditions(cx, conditions, now);
    events.sort_by_key(|event| event.at);
    if !events.is_empty() {
        cx.printer.answer("");
        cx.printer.answer("history");
    }
    for event in events {
        let line = super::events::line(cx, event);
        cx.printer.answer(&format!("    {line}"));
    }
}

async fn stories(
    bus: &dyn Bus,
    head: &Head,
    consumer: &ConsumerName,
    provider: Option<&ProviderName>,
) -> Result<Vec<Story>, Fault> {
    let found = status::read_one(bus, head, consumer, provider)
        .await
        .map_err(store_fault)?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let standing = status::read_conditions(bus, head)
        .await
        .map_err(store_fault)?;
    let places = status::deliveries(bus).await;
    let mut places = places
        .map_err(|fault| Fault::failed(fault.to_string(), "`mesh doctor` looks at the store"))?;
    places.retain(|place| place.consumer == *consumer);
    let mut hosts = status::hosts(bus)
        .await
        .map_err(|fault| Fault::failed(fault.to_string(), "`mesh doctor` looks at the store"))?;
    hosts.retain(|one| one.consumer == *consumer);
    let rotations = status::rotations(bus).await.map_err(store_fault)?;
    let mut stories = Vec::new();
    for One { view, records } in found {
        let here = |name: &str| name.split('@').next() == Some(view.provider.as_str());
        let about = |c: &&ConditionView| {
            let subject = &c.condition.id.subject;
            let (head, tail) = subject.split_once('/').unwrap_or((subject, ""));
            let of_loop = LOOPS.contains(&head) && tail == consumer.as_str();
            of_loop || here(head) && (tail.is_empty() || tail == consumer.as_str())
        };
        let mine = |event: &Event| {
            let of_consumer = event.consumer == consumer.as_str();
            let of_provider = event.consumer.is_empty() && here(&event.provider);
            let everywhere = event.provider.is_empty() || LOOPS.contains(&event.provider.as_str());
            of_provider || (of_consumer && (everywhere || here(&event.provider)))
        };
        let read = super::events::newest(bus, 0, EVENTS, None, mine).await;
        let (_, events) = read.map_err(store_fault)?;
        let provider = view.provider.clone();
        stories.push(Story {
            conditions: standing.iter().filter(about).cloned().collect(),
            provision: view,
            deliveries: places.clone(),
            hosts: hosts.clone(),
            rotation: rotations
                .iter()
                .find(|one| one.consumer == *consumer && one.provider == provider)
                .cloned(),
            records,
            events,
        });
    }
    Ok(stories)
}

fn show_one(cx: &Context<'_>, story: &Story, now: Time) {
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
    say(
        "applied",
        &one.applied_at.map_or("never".to_owned(), time_text),
    );
    let proof = one
        .proof
        .map_or("not proven".to_owned(), |p| format!("proven by {p}"));
    say(
        "last answer",
        &format!("{}, {proof}", super::status::ago(one.checked_at, now)),
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
        if let Some(at) = record.not_before.filter(|at| *at > now) {
            notes.push(format!("not asked before {}", time_text(at)));
        }
        if record.intent.is_some() {
            notes.push("an apply was begun and not seen to its end".to_owned());
        }
        if !notes.is_empty() {
            say(&format!("record {label}"), &notes.join("; "));
        }
    }
    if let Some(one) = &story.rotation {
        let cause = one.cause.clone().unwrap_or_default();
        let since = time_text(one.since);
        say(
            "rotation",
            &format!(
                "{} is {} since {since}: {cause}",
                one.number,
                one.step.as_str()
            ),
        );
        for waits in &one.waits_on {
            say("waits for", &super::rotate::line(now, waits));
        }
    }
}
