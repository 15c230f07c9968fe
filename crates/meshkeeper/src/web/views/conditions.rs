//! Conditions: all that stand, and one with what was tried and what to do.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};
use mesh_sdk::Time;
use mesh_sdk::bus::Bus;
use mesh_sdk::event::Event;
use serde::Deserialize;

use crate::status::{self, ConditionView};
use crate::web::Page;
use crate::web::access::Who;
use crate::web::answer::{self, Missing};
use crate::web::form::LENGTHS;
use crate::web::html::{ahead, conditions, stamp, text, weight, when};

/// Conditions on a page.
const ROWS: usize = 50;
/// Events about one.
const EVENTS: usize = 30;
/// So many lines of the history are looked through.
pub(super) const LOOKED_THROUGH: usize = 5_000;

#[derive(Deserialize, Default)]
pub(in crate::web) struct Which {
    #[serde(default)]
    page: String,
}

async fn standing(page: &Page, bus: &dyn Bus) -> Result<Vec<ConditionView>, Missing> {
    let head = status::read_head(bus, &page.mesh, page.clock.now(), true).await?;
    Ok(status::read_conditions(bus, &head).await?)
}

/// `/conditions`.
pub(in crate::web) async fn list(
    State(page): State<Arc<Page>>,
    Extension(who): Extension<Who>,
    Query(which): Query<Which>,
) -> Response {
    let bus = page.bus();
    let made = standing(&page, bus.as_ref()).await;
    let made = made.map(|all| all_of(&all, page.clock.now(), &which));
    answer::page(&page, &who, ("Conditions", "/conditions"), made)
}

fn all_of(all: &[ConditionView], now: Time, which: &Which) -> Markup {
    let wanted = which.page.parse::<usize>().unwrap_or(1).max(1);
    let pages = all.len().div_ceil(ROWS).max(1);
    let shown: Vec<&ConditionView> = all
        .iter()
        .skip((wanted - 1).saturating_mul(ROWS))
        .take(ROWS)
        .collect();
    html! {
        h1 { "Conditions" }
        div #standing data-live {
            p.lead { (all.len()) " stand, the worst first." }
            (conditions(&shown, now))
            @if pages > 1 {
                nav.pager aria-label="More conditions" {
                    @if wanted > 1 { a href={ "/conditions?page=" (wanted - 1) } rel="prev" { "Previous" } " " }
                    "Page " (wanted) " of " (pages)
                    @if wanted < pages { " " a href={ "/conditions?page=" (wanted + 1) } rel="next" { "Next" } }
                }
            }
        }
    }
}

/// `/condition/{key}`.
pub(in crate::web) async fn one(
    State(page): State<Arc<Page>>,
    Extension(who): Extension<Who>,
    Path(key): Path<String>,
) -> Response {
    let made = read(&page, &who, &key).await;
    answer::page(&page, &who, ("Condition", "/conditions"), made)
}

async fn read(page: &Page, who: &Who, key: &str) -> Result<Markup, Missing> {
    let bus = page.bus();
    let all = standing(page, bus.as_ref()).await?;
    let one = all.into_iter().find(|one| one.key == key);
    let one = one.ok_or_else(|| Missing::Unknown("condition that stands", key.to_owned()))?;
    let (provider, consumer) = parts(&one.condition.id.subject);
    let about = |event: &Event| {
        event.provider == provider
            && (consumer.is_empty() || event.consumer.is_empty() || event.consumer == consumer)
    };
    let events = recent(bus.as_ref(), EVENTS, about).await?;
    Ok(view(&one, &events, page.clock.now(), who))
}

fn parts(subject: &str) -> (&str, &str) {
    subject.split_once('/').unwrap_or((subject, ""))
}

