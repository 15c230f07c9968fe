//! a person retires an earlier login; what is in use waits.
use super::removing::{FEW, leaving, removals, without};
use super::*;
use crate::adapter::Use;
use crate::decide::{Phase, Retired};

/// `web` has another login now, and keeps the one that it had.
fn renamed() -> Rig {
    let mut rig = leaving(&[]);
    rig.change("web", |w| w.login = login("web2"));
    rig.says("web", Ok(Answer::absent()));
    rig.next();
    let mut entries: Vec<(&str, MarkSeen)> = FEW
        .iter()
        .map(|n| (*n, MarkSeen::OursFor(name(n))))
        .collect();
    entries.push(("web2", MarkSeen::OursFor(name("web"))));
    rig.lists(&entries);
    rig.next();
    rig.again_changes_nothing();
    rig
}
fn retire(rig: &mut Rig, which: &str) -> Retired {
    let now = rig.now;
    rig.core.retire(&name("web"), &login(which), now)
}
fn in_use(rig: &mut Rig, login: &str, ago: Duration) {
    let used = Use::new(ago, "2 open sessions");
    rig.uses = Ok(HashMap::from([(login.to_owned(), used)]));
}
fn asks_uses(mut rig: Rig) -> Rig {
    rig.caps.uses = true;
    rig.restart_and_wish();
    rig
}

#[test]
fn r3_a_retired_login_goes_by_the_same_steps_and_never_the_wanted_one() {
    let mut rig = renamed();
    assert_eq!(retire(&mut rig, "web"), Retired::Begun);
    assert_eq!(retire(&mut rig, "web"), Retired::UnderWay);
    assert_eq!(retire(&mut rig, "web2"), Retired::Wanted);
    assert_eq!(retire(&mut rig, "nobody"), Retired::Unknown);
    let steps = removals(&mut rig, 20);
    assert_eq!(steps, [(11, "web".into(), Step::Disable)]);
    assert_eq!(rig.state("web"), State::Held);
    rig.restart_and_wish();
    let steps = removals(&mut rig, 24 * 60);
    let steps: Vec<Step> = steps.into_iter().map(|(_, _, step)| step).collect();
    assert_eq!(steps, [Step::Remove]);
    let list = rig.list.clone().expect("a list");
    assert!(list.iter().any(|one| one.login == login("web2")));
    assert!(list.iter().all(|one| one.login != login("web")));
    assert!(!rig.record("web").leaves());
    rig.next();
    rig.again_changes_nothing();
}

#[test]
fn r3_a_retired_login_that_is_asked_for_again_stays() {
    for minutes in [5, 30] {
        let mut rig = renamed();
        retire(&mut rig, "web");
        removals(&mut rig, minutes);
        rig.change("web", |w| w.login = login("web"));
        assert!(!rig.record("web").leaves());
        assert_eq!(rig.record("web").superseded, [login("web2")]);
        rig.says("web", lost(Difference::Disabled));
        let did = rig.next();
        assert_eq!(did.creates(), ["web"]);
        let told = did.kinds().contains(&ConditionType::SwitchedOnAgain);
        assert!(!told, "that was no loss");
        assert_eq!(removals(&mut rig, 26 * 60), []);
    }
}

#[test]
fn r3_a_retired_login_is_approved_and_counts_for_no_brake() {
    let mut rig = renamed();
    retire(&mut rig, "web");
    without(&mut rig, &["a", "b", "c", "d"]);
    let steps = removals(&mut rig, 20);
    assert_eq!(steps.len(), 1, "the others wait: {steps:?}");
    assert_eq!(rig.core.recently_removed(rig.now), 0);
}

#[test]
fn r3_nothing_is_retired_while_its_consumer_cannot_be_read() {
    let mut rig = renamed();
    retire(&mut rig, "web");
    rig.wish.wanted.retain(|w| w.consumer != name("web"));
    rig.wish.kept = vec![name("web")];
    assert_eq!(removals(&mut rig, 60), []);
}

#[test]
fn r3_a_login_that_existed_before_us_stays_one_when_it_is_superseded() {
    let mut rig = leaving(&[]);
    let i = rig.core.slot_of(&name("web")).expect("a slot");
    rig.core.slots[i].record.adopted = true;
    rig.core.slots[i].dirty = true;
    rig.change("web", |w| w.login = login("web2"));
    rig.next();
    assert!(!rig.record("web").adopted);
    assert_eq!(rig.record("web").elders, [login("web")]);
    without(&mut rig, &["web"]);
    let gone = removals(&mut rig, 60);
    assert!(
        gone.iter().all(|s| s.1 != "web")
            || rig.record("web").departure_of(&login("web")).is_some(),
        "only a person lets it go"
    );
    let old = rig.core.leavers().find(|one| *one.login == login("web"));
    assert_eq!(
        old.map(|one| (one.elder, one.departure.phase())),
        Some((true, Phase::Leaving))
    );
}

