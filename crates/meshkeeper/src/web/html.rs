//! The frame of every page, and how names, states and times are written.

use maud::{DOCTYPE, Markup, html};
use mesh_sdk::Time;
use mesh_sdk::condition::Severity;
use mesh_sdk::decide::State;
use serde_json::Value;

use crate::commands::ago;
use crate::status::{ConditionView, time_text};

/// A text of others is cut after so many characters.
const LONGEST: usize = 400;

/// What stands around a view.
pub(super) struct Frame<'f> {
    pub(super) mesh: &'f str,
    pub(super) title: &'f str,
    /// The path of the navigation's entry.
    pub(super) here: &'f str,
    /// Of somebody who is signed in.
    pub(super) form_key: Option<&'f str>,
}

impl Frame<'_> {
    pub(super) fn around(&self, body: &Markup) -> Markup {
        let entries = [
            ("/", "Overview"),
            ("/conditions", "Conditions"),
            ("/loops", "Loops"),
        ];
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " · mesh " (self.mesh) }
                    link rel="stylesheet" href="/assets/page.css";
                    link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                    script src="/assets/page.js" defer {}
                }
                body {
                    a.skip href="#main" { "Skip to the content" }
                    header {
                        p.brand { "mesh " strong { (self.mesh) } }
                        nav aria-label="Pages" {
                            ul {
                                @for (path, name) in entries {
                                    li { a href=(path) aria-current=[(path == self.here).then_some("page")] { (name) } }
                                }
                            }
                        }
                        (self.account())
                    }
                    main #main tabindex="-1" { (body) }
                    footer { p #live role="status" { "This page shows how it was when it was loaded; load it again for what is new." } }
                }
            }
        }
    }
    fn account(&self) -> Markup {
        match self.form_key {
            Some(key) => html! {
                form.account method="post" action="/sign-out" {
                    input type="hidden" name="key" value=(key);
                    button type="submit" { "Sign out" }
                }
            },
            None => html! { p.account { a href="/sign-in" { "Sign in" } } },
        }
    }
}

/// A text that others had a hand in: in a direction of its own, without marks that turn other text around, and
/// not longer than a person reads.
pub(super) fn text(given: &str) -> Markup {
    html! { bdi { (plain(given)) } }
}