/// The newest events that fit, oldest first.
pub(super) async fn recent(
    bus: &dyn Bus,
    wanted: usize,
    fits: impl Fn(&Event) -> bool,
) -> Result<Vec<Event>, Missing> {
    let lines = bus
        .history(&mesh_sdk::bus::Key::everything(), 0, LOOKED_THROUGH)
        .await?;
    let events = lines.iter().rev();
    let events = events.filter_map(|line| serde_json::from_str::<Event>(&line.value).ok());
    let mut found: Vec<Event> = events.filter(|event| fits(event)).take(wanted).collect();
    found.reverse();
    Ok(found)
}

/// Events in order.
pub(super) fn story(events: &[Event]) -> Markup {
    html! {
        @if events.is_empty() { p { "Nothing of late." } } @else {
            ol.story {
                @for event in events {
                    li {
                        time datetime=(status::time_text(event.at)) { (stamp(event.at)) } " "
                        strong { (event.kind.as_str().replace('_', " ")) } " "
                        @if !event.provider.is_empty() { "on " (text(&event.provider)) " " }
                        @if event.count > 1 { "(" (event.count) " times) " }
                        (text(&event.detail))
                    }
                }
            }
        }
    }
}

fn view(one: &ConditionView, events: &[Event], now: Time, who: &Who) -> Markup {
    let condition = &one.condition;
    let (provider, consumer) = parts(&condition.id.subject);
    let known = mesh_sdk::ProviderName::new(provider.split('@').next().unwrap_or(provider)).ok();
    let asks = mesh_sdk::ConsumerName::new(consumer).ok();
    html! {
        div #condition data-live {
            h1 { (condition.id.kind.as_str()) " about " (text(&condition.id.subject)) }
            p.lead { (weight(condition.severity)) " " (text(&condition.message)) }
            dl {
                dt { "What it means" } dd { (condition.id.kind.meaning()) }
                dt { "Since" } dd { (when(Some(condition.since), now)) @if condition.flapping { "; it comes and goes" } }
                dt { "Seen last" } dd { (when(Some(condition.last_seen), now)) ", " (condition.count) " times in a row"
                    @if one.stale { "; its loop has not looked of late, so it may be over" } }
                dt { "Told by" } dd { (text(&condition.id.owner)) }
                dt { "What to do" } dd { strong { (text(&condition.action)) } }
                dt { "Acknowledged" } dd { @match one.acknowledged_until { Some(until) => { "yes, ends " (ahead(Some(until), now)) }, None => "no" } }
                dt { "Silenced" } dd { @match one.silenced_until { Some(until) => { "yes, ends " (ahead(Some(until), now)) }, None => "no" } }
            }
            @if let Some(name) = &known { @if provider != "delivery" { p { a href={ "/provider/" (name) } { "Provider " (name) } } } }
            @if let Some(name) = &asks { p { a href={ "/consumer/" (name) } { "Consumer " (name) } } }
        }
        section aria-labelledby="say" {
            h2 #say { "Say that it is known" }
            (forms(one, who))
        }
        section aria-labelledby="tried" #trying data-live {
            h2 #tried { "What was seen and tried" }
            (story(events))
        }
    }
}

fn forms(one: &ConditionView, who: &Who) -> Markup {
    let Some(key) = who.form_key() else {
        return html! {
            p { "To acknowledge or silence it, " a href={ "/sign-in?next=/condition/" (one.key) } { "sign in" } " with the token." }
        };
    };
    let form = |word: &str, what: &str, means: &str| {
        html! {
            form.say method="post" action={ "/condition/" (one.key) "/" (word) } {
                input type="hidden" name="key" value=(key);
                p { (means) }
                p { label for={ (word) "-reason" } { "Why" } " " input id={ (word) "-reason" } name="reason" type="text" maxlength="500"; }
                p { label for={ (word) "-length" } { "For" } " "
                    select id={ (word) "-length" } name="length" {
                        @for (name, words, _) in LENGTHS { option value=(name) { (words) } }
                    } " "
                    button type="submit" { (what) } }
            }
        }
    };
    html! {
        (form("ack", "Acknowledge", "Acknowledge: somebody works on it. It goes on counting."))
        (form("silence", "Silence", "Silence: it does not count for a while, in exit codes too."))
    }
}
