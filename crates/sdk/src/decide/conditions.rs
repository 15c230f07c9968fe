//! The life of conditions: raised after k of n looks, cleared after two good ones, never by silence (C-4).

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::condition::{Condition, ConditionId, ConditionType, Fact, Reason, Status};
use crate::time::Time;

/// Good looks in a row that clear a condition.
const CLEAR_AFTER: u8 = 2;
/// Found this often before it is seen gone, one is raised whose first proof is not final: that is two
/// looks of three, since two good ones in a row clear it.
const RAISE_AFTER: u8 = 2;
/// Transitions within a day that are flapping.
const FLAPS: usize = 4;
const DAY: Duration = Duration::from_secs(86_400);

/// What a look says about a subject that no fact was found for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It was looked at, and is in order.
    Good,
    /// It could not be told: says nothing, and what stands is unknown (C-4).
    Nothing,
    /// It was not its turn: what stands, stands.
    NotLooked,
    /// The wish has it no more (C-3).
    Retired,
}

/// A condition with what its life needs to go on after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// As people see it.
    pub condition: Condition,
    /// How often it was found since it was seen gone, as far as that matters.
    looks: u8,
    /// Good looks in a row.
    good: u8,
    /// When it was raised or cleared, within a day.
    transitions: Vec<Time>,
    /// Raised, and not only suspected.
    pub raised: bool,
}

/// What became of a condition on a pass (C-5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It stands now.
    Raised(Condition),
    /// It stands with another reason or message.
    Changed(Condition),
    /// It was seen gone, or its subject retired.
    Cleared(Condition),
}

/// The conditions of one owner.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    owner: String,
    kept: BTreeMap<ConditionId, Kept>,
}

impl Ledger {
    /// The ledger of an owner, with what was stored.
    pub fn new(owner: &str, stored: Vec<Kept>) -> Self {
        let kept = stored
            .into_iter()
            .map(|k| (k.condition.id.clone(), k))
            .collect();
        Self {
            owner: owner.to_owned(),
            kept,
        }
    }
    /// Everything kept, raised or only suspected.
    pub fn kept(&self) -> impl Iterator<Item = &Kept> {
        self.kept.values()
    }

    /// One look of the owner: what it found, and for everything else what it saw. Returns what changed;
    /// the ids in it, and those of [`Ledger::touched`], are to be stored.
    pub fn look(
        &mut self,
        now: Time,
        generation: u64,
        facts: Vec<Fact>,
        seen: impl Fn(&ConditionId) -> Seen,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut found = HashMap::new();
        for fact in facts {
            let id = ConditionId {
                owner: self.owner.clone(),
                kind: fact.kind,
                subject: fact.subject.clone(),
            };
            found.insert(id, fact);
        }
        for (id, kept) in &mut self.kept {
            if !found.contains_key(id) {
                changes.extend(kept.absent(now, seen(id)));
            }
        }
        self.kept.retain(|_, kept| kept.is_worth_keeping());
        for (id, fact) in found {
            changes.extend(self.found(id, fact, now, generation));
        }
        changes
    }

    fn found(&mut self, id: ConditionId, fact: Fact, now: Time, generation: u64) -> Option<Change> {
        let at_once = fact.final_at_once;
        match self.kept.get_mut(&id) {
            Some(kept) => kept.again(fact, now, generation),
            None => {
                let mut kept = Kept::suspect(id.clone(), fact, now, generation);
                let change = at_once.then(|| kept.raise(now));
                self.kept.insert(id, kept);
                change
            }
        }
    }
}

impl Kept {
    fn suspect(id: ConditionId, fact: Fact, now: Time, generation: u64) -> Self {
        let cure = id.kind.cure();
        let condition = Condition {
            severity: id.kind.severity(),
            id,
            status: Status::False,
            reason: fact.reason,
            message: fact.message,
            action: fact.action.unwrap_or_else(|| cure.to_owned()),
            since: now,
            last_seen: now,
            observed_generation: generation,
            count: 1,
            flapping: false,
        };
        Self {
            condition,
            looks: 1,
            good: 0,
            transitions: Vec::new(),
            raised: false,
        }
    }

