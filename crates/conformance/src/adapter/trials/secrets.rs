//! After everything else: no secret in anything that came back, and none where a server writes things down.

use super::super::ground::{Ended, Ground, demand, fail, needed};

/// What the suite's own passwords begin with, also as hex and as base64 has it at each of three places.
const FORMS: [&str; 5] = [
    "planted-",
    "706c616e7465642d",
    "cGxhbnRlZC",
    "BsYW50ZWQt",
    "wbGFudGVkL",
];

pub(super) async fn a4_the_admins_connection_carries_no_plain_password(g: &Ground<'_>) -> Ended {
    let wish = g.wish("trace")?;
    g.made(&wish).await?;
    let traces = g.bench.traces().await?;
    demand(!traces.is_empty(), "there is nothing to search")?;
    let traces = String::from_utf8_lossy(&traces);
    for form in FORMS {
        if traces.contains(form) {
            return fail("a consumer's password went over an admin's connection, or into a log");
        }
    }
    needed(g.bench.takes_verifiers())
}

pub(super) async fn s2_nothing_that_came_back_holds_a_secret(g: &Ground<'_>) -> Ended {
    let heard = g.heard();
    demand(heard.len() > 100, "hardly anything came back")?;
    for text in &heard {
        for form in FORMS {
            if let Some(at) = text.find(form) {
                let before: String = text.chars().take(at.min(60)).collect();
                return fail(format!("a planted password comes after: {before}…"));
            }
        }
    }
    Ok(())
}
