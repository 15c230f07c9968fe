//! A provider: its server, how long its passes take, what was healed, and what its adapter can and cannot tell.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use mesh_sdk::adapter::Descriptor;
use mesh_sdk::bus::{Bus, Key};
use mesh_sdk::event::{Event, EventKind};
use mesh_sdk::harness::LoopRecord;
use mesh_sdk::{ProviderName, Time};

use super::overview::loop_rows;
use crate::commands::abilities;
use crate::status::{self, ConditionView, LoopView};
use crate::web::Page;
use crate::web::access::Who;
use crate::web::answer::{self, Missing};
use crate::web::html::{STATES, conditions, look, stamp, text, when};
use crate::web::plot;
use crate::wiring::shapes::ProviderEntry;

/// Heals are counted by the hour, for a day.
const HOURS: usize = 24;
const HOUR: u64 = 3_600;
/// Lines of heals that are read, at most, of each node.
const HEALS: usize = 5_000;

/// `/provider/{name}`.
pub(in crate::web) async fn get(
    State(page): State<Arc<Page>>,
    Extension(who): Extension<Who>,
    Path(name): Path<String>,
) -> Response {
    let made = read(&page, &name).await;
    answer::page(&page, &who, ("Provider", ""), made)
}

async fn read(page: &Page, name: &str) -> Result<Markup, Missing> {
    let missing = || Missing::Unknown("provider", name.to_owned());
    let provider = ProviderName::new(name).map_err(|_| missing())?;
    let (bus, now) = (page.bus(), page.clock.now());
    let bus = bus.as_ref();
    let all = status::providers(bus).await?;
    let entry = all
        .iter()
        .find(|entry| entry.provider == provider && !entry.gone);
    let entry = entry.ok_or_else(missing)?;
    let head = status::read_head(bus, &page.mesh, now, true).await?;
    let standing = status::read_conditions(bus, &head).await?;
    let here = |subject: &str| {
        let label = subject.split('/').next().unwrap_or(subject);
        label.split('@').next() == Some(provider.as_str())
    };
    let about: Vec<&ConditionView> = standing
        .iter()
        .filter(|one| here(&one.condition.id.subject))
        .take(20)
        .collect();
    let records = status::records(bus, entry).await?;
    let loops: Vec<LoopView> = head
        .loops()
        .filter(|one| entry.loops.contains(&one.name))
        .cloned()
        .collect();
    let labels = status::labels_of(std::slice::from_ref(entry), &provider);
    let heals = heals(bus, &labels, now).await?;
    let kind = page.kinds.get(&entry.kind);
    Ok(html! {
        h1 { "Provider " (text(provider.as_str())) }
        div #stands data-live {
            (head_of(entry, kind.map(|kind| &kind.descriptor)))
            (counts(page, &provider).await)
            @if let Some(closed) = &entry.closed { p.wrong { "Nobody looks after it now: " (text(&closed.why)) } }
            section { h2 { "Its loops" } (loop_rows(&loops, now)) }
            @if !about.is_empty() { section { h2 { "Conditions" } (conditions(&about, now)) } }
        }
        section aria-labelledby="server" #serving data-live { h2 #server { "Server" } (servers(&labels, &records, now)) }
        section aria-labelledby="times" #timing data-live {
            h2 #times { "Passes and heals" }
            @for label in &labels { (passes(page, label)) }
            (healed(&heals))
        }
        @if let Some(kind) = kind {
            section aria-labelledby="adapter" { h2 #adapter { "What the adapter can and cannot tell" } (adapter(&kind.descriptor)) }
        }
    })
}

fn head_of(entry: &ProviderEntry, descriptor: Option<&Descriptor>) -> Markup {
    html! {
        p.lead { (descriptor.map_or(entry.kind.as_str(), |it| it.title)) " at "
            @for (i, address) in entry.addresses.iter().enumerate() { @if i > 0 { ", " } code { (text(address)) } } "." }
    }
}

async fn counts(page: &Page, provider: &ProviderName) -> Markup {
    let Ok(whole) = page.whole().await else {
        return html! {};
    };
    let of = |state| {
        let all = whole.picture.provisions.iter();
        all.filter(|one| one.provider == *provider && one.state == state)
            .count()
    };
    html! {
        ul.counts {
            @for state in STATES {
                @let count = of(state);
                @let (sign, class, word) = look(state);
                @if count > 0 {
                    li { a class={ "badge " (class) } href={ "/?provider=" (provider) "&state=" (state.as_str()) "#who" } {
                        span aria-hidden="true" { (sign) } " " (count) " " (word)
                    } }
                }
            }
        }
    }
}