    fn note_transition(&mut self, now: Time) {
        self.transitions.retain(|at| now.since(*at) < DAY);
        if self.transitions.len() == FLAPS {
            self.transitions.remove(0);
        }
        self.transitions.push(now);
        self.condition.flapping = self.transitions.len() == FLAPS;
    }

    fn raise(&mut self, now: Time) -> Change {
        self.raised = true;
        self.condition.status = Status::True;
        self.condition.since = now;
        self.note_transition(now);
        Change::Raised(self.condition.clone())
    }

    fn clear(&mut self, now: Time, reason: Reason) -> Option<Change> {
        let was_raised = std::mem::take(&mut self.raised);
        self.looks = 0;
        self.good = CLEAR_AFTER;
        if !was_raised {
            return None;
        }
        self.condition.status = Status::False;
        self.condition.reason = reason;
        self.condition.since = now;
        self.condition.count = 0;
        self.note_transition(now);
        Some(Change::Cleared(self.condition.clone()))
    }

    /// The same fact again: count and `last_seen` move, `since` does not (C-2).
    fn again(&mut self, fact: Fact, now: Time, generation: u64) -> Option<Change> {
        self.looks = (self.looks + 1).min(RAISE_AFTER);
        self.good = 0;
        let condition = &mut self.condition;
        let news = condition.reason != fact.reason;
        condition.last_seen = now;
        condition.count += 1;
        condition.observed_generation = generation;
        condition.reason = fact.reason;
        condition.message = fact.message;
        condition.action = fact
            .action
            .unwrap_or_else(|| condition.id.kind.cure().to_owned());
        if !self.raised && (fact.final_at_once || self.looks >= RAISE_AFTER) {
            return Some(self.raise(now));
        }
        let back = self.raised && self.condition.status == Status::Unknown;
        self.condition.status = if self.raised {
            Status::True
        } else {
            Status::False
        };
        (self.raised && (news || back)).then(|| Change::Changed(self.condition.clone()))
    }

    /// The fact was not found on this look.
    fn absent(&mut self, now: Time, seen: Seen) -> Option<Change> {
        if !self.raised {
            self.transitions.retain(|at| now.since(*at) < DAY);
        }
        match seen {
            Seen::Nothing => {
                let was = self.condition.status;
                if self.raised && was == Status::True {
                    self.condition.status = Status::Unknown;
                    return Some(Change::Changed(self.condition.clone()));
                }
                None
            }
            Seen::NotLooked => None,
            Seen::Retired => self.clear(now, Reason::SubjectRetired),
            Seen::Good => {
                self.good = self.good.saturating_add(1);
                if self.good >= CLEAR_AFTER {
                    self.clear(now, Reason::SeenGone)
                } else {
                    None
                }
            }
        }
    }

    /// It stands, and was seen gone once: the next good look clears it, whichever process makes that (H-24).
    pub fn is_clearing(&self) -> bool {
        self.raised && self.good > 0
    }

    /// A cleared one stays while it could still be flapping; a suspicion until it is seen gone.
    fn is_worth_keeping(&self) -> bool {
        self.raised || self.looks != 0 || !self.transitions.is_empty()
    }
}

/// Whether a type is about the provider's server, and so good only when the server answered.
pub fn is_of_server(kind: ConditionType) -> bool {
    use ConditionType as T;
    matches!(
        kind,
        T::BackendUnreachable
            | T::ServerChanged
            | T::NotDurable
            | T::WaitsForWritable
            | T::MassLoss
            | T::RemovalHeld
            | T::ListDoubted
            | T::MarkDamaged
    )
}

#[cfg(test)]
mod tests {
    //! C-2 … C-4: identity, raising, clearing, unknown, flapping.
    use super::*;