#[test]
fn r6_a_use_during_the_grace_puts_the_drop_off() {
    let mut rig = asks_uses(leaving(&["web"]));
    removals(&mut rig, 60);
    assert_eq!(rig.departure("web").phase(), Phase::Off);
    in_use(&mut rig, "web", minutes(3));
    let did = rig.next();
    let fact = did.fact(ConditionType::OrphanInUse);
    assert_eq!(fact.subject, "web");
    assert!(
        fact.message.contains("2 open sessions, 3 min ago"),
        "{}",
        fact.message
    );
    let last = rig.now - minutes(3);
    rig.uses = Ok(HashMap::new());
    let settings = rig.core.settings().clone();
    assert_eq!(rig.departure("web").until(&settings), last + settings.grace);
    rig.restart_and_wish();
    let began = rig.now;
    let steps = removals(&mut rig, 26 * 60);
    assert_eq!(steps.len(), 1);
    let dropped = began + minutes(steps[0].0);
    assert!(dropped >= last + settings.grace, "{steps:?}");
    assert!(!rig.next().kinds().contains(&ConditionType::OrphanInUse));
}

#[test]
fn r6_a_use_before_it_was_switched_off_is_none() {
    let mut rig = asks_uses(leaving(&["web"]));
    removals(&mut rig, 60);
    in_use(&mut rig, "web", HOUR);
    let did = rig.next();
    assert_eq!(did.kinds(), []);
    assert_eq!(did.dirty, Vec::<String>::new());
}

#[test]
fn r6_who_is_asked_about_is_asked_only_while_it_matters() {
    let mut rig = asks_uses(leaving(&["web"]));
    assert_eq!(rig.core.uses_to_ask(rig.now), []);
    removals(&mut rig, 10);
    assert_eq!(rig.core.uses_to_ask(rig.now), [], "it only leaves");
    removals(&mut rig, 5);
    let i = rig.core.slot_of(&name("web")).expect("a slot");
    assert_eq!(rig.core.uses_to_ask(rig.now), [(i, login("web"))]);
}

#[test]
fn r6_without_knowing_of_uses_nothing_is_dropped() {
    let mut rig = asks_uses(leaving(&["web"]));
    rig.uses = failing(Class::Denied);
    let steps = removals(&mut rig, 26 * 60);
    let steps: Vec<Step> = steps.into_iter().map(|(_, _, step)| step).collect();
    assert_eq!(steps, [Step::Disable], "switching off loses nothing");
    assert_eq!(rig.next().kinds(), [ConditionType::LookUnknown]);
    rig.uses = Ok(HashMap::new());
    let steps = removals(&mut rig, 1);
    assert_eq!(steps.len(), 1);
    assert_eq!(rig.next().kinds(), []);
}

#[test]
fn r6_where_nothing_can_be_switched_off_a_use_puts_the_drop_off_too() {
    let mut rig = leaving(&["web"]);
    rig.caps.disable = false;
    let mut rig = asks_uses(rig);
    removals(&mut rig, 24 * 60 + 8);
    in_use(&mut rig, "web", Duration::ZERO);
    assert_eq!(removals(&mut rig, 10), []);
    rig.uses = Ok(HashMap::new());
    assert_eq!(removals(&mut rig, 23 * 60), []);
    assert_eq!(removals(&mut rig, 2 * 60).len(), 1);
}

#[test]
fn r3_nothing_is_retired_while_its_consumer_is_not_well_without_it() {
    for answer in [failing(Class::Denied), lost(Difference::Password)] {
        let mut rig = renamed();
        retire(&mut rig, "web");
        removals(&mut rig, 8);
        rig.says("web", answer.clone());
        rig.after_create("web", answer);
        let steps = removals(&mut rig, 30);
        assert!(
            steps.iter().all(|s| matches!(s.2, Step::Create(_))),
            "{steps:?}"
        );
        rig.says("web", held());
        let steps = removals(&mut rig, 90);
        assert_eq!(steps.last().map(|s| s.2), Some(Step::Disable), "{steps:?}");
    }
}
