//! What happened, once: the history's line and the log's line come from the same value.

use serde::{Deserialize, Serialize};
use tracing::{debug, info, warn};

use crate::bus::{Fault, Key};
use crate::decide::Happening;
use crate::decide::conditions::Change;
use crate::harness::declared;
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
    /// A login that was to leave is another's now.
    HandedOver,
    /// A condition was raised.
    Raised,
    /// A condition changed.
    Changed,
    /// A condition was cleared.
    Cleared,
    /// A person said something.
    Word,
    /// An agent took a task, or said how it ended (C-7).
    Task,
    /// A person deleted data.
    Purged,
    /// Credentials were brought to a consumer, or put right where they lie.
    Delivered,
    /// A consumer was told of them by its reload hook.
    Told,
    /// A consumer's container or unit was made again or started, and why.
    Restarted,
    /// A rotation began, or goes on.
    Rotating,
    /// Another password or login is in force, and the one before is valid too.
    Promoted,
    /// A rotation ended: one password or login is valid.
    Rotated,
}

/// What an event says was done to a backend, a file or a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing, or a person did it.
    None,
    /// Something was brought, or put right.
    Repairs,
    /// Something was taken away.
    TakesAway,
}

impl EventKind {
    /// What was done.
    pub const fn effect(self) -> Effect {
        match self {
            EventKind::Applied
            | EventKind::Healed
            | EventKind::Minted
            | EventKind::SwitchedOn
            | EventKind::Delivered
            | EventKind::Told
            | EventKind::Restarted => Effect::Repairs,
            EventKind::SwitchedOff | EventKind::Dropped => Effect::TakesAway,
            EventKind::Adopted
            | EventKind::Unknown
            | EventKind::Answered
            | EventKind::Braked
            | EventKind::Taken
            | EventKind::Failed
            | EventKind::Leaving
            | EventKind::CameBack
            | EventKind::Superseded
            | EventKind::HandedOver
            | EventKind::Raised
            | EventKind::Changed
            | EventKind::Cleared
            | EventKind::Word
            | EventKind::Task
            | EventKind::Rotating
            | EventKind::Promoted
            | EventKind::Rotated
            | EventKind::Purged => Effect::None,
        }
    }
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
            EventKind::HandedOver => "handed_over",
            EventKind::Raised => "raised",
            EventKind::Changed => "changed",
            EventKind::Cleared => "cleared",
            EventKind::Word => "word",
            EventKind::Task => "task",
            EventKind::Purged => "purged",
            EventKind::Delivered => "delivered",
            EventKind::Told => "told",
            EventKind::Restarted => "restarted",
            EventKind::Rotating => "rotating",
            EventKind::Promoted => "promoted",
            EventKind::Rotated => "rotated",
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
    /// What became of a condition.
    pub fn of_change(change: &Change, owner: &str, at: Time) -> Self {
        let (kind, condition) = match change {
            Change::Raised(condition) => (EventKind::Raised, condition),
            Change::Changed(condition) => (EventKind::Changed, condition),
            Change::Cleared(condition) => (EventKind::Cleared, condition),
        };
        let subject = &condition.id.subject;
        let (provider, consumer) = subject.split_once('/').unwrap_or((subject, ""));
        Self {
            at,
            kind,
            owner: owner.to_owned(),
            provider: provider.to_owned(),
            consumer: consumer.to_owned(),
            detail: format!("{}: {}", condition.id.kind, condition.message),
            count: 1,
        }
    }
    /// Where it stands in the history, and its line there. With debug assertions it panics if the loop's class
    /// declares nothing of the kind.
    pub fn line(&self) -> Result<(Key, String), Fault> {
        declared::did(&self.owner, self.kind);
        let subject = Key::of(&[self.kind.as_str(), &self.provider, &self.consumer]);
        let text =
            |event: &Self| serde_json::to_string(event).map_err(|e| Fault::Corrupt(e.to_string()));
        let mut line = text(self)?;
        if line.len() > LINE {
            // Each byte of the detail is at least one of the line.
            let surplus = line.len() - LINE + "…".len();
            let mut keep = self.detail.len().saturating_sub(surplus);
            while !self.detail.is_char_boundary(keep) {
                keep -= 1;
            }
            let detail = format!("{}…", &self.detail[..keep]);
            line = text(&Self {
                detail,
                ..self.clone()
            })?;
        }
        Ok((subject, line))
    }
    /// The kind of what the core told.
    pub fn kind_of(happening: &Happening) -> EventKind {
        match happening {
            Happening::Adopted => EventKind::Adopted,
            Happening::Applied => EventKind::Applied,
            Happening::Healed(..) => EventKind::Healed,
            Happening::SwitchedOn => EventKind::SwitchedOn,
            Happening::BecameUnknown(_) => EventKind::Unknown,
            Happening::AnsweredAgain => EventKind::Answered,
            Happening::Braked(_) => EventKind::Braked,
            Happening::Taken => EventKind::Taken,
            Happening::Failed(_) => EventKind::Failed,
            Happening::Leaving | Happening::Retired(_) => EventKind::Leaving,
            Happening::SwitchedOff => EventKind::SwitchedOff,
            Happening::Dropped => EventKind::Dropped,
            Happening::CameBack => EventKind::CameBack,
            Happening::Superseded(_) => EventKind::Superseded,
            Happening::HandedOver(_) => EventKind::HandedOver,
        }
    }