    fn fact(final_at_once: bool, message: &str) -> Fact {
        Fact {
            kind: ConditionType::ApplyFailed,
            subject: "cache/web".into(),
            reason: Reason::CallFailed,
            message: message.into(),
            action: None,
            final_at_once,
        }
    }
    fn at(minute: u64) -> Time {
        Time::from_millis(0) + Duration::from_secs(60 * minute)
    }
    fn only(ledger: &Ledger) -> &Kept {
        let all: Vec<&Kept> = ledger.kept().collect();
        assert_eq!(all.len(), 1);
        all[0]
    }

    #[test]
    fn c2_the_same_fact_again_is_the_same_condition() {
        let mut ledger = Ledger::new("provisioner/cache", Vec::new());
        let changes = ledger.look(at(1), 7, vec![fact(true, "a")], |_| Seen::Good);
        assert!(
            matches!(&changes[..], [Change::Raised(c)] if c.count == 1 && c.observed_generation == 7)
        );
        assert_eq!(
            ledger.look(at(2), 7, vec![fact(true, "b")], |_| Seen::Good),
            []
        );
        let kept = only(&ledger);
        assert_eq!((kept.condition.count, kept.condition.since), (2, at(1)));
        assert_eq!(
            (kept.condition.last_seen, kept.condition.message.as_str()),
            (at(2), "b")
        );
    }

    #[test]
    fn c4_raised_after_two_of_three_looks_and_cleared_after_two_good_ones() {
        let mut ledger = Ledger::new("o", Vec::new());
        let found = || vec![fact(false, "x")];
        assert_eq!(ledger.look(at(1), 1, found(), |_| Seen::Good), []);
        assert_eq!(ledger.look(at(2), 1, vec![], |_| Seen::Good), []);
        assert!(matches!(
            &ledger.look(at(3), 1, found(), |_| Seen::Good)[..],
            [Change::Raised(_)]
        ));
        assert_eq!(ledger.look(at(4), 1, vec![], |_| Seen::Good), []);
        assert_eq!(
            ledger.look(at(5), 1, found(), |_| Seen::Good),
            [],
            "one good look does not clear"
        );
        assert_eq!(ledger.look(at(6), 1, vec![], |_| Seen::Good), []);
        let changes = ledger.look(at(7), 1, vec![], |_| Seen::Good);
        assert!(matches!(&changes[..], [Change::Cleared(c)] if c.reason == Reason::SeenGone));
    }

    #[test]
    fn c4_a_suspicion_that_passes_leaves_nothing() {
        let mut ledger = Ledger::new("o", Vec::new());
        ledger.look(at(1), 1, vec![fact(false, "x")], |_| Seen::Good);
        assert_eq!(ledger.look(at(2), 1, vec![], |_| Seen::Good), []);
        assert_eq!(ledger.kept().count(), 1);
        assert_eq!(ledger.look(at(3), 1, vec![], |_| Seen::Good), []);
        assert_eq!(ledger.kept().count(), 0);
    }

    #[test]
    fn c6_what_is_of_the_server_is_told_from_what_is_of_a_consumer() {
        assert!(is_of_server(ConditionType::BackendUnreachable));
        assert!(!is_of_server(ConditionType::Braked));
    }

    #[test]
    fn c4_unknown_never_counts_as_good() {
        let mut ledger = Ledger::new("o", Vec::new());
        ledger.look(at(1), 1, vec![fact(true, "x")], |_| Seen::Good);
        let changes = ledger.look(at(2), 1, vec![], |_| Seen::Nothing);
        assert!(matches!(&changes[..], [Change::Changed(c)] if c.status == Status::Unknown));
        for minute in 3..30 {
            assert_eq!(ledger.look(at(minute), 1, vec![], |_| Seen::Nothing), []);
        }
        assert!(only(&ledger).raised);
        assert_eq!(only(&ledger).condition.since, at(1));
        let changes = ledger.look(at(31), 1, vec![fact(true, "x")], |_| Seen::Good);
        assert!(matches!(&changes[..], [Change::Changed(c)] if c.status == Status::True));
    }