/// The same without a tag, for attributes.
pub(super) fn plain(given: &str) -> String {
    let mut shown: String = given.chars().take(LONGEST).flat_map(seen).collect();
    if given.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

fn seen(c: char) -> Vec<char> {
    let hides = c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    match hides {
        true => c.escape_unicode().collect(),
        false => vec![c],
    }
}

/// A time and how long ago that was.
pub(super) fn when(time: Option<Time>, now: Time) -> Markup {
    match time {
        Some(time) => {
            html! { time datetime=(time_text(time)) title=(time_text(time)) { (ago(Some(time), now)) } }
        }
        None => html! { "never" },
    }
}

/// A time to the second, for people.
pub(super) fn stamp(time: Time) -> String {
    let text = time_text(time);
    let seconds = text.split(['.', 'Z']).next().unwrap_or_default();
    format!("{} UTC", seconds.replace('T', " "))
}

/// A time to come.
pub(super) fn ahead(time: Option<Time>, now: Time) -> Markup {
    match time {
        None => html! { "–" },
        Some(time) if time <= now => {
            html! { time datetime=(time_text(time)) title=(time_text(time)) { "due" } }
        }
        Some(time) => {
            let text = length(time.since(now).as_secs());
            html! { time datetime=(time_text(time)) title=(time_text(time)) { "in " (text) } }
        }
    }
}

/// A length of time in words.
pub(super) fn length(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A state's sign, class and word: never its colour alone.
pub(super) fn look(state: State) -> (&'static str, &'static str, &'static str) {
    match state {
        State::Held => ("✓", "good", "held"),
        State::Disabled => ("○", "good", "switched off"),
        State::Pending => ("…", "wait", "waiting"),
        State::Lost => ("↻", "busy", "healing"),
        State::Unknown => ("?", "wait", "unknown"),
        State::Braked => ("‖", "bad", "braked"),
        State::Refused => ("✕", "bad", "refused"),
    }
}

/// Every state, in the order of the list to choose from.
pub(super) const STATES: [State; 7] = [
    State::Held,
    State::Lost,
    State::Unknown,
    State::Braked,
    State::Pending,
    State::Refused,
    State::Disabled,
];

/// A state.
pub(super) fn badge(state: State) -> Markup {
    let (sign, class, word) = look(state);
    mark(sign, class, word)
}

/// A sign with a word.
pub(super) fn mark(sign: &str, class: &str, word: &str) -> Markup {
    html! { span class={ "badge " (class) } { span aria-hidden="true" { (sign) } " " (word) } }
}

/// How a loop stands.
pub(super) fn loop_badge(state: &str) -> Markup {
    match state {
        "running" => mark("✓", "good", state),
        "late" | "stuck" | "closed" => mark("✕", "bad", state),
        _ => mark("…", "wait", state),
    }
}

/// How much a condition weighs.
pub(super) fn weight(severity: Severity) -> Markup {
    match severity {
        Severity::Error => mark("✕", "bad", severity.as_str()),
        Severity::Warning => mark("!", "wait", severity.as_str()),
        Severity::Info => mark("i", "calm", severity.as_str()),
    }
}

/// Conditions as a list, each with what to do.
pub(super) fn conditions(all: &[&ConditionView], now: Time) -> Markup {
    html! {
        ul.conditions {
            @for one in all {
                li {
                    (weight(one.condition.severity)) " "
                    a href={ "/condition/" (one.key) } { (one.condition.id.kind.as_str()) " about " (text(&one.condition.id.subject)) }
                    " since " (when(Some(one.condition.since), now))
                    @if let Some(until) = one.silenced_until { " · silenced, ends " (ahead(Some(until), now)) }
                    @if let Some(until) = one.acknowledged_until { " · acknowledged, ends " (ahead(Some(until), now)) }
                    @if one.stale { " · its loop has not looked of late" }
                    p { (text(&one.condition.message)) }
                    p.action { (text(&one.condition.action)) }
                }
            }
        }
    }
}

/// Objects of `status --json` as a table: whatever the status has, without a view of its own.
pub(super) fn objects(caption: &str, all: &[Value]) -> Markup {
    let mut columns: Vec<&String> = Vec::new();
    for key in all
        .iter()
        .filter_map(Value::as_object)
        .flat_map(|o| o.keys())
    {
        if !columns.contains(&key) {
            columns.push(key);
        }
    }
    html! {
        div.wide tabindex="0" role="region" aria-label={ "Table of " (caption) } {
            table {
                caption { (caption) }
                thead { tr { @for name in &columns { th scope="col" { (name.replace('_', " ")) } } } }
                tbody {
                    @for one in all {
                        tr { @for name in &columns { td { (text(&one.get(name.as_str()).map(words).unwrap_or_default())) } } }
                    }
                }
            }
        }
    }
}

/// A value of the status in words.
fn words(value: &Value) -> String {
    let joined = |parts: Vec<String>| match parts.is_empty() {
        true => "–".to_owned(),
        false => parts.join("; "),
    };
    match value {
        Value::Null => "–".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(all) => joined(all.iter().map(words).collect()),
        Value::Object(all) => {
            let parts = all.iter();
            joined(
                parts
                    .map(|(key, value)| format!("{key}: {}", words(value)))
                    .collect(),
            )
        }
        Value::Number(number) => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    //! What others wrote does no harm here.
    use super::*;

    #[test]
    fn s6_a_hostile_text_is_shown_and_neither_run_nor_followed() {
        let shown = text("<script>alert(1)</script>\"'&").into_string();
        assert_eq!(
            shown,
            "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;&quot;'&amp;</bdi>"
        );
        for mark in [
            '\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}', '\u{0}', '\u{1b}', '\n',
        ] {
            let shown = text(&format!("a{mark}b")).into_string();
            assert!(!shown.contains(mark) && shown.contains("\\u{"), "{shown}");
        }
        let long = text(&"x".repeat(1_000)).into_string();
        assert!(long.len() < 450 && long.contains('…'), "{long}");
        assert_eq!(plain("żółw שלום"), "żółw שלום");
    }

    #[test]
    fn objects_of_the_status_are_shown_as_they_are() {
        let all = [
            serde_json::json!({ "host": "<b>", "last_seen": null, "n": 3, "why": ["a", "b"], "retired": false, "of": { "k": 1 } }),
        ];
        let shown = objects("Hosts", &all).into_string();
        for part in [
            "<th scope=\"col\">last seen</th>",
            "&lt;b&gt;",
            ">3<",
            "a; b",
            ">no<",
            "k: 1",
            "–",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn every_state_has_a_word_and_a_sign_of_its_own() {
        let all: std::collections::BTreeSet<_> = STATES.map(look).map(|(s, _, w)| (s, w)).into();
        assert_eq!(all.len(), STATES.len());
    }
}
