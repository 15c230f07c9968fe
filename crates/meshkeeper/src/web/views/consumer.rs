//! A consumer: how it stands, what each fact rests on and how old that is, and its story.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use mesh_sdk::decide::{Last, Record};
use mesh_sdk::event::Event;
use mesh_sdk::{ConsumerName, Time};
use serde_json::Value;

use super::conditions::{LOOKED_THROUGH, recent, story};
use crate::status::{self, ConditionView, DeliveryView, One};
use crate::web::Page;
use crate::web::access::Who;
use crate::web::answer::{self, Missing};
use crate::web::html::{ahead, badge, conditions, objects, stamp, text, when};

/// Events of its story.
const EVENTS: usize = 200;

/// `/consumer/{name}`.
pub(in crate::web) async fn get(
    State(page): State<Arc<Page>>,
    Extension(who): Extension<Who>,
    Path(name): Path<String>,
) -> Response {
    let made = read(&page, &name).await;
    answer::page(&page, &who, ("Consumer", ""), made)
}

async fn read(page: &Page, name: &str) -> Result<Markup, Missing> {
    let missing = || Missing::Unknown("consumer", name.to_owned());
    let consumer = ConsumerName::new(name).map_err(|_| missing())?;
    let (bus, now) = (page.bus(), page.clock.now());
    let bus = bus.as_ref();
    let head = status::read_head(bus, &page.mesh, now, true).await?;
    let found = status::read_one(bus, &head, &consumer, None).await?;
    let mut places = status::deliveries(bus).await?;
    places.retain(|place| place.consumer == consumer);
    if found.is_empty() && places.is_empty() {
        return Err(missing());
    }
    let standing = status::read_conditions(bus, &head).await?;
    let about = |one: &&ConditionView| {
        let tail = one.condition.id.subject.split_once('/');
        tail.is_some_and(|(_, tail)| tail == consumer.as_str())
    };
    let about: Vec<&ConditionView> = standing.iter().filter(about).collect();
    let asks = |provider: &str| {
        let name = provider.split('@').next().unwrap_or(provider);
        found.iter().any(|one| one.view.provider.as_str() == name)
    };
    let mine = |event: &Event| {
        let of_its_provider = event.consumer.is_empty() && asks(&event.provider);
        event.consumer == consumer.as_str() || of_its_provider
    };
    let events = recent(bus, EVENTS, mine).await?;
    let (hosts, rotations) = match page.whole().await {
        Ok(whole) => (
            of_consumer(whole.picture.hosts.as_slice(), &consumer),
            of_consumer(whole.picture.rotations.as_slice(), &consumer),
        ),
        Err(_) => (Vec::new(), Vec::new()),
    };
    Ok(html! {
        h1 { "Consumer " (text(consumer.as_str())) }
        div #stands data-live {
            @for one in &found { (provision(one, now)) }
            @if !about.is_empty() { section { h2 { "Conditions" } (conditions(&about, now)) } }
            @if !places.is_empty() { section { h2 { "Where its credentials are brought" } (deliveries(&places, now)) } }
            @if !hosts.is_empty() { section { h2 { "What runs for it" } (objects("What runs for it", &hosts)) } }
            @if !rotations.is_empty() { section { h2 { "Rotations" } (objects("Rotations", &rotations)) } }
        }
        section aria-labelledby="story" #telling data-live {
            h2 #story { "Its story" }
            p { "What happened to it and to its providers, oldest first, as far as the newest " (LOOKED_THROUGH)
                " lines of the history tell. " code { "mesh events " (consumer) } " reads further back." }
            (story(&events))
        }
    })
}

/// What the status has of a consumer in one of its lists.
fn of_consumer<T: serde::Serialize>(all: &[T], consumer: &ConsumerName) -> Vec<Value> {
    let all = all.iter().filter_map(|one| serde_json::to_value(one).ok());
    all.filter(|one| one["consumer"] == consumer.as_str())
        .collect()
}

