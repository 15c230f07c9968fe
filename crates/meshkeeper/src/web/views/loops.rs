//! The loops: what each compares, repairs, may take away, and cannot see.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::overview::loop_rows;
use crate::status::{self, LoopView};
use crate::web::Page;
use crate::web::access::Who;
use crate::web::answer::{self, Missing};
use crate::wiring::inventory;

/// `/loops`.
pub(in crate::web) async fn get(
    State(page): State<Arc<Page>>,
    Extension(who): Extension<Who>,
) -> Response {
    let made = read(&page).await;
    answer::page(&page, &who, ("Loops", "/loops"), made)
}

async fn read(page: &Page) -> Result<Markup, Missing> {
    let (bus, now) = (page.bus(), page.clock.now());
    let head = status::read_head(bus.as_ref(), &page.mesh, now, true).await?;
    let all: Vec<LoopView> = head.loops().cloned().collect();
    Ok(html! {
        h1 { "Loops" }
        div #running data-live { (loop_rows(&all, now)) }
        @for class in inventory::classes() {
            section {
                h2 { "The " (class.class) " loop" }
                dl {
                    dt { "Compares against" } dd { (class.compares_against) }
                    dt { "Repairs" } dd { (class.repairs) }
                    dt { "May take away" } dd { (class.may_take_away) }
                    dt { "Cannot see" } dd { (class.blind_spots) }
                    dt { "Raises" } dd { (class.raises.join(", ")) }
                    dt { "Looks" } dd { (class.period) }
                }
            }
        }
    })
}
