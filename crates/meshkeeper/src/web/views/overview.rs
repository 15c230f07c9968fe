//! The overview: how everything stands, what needs a person first, who asks for what, and who keeps it so.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use maud::{Markup, html};
use mesh_sdk::Time;
use mesh_sdk::condition::Severity;

use super::grid::{self, Asked};
use crate::status::{self, ConditionView, LoopView, Picture};
use crate::web::Page;
use crate::web::access::Who;
use crate::web::answer::{self, Missing};
use crate::web::html::{STATES, ahead, conditions, look, loop_badge, objects, text, when};
use crate::web::snapshot::Whole;

/// So many conditions are told here; the others have a page.
const FIRST: usize = 10;
/// So many leftovers and removals are listed; the others are counted.
const LISTED: usize = 50;

/// `/`.
pub(in crate::web) async fn get(
    State(page): State<Arc<Page>>,
    Extension(who): Extension<Who>,
    Query(asked): Query<Asked>,
) -> Response {
    let made = read(&page, &asked).await;
    answer::page(&page, &who, ("Overview", "/"), made)
}

/// What is small is read now, whatever is kept of the rest.
async fn read(page: &Page, asked: &Asked) -> Result<Markup, Missing> {
    let whole = page.whole().await?;
    let (bus, now) = (page.bus(), page.clock.now());
    let head = status::read_head(bus.as_ref(), &page.mesh, now, true).await?;
    let standing = status::read_conditions(bus.as_ref(), &head).await?;
    let all: Vec<LoopView> = head.loops().cloned().collect();
    Ok(view(&whole, now, (&all, &standing), asked))
}

fn view(
    whole: &Whole,
    now: Time,
    (all, standing): (&[LoopView], &[ConditionView]),
    asked: &Asked,
) -> Markup {
    let picture = &whole.picture;
    html! {
        h1 { "Overview" }
        div #summary data-live { (summary(picture, now)) }
        section aria-labelledby="needs" #needing data-live { (needs(standing, now)) }
        section aria-labelledby="who" { (grid::view(whole, asked)) }
        section aria-labelledby="loops" #looping data-live { (loops(all, now)) }
        section aria-labelledby="others" #leaving data-live { (others(picture, now)) }
        div #more data-live { (more(picture)) }
    }
}

fn summary(picture: &Picture, now: Time) -> Markup {
    let counts = picture.counts();
    let total = picture.provisions.len();
    let well = picture.is_well();
    html! {
        p.lead {
            @if well { strong { "All is as asked." } } @else { strong { "Not all is as asked." } }
            " " (total) @if total == 1 { " provision" } @else { " provisions" }
            " as of " (when(Some(picture.at), now)) "."
        }
        ul.counts {
            @for state in STATES {
                @let count = counts.get(&state).copied().unwrap_or(0);
                @let (sign, class, word) = look(state);
                @if count > 0 {
                    li { a class={ "badge " (class) } href={ "/?state=" (state.as_str()) "#who" } {
                        span aria-hidden="true" { (sign) } " " (count) " " (word)
                    } }
                }
            }
        }
    }
}

/// What nobody said is known comes first, by weight; what is merely worth knowing does not need anybody.
fn needs(standing: &[ConditionView], now: Time) -> Markup {
    let quiet =
        |one: &&ConditionView| one.silenced_until.is_some() || one.acknowledged_until.is_some();
    let heavy = standing.iter();
    let heavy = heavy.filter(|one| one.condition.severity > Severity::Info);
    let mut all: Vec<&ConditionView> = heavy.collect();
    all.sort_by_key(quiet);
    let rest = standing.len() - all.len().min(FIRST);
    all.truncate(FIRST);
    html! {
        h2 #needs { "What needs a person" }
        @if all.is_empty() { p { "Nothing does." } } @else { (conditions(&all, now)) }
        @if rest > 0 { p { a href="/conditions" { "All conditions" } " (" (rest) " more)" } }
    }
}

