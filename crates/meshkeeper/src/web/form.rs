//! What a person says on the page: signing in and out, and about conditions. Each needs the token, or a session
//! that showed it and the key of its forms.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use serde::Deserialize;

use super::Page;
use super::access::Who;
use super::answer::{self, Missing};
use crate::status;
use crate::wiring::shapes::Word;
use crate::wiring::words;

/// The most that is read of a form, in bytes.
pub(super) const LONGEST: usize = 16 * 1024;
/// The most characters of a reason.
const REASON: usize = 500;

/// For how long something may be said to be known, as the form offers it.
pub(super) const LENGTHS: [(&str, &str, u64); 5] = [
    ("1h", "an hour", 3_600),
    ("4h", "four hours", 4 * 3_600),
    ("1d", "a day", 86_400),
    ("3d", "three days", 3 * 86_400),
    ("7d", "seven days", 7 * 86_400),
];

#[derive(Deserialize)]
pub(super) struct SignIn {
    token: String,
    #[serde(default)]
    next: String,
}

#[derive(Deserialize, Default)]
pub(super) struct Next {
    #[serde(default)]
    next: String,
}

/// A path of this page and of no other.
fn inside(next: &str) -> &str {
    let plain =
        next.starts_with('/') && !next.starts_with("//") && !next.contains(['\\', '\r', '\n']);
    match plain {
        true => next,
        false => "/",
    }
}

/// The form for the token.
pub(super) async fn sign_in_page(
    State(page): State<Arc<Page>>,
    Extension(who): Extension<Who>,
    Query(query): Query<Next>,
) -> Response {
    asked(&page, &who, &query.next, None)
}

fn asked(page: &Page, who: &Who, next: &str, wrong: Option<&str>) -> Response {
    let body = html! {
        h1 { "Sign in" }
        p { "The token lies in the file " code { (super::TOKEN_FILE) } " of the data folder of the host that runs "
            code { "mesh up" } ", unless " code { "[mesh.page]" } " names another place." }
        @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
        form method="post" action="/sign-in" {
            input type="hidden" name="next" value=(inside(next));
            p { label for="token" { "Token" } " "
                input #token name="token" type="password" autocomplete="current-password" required; }
            p { button type="submit" { "Sign in" } }
        }
    };
    answer::page(page, who, ("Sign in", "/sign-in"), Ok(body))
}

/// The token as it was typed.
pub(super) async fn sign_in(
    State(page): State<Arc<Page>>,
    Extension(who): Extension<Who>,
    form: Result<Form<SignIn>, FormRejection>,
) -> Response {
    let Ok(Form(form)) = form else {
        return bad("this is not the form of this page\n");
    };
    if !page.access.is_token(form.token.trim()) {
        let mut again = asked(&page, &who, &form.next, Some("That is not the token."));
        *again.status_mut() = StatusCode::UNAUTHORIZED;
        return again;
    }
    match page.access.begin() {
        Some(cookie) => {
            let cookie = [(header::SET_COOKIE, cookie)];
            (cookie, Redirect::to(inside(&form.next))).into_response()
        }
        None => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the system gives no random bytes\n",
        )
            .into_response(),
    }
}

#[derive(Deserialize)]
pub(super) struct Key {
    #[serde(default)]
    key: String,
}

/// Ends the session.
pub(super) async fn sign_out(
    State(page): State<Arc<Page>>,
    Extension(who): Extension<Who>,
    headers: HeaderMap,
    form: Result<Form<Key>, FormRejection>,
) -> Response {
    let key = form.map(|Form(form)| form.key).unwrap_or_default();
    if !who.may_speak(&key) {
        return not_allowed();
    }
    let cookie = [(header::SET_COOKIE, page.access.end(&headers))];
    (cookie, Redirect::to("/")).into_response()
}

#[derive(Deserialize)]
pub(super) struct Said {
    #[serde(default)]
    key: String,
    #[serde(default)]
    reason: String,
    length: String,
}

/// A condition is known and being worked on (C-3).
pub(super) async fn ack(
    State(page): State<Arc<Page>>,
    Extension(who): Extension<Who>,
    Path(condition): Path<String>,
    form: Result<Form<Said>, FormRejection>,
) -> Response {
    say(&page, &who, condition, form, false).await
}

/// A condition does not count for a while (C-3).
pub(super) async fn silence(
    State(page): State<Arc<Page>>,
    Extension(who): Extension<Who>,
    Path(condition): Path<String>,
    form: Result<Form<Said>, FormRejection>,
) -> Response {
    say(&page, &who, condition, form, true).await
}

async fn say(
    page: &Page,
    who: &Who,
    condition: String,
    form: Result<Form<Said>, FormRejection>,
    silence: bool,
) -> Response {
    let Ok(Form(form)) = form else {
        return bad("this is not the form of this page\n");
    };
    if !who.may_speak(&form.key) {
        return not_allowed();
    }
    let seconds = LENGTHS.iter().find(|(name, ..)| *name == form.length);
    let Some((.., seconds)) = seconds else {
        return bad("for how long is one of 1h, 4h, 1d, 3d and 7d\n");
    };
    let reason = match form.reason.trim() {
        "" => "on the page, without a reason".to_owned(),
        reason => format!("on the page: {reason}"),
    };
    if reason.chars().count() > REASON || reason.chars().any(char::is_control) {
        return bad("a reason is one line of at most 500 characters\n");
    }
    let (bus, at) = (page.bus(), page.clock.now());
    let standing = match status::conditions(bus.as_ref(), &[], at).await {
        Ok(standing) => standing,
        Err(fault) => return told(page, who, fault.into()),
    };
    if !standing.iter().any(|one| one.key == condition) {
        return told(
            page,
            who,
            Missing::Unknown("condition that stands", condition),
        );
    }
    let until = at + Duration::from_secs(*seconds);
    let place = format!("/condition/{condition}");
    let word = match silence {
        true => Word::Silence {
            condition,
            reason,
            until,
            at,
        },
        false => Word::Ack {
            condition,
            reason,
            until,
            at,
        },
    };
    match words::say(bus.as_ref(), &word, at).await {
        Ok(()) => {
            page.snapshots.forget_small();
            Redirect::to(&place).into_response()
        }
        Err(fault) => told(page, who, fault.into()),
    }
}

fn told(page: &Page, who: &Who, missing: Missing) -> Response {
    answer::page(page, who, ("Not done", ""), Err(missing))
}
fn bad(text: &'static str) -> Response {
    (StatusCode::BAD_REQUEST, text).into_response()
}
fn not_allowed() -> Response {
    let text = "sign in with the token first; this form is of no session that stands\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_after_signing_in_nobody_is_led_elsewhere() {
        assert_eq!(inside("/condition/a.b"), "/condition/a.b");
        for next in [
            "",
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "/a\r\nb",
        ] {
            assert_eq!(inside(next), "/", "{next:?}");
        }
    }
}