    #[test]
    fn c3_a_retired_subject_closes_it_with_that_reason() {
        let mut ledger = Ledger::new("o", Vec::new());
        ledger.look(at(1), 1, vec![fact(true, "x")], |_| Seen::Good);
        let changes = ledger.look(at(2), 1, vec![], |_| Seen::Retired);
        assert!(matches!(&changes[..], [Change::Cleared(c)] if c.reason == Reason::SubjectRetired));
        assert_eq!(ledger.look(at(3), 1, vec![], |_| Seen::Retired), []);
    }

    #[test]
    fn c4_a_flapping_one_is_shown_as_flapping() {
        let mut ledger = Ledger::new("o", Vec::new());
        let mut minute = 0;
        for round in 0..3 {
            minute += 1;
            ledger.look(at(minute), 1, vec![fact(true, "x")], |_| Seen::Good);
            assert_eq!(
                only(&ledger).condition.flapping,
                round >= 2,
                "round {round}"
            );
            for _ in 0..2 {
                minute += 1;
                ledger.look(at(minute), 1, vec![], |_| Seen::Good);
            }
        }
    }

    #[test]
    fn c4_a_cleared_one_is_raised_again_only_by_proof() {
        let mut ledger = Ledger::new("o", Vec::new());
        ledger.look(at(1), 1, vec![fact(true, "x")], |_| Seen::Good);
        ledger.look(at(2), 1, vec![], |_| Seen::Good);
        ledger.look(at(3), 1, vec![], |_| Seen::Good);
        let again = ledger.look(at(4), 1, vec![fact(false, "x")], |_| Seen::Good);
        assert_eq!(again, [], "one look that is not final");
        assert!(!only(&ledger).raised);
    }

    #[test]
    fn c4_what_was_not_looked_at_stands_as_it_stands() {
        let mut ledger = Ledger::new("o", Vec::new());
        ledger.look(at(1), 1, vec![fact(true, "x")], |_| Seen::Good);
        for minute in 2..9 {
            assert_eq!(ledger.look(at(minute), 1, vec![], |_| Seen::NotLooked), []);
        }
        assert_eq!(only(&ledger).condition.status, Status::True);
    }

    #[test]
    fn c4_what_was_cleared_a_day_ago_is_kept_no_more() {
        let mut ledger = Ledger::new("o", Vec::new());
        ledger.look(at(1), 1, vec![fact(true, "x")], |_| Seen::Good);
        ledger.look(at(2), 1, vec![], |_| Seen::Good);
        ledger.look(at(3), 1, vec![], |_| Seen::Good);
        assert_eq!(ledger.kept().count(), 1, "it could still be flapping");
        ledger.look(at(3 + 24 * 60), 1, vec![], |_| Seen::Good);
        assert_eq!(ledger.kept().count(), 0);
    }

    #[test]
    fn c4_transitions_of_a_day_ago_are_no_flapping() {
        let mut ledger = Ledger::new("o", Vec::new());
        ledger.look(at(0), 1, vec![fact(true, "x")], |_| Seen::Good);
        for minute in [1, 2] {
            ledger.look(at(minute), 1, vec![], |_| Seen::Good);
        }
        ledger.look(at(60), 1, vec![fact(true, "x")], |_| Seen::Good);
        for day_later in [24 * 60 - 1, 24 * 60] {
            ledger.look(at(day_later), 1, vec![], |_| Seen::Good);
        }
        let kept = only(&ledger);
        assert!(
            !kept.raised && !kept.condition.flapping,
            "the first was a day ago"
        );
    }

    #[test]
    fn c5_what_is_stored_goes_on_where_it_was() {
        let mut ledger = Ledger::new("o", Vec::new());
        ledger.look(at(1), 1, vec![fact(false, "x")], |_| Seen::Good);
        let stored: Vec<Kept> = ledger.kept().cloned().collect();
        let json = serde_json::to_string(&stored).expect("json");
        let mut again = Ledger::new("o", serde_json::from_str(&json).expect("back"));
        let changes = again.look(at(2), 1, vec![fact(false, "x")], |_| Seen::Good);
        assert!(
            matches!(&changes[..], [Change::Raised(_)]),
            "the suspicion survived the restart"
        );
    }
}
