//! What a view answers: a page, or why there is none.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};

use super::Page;
use super::access::Who;
use super::html::{Frame, text, weight, when};
use crate::status::PictureFault;

/// Why there is no page.
#[derive(Debug)]
pub(super) enum Missing {
    /// Nobody of that name.
    Unknown(&'static str, String),
    /// The bus cannot be read.
    Bus(String),
}

impl From<PictureFault> for Missing {
    fn from(fault: PictureFault) -> Self {
        Missing::Bus(fault.to_string())
    }
}
impl From<mesh_sdk::bus::Fault> for Missing {
    fn from(fault: mesh_sdk::bus::Fault) -> Self {
        Missing::Bus(fault.to_string())
    }
}
impl From<mesh_sdk::harness::StoreFault> for Missing {
    fn from(fault: mesh_sdk::harness::StoreFault) -> Self {
        Missing::Bus(fault.to_string())
    }
}

/// Puts a view into its frame.
pub(super) fn page(
    page: &Page,
    who: &Who,
    (title, here): (&str, &str),
    made: Result<Markup, Missing>,
) -> Response {
    let frame = Frame {
        mesh: &page.mesh,
        title,
        here,
        form_key: who.form_key(),
    };
    match made {
        Ok(body) => Html(frame.around(&body).into_string()).into_response(),
        Err(missing) => {
            let (code, body) = told(page, &missing);
            let html = Html(frame.around(&body).into_string());
            (code, html).into_response()
        }
    }
}

fn told(page: &Page, missing: &Missing) -> (StatusCode, Markup) {
    match missing {
        Missing::Unknown(what, name) => (
            StatusCode::NOT_FOUND,
            html! {
                h1 { "Not found" }
                p { "There is no " (what) " " (text(name)) ". " a href="/" { "The overview" } " lists them." }
            },
        ),
        Missing::Bus(why) => (
            StatusCode::SERVICE_UNAVAILABLE,
            html! {
                h1 { "The bus cannot be read" }
                p { (text(why)) }
                ul.conditions {
                    @for one in page.local.standing() {
                        li {
                            (weight(one.severity)) " " (one.id.kind.as_str()) " about " (text(&one.id.subject))
                            " since " (when(Some(one.since), page.clock.now()))
                            p { (text(&one.message)) }
                            p.action { (text(&one.action)) }
                        }
                    }
                }
                p { "Load this page again; what was known before is not shown as if it were known now." }
            },
        ),
    }
}
