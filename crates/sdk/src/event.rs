//! What happened, once: the history's line and the log's line come from the same value.

use serde::{Deserialize, Serialize};
use tracing::{debug, info, warn};

use crate::decide::Happening;
use crate::time::Time;

/// The kinds of events: a closed list; each is a subject of the history.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// Taken into the record without a write (H-2).
    Adopted,
    /// Applied for the first time, or because it changed.
    Applied,
    /// Lost and applied again.
    Healed,
    /// A password was minted (H-22).
    Minted,
    /// A login that somebody had switched off was switched on again (H-25).
    SwitchedOn,
    /// Cannot be asked any more.
    Unknown,
    /// Answers again.
    Answered,
    /// Lost again after a successful repair (H-11).
    Braked,
    /// A login of that name is not ours (H-18).
    Taken,
    /// An effect failed.
    Failed,
    /// Asked for no more.
    Leaving,
    /// Switched off because it is asked for no more.
    SwitchedOff,
    /// Dropped.
    Dropped,
    /// Asked for again before it was dropped.
    CameBack,
    /// Its login changed, and the old one stays.
    Superseded,
    /// A condition was raised.
    Raised,
    /// A condition changed.
    Changed,
    /// A condition was cleared.
    Cleared,
    /// A person said something.
    Word,
}

impl EventKind {
    /// The word in subjects and on the screen.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventKind::Adopted => "adopted",
            EventKind::Applied => "applied",
            EventKind::Healed => "healed",
            EventKind::Minted => "minted",
            EventKind::SwitchedOn => "switched_on",
            EventKind::Unknown => "unknown",
            EventKind::Answered => "answered",
            EventKind::Braked => "braked",
            EventKind::Taken => "taken",
            EventKind::Failed => "failed",
            EventKind::Leaving => "leaving",
            EventKind::SwitchedOff => "switched_off",
            EventKind::Dropped => "dropped",
            EventKind::CameBack => "came_back",
            EventKind::Superseded => "superseded",
            EventKind::Raised => "raised",
            EventKind::Changed => "changed",
            EventKind::Cleared => "cleared",
            EventKind::Word => "word",
        }
    }
}

/// One event. It holds names and words for people, never a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Time,
    /// What kind.
    pub kind: EventKind,
    /// The loop that tells it: `provisioner/cache`.
    #[serde(rename = "loop")]
    pub owner: String,
    /// The provider, or the provider and its node: `cache`, `cache@10.0.0.2:6379`.
    pub provider: String,
    /// The consumer; empty where it is about the provider or about many.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub consumer: String,
    /// One line for people.
    pub detail: String,
    /// How many it stands for, when many alike were folded into one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: usize,
}

fn one() -> usize {
    1
}
fn is_one(n: &usize) -> bool {
    *n == 1
}

impl Event {
    /// The kind and the words for what the core told.
    pub fn words(happening: &Happening) -> (EventKind, String) {
        match happening {
            Happening::Adopted => (
                EventKind::Adopted,
                "held already; taken into the record".into(),
            ),
            Happening::Applied => (EventKind::Applied, "applied, and seen held".into()),
            Happening::Healed(differences, detail) if detail.is_empty() => (
                EventKind::Healed,
                format!("was lost: {differences}; applied again"),
            ),
            Happening::Healed(differences, detail) => (
                EventKind::Healed,
                format!("was lost: {differences} ({detail}); applied again"),
            ),
            Happening::SwitchedOn => (
                EventKind::SwitchedOn,
                "was switched off by somebody and is on again; to keep it off: `enabled = false` \
                 in its `needs` table, or `mesh pause`"
                    .into(),
            ),
            Happening::BecameUnknown(why) => {
                (EventKind::Unknown, format!("cannot be asked: {why}"))
            }
            Happening::AnsweredAgain => (EventKind::Answered, "answers again".into()),
            Happening::Braked(strikes) => (
                EventKind::Braked,
                format!("lost again after {strikes} successful repairs"),
            ),
            Happening::Taken => (
                EventKind::Taken,
                "the login exists and is not ours; left alone".into(),
            ),
            Happening::Failed(error) => (EventKind::Failed, error.to_string()),
            Happening::Leaving => (
                EventKind::Leaving,
                "asked for no more; it is leaving".into(),
            ),
            Happening::SwitchedOff => (
                EventKind::SwitchedOff,
                "switched off, sessions ended; its data stays".into(),
            ),
            Happening::Dropped => (
                EventKind::Dropped,
                "the login is gone; its data stays".into(),
            ),
            Happening::CameBack => (EventKind::CameBack, "asked for again".into()),
            Happening::Superseded(login) => (
                EventKind::Superseded,
                format!("the old login `{login}` is kept as it is"),
            ),
        }
    }

    /// Writes the log's line; quiet things at debug, work done at info, trouble at warn (H-13).
    pub fn log(&self) {
        let Self {
            kind,
            provider,
            consumer,
            detail,
            count,
            ..
        } = self;
        let kind = kind.as_str();
        match self.kind {
            EventKind::Adopted | EventKind::Answered => {
                debug!(%provider, %consumer, %count, event = kind, "{detail}");
            }
            EventKind::Applied
            | EventKind::Healed
            | EventKind::Minted
            | EventKind::SwitchedOn
            | EventKind::Leaving
            | EventKind::SwitchedOff
            | EventKind::Dropped
            | EventKind::CameBack
            | EventKind::Superseded
            | EventKind::Cleared
            | EventKind::Word => info!(%provider, %consumer, %count, event = kind, "{detail}"),
            EventKind::Unknown
            | EventKind::Braked
            | EventKind::Taken
            | EventKind::Failed
            | EventKind::Raised
            | EventKind::Changed => warn!(%provider, %consumer, %count, event = kind, "{detail}"),
        }
    }
}

/// Above this many events of one kind in a pass, one stands for all (C-6).
const FOLD_ABOVE: usize = 20;

/// Folds many events of one kind into one that counts them.
pub fn fold(events: Vec<Event>) -> Vec<Event> {
    let mut counts = std::collections::BTreeMap::new();
    for event in &events {
        *counts.entry(event.kind).or_insert(0usize) += 1;
    }
    let mut told = std::collections::BTreeSet::new();
    let mut folded = Vec::new();
    for event in events {
        let count = counts[&event.kind];
        if count <= FOLD_ABOVE {
            folded.push(event);
        } else if told.insert(event.kind) {
            let detail = format!(
                "{count} consumers; the first, {}: {}",
                event.consumer, event.detail
            );
            folded.push(Event {
                consumer: String::new(),
                detail,
                count,
                ..event
            });
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    //! A storm is one line.
    use super::*;

    fn event(kind: EventKind, n: usize) -> Event {
        Event {
            at: Time::from_millis(1),
            kind,
            owner: "provisioner/cache".into(),
            provider: "cache".into(),
            consumer: format!("c{n}"),
            detail: "d".into(),
            count: 1,
        }
    }

    #[test]
    fn h20_a_mass_heal_is_told_once_and_rare_things_singly() {
        let mut events: Vec<Event> = (0..10_000).map(|n| event(EventKind::Healed, n)).collect();
        events.push(event(EventKind::Failed, 7));
        let folded = fold(events);
        assert_eq!(folded.len(), 2);
        assert_eq!((folded[0].count, folded[0].consumer.as_str()), (10_000, ""));
        assert_eq!(folded[1].consumer, "c7");
        let few: Vec<Event> = (0..FOLD_ABOVE)
            .map(|n| event(EventKind::Healed, n))
            .collect();
        assert_eq!(fold(few.clone()), few);
    }
}
