//! How often and how long, for one provider: every key that holds a length of time.

use std::time::Duration;

use super::fields::{Fields, quoted};
use super::units::Length;
use crate::errors::Problem;

const fn length(
    key: &'static str,
    default: Duration,
    min: Duration,
    max: Duration,
    meaning: &'static str,
) -> Length {
    Length {
        key,
        default,
        min,
        max,
        meaning,
    }
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
const DAY: u64 = 86_400;

/// Every key of a provider that holds a length of time.
pub const LENGTHS: [Length; 8] = [
    length(
        "verify_every",
        secs(60),
        secs(1),
        secs(DAY),
        "how often each consumer is asked for",
    ),
    length(
        "list_every",
        secs(600),
        secs(1),
        secs(7 * DAY),
        "how often the server is asked for logins that nobody wants any more",
    ),
    length(
        "ask_timeout",
        secs(30),
        ms(100),
        secs(600),
        "after which a question without an answer is cut off",
    ),
    length(
        "apply_timeout",
        secs(30),
        ms(100),
        secs(600),
        "after which a write without an answer is cut off",
    ),
    length(
        "unknown_after",
        secs(300),
        secs(1),
        secs(7 * DAY),
        "how long a server may be silent before that is a condition",
    ),
    length(
        "remove_after",
        secs(600),
        secs(1),
        secs(30 * DAY),
        "how long a login that nobody wants is only shown as leaving",
    ),
    length(
        "grace",
        secs(DAY),
        secs(1),
        secs(365 * DAY),
        "how long such a login then stays switched off before it is dropped",
    ),
    length(
        "block_budget",
        ms(50),
        ms(1),
        secs(5),
        "how long one command of ours may keep the server from others",
    ),
];

/// The keys of a `needs` table that hold a length of time.
pub(crate) const ROTATES: [Length; 2] = [
    length(
        "rotate_every",
        secs(30 * DAY),
        secs(1),
        secs(3650 * DAY),
        "how long a password is in force; without the key until a person says `mesh rotate`",
    ),
    length(
        "rotate_grace",
        secs(7 * DAY),
        secs(1),
        secs(3650 * DAY),
        "how long the old password stays valid where nothing is delivered and nobody says that the new one was taken up; without the key until somebody does",
    ),
];

/// How often and how long, for one provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often each consumer is asked for (H-4).
    pub verify_every: Duration,
    /// How often the server is asked for what nobody wants.
    pub list_every: Duration,
    /// After which a question is cut off (H-9).
    pub ask_timeout: Duration,
    /// After which a write is cut off (H-9).
    pub apply_timeout: Duration,
    /// How long the server may be silent before that is a condition (H-7).
    pub unknown_after: Duration,
    /// How long an orphan is only shown as leaving.
    pub remove_after: Duration,
    /// How long it then stays switched off before it is dropped.
    pub grace: Duration,
    /// How long one command may block the server (H-16).
    pub block_budget: Duration,
}

impl Timing {
    fn from_lengths(lengths: [Duration; 8]) -> Self {
        let [
            verify_every,
            list_every,
            ask_timeout,
            apply_timeout,
            unknown_after,
            remove_after,
            grace,
            block_budget,
        ] = lengths;
        Self {
            verify_every,
            list_every,
            ask_timeout,
            apply_timeout,
            unknown_after,
            remove_after,
            grace,
            block_budget,
        }
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self::from_lengths(LENGTHS.map(|length| length.default))
    }
}

/// Reads every such key of a provider's table.
pub(super) fn timing(fields: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> Timing {
    Timing::from_lengths(LENGTHS.map(|length| {
        let key = length.key;
        let wanted = "a length of time in quotes, such as \"60s\" or \"5 min\"";
        let Some(text) = fields.text(key, wanted, problems) else {
            return length.default;
        };
        length.parse(text.get_ref()).unwrap_or_else(|rule| {
            let message = format!("`{key}` cannot be {}", quoted(text.get_ref()));
            problems.push(Problem::error(text.span(), message).meant(rule));
            length.default
        })
    }))
}