pub(super) fn loop_rows(all: &[LoopView], now: Time) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label="Table of loops" {
            table {
                caption { "Loops" }
                thead { tr {
                    th scope="col" { "Loop" } th scope="col" { "State" } th scope="col" { "Last pass" }
                    th scope="col" { "Next pass" } th scope="col" { "Asked" } th scope="col" { "Held" }
                    th scope="col" { "Server" }
                    @if all.iter().any(|one| one.host.is_some()) { th scope="col" { "Host" } }
                } }
                tbody {
                    @for one in all {
                        tr {
                            th scope="row" { (loop_name(&one.name)) }
                            td { (loop_badge(one.state)) }
                            td { (when(one.last_pass, now)) }
                            td { (ahead(one.next_pass, now)) }
                            td { @if one.asked { (one.summary.asked) } @else { "cannot be asked" } }
                            td { (one.summary.held) }
                            td { (text(&one.server)) }
                            @if all.iter().any(|one| one.host.is_some()) { td { (text(one.host.as_deref().unwrap_or("–"))) } }
                        }
                    }
                }
            }
        }
    }
}

/// A provisioner's name leads to its provider.
fn loop_name(name: &str) -> Markup {
    match name.split_once('/') {
        Some(("provisioner", label)) => {
            let provider = label.split('@').next().unwrap_or(label);
            html! { a href={ "/provider/" (provider) } { (text(name)) } }
        }
        _ => text(name),
    }
}

fn loops(all: &[LoopView], now: Time) -> Markup {
    html! {
        h2 #loops { "Loops" }
        (loop_rows(all, now))
        p { a href="/loops" { "What each compares, repairs, and cannot see" } }
    }
}

fn others(picture: &Picture, now: Time) -> Markup {
    html! {
        h2 #others { "Strangers and leftovers" }
        @if picture.strangers.is_empty() { p { "No login of others was counted." } } @else {
            ul {
                @for (label, seen) in &picture.strangers {
                    li { (text(label)) ": " (seen.count) " logins of others, never touched"
                        @if seen.damaged > 0 { "; " (seen.damaged) " with a damaged mark of ours" } }
                }
            }
        }
        @if picture.leftovers.is_empty() { p { "No login is left over." } } @else {
            div.wide tabindex="0" role="region" aria-label="Table of leftovers" {
                table {
                    caption { (picture.leftovers.len()) " logins that nobody asks for" }
                    thead { tr { th scope="col" { "Login" } th scope="col" { "Of" } th scope="col" { "On" }
                        th scope="col" { "Kind" } th scope="col" { "Stays at least" } } }
                    tbody {
                        @for one in picture.leftovers.iter().take(LISTED) {
                            tr { th scope="row" { (text(one.login.as_str())) } td { (text(one.consumer.as_str())) }
                                td { (text(&one.provider)) } td { (one.kind) } td { (ahead(one.until, now)) } }
                        }
                    }
                }
            }
        }
        @for set in picture.removals.iter().take(LISTED) { p { (text(&set.line())) } }
    }
}

/// What the status has beside that, as far as it has it.
fn more(picture: &Picture) -> Markup {
    html! {
        (listed("Hosts", picture.hosts.as_slice()))
        (listed("Rotations", picture.rotations.as_slice()))
    }
}

/// The first of a list of the status; a consumer's page has all that is about it.
fn listed<T: serde::Serialize>(title: &str, all: &[T]) -> Markup {
    let first = all.iter().take(LISTED);
    let first: Vec<_> = first
        .filter_map(|one| serde_json::to_value(one).ok())
        .collect();
    html! {
        @if !first.is_empty() {
            section {
                h2 { (title) }
                @if all.len() > first.len() { p { "The first " (first.len()) " of " (all.len()) "." } }
                (objects(title, &first))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_the_status_is_shown_once_it_has_something() {
        assert_eq!(listed::<u8>("Hosts", &[]).into_string(), "");
        let many = vec![serde_json::json!({ "host": "a<b" }); LISTED + 1];
        let shown = listed("Hosts", &many).into_string();
        assert!(
            shown.contains("The first 50 of 51.") && shown.contains("a&lt;b"),
            "{shown}"
        );
        assert_eq!(shown.matches("<tr>").count(), LISTED + 1);
    }
}