    /// The kind and the words for what the core told.
    pub fn words(happening: &Happening) -> (EventKind, String) {
        let words = match happening {
            Happening::Adopted => "held already; taken into the record".to_owned(),
            Happening::Applied => "applied, and seen held".to_owned(),
            Happening::Healed(differences, detail) if detail.is_empty() => {
                format!("was lost: {differences}; applied again")
            }
            Happening::Healed(differences, detail) => {
                format!("was lost: {differences} ({detail}); applied again")
            }
            Happening::SwitchedOn => {
                "was switched off by somebody and is on again; to keep it off: `enabled = false` \
                 in its `needs` table, or `mesh pause`"
                    .to_owned()
            }
            Happening::BecameUnknown(why) => format!("cannot be asked: {why}"),
            Happening::AnsweredAgain => "answers again".to_owned(),
            Happening::Braked(strikes) => format!("lost again after {strikes} successful repairs"),
            Happening::Taken => "the login exists and is not ours; left alone".to_owned(),
            Happening::Failed(error) => error.to_string(),
            Happening::Leaving => "asked for no more; it is leaving".to_owned(),
            Happening::SwitchedOff => "switched off, sessions ended; its data stays".to_owned(),
            Happening::Dropped => "the login is gone; its data stays".to_owned(),
            Happening::CameBack => "asked for again".to_owned(),
            Happening::HandedOver(login) => {
                format!("the login `{login}` is another's now, and stays as it is")
            }
            Happening::Superseded(login) => format!("the old login `{login}` is kept as it is"),
            Happening::Retired(login) => format!("a person retires the old login `{login}`"),
        };
        (Self::kind_of(happening), words)
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
            | EventKind::HandedOver
            | EventKind::Cleared
            | EventKind::Word
            | EventKind::Task
            | EventKind::Purged
            | EventKind::Delivered
            | EventKind::Told
            | EventKind::Restarted
            | EventKind::Rotating
            | EventKind::Promoted
            | EventKind::Rotated => info!(%provider, %consumer, %count, event = kind, "{detail}"),
            EventKind::Unknown
            | EventKind::Braked
            | EventKind::Taken
            | EventKind::Failed
            | EventKind::Raised
            | EventKind::Changed => warn!(%provider, %consumer, %count, event = kind, "{detail}"),
        }
    }
}

/// The most bytes that a line of the history has; a longer detail is cut.
const LINE: usize = 4096;
/// Above this many events of one kind in a pass, one stands for all (C-6).
const FOLD_ABOVE: usize = 20;
/// So many names are told of a folded storm.
const NAMED: usize = 5;

