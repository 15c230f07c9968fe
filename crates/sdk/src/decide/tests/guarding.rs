//! the guards before anything is taken away.
use super::removing::{FEW, leaving, removals, without};
use super::*;
use crate::decide::{Approval, Phase};

#[test]
fn r7_more_than_three_wait_for_a_person_and_exactly_those_go() {
    let names: Vec<String> = (0..20).map(|i| format!("c{i:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rig = Rig::guarded(&names);
    rig.lists_ours(&names);
    without(&mut rig, &names[..4]);
    assert_eq!(removals(&mut rig, 180), []);
    let did = rig.next();
    let fact = did.fact(ConditionType::RemovalHeld);
    assert_eq!(fact.reason, crate::condition::Reason::TooMany);
    assert!(
        fact.message.starts_with("4 logins would go"),
        "{}",
        fact.message
    );
    let approval = rig.core.leaving();
    assert_eq!(approval.removals.len(), 4);
    without(&mut rig, &names[..5]);
    rig.core.approve_removals(approval.clone());
    let steps = removals(&mut rig, 30);
    let gone: Vec<&str> = steps.iter().map(|(_, c, _)| c.as_str()).collect();
    assert_eq!(gone, [names[0], names[1], names[2], names[3], names[4]]);
    assert_eq!(steps[3].0, 1, "those that were approved, at once");
    assert_eq!(steps[4].0, 11, "the fifth by itself: it is one alone");
    assert_eq!(
        rig.core.recently_removed(rig.now),
        1,
        "approved ones do not count"
    );
    rig.core.approve_removals(approval);
    assert_eq!(rig.store(), Vec::<usize>::new());
}

#[test]
fn r7_an_approval_names_consumer_and_login() {
    let names: Vec<String> = (0..20).map(|i| format!("c{i:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rig = Rig::guarded(&names);
    rig.lists_ours(&names);
    without(&mut rig, &names[..4]);
    let mut approval = Approval::default();
    approval.removals.insert((name("c00"), login("other")));
    approval.removals.insert((name("c01"), login("c01")));
    rig.core.approve_removals(approval);
    let steps = removals(&mut rig, 11);
    assert_eq!(steps.len(), 4, "the other three are few enough then");
    assert_eq!(rig.core.recently_removed(rig.now), 3);
}

#[test]
fn r7_three_an_hour_and_no_more() {
    let mut rig = leaving(&[]);
    let names: Vec<String> = (0..20).map(|i| format!("c{i:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    rig.wish_for(names.iter().map(|n| wanted(n)).collect());
    let mut rig = Rig::guarded(&names);
    rig.lists_ours(&names);
    without(&mut rig, &names[..3]);
    assert_eq!(removals(&mut rig, 11).len(), 3);
    without(&mut rig, &names[..4]);
    let later = removals(&mut rig, 70);
    assert_eq!(later, [(60, "c03".into(), Step::Disable)]);
    let recent = rig.core.server().recent_removals.len();
    assert_eq!(recent, 1, "those of an hour ago are forgotten");
    rig.restart_and_wish();
    assert_eq!(rig.core.recently_removed(rig.now), 1, "the count is stored");
}

#[test]
fn r7_ten_per_cent_of_a_large_provider_may_go() {
    let names: Vec<String> = (0..60).map(|i| format!("c{i:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (count, goes) in [(6, true), (7, false)] {
        let mut rig = Rig::guarded(&names);
        rig.lists_ours(&names);
        without(&mut rig, &names[..count]);
        let gone = removals(&mut rig, 15).len();
        assert_eq!(gone, if goes { count } else { 0 });
    }
}

#[test]
fn r7_more_than_half_of_a_small_provider_waits() {
    for (gone, goes) in [(&["a"][..], true), (&["a", "b"][..], false)] {
        let mut rig = Rig::guarded(&["a", "b", "c"]);
        rig.lists_ours(&["a", "b", "c"]);
        without(&mut rig, gone);
        assert_eq!(!removals(&mut rig, 15).is_empty(), goes);
    }
    let mut rig = Rig::guarded(&["a", "b"]);
    rig.lists_ours(&["a", "b"]);
    without(&mut rig, &["a"]);
    assert_eq!(
        removals(&mut rig, 15).len(),
        1,
        "half is not more than half"
    );
}

#[test]
fn r7_those_who_went_within_the_hour_were_there_too() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut rig = Rig::guarded(&names);
    rig.lists_ours(&names);
    without(&mut rig, &["a", "b"]);
    assert_eq!(removals(&mut rig, 12).len(), 2);
    without(&mut rig, &["a", "b", "c"]);
    assert_eq!(
        removals(&mut rig, 12).len(),
        1,
        "three of six are not more than half"
    );
}

#[test]
fn r7_more_than_ten_in_the_mesh_wait() {
    let mut rig = leaving(&["web"]);
    rig.core.set_others_removed(10);
    assert_eq!(removals(&mut rig, 15), []);
    assert_eq!(rig.next().kinds(), [ConditionType::RemovalHeld]);
    rig.core.set_others_removed(9);
    assert_eq!(removals(&mut rig, 15).len(), 1);
}

#[test]
fn r7_an_empty_wish_after_a_full_one_waits() {
    let mut rig = Rig::guarded(&["web"]);
    rig.lists_ours(&["web"]);
    rig.wish_for(vec![]);
    assert_eq!(removals(&mut rig, 30), []);
    let did = rig.next();
    let fact = did.fact(ConditionType::RemovalHeld);
    assert_eq!(fact.reason, crate::condition::Reason::EmptyWish);
    let approval = rig.core.leaving();
    rig.core.approve_removals(approval);
    assert_eq!(removals(&mut rig, 2).len(), 1);
    assert_eq!(rig.next().kinds(), []);
}

#[test]
fn r8_before_a_wish_was_read_whole_nothing_is_taken_away() {
    let mut rig = leaving(&["web"]);
    removals(&mut rig, 9);
    rig.wait(HOUR);
    rig.restart();
    for _ in 0..20 {
        assert_eq!(rig.next().steps, []);
    }
    assert_eq!(rig.departure("web").phase(), Phase::Leaving);

    // Even when it was certain before, and only a pause held it up.
    let mut rig = leaving(&["web"]);
    rig.core.set_pauses(Some(rig.now + HOUR), &HashMap::new());
    removals(&mut rig, 30);
    rig.restart();
    for _ in 0..20 {
        assert_eq!(rig.next().steps, []);
    }
    rig.confirm_wish();
    assert_eq!(rig.next().steps.len(), 1);
}

#[test]
fn r8_a_server_that_does_not_answer_loses_nobody() {
    let mut rig = leaving(&["web"]);
    rig.core
        .set_pauses(Some(rig.now + minutes(20)), &HashMap::new());
    removals(&mut rig, 19);
    let there = std::mem::replace(&mut rig.server, failing(Class::Unreachable));
    assert_eq!(removals(&mut rig, 5), []);
    assert!(!rig.next().plan.list, "and is not asked for its list");
    rig.server = there;
    assert_eq!(removals(&mut rig, 1).len(), 1);
}

#[test]
fn r8_the_wish_is_read_twice_remove_after_apart() {
    let mut rig = leaving(&["web"]);
    for _ in 0..30 {
        assert_eq!(rig.next().steps, [], "it was read once only");
    }
    rig.confirm_wish();
    assert_eq!(rig.next().steps, [("web".into(), Step::Disable)]);
}

#[test]
fn r8_the_list_is_read_twice_remove_after_apart() {
    let mut rig = leaving(&["web"]);
    rig.list = failing(Class::Busy);
    assert_eq!(removals(&mut rig, 30), []);
    assert_eq!(
        rig.next().kinds(),
        [ConditionType::LookUnknown],
        "and it says why"
    );
    rig.lists_ours(&FEW);
    let steps = removals(&mut rig, 20);
    assert_eq!(steps, [(11, "web".into(), Step::Disable)]);
}

#[test]
fn r8_a_list_of_long_ago_is_no_list() {
    let mut rig = leaving(&["web"]);
    removals(&mut rig, 9);
    rig.list = failing(Class::Busy);
    rig.wait(minutes(30));
    rig.restart();
    assert_eq!(removals(&mut rig, 30), []);
}

#[test]
fn r8_successive_processes_finish_a_removal() {
    let mut rig = leaving(&["web"]);
    let mut steps = Vec::new();
    for minute in 1..=20 {
        rig.wait(minutes(1));
        rig.restart_and_wish();
        for (_, step) in rig.pass().steps {
            steps.push((minute, step));
        }
    }
    assert_eq!(steps, [(11, Step::Disable)]);
}

#[test]
fn r8_an_entry_that_is_refused_keeps_what_it_had() {
    // O-28, O-29: the password file of `web` is gone for a while.
    let mut rig = leaving(&[]);
    rig.wish.wanted.retain(|w| w.consumer != name("web"));
    rig.wish.kept = vec![name("web")];
    rig.confirm_wish();
    rig.says("web", lost(Difference::Absent));
    let did = rig.next();
    assert_eq!(
        did.creates(),
        ["web"],
        "it is looked after from the last good wish"
    );
    assert_eq!(removals(&mut rig, 60), []);
    rig.restart_and_wish();
    assert_eq!(
        removals(&mut rig, 60),
        [],
        "even when its wish is not known any more"
    );
    assert!(rig.record("web").claims(&login("web")));
    assert!(!rig.slot("web").is_retired());
}

#[test]
fn r8_an_entry_that_comes_back_refused_does_not_leave() {
    for minute in [5, 15] {
        let mut rig = leaving(&["web"]);
        removals(&mut rig, minute);
        rig.wish.kept = vec![name("web")];
        rig.confirm_wish();
        assert_eq!(rig.record("web").departure, None);
        assert!(rig.record("web").claims(&login("web")));
        assert_eq!(removals(&mut rig, 26 * 60), []);
        rig.wish.kept.clear();
        rig.confirm_wish();
        assert_eq!(
            rig.departure("web").since,
            rig.now,
            "gone again, counted anew"
        );
    }
}

#[test]
fn r8_an_entry_that_is_kept_is_not_an_empty_wish() {
    let mut rig = Rig::guarded(&["a", "b"]);
    rig.lists_ours(&["a", "b"]);
    rig.restart();
    rig.wish.wanted.retain(|w| w.consumer.is_canary());
    rig.wish.kept = vec![name("a")];
    assert_eq!(removals(&mut rig, 15).len(), 1, "one of two");
}

#[test]
fn r8_a_list_that_turns_empty_is_believed_the_second_time() {
    let mut rig = leaving(&["web"]);
    removals(&mut rig, 5);
    rig.lists(&[]);
    assert_eq!(removals(&mut rig, 8), []);
    assert!(
        rig.record("web").departure.is_some(),
        "one empty list is no proof"
    );
    removals(&mut rig, 15);
    assert!(rig.slot("web").is_retired(), "gone without us");
}

#[test]
fn r8_two_empty_lists_in_a_hurry_are_one() {
    let mut rig = leaving(&["web"]);
    removals(&mut rig, 12);
    rig.lists(&[]);
    removals(&mut rig, 10);
    assert!(rig.departure("web").missing.is_some());
    without(&mut rig, &["web", "a"]);
    let did = rig.next();
    assert!(did.plan.list, "somebody else leaves, and is listed at once");
    assert!(rig.record("web").departure.is_some());
}

#[test]
fn r8_another_servers_list_says_nothing() {
    let mut rig = leaving(&["web"]);
    let mut server = rig.server.clone().expect("up");
    server.identity = Some("one".into());
    rig.server = Ok(server.clone());
    rig.next();
    server.identity = Some("two".into());
    rig.server = Ok(server);
    rig.lists(&[]);
    assert_eq!(removals(&mut rig, 60), []);
    assert!(rig.record("web").departure.is_some());
    rig.core.approve_server();
    rig.lists_ours(&["web"]);
    let steps = removals(&mut rig, 30);
    assert!(
        steps[0].0 >= 10,
        "on the new server it begins anew: {steps:?}"
    );
}

#[test]
fn r8_a_wish_that_is_confirmed_is_stored_only_while_that_matters() {
    let mut rig = leaving(&["web"]);
    let dirty = |rig: &mut Rig| !rig.store().is_empty();
    dirty(&mut rig);
    rig.confirm_wish();
    assert!(!dirty(&mut rig), "the same moment");
    for _ in 0..10 {
        rig.wait(minutes(1));
        rig.confirm_wish();
        assert!(dirty(&mut rig));
    }
    rig.wait(minutes(1));
    rig.confirm_wish();
    assert!(
        !dirty(&mut rig),
        "twice, far enough apart: that is all it takes"
    );
}

#[test]
fn r8_a_login_that_is_listed_again_after_an_empty_list_goes_on_leaving() {
    let mut rig = leaving(&["web"]);
    removals(&mut rig, 60);
    let whole = rig.list.clone();
    rig.lists(&[]);
    removals(&mut rig, 10);
    rig.list = whole;
    rig.wait(minutes(10));
    let did = rig.pass();
    assert_eq!(did.dirty, ["web"], "what was doubted is certain again");
    rig.lists(&[]);
    removals(&mut rig, 12);
    assert!(
        rig.record("web").departure.is_some(),
        "the doubt began anew"
    );
    removals(&mut rig, 12);
    assert!(rig.slot("web").is_retired());
}

#[test]
fn r8_stamps_of_a_departure_from_the_future_count_as_now() {
    let mut rig = leaving(&["web", "a"]);
    rig.removes = failing(Class::Denied);
    rig.wait(2 * HOUR);
    removals(&mut rig, 60);
    rig.lists(&[]);
    removals(&mut rig, 5);
    rig.now = rig.now - 4 * HOUR;
    rig.restart();
    let settings = rig.core.settings().clone();
    let departure = rig.departure("web").clone();
    assert_eq!(departure.since, rig.now);
    assert!(departure.until(&settings) <= rig.now + settings.remove_after);
    assert!(departure.not_before <= Some(rig.now + HOUR));
    assert!(departure.not_before > Some(rig.now));
    assert_eq!(departure.missing, Some(rig.now));
    assert!(
        departure
            .listed
            .is_none_or(|(a, b)| a <= rig.now && b <= rig.now)
    );
    let mut rig = leaving(&["web"]);
    removals(&mut rig, 30);
    rig.now = rig.now - HOUR;
    rig.restart();
    assert_eq!(rig.departure("web").off_at, Some(rig.now));
}

#[test]
fn r8_without_a_list_a_new_server_needs_a_word() {
    let mut rig = leaving(&["web"]);
    rig.caps.list = false;
    rig.restart_and_wish();
    let mut server = rig.server.clone().expect("up");
    server.identity = Some("one".into());
    rig.server = Ok(server.clone());
    rig.next();
    server.identity = Some("two".into());
    rig.server = Ok(server);
    rig.next();
    rig.core.approve_server();
    assert!(removals(&mut rig, 60).iter().all(|(_, c, _)| c != "web"));
    assert_eq!(rig.next().kinds(), [ConditionType::RemovalHeld]);
}

#[test]
fn r1_a_list_that_cannot_be_had_is_told_as_long_as_that_is_so() {
    let mut rig = leaving(&["web"]);
    rig.list = failing(Class::Busy);
    removals(&mut rig, 8);
    assert_eq!(rig.next().kinds(), [ConditionType::LookUnknown]);
    let there = std::mem::replace(&mut rig.server, failing(Class::Unreachable));
    rig.next();
    rig.server = there;
    assert_eq!(
        rig.next().kinds(),
        [ConditionType::LookUnknown],
        "it is needed still"
    );
    rig.wish_for(FEW.iter().map(|n| wanted(n)).collect());
    assert_eq!(
        rig.next().kinds(),
        [ConditionType::LookUnknown],
        "it is always needed"
    );
    rig.lists_ours(&FEW);
    assert_eq!(rig.next().kinds(), []);
}

#[test]
fn r8_another_server_is_not_asked_for_its_list() {
    let mut rig = leaving(&["web"]);
    let mut server = rig.server.clone().expect("up");
    server.identity = Some("one".into());
    rig.server = Ok(server.clone());
    assert!(rig.next().plan.list);
    server.identity = Some("two".into());
    rig.server = Ok(server);
    for _ in 0..15 {
        assert!(!rig.next().plan.list);
    }
    rig.core.listed(rig.now, Ok(&[]));
    assert_eq!(rig.departure("web").missing, None, "nor believed");
}

#[test]
fn r8_a_clock_that_was_ahead_holds_a_removal_up_only_once() {
    // O-37: stored two hours ahead, and then every minute another process.
    let mut rig = leaving(&[]);
    rig.wait(2 * HOUR);
    without(&mut rig, &["web"]);
    rig.pass();
    rig.now = rig.now - 2 * HOUR;
    let mut steps = Vec::new();
    for minute in 1..=30 {
        rig.wait(minutes(1));
        rig.restart_and_wish();
        steps.extend(rig.pass().steps.into_iter().map(|(_, step)| (minute, step)));
    }
    assert!(steps[0].0 <= 13, "{steps:?}");
}

/// A person lets go everything that is shown.
pub(super) fn approve_all(rig: &mut Rig) {
    let approval = rig.core.leaving();
    rig.core.approve_removals(approval);
}
