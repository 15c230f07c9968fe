//! What loops declare of themselves, and that they keep to it.
//!
//! A loop that raises a condition which its class does not declare, or acts where its class declares no
//! repair, has a fault: `mesh loops` would tell people something untrue of it. Builds with debug assertions,
//! and so all tests, panic at once; others check nothing.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use serde::Serialize;

use crate::condition::ConditionType;
use crate::event::{Effect, EventKind};

/// What a class of loops declares of itself; `mesh loops` and its page are made from it.
#[derive(Debug, Clone, Serialize)]
pub struct Declared {
    /// `provisioner`, `delivery`, …: what stands before the `/` in the names of its loops.
    pub class: &'static str,
    /// What it compares against.
    pub compares_against: &'static str,
    /// What it repairs. It begins with `nothing` where it repairs nothing.
    pub repairs: &'static str,
    /// What it may take away. It begins with `nothing` where that is nothing.
    pub may_take_away: &'static str,
    /// What it cannot see.
    pub blind_spots: &'static str,
    /// Which conditions it raises.
    pub raises: Vec<&'static str>,
    /// How often it looks.
    pub period: &'static str,
}

impl Declared {
    fn repairs_something(&self) -> bool {
        !self.repairs.starts_with("nothing")
    }
    fn takes_something_away(&self) -> bool {
        !self.may_take_away.starts_with("nothing")
    }
}

/// The classes that were declared in this process.
struct Inventory {
    classes: BTreeMap<&'static str, Declared>,
    /// There are no others.
    whole: bool,
}

static INVENTORY: RwLock<Inventory> = RwLock::new(Inventory {
    classes: BTreeMap::new(),
    whole: false,
});

/// Declares a class: from now on its loops are held to it. A loop does so when it is opened.
pub fn declare(declared: Declared) {
    if cfg!(debug_assertions) {
        let mut all = INVENTORY.write().unwrap_or_else(PoisonError::into_inner);
        all.classes.insert(declared.class, declared);
    }
}

/// Declares every class that a program has: from now on nobody else may raise or do anything.
pub fn declare_all(classes: Vec<Declared>) {
    if cfg!(debug_assertions) {
        classes.into_iter().for_each(declare);
        let mut all = INVENTORY.write().unwrap_or_else(PoisonError::into_inner);
        all.whole = true;
    }
}

/// An owner of conditions found this.
///
/// # Panics
/// With debug assertions, if its class does not declare that it raises it.
#[track_caller]
pub(crate) fn finds(owner: &str, kind: ConditionType) {
    if cfg!(debug_assertions) {
        check(owner, "raises conditions", |declared| {
            let raises = declared.raises.contains(&kind.as_str());
            (!raises).then(|| format!("raises {kind}, which it does not declare"))
        });
    }
}

/// A loop did this.
///
/// # Panics
/// With debug assertions, if its class does not declare that it does the like.
#[track_caller]
pub(crate) fn did(owner: &str, kind: EventKind) {
    if cfg!(debug_assertions) && kind.effect() != Effect::None {
        check(owner, "acts", |declared| match kind.effect() {
            Effect::Repairs if !declared.repairs_something() => {
                Some(format!("{}, and declares no repair", kind.as_str()))
            }
            Effect::TakesAway if !declared.takes_something_away() => Some(format!(
                "{}, and declares that it takes nothing away",
                kind.as_str()
            )),
            _ => None,
        });
    }
}

#[track_caller]
fn check(owner: &str, what: &str, wrong: impl FnOnce(&Declared) -> Option<String>) {
    let class = owner.split('/').next().unwrap_or(owner);
    let found = {
        let all = INVENTORY.read().unwrap_or_else(PoisonError::into_inner);
        match all.classes.get(class) {
            Some(declared) => wrong(declared),
            None if all.whole => Some(format!("{what}, and is of no declared class")),
            None => None,
        }
    };
    assert!(
        found.is_none(),
        "the loop {owner}: {}",
        found.unwrap_or_default()
    );
}

#[cfg(test)]
mod tests {
    //! Planted loops that do other things than they say.
    use super::*;
    use crate::book::Book;
    use crate::condition::{Fact, Reason};
    use crate::decide::conditions::Seen;
    use crate::event::Event;
    use crate::testing::MemoryBus;
    use crate::time::Time;

    fn plant(class: &'static str, repairs: &'static str, takes: &'static str) {
        declare(Declared {
            class,
            compares_against: "nothing",
            repairs,
            may_take_away: takes,
            blind_spots: "everything",
            raises: vec![ConditionType::Refused.as_str()],
            period: "never",
        });
    }
    async fn raises(class: &'static str, kind: ConditionType) {
        let bus = MemoryBus::default();
        let owner = format!("{class}/one");
        let mut book = Book::open(&bus, &owner).await.expect("open");
        let fact = Fact::at_once(kind, "one", Reason::RefusedValue, String::new());
        book.look(Time::default(), 1, vec![fact], |_| Seen::Good);
    }
    fn tells(class: &'static str, kind: EventKind) {
        let event = Event {
            at: Time::default(),
            kind,
            owner: format!("{class}/one"),
            provider: "cache".to_owned(),
            consumer: "web".to_owned(),
            detail: String::new(),
            count: 1,
        };
        drop(event.line().expect("line"));
    }

    #[tokio::test]
    async fn who_keeps_to_what_it_declares_is_let_be() {
        plant("good", "what is lost", "a file");
        raises("good", ConditionType::Refused).await;
        for kind in [EventKind::Healed, EventKind::Dropped, EventKind::Raised] {
            tells("good", kind);
        }
        tells("nobody-declared-it", EventKind::Healed);
    }

    #[tokio::test]
    #[should_panic(expected = "raises Braked, which it does not declare")]
    async fn a_loop_that_raises_an_undeclared_condition_fails() {
        plant("raiser", "what is lost", "nothing");
        raises("raiser", ConditionType::Braked).await;
    }

    #[test]
    #[should_panic(expected = "healed, and declares no repair")]
    fn a_loop_that_acts_without_a_declared_repair_fails() {
        plant("actor", "nothing; it only looks", "nothing");
        tells("actor", EventKind::Healed);
    }

    #[test]
    #[should_panic(expected = "dropped, and declares that it takes nothing away")]
    fn a_loop_that_takes_away_what_it_does_not_declare_fails() {
        plant("taker", "what is lost", "nothing: it stays");
        tells("taker", EventKind::Dropped);
    }
}
