//! the two logins of a consumer that take turns are one consumer's, whoever forgets what.
use super::removing::{FEW, leaving, removals, without};
use super::*;
use crate::decide::Retired;

/// `web` has two logins at once, `web` and `web__b`, both made, listed and held.
fn turning() -> Rig {
    let mut rig = leaving(&[]);
    let mut all = rig.wish.wanted.clone();
    all.push(wanted("web__b"));
    rig.wish_for(all);
    rig.next();
    lists_both(&mut rig);
    rig.next();
    rig.again_changes_nothing();
    rig
}
/// Both marks name the consumer, and no seat.
fn lists_both(rig: &mut Rig) {
    let ours = |login| (login, MarkSeen::OursFor(name(login).first()));
    let all: Vec<(&str, MarkSeen)> = FEW.iter().copied().chain(["web__b"]).map(ours).collect();
    rig.lists(&all);
}
fn retire(rig: &mut Rig, which: &str) -> Retired {
    let now = rig.now;
    rig.core.retire(&name("web"), &login(which), now)
}
fn listed(rig: &Rig, which: &str) -> bool {
    let list = rig.list.clone().expect("a list");
    list.iter().any(|one| one.login == login(which))
}
const DAYS: u64 = 3 * 24 * 60;

#[test]
fn r3_two_logins_in_turn_are_both_asked_for_and_nobody_leaves() {
    let mut rig = turning();
    assert_eq!(removals(&mut rig, 30), []);
    for seat in ["web", "web__b"] {
        assert_eq!(rig.state(seat), State::Held);
        assert!(rig.record(seat).superseded.is_empty(), "{seat}");
    }
    assert_eq!(retire(&mut rig, "web"), Retired::Wanted);
    assert_eq!(retire(&mut rig, "web__b"), Retired::Wanted);
    rig.again_changes_nothing();
}

/// Switches some off, as the wish says it, and lets them come to rest.
fn switch_off(rig: &mut Rig, which: &[&str], version: u8) {
    for seat in which {
        rig.change(seat, |w| {
            w.enabled = false;
            w.digest = digest(version);
        });
        rig.says(seat, lost(Difference::Enabled));
    }
    rig.next();
    for seat in which {
        rig.says(seat, held());
    }
    rig.next();
}

#[test]
fn h25_a_login_that_rests_was_switched_off_by_nobody() {
    for seat in ["web", "web__b"] {
        let mut rig = turning();
        switch_off(&mut rig, &[seat], 2);
        assert_eq!(rig.state(seat), State::Disabled, "{seat}");
        assert_eq!(rig.next().kinds(), [], "{seat}");
        // A person switches the consumer off, and with it the login whose turn it is.
        switch_off(&mut rig, &["web", "web__b"], 3);
        let both = [ConditionType::DisabledOnPurpose; 2];
        assert_eq!(rig.next().kinds(), both, "{seat}");
    }
}

#[test]
fn r3_the_login_of_a_seat_that_is_named_no_more_is_superseded_until_it_is_retired() {
    for (gone, stays) in [("web", "web__b"), ("web__b", "web")] {
        let mut rig = turning();
        without(&mut rig, &[gone]);
        let did = rig.next();
        assert!(did.happened(&Happening::Superseded(login(gone))), "{did:?}");
        assert_eq!(rig.record(gone).superseded, [login(gone)]);
        assert_eq!(removals(&mut rig, DAYS), [], "{gone}");
        assert_eq!(retire(&mut rig, stays), Retired::Wanted);
        assert_eq!(retire(&mut rig, gone), Retired::Begun);
        assert_eq!(retire(&mut rig, gone), Retired::UnderWay);
        let steps = removals(&mut rig, DAYS);
        let steps: Vec<Step> = steps.into_iter().map(|(_, _, step)| step).collect();
        assert_eq!(steps, [Step::Disable, Step::Remove]);
        assert!(listed(&rig, stays) && !listed(&rig, gone));
        assert_eq!(rig.state(stays), State::Held);
        assert!(rig.slot(gone).is_retired());
        rig.next();
        rig.again_changes_nothing();
    }
}

#[test]
fn r3_who_forgot_everything_finds_the_other_login_superseded() {
    for (gone, stays) in [("web", "web__b"), ("web__b", "web")] {
        let mut rig = Rig::guarded(&FEW[..7]);
        lists_both(&mut rig);
        rig.says(stays, held());
        let mut all = rig.wish.wanted.clone();
        all.push(wanted(stays));
        rig.wish_for(all);
        rig.minutes(11);
        assert_eq!(rig.record(stays).superseded, [login(gone)]);
        assert_eq!(removals(&mut rig, DAYS), [], "{gone}");
        assert_eq!(retire(&mut rig, gone), Retired::Begun);
        let steps = removals(&mut rig, DAYS);
        assert_eq!(steps.len(), 2, "{steps:?}");
        assert!(listed(&rig, stays) && !listed(&rig, gone));
    }
}

#[test]
fn r3_a_seat_that_is_named_again_takes_its_login_back() {
    let mut rig = turning();
    let both = rig.wish.wanted.clone();
    without(&mut rig, &["web"]);
    rig.restart_and_wish();
    rig.minutes(11);
    assert_eq!(retire(&mut rig, "web"), Retired::Begun);
    let steps = removals(&mut rig, 20);
    assert_eq!(steps.len(), 1, "switched off: {steps:?}");
    rig.wish_for(both.clone());
    assert!(!rig.record("web").leaves());
    rig.says("web", lost(Difference::Disabled));
    assert_eq!(rig.next().creates(), ["web"]);
    assert_eq!(removals(&mut rig, DAYS), []);
    rig.again_changes_nothing();

    // The same where only the other seat's record, by the list, knew of it.
    let mut rig = Rig::guarded(&FEW[..7]);
    lists_both(&mut rig);
    rig.says("web__b", held());
    let only: Vec<Wanted> = both
        .iter()
        .filter(|w| w.consumer != name("web"))
        .cloned()
        .collect();
    rig.wish_for(only);
    rig.minutes(11);
    assert_eq!(rig.record("web__b").superseded, [login("web")]);
    rig.says(
        "web",
        marked(Difference::MarkMissing, MarkSeen::None, false),
    );
    rig.wish_for(both);
    assert!(rig.record("web__b").superseded.is_empty());
    let did = rig.next();
    assert_eq!(
        did.creates(),
        ["web"],
        "it was the consumer's, mark or not (H-18)"
    );
}