/// Folds a storm of events of one kind into one that counts them; rare ones stay single. Kinds are told
/// in the order in which the first of each came.
#[derive(Debug, Default)]
pub struct Fold {
    kinds: Vec<(EventKind, Storm)>,
}

#[derive(Debug, Default)]
struct Storm {
    count: usize,
    first: Vec<Event>,
    names: Vec<String>,
}

impl Fold {
    /// One more of this kind, about this subject. `make` is called only as long as it is told singly.
    pub fn add(&mut self, kind: EventKind, name: &str, make: impl FnOnce() -> Event) {
        let known = self.kinds.iter().position(|(known, _)| *known == kind);
        let at = known.unwrap_or_else(|| {
            self.kinds.push((kind, Storm::default()));
            self.kinds.len() - 1
        });
        let storm = &mut self.kinds[at].1;
        storm.count += 1;
        if storm.first.len() < FOLD_ABOVE {
            storm.first.push(make());
        }
        if storm.names.len() < NAMED {
            storm.names.push(name.to_owned());
        }
    }
    /// What is told.
    pub fn finish(self) -> Vec<Event> {
        self.kinds
            .into_iter()
            .flat_map(|(_, storm)| storm.finish())
            .collect()
    }
}

impl Storm {
    fn finish(mut self) -> Vec<Event> {
        if self.count <= FOLD_ABOVE {
            return self.first;
        }
        self.first.truncate(1);
        let (names, others) = (self.names.join(", "), self.count - self.names.len());
        for event in &mut self.first {
            event.detail = format!(
                "{names} and {others} others; the first: {}",
                std::mem::take(&mut event.detail)
            );
            event.consumer = String::new();
            event.count = self.count;
        }
        self.first
    }
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
        let mut fold = Fold::default();
        for n in 0..10_000 {
            fold.add(EventKind::Healed, &format!("c{n}"), || {
                event(EventKind::Healed, n)
            });
        }
        fold.add(EventKind::Failed, "c7", || event(EventKind::Failed, 7));
        let folded = fold.finish();
        assert_eq!(folded.len(), 2);
        assert_eq!((folded[0].count, folded[0].consumer.as_str()), (10_000, ""));
        let detail = "c0, c1, c2, c3, c4 and 9995 others; the first: d";
        assert_eq!(folded[0].detail, detail);
        assert_eq!(folded[1].consumer, "c7");
    }

    #[test]
    fn c5_a_line_of_the_history_is_bounded_whatever_its_detail() {
        for detail in [
            "ä\u{1}\"".repeat(3_000),
            "x".repeat(LINE * 2),
            "short".to_owned(),
        ] {
            let event = Event {
                detail: detail.clone(),
                ..event(EventKind::Failed, 1)
            };
            let (_, line) = event.line().expect("line");
            assert!(line.len() <= LINE, "{}", line.len());
            let read: Event = serde_json::from_str(&line).expect("an event");
            let cut = read.detail.strip_suffix('…');
            assert_eq!(cut.is_some(), detail != "short");
            assert!(detail.starts_with(cut.unwrap_or(&read.detail)));
        }
    }

    #[test]
    fn kinds_are_told_in_the_order_in_which_they_came() {
        let mut fold = Fold::default();
        for kind in [EventKind::Minted, EventKind::Applied, EventKind::Minted] {
            fold.add(kind, "c1", || event(kind, 1));
        }
        let kinds: Vec<EventKind> = fold.finish().iter().map(|e| e.kind).collect();
        assert_eq!(
            kinds,
            [EventKind::Minted, EventKind::Minted, EventKind::Applied]
        );
    }

    #[test]
    fn few_events_are_told_as_they_are() {
        let few: Vec<Event> = (0..FOLD_ABOVE)
            .map(|n| event(EventKind::Healed, n))
            .collect();
        let mut fold = Fold::default();
        for one in few.clone() {
            let name = one.consumer.clone();
            fold.add(one.kind, &name, || one);
        }
        assert_eq!(fold.finish(), few);
    }
}