fn servers(labels: &[String], records: &[Option<LoopRecord>], now: Time) -> Markup {
    html! {
        @for (label, record) in labels.iter().zip(records) {
            dl {
                dt { "Node" } dd { (text(label)) }
                @match record {
                    None => { dt { "Known" } dd { "nothing yet: no pass has ended" } },
                    Some(record) => {
                        dt { "Product" } dd { (text(if record.version.is_empty() { "not told" } else { &record.version })) }
                        dt { "Identity" } dd { (text(record.server.identity.as_deref().unwrap_or("none that lasts"))) }
                        @if let Some(other) = &record.server.changed_to {
                            dt { "Another answers" } dd { strong { (text(other)) } ", and waits for a person's word" }
                        }
                        dt { "Restarts seen" } dd { (record.server.run_no.saturating_sub(1)) }
                        dt { "Answers" } dd { @match &record.server.down {
                            Some(down) => { "no, since " (when(Some(down.since), now)) ": " (text(&down.why)) },
                            None => { "yes; everyone was asked " (when(record.server.last_pass, now)) },
                        } }
                        dt { "Logins of others" } dd { (record.server.strangers.count) }
                    },
                }
            }
        }
    }
}

fn passes(page: &Page, label: &str) -> Markup {
    let all = page.passes.of(label);
    let took: Vec<f64> = all
        .iter()
        .map(|pass| pass.took.as_secs_f64() * 1_000.0)
        .collect();
    let (Some(first), Some(last)) = (all.first(), all.last()) else {
        return html! { p { (text(label)) ": no pass of this process has ended yet." } };
    };
    let most = took.iter().copied().fold(0.0, f64::max);
    let applied: usize = all.iter().map(|pass| pass.applied).sum();
    let said = format!(
        "The newest {} passes of {label} since this process started, from {} to {}: the longest took {most:.0} ms, \
         the last {:.0} ms; {applied} consumers were applied on them",
        all.len(),
        stamp(first.at),
        stamp(last.at),
        last.took.as_secs_f64() * 1_000.0,
    );
    html! { figure { (plot::bars(&took, &said, &format!("{most:.0} ms"))) figcaption { (text(&said)) "." } } }
}

/// Heals of each of the last hours, the oldest first.
async fn heals(bus: &dyn Bus, labels: &[String], now: Time) -> Result<[usize; HOURS], Missing> {
    let mut hours = [0; HOURS];
    for label in labels {
        let prefix = Key::of(&[EventKind::Healed.as_str(), label]);
        for line in bus.history(&prefix, 0, HEALS).await? {
            let Ok(event) = serde_json::from_str::<Event>(&line.value) else {
                continue;
            };
            let ago = usize::try_from(now.since(event.at).as_secs() / HOUR).unwrap_or(HOURS);
            if let Some(hour) = HOURS.checked_sub(ago + 1) {
                hours[hour] += event.count;
            }
        }
    }
    Ok(hours)
}

fn healed(hours: &[usize; HOURS]) -> Markup {
    let most = hours.iter().max().copied().unwrap_or(0);
    let said = format!(
        "Heals by the hour over the last {HOURS} hours, from the history: {} in all, {most} in the busiest hour, {} in the last",
        hours.iter().sum::<usize>(),
        hours[HOURS - 1],
    );
    let values = hours.map(|count| count as f64);
    html! { figure { (plot::bars(&values, &said, &format!("{most} heals"))) figcaption { (said) "." } } }
}

fn adapter(it: &Descriptor) -> Markup {
    let words = |wanted: bool| abilities(it, wanted);
    html! {
        dl {
            dt { "Can" } dd { (words(true)) }
            dt { "Cannot" } dd { (words(false)) }
            dt { "Proof" } dd { (it.proof) }
            dt { "A restart" } dd { (it.restart) }
            dt { "Identity" } dd { (it.identity) }
            dt { "Mark" } dd { (it.mark) }
            dt { "Limits" } dd { (it.limits) }
            dt { "Kept" } dd { (it.keeps) }
        }
    }
}