fn provision(one: &One, now: Time) -> Markup {
    let view = &one.view;
    html! {
        section {
            h2 { "On " a href={ "/provider/" (view.provider) } { (text(view.provider.as_str())) } ": " (badge(view.state)) }
            @if let Some(why) = &view.why { p { (text(why)) } }
            div.wide tabindex="0" role="region" aria-label={ "What is known of it on " (view.provider) } {
                table {
                    caption { "What is known, what it rests on, and how old that is" }
                    thead { tr { th scope="col" { "Fact" } th scope="col" { "Is" } th scope="col" { "Rests on" } th scope="col" { "Age" } } }
                    tbody {
                        tr { th scope="row" { "Login" } td { (text(view.login.as_ref().map_or("–", |l| l.as_str()))) }
                            td { "the manifest" } td { "as of the wish in force" } }
                        tr { th scope="row" { "State" } td { (badge(view.state)) }
                            td { @match view.proof { Some(proof) => (proven(proof.as_str())), None => "no proof yet" } }
                            td { (when(view.checked_at, now)) } }
                        tr { th scope="row" { "Applied" } td { @match view.applied_at { Some(at) => (stamp(at)), None => "never" } }
                            td { "the record of this loop's own writes" } td { (when(view.applied_at, now)) } }
                        @for (label, record) in &one.records { (record_rows(label, record, now)) }
                    }
                }
            }
        }
    }
}

fn proven(proof: &str) -> &'static str {
    match proof {
        "login" => "a login as the consumer",
        "verifier" => "the stored verifier, which its password fits",
        "presence" => "the backend says that the login is there, and no more",
        _ => "what was applied: the adapter cannot ask",
    }
}

fn record_rows(label: &str, record: &Record, now: Time) -> Markup {
    let row = |fact: &str, is: Markup, rests: &str, age: Markup| {
        html! { tr { th scope="row" { (fact) } td { (is) } td { (rests) " (" (text(label)) ")" } td { (age) } } }
    };
    html! {
        @match &record.last {
            Last::Held { since, warning, .. } => {
                (row("Held without a break", html! { "yes" }, "answers of the backend", when(Some(*since), now)))
                @if let Some(warning) = warning { (row("Amiss all the same", text(warning), "the last answer", when(Some(*since), now))) }
            },
            Last::Lost { differences, detail, at } =>
                (row("Differs", html! { (text(&differences.to_string())) " " (text(detail)) }, "the last answer", when(Some(*at), now))),
            Last::Never => (row("Answer", html! { "none yet" }, "nothing", html! { "–" })),
        }
        @if let Some(unknown) = &record.unknown { (row("Cannot be asked", text(&unknown.why), "a call that failed", when(Some(unknown.since), now))) }
        @if record.adopted { (row("Adopted", html! { "it was there before Meshkeeper" }, "the record", html! { "–" })) }
        @if record.strikes > 0 { (row("Lost again", html! { "after " (record.strikes) " repairs" }, "answers after repairs", html! { "–" })) }
        @if let Some(failed) = &record.failed { (row("Failed", text(&failed.to_string()), "the last write", html! { (record.failures) " in a row" })) }
        @if let Some(at) = record.not_before.filter(|at| *at > now) { (row("Not asked before", html! { (stamp(at)) }, "brake or delay", ahead(Some(at), now))) }
    }
}

fn deliveries(all: &[DeliveryView], now: Time) -> Markup {
    let version = |version: &Option<String>| html! { (text(version.as_deref().unwrap_or("–"))) };
    html! {
        div.wide tabindex="0" role="region" aria-label="Table of deliveries" {
            table {
                caption { "Places, and which version lies there" }
                thead { tr { th scope="col" { "Place" } th scope="col" { "Host" } th scope="col" { "Wanted" } th scope="col" { "Written" }
                    th scope="col" { "Taken up" } th scope="col" { "Outstanding" } } }
                tbody {
                    @for one in all {
                        tr {
                            th scope="row" { (text(&one.place)) } td { (text(&one.host)) } td { (version(&one.wanted)) }
                            td { (version(&one.written)) } td { (version(&one.acknowledged)) }
                            td { @if one.retired { "asked for no more" } @else if one.since.is_some() { "since " (when(one.since, now)) } @else { "nothing" }
                                @if let Some(why) = &one.why { ": " (text(why)) } }
                        }
                    }
                }
            }
        }
    }
}
