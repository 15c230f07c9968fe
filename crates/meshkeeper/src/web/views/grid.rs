//! Consumers by providers, filtered and paged on this side.

use std::collections::BTreeSet;

use maud::{Markup, html};
use mesh_sdk::decide::State;
use mesh_sdk::{ConsumerName, ProviderName};
use serde::Deserialize;

use crate::status::ProvisionView;
use crate::web::html::{STATES, badge, look, plain, text};
use crate::web::snapshot::Whole;

/// Consumers on a page.
const ROWS: usize = 50;
/// Providers beside each other; further ones are reached by the filter.
const COLUMNS: usize = 16;

/// What was asked for.
#[derive(Debug, Default, Deserialize)]
pub(in crate::web) struct Asked {
    /// Part of a consumer's name or login.
    #[serde(default)]
    q: String,
    /// A state's word.
    #[serde(default)]
    state: String,
    /// A provider's name.
    #[serde(default)]
    provider: String,
    /// From 1.
    #[serde(default)]
    page: String,
}

impl Asked {
    fn state(&self) -> Option<State> {
        STATES
            .into_iter()
            .find(|state| state.as_str() == self.state)
    }
    fn fits(&self, consumer: &ConsumerName, one: &ProvisionView) -> bool {
        let part = self.q.trim();
        let named = part.is_empty()
            || consumer.as_str().contains(part)
            || one
                .login
                .as_ref()
                .is_some_and(|login| login.as_str().contains(part));
        named
            && self.state().is_none_or(|state| one.state == state)
            && (self.provider.is_empty() || one.provider.as_str() == self.provider)
    }
    fn is_filtered(&self) -> bool {
        !self.q.trim().is_empty() || self.state().is_some() || !self.provider.is_empty()
    }
    /// The address of another page of the same.
    fn page(&self, page: usize) -> String {
        let mut address = format!("/?page={page}");
        for (key, value) in [
            ("q", self.q.trim()),
            ("state", &self.state),
            ("provider", &self.provider),
        ] {
            if !value.is_empty() {
                address += &format!("&{key}={}", encoded(value));
            }
        }
        address + "#who"
    }
}

fn encoded(text: &str) -> String {
    let one = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(b).to_string(),
        _ => format!("%{b:02X}"),
    };
    text.bytes().map(one).collect()
}

pub(super) fn view(whole: &Whole, asked: &Asked) -> Markup {
    let fitting = whole
        .consumers()
        .filter(|(consumer, of)| of.iter().any(|one| asked.fits(consumer, one)));
    let wanted = asked.page.parse::<usize>().unwrap_or(1).max(1);
    let (mut rows, mut count) = (Vec::new(), 0);
    for row in fitting {
        if count / ROWS == wanted - 1 {
            rows.push(row);
        }
        count += 1;
    }
    let pages = count.div_ceil(ROWS).max(1);
    let all: BTreeSet<&ProviderName> = rows
        .iter()
        .flat_map(|(_, of)| of)
        .map(|one| &one.provider)
        .collect();
    let chosen =
        |name: &&&ProviderName| asked.provider.is_empty() || name.as_str() == asked.provider;
    let columns: Vec<&ProviderName> = all.iter().filter(chosen).take(COLUMNS).copied().collect();
    let more = all.iter().filter(chosen).count() - columns.len();
    html! {
        h2 #who { "Consumers and providers" }
        (filter(whole, asked))
        div #grid data-live {
            @if rows.is_empty() {
                @if asked.is_filtered() || wanted > 1 { p { "Nobody fits." } } @else { p { "Nobody asks for anything yet." } }
            } @else {
                p { "Consumers " ((wanted - 1) * ROWS + 1) " to " ((wanted - 1) * ROWS + rows.len()) " of " (count) "."
                    @if more > 0 { " " (more) " more providers: choose one above." } }
                (table(&rows, &columns))
            }
            @if pages > 1 { (pager(asked, wanted, pages)) }
        }
    }
}

fn table(rows: &[(&ConsumerName, Vec<&ProvisionView>)], columns: &[&ProviderName]) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label="Table of consumers and providers" {
            table.grid {
                caption { "How each consumer stands on each provider" }
                thead { tr {
                    th scope="col" { "Consumer" }
                    @for name in columns { th scope="col" { a href={ "/provider/" (name) } { (text(name.as_str())) } } }
                } }
                tbody {
                    @for (consumer, of) in rows {
                        tr {
                            th scope="row" { a href={ "/consumer/" (consumer) } { (text(consumer.as_str())) } }
                            @for name in columns { td { (cell(of.iter().find(|one| one.provider == **name))) } }
                        }
                    }
                }
            }
        }
    }
}

fn cell(one: Option<&&ProvisionView>) -> Markup {
    let Some(one) = one else {
        return html! { span.none aria-label="not asked for" { "–" } };
    };
    let by = one.proof.filter(|_| one.state == State::Held);
    html! {
        (badge(one.state))
        @if let Some(proof) = by { " " span.by { "by " (proof.as_str()) } }
        @if one.state != State::Held {
            @if let Some(why) = &one.why { " " span.why { (text(&short(why))) } }
        }
    }
}

/// In a cell there is little room; the consumer's page has the whole.
fn short(why: &str) -> String {
    let head: String = why.chars().take(80).collect();
    match why.chars().nth(80) {
        Some(_) => head + "…",
        None => head,
    }
}

fn filter(whole: &Whole, asked: &Asked) -> Markup {
    let names: BTreeSet<&str> = whole.picture.loops.iter().filter_map(provider_of).collect();
    html! {
        form.filter method="get" action="/#who" role="search" aria-label="Consumers" {
            p { label for="q" { "Name or login" } " " input #q name="q" type="search" value=(plain(&asked.q)); }
            p { label for="state" { "State" } " "
                select #state name="state" {
                    option value="" { "any" }
                    @for state in STATES {
                        option value=(state.as_str()) selected[asked.state() == Some(state)] { (look(state).2) }
                    }
                } }
            p { label for="provider" { "Provider" } " "
                select #provider name="provider" {
                    option value="" { "any" }
                    @for name in &names { option value=(name) selected[asked.provider == *name] { (name) } }
                } }
            p { button type="submit" { "Show" } @if asked.is_filtered() { " " a href="/#who" { "Show all" } } }
        }
    }
}

fn provider_of(one: &crate::status::LoopView) -> Option<&str> {
    let label = one.name.strip_prefix("provisioner/")?;
    label.split('@').next()
}

fn pager(asked: &Asked, now: usize, pages: usize) -> Markup {
    html! {
        nav.pager aria-label="More consumers" {
            @if now > 1 { a href=(asked.page(now - 1)) rel="prev" { "Previous" } " " }
            "Page " (now) " of " (pages)
            @if now < pages { " " a href=(asked.page(now + 1)) rel="next" { "Next" } }
        }
    }
}
