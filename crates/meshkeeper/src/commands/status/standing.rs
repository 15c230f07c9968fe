//! Conditions on the screen.

use mesh_sdk::Time;
use mesh_sdk::condition::Severity;

use super::ago;
use crate::commands::Context;
use crate::printer::Tone;
use crate::status::{ConditionView, time_text};

/// Conditions as people read them: what, since when, what to do.
pub(in crate::commands) fn conditions<'c>(
    cx: &Context<'_>,
    all: impl IntoIterator<Item = &'c ConditionView>,
    now: Time,
) {
    for (i, one) in all.into_iter().enumerate() {
        if i == 0 {
            cx.printer.answer("");
        }
        let condition = &one.condition;
        let tone = match condition.severity {
            Severity::Error => Tone::Bad,
            Severity::Warning => Tone::Warning,
            Severity::Info => Tone::Dim,
        };
        let kind = cx.printer.paint(tone, condition.id.kind.as_str());
        let mut marks = Vec::new();
        if condition.flapping {
            marks.push("flapping".to_owned());
        }
        if one.stale {
            marks.push("stale: its loop is late".to_owned());
        }
        if condition.status == mesh_sdk::condition::Status::Unknown {
            marks.push("cannot be told now".to_owned());
        }
        if let Some(until) = one.silenced_until {
            marks.push(format!("silenced until {}", time_text(until)));
        } else if let Some(until) = one.acknowledged_until {
            marks.push(format!("acknowledged until {}", time_text(until)));
        }
        let marks = if marks.is_empty() {
            String::new()
        } else {
            format!(" [{}]", marks.join("; "))
        };
        let since = ago(Some(condition.since), now);
        cx.printer.answer(&format!(
            "{kind} {} since {since}{marks}: {}",
            condition.id.subject, condition.message
        ));
        cx.printer.answer(&format!(
            "    {}",
            cx.printer.paint(Tone::Dim, &condition.action)
        ));
    }
}