#[test]
fn r2_a_consumer_that_leaves_takes_both_its_logins_along_once_each() {
    let mut rig = turning();
    without(&mut rig, &["web", "web__b"]);
    let mut gone: Vec<String> = rig
        .core
        .leavers()
        .map(|one| one.login.to_string())
        .collect();
    gone.sort();
    assert_eq!(gone, ["web", "web__b"]);
    let steps = removals(&mut rig, DAYS);
    let dropped = steps.iter().filter(|(_, _, step)| *step == Step::Remove);
    assert_eq!(dropped.count(), 2, "{steps:?}");
    assert_eq!(steps.len(), 4, "{steps:?}");
    assert!(!listed(&rig, "web") && !listed(&rig, "web__b"));
    rig.next();
    rig.again_changes_nothing();
}

#[test]
fn r2_a_superseded_login_leaves_with_its_consumer() {
    let mut rig = turning();
    without(&mut rig, &["web"]);
    rig.minutes(11);
    without(&mut rig, &["web__b"]);
    let steps = removals(&mut rig, DAYS);
    let dropped = steps.iter().filter(|(_, _, step)| *step == Step::Remove);
    assert_eq!(dropped.count(), 2, "{steps:?}");
    assert_eq!(rig.core.leavers().count(), 0);
}

#[test]
fn r3_a_consumer_that_comes_back_on_one_seat_keeps_the_others_login() {
    let mut rig = turning();
    let back = rig.wish.wanted.clone();
    without(&mut rig, &["web", "web__b"]);
    removals(&mut rig, 5);
    rig.wish_for(
        back.into_iter()
            .filter(|w| w.consumer != name("web"))
            .collect(),
    );
    assert_eq!(rig.core.leavers().count(), 0);
    assert_eq!(rig.record("web").superseded, [login("web")]);
    assert_eq!(removals(&mut rig, DAYS), []);
}

#[test]
fn r13_no_record_of_one_seat_takes_a_login_that_the_wish_names_for_the_other() {
    let mut rig = turning();
    without(&mut rig, &["web", "web__b"]);
    removals(&mut rig, 5);
    assert_eq!(rig.core.leavers().count(), 2);
    // The first seat has the login now that the second one had, and the mark is the consumer's.
    let mut all = rig.wish.wanted.clone();
    all.push(Wanted {
        login: login("web__b"),
        ..wanted("web")
    });
    rig.wish_for(all);
    assert!(!rig.record("web__b").leaves());
    assert_eq!(removals(&mut rig, DAYS), []);
    assert!(listed(&rig, "web") && listed(&rig, "web__b"));
    assert_eq!(retire(&mut rig, "web__b"), Retired::Wanted);
    assert_eq!(retire(&mut rig, "web"), Retired::Begun);
    removals(&mut rig, DAYS);
    assert!(!listed(&rig, "web") && listed(&rig, "web__b"));
}

#[test]
fn r8_an_entry_that_cannot_be_read_keeps_both_logins() {
    let mut rig = turning();
    rig.wish
        .wanted
        .retain(|w| !w.consumer.is_seat_of(&name("web")));
    rig.wish.kept = vec![name("web")];
    assert_eq!(removals(&mut rig, DAYS), []);
    rig.restart_and_wish();
    assert_eq!(removals(&mut rig, DAYS), []);
    assert_eq!(rig.core.leavers().count(), 0);
}

#[test]
fn r3_a_retired_login_waits_until_its_consumer_is_well_on_the_other() {
    let mut rig = turning();
    without(&mut rig, &["web"]);
    rig.minutes(11);
    retire(&mut rig, "web");
    rig.says("web__b", failing(Class::Busy));
    rig.restart_and_wish();
    assert_eq!(
        removals(&mut rig, DAYS),
        [],
        "who cannot be asked is not well"
    );
    rig.says("web__b", held());
    assert_eq!(removals(&mut rig, 30).len(), 1);
}

#[test]
fn h22_a_second_login_is_new_beside_a_first_that_is_there() {
    let mut rig = Rig::guarded(&FEW);
    rig.lists_ours(&FEW);
    let mut all = rig.wish.wanted.clone();
    let second = Wanted {
        secret: SecretState::New,
        ..wanted("web__b")
    };
    all.push(second);
    rig.wish_for(all.clone());
    rig.next();
    assert_eq!((rig.mints, rig.state("web__b")), (1, State::Held));

    let mut rig = Rig::guarded(&FEW);
    lists_both(&mut rig);
    rig.wish_for(all);
    rig.next();
    assert_eq!(rig.mints, 0, "it had a password before");
    assert!(matches!(
        rig.slot("web__b").wanted.as_ref().map(|w| &w.secret),
        Some(SecretState::Lost(_))
    ));
}

#[test]
fn r7_a_consumer_with_two_logins_counts_once() {
    let mut rig = turning();
    assert_eq!(rig.core.asked_for(), FEW.len());
    without(&mut rig, &["web"]);
    assert_eq!(rig.core.asked_for(), FEW.len());
}
