//! taking away, step by step.
use super::*;
use crate::decide::{Approval, Phase, Why};

pub(super) const FEW: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "web"];

/// Eight consumers at rest, all listed; `gone` are not asked for any more.
pub(super) fn leaving(gone: &[&str]) -> Rig {
    let mut rig = Rig::guarded(&FEW);
    rig.lists_ours(&FEW);
    without(&mut rig, gone);
    rig
}
pub(super) fn without(rig: &mut Rig, gone: &[&str]) {
    let rest = rig.wish.wanted.clone();
    let rest = rest.into_iter();
    let rest = rest.filter(|w| !gone.contains(&w.consumer.as_str()));
    rig.wish_for(rest.collect());
}
/// Passes a minute apart, the wish read whole each time; when which removal step came.
pub(super) fn removals(rig: &mut Rig, count: u64) -> Vec<(u64, String, Step)> {
    let mut steps = Vec::new();
    for minute in 1..=count {
        rig.wait(minutes(1));
        rig.confirm_wish();
        for (consumer, step) in rig.pass().steps {
            steps.push((minute, consumer, step));
        }
    }
    steps
}

#[test]
fn r2_whoever_is_asked_for_no_more_is_removed_by_steps() {
    let mut rig = leaving(&["web"]);
    let steps = removals(&mut rig, 20);
    assert_eq!(steps, [(11, "web".into(), Step::Disable)]);
}

#[test]
fn r2_whoever_left_while_the_provisioner_was_down_is_removed_too() {
    let mut rig = leaving(&[]);
    rig.restart();
    rig.wait(5 * HOUR);
    without(&mut rig, &["web"]);
    assert_eq!(
        rig.departure("web").since,
        rig.now,
        "counted from when we saw it"
    );
    let steps = removals(&mut rig, 20);
    assert_eq!(steps, [(11, "web".into(), Step::Disable)]);
}

#[test]
fn r2_what_was_never_made_leaves_nothing() {
    let mut rig = Rig::held(&["a"]);
    rig.wish_for(vec![wanted("a"), wanted("b")]);
    rig.wish_for(vec![wanted("a")]);
    assert!(rig.slot("b").is_retired());
    assert_eq!(rig.core.leaving(), Approval::default());
    rig.again_changes_nothing();
}

#[test]
fn r2_what_was_never_made_is_forgotten_in_the_store_too() {
    let mut rig = Rig::held(&["a"]);
    rig.wish_for(vec![wanted("a"), wanted("b"), wanted("c")]);
    rig.says("b", failing(Class::Busy));
    rig.says("c", marked(Difference::Password, MarkSeen::None, false));
    rig.next();
    let there = std::mem::replace(&mut rig.server, failing(Class::Unreachable));
    rig.wish_for(vec![wanted("a"), wanted("b"), wanted("c"), wanted("e")]);
    rig.next();
    rig.server = there;
    rig.store();
    rig.wish_for(vec![wanted("a")]);
    let slots = rig.store();
    let slots = slots.into_iter().map(|i| &rig.core.slots()[i]);
    let names: Vec<&str> = slots.map(|s| s.consumer.as_str()).collect();
    assert_eq!(names, ["b", "c"], "and what was never stored needs no word");
    for n in ["b", "c"] {
        assert_eq!(*rig.record(n), Record::new(login(n)));
    }
}

#[test]
fn r3_a_changed_login_supersedes_and_never_removes() {
    let mut rig = leaving(&[]);
    rig.change("web", |w| w.login = login("web2"));
    rig.says("web", Ok(Answer::absent()));
    let did = rig.pass();
    assert!(did.happened(&Happening::Superseded(login("web"))));
    assert_eq!(did.steps, [("web".into(), Step::Create(Why::New))]);
    assert_eq!(rig.record("web").superseded, [login("web")]);
    assert_eq!(removals(&mut rig, 2000), []);
    assert_eq!(
        rig.record("web").superseded,
        [login("web")],
        "it is told for ever"
    );
}

#[test]
fn r3_an_earlier_login_outlives_the_one_that_is_dropped() {
    let mut rig = leaving(&[]);
    rig.change("web", |w| w.login = login("web2"));
    rig.says("web", Ok(Answer::absent()));
    rig.pass();
    without(&mut rig, &["web"]);
    rig.removes = failing(Class::Gone);
    rig.lists(&[("web2", MarkSeen::OursFor(name("web")))]);
    assert_eq!(removals(&mut rig, 12).len(), 1);
    assert_eq!(rig.record("web").departure, None);
    assert_eq!(
        rig.record("web").superseded,
        [login("web")],
        "told until a person retires it"
    );
}

#[test]
fn r3_what_is_left_over_of_one_who_left_is_told_and_stored_once() {
    let mut rig = leaving(&[]);
    rig.change("web", |w| w.login = login("web2"));
    rig.wish.wanted.retain(|w| w.consumer != name("web"));
    rig.confirm_wish();
    rig.store();
    assert_eq!(rig.record("web").superseded, [login("web")]);
    assert!(!rig.slot("web").is_retired());
    rig.next();
    rig.again_changes_nothing();
}

#[test]
fn r3_a_login_that_comes_back_is_ours_still() {
    let mut rig = leaving(&[]);
    rig.change("web", |w| w.login = login("web2"));
    rig.pass();
    rig.change("web", |w| w.login = login("web"));
    let superseded = rig.record("web").superseded.clone();
    assert_eq!(superseded, [login("web2")]);
    rig.says(
        "web",
        marked(Difference::MarkMissing, MarkSeen::None, false),
    );
    assert_eq!(rig.pass().creates(), ["web"]);
}

#[test]
fn r3_a_login_that_was_never_made_is_not_superseded() {
    let mut rig = Rig::new(&["web"]);
    rig.change("web", |w| w.login = login("web2"));
    assert_eq!(rig.record("web").superseded, []);
    assert_eq!(rig.record("web").login, login("web2"));
}

#[test]
fn r5_the_core_knows_no_step_that_takes_data() {
    let mut rig = leaving(&["web"]);
    let steps = removals(&mut rig, 26 * 60);
    let kinds: Vec<Step> = steps.into_iter().map(|(_, _, step)| step).collect();
    assert_eq!(kinds, [Step::Disable, Step::Remove]);
}

#[test]
fn r6_leaving_then_off_then_dropped() {
    let mut rig = leaving(&["web"]);
    let settings = rig.core.settings().clone();
    assert_eq!(rig.departure("web").phase(), Phase::Leaving);
    assert_eq!(rig.departure("web").until(&settings), rig.now + minutes(10));
    removals(&mut rig, 11);
    assert_eq!(rig.departure("web").phase(), Phase::Off);
    let off = rig.now;
    assert_eq!(rig.departure("web").off_at, Some(off));
    assert_eq!(rig.departure("web").until(&settings), off + 24 * HOUR);
    let steps = removals(&mut rig, 24 * 60 + 5);
    assert_eq!(steps, [(24 * 60, "web".into(), Step::Remove)]);
    assert!(rig.slot("web").is_retired());
    assert!(
        !rig.record("web").claims(&login("web")),
        "it would be new now"
    );
    rig.again_changes_nothing();
}

#[test]
fn r6_nothing_is_written_while_nothing_changes() {
    let mut rig = leaving(&["web"]);
    removals(&mut rig, 12);
    for _ in 0..115 {
        rig.again_changes_nothing();
    }
}

#[test]
fn r6_whoever_comes_back_within_the_grace_is_simply_enabled() {
    let mut rig = leaving(&["web"]);
    removals(&mut rig, 60);
    rig.says("web", lost(Difference::Disabled));
    rig.wish_for(FEW.iter().map(|n| wanted(n)).collect());
    let did = rig.next();
    assert!(did.happened(&Happening::CameBack));
    assert_eq!(did.creates(), ["web"]);
    assert!(!did.kinds().contains(&ConditionType::SwitchedOnAgain));
    assert_eq!(rig.state("web"), State::Held);
    let record = rig.record("web");
    assert_eq!(
        (record.strikes, record.changes.len()),
        (0, 0),
        "that was no loss"
    );
    rig.next();
    rig.again_changes_nothing();
    without(&mut rig, &["web"]);
    assert_eq!(
        rig.departure("web").phase(),
        Phase::Leaving,
        "another time, from the start"
    );
}

#[test]
fn r6_whoever_comes_back_while_leaving_needs_nothing() {
    let mut rig = leaving(&["web"]);
    removals(&mut rig, 5);
    rig.wish_for(FEW.iter().map(|n| wanted(n)).collect());
    let did = rig.next();
    assert_eq!(did.steps, []);
    rig.again_changes_nothing();
}

#[test]
fn r6_where_nothing_can_be_switched_off_it_is_dropped_after_the_grace() {
    let mut rig = leaving(&["web"]);
    rig.caps.disable = false;
    rig.restart_and_wish();
    let steps = removals(&mut rig, 25 * 60);
    assert_eq!(steps, [(24 * 60 + 10, "web".into(), Step::Remove)]);
    assert_eq!(
        rig.core.recently_removed(rig.now),
        1,
        "it counts for the brake"
    );
}

#[test]
fn r6_one_that_is_switched_on_behind_our_back_is_switched_off_again() {
    let mut rig = leaving(&["web"]);
    removals(&mut rig, 12);
    let off = rig.departure("web").off_at;
    rig.lists_ours(&FEW);
    let steps = removals(&mut rig, 15);
    let expected = (9, "web".to_string(), Step::Disable);
    assert_eq!(steps, [expected]);
    assert_eq!(rig.departure("web").off_at, off, "the grace goes on");
    assert_eq!(
        rig.core.recently_removed(rig.now),
        1,
        "one login is one removal"
    );
}

#[test]
fn r12_a_word_ends_only_what_stands() {
    let mut rig = leaving(&["web", "a"]);
    rig.next();
    rig.core.release(None, rig.now);
    assert_eq!(rig.store(), Vec::<usize>::new());
    rig.lists(&[("a", MarkSeen::None)]);
    removals(&mut rig, 12);
    let a = rig.core.slot_of(&name("a")).expect("a slot");
    rig.core.release(None, rig.now);
    assert_eq!(rig.store(), [a], "left alone, and judged anew");
    rig.lists_ours(&FEW);
    rig.removes = failing(Class::Busy);
    removals(&mut rig, 25);
    rig.store();
    rig.core.release(Some(&name("web")), rig.now);
    assert_eq!(rig.store().len(), 1);
    assert_eq!(rig.departure("web").failures, 0);
}

#[test]
fn r10_switching_off_comes_before_dropping_so_that_sessions_end() {
    let mut rig = leaving(&["web"]);
    let steps = removals(&mut rig, 26 * 60);
    assert_eq!(steps.first().map(|s| s.2), Some(Step::Disable));
    assert!(steps.iter().filter(|s| s.2 == Step::Remove).count() == 1);
}

#[test]
fn r12_already_gone_is_success() {
    let mut rig = leaving(&["web"]);
    rig.removes = failing(Class::Gone);
    assert_eq!(removals(&mut rig, 12).len(), 1);
    assert!(rig.slot("web").is_retired());
    assert_eq!(rig.next().kinds(), []);
    rig.again_changes_nothing();
}

#[test]
fn r12_what_cannot_be_removed_is_told_and_tried_more_rarely() {
    let mut rig = leaving(&["web"]);
    rig.removes = failing(Class::Denied);
    let tries: Vec<u64> = removals(&mut rig, 200).into_iter().map(|s| s.0).collect();
    assert_eq!(tries, [11, 13, 17, 25, 41, 73, 133, 193]);
    let did = rig.next();
    assert_eq!(did.fact(ConditionType::RemovalStuck).subject, "web");
    rig.removes = Ok(());
    rig.core.release(Some(&name("web")), rig.now);
    assert_eq!(
        removals(&mut rig, 1).len(),
        1,
        "a person's word ends the wait"
    );
    assert_eq!(rig.next().kinds(), []);
}

#[test]
fn r12_what_the_adapter_says_is_not_ours_is_left_alone() {
    let mut rig = leaving(&["web"]);
    rig.caps.list = false;
    rig.restart_and_wish();
    rig.removes = failing(Class::Exists);
    assert_eq!(removals(&mut rig, 300).len(), 1);
    assert_eq!(rig.next().kinds(), [ConditionType::RemovalStuck]);
}

#[test]
fn b4_a_removal_that_another_holder_outdid_counts_for_nothing() {
    let mut rig = leaving(&["web"]);
    rig.removes = failing(Class::Fenced);
    assert!(!removals(&mut rig, 20).is_empty());
    assert_eq!(rig.next().kinds(), []);
    rig.removes = Ok(());
    assert_eq!(removals(&mut rig, 1).len(), 1);
    assert_eq!(rig.next().kinds(), []);
}

#[test]
fn r12_a_read_only_server_makes_removals_wait() {
    for by_server in [true, false] {
        let mut rig = leaving(&["web"]);
        let writable = rig.server.clone();
        rig.removes = failing(Class::ReadOnly);
        if by_server {
            rig.server = Ok(Server {
                read_only: Some("a standby".into()),
                ..writable.clone().expect("up")
            });
        }
        assert_eq!(removals(&mut rig, 20).is_empty(), by_server);
        assert_eq!(rig.next().kinds(), [ConditionType::WaitsForWritable]);
        rig.server = writable;
        rig.removes = Ok(());
        assert_eq!(removals(&mut rig, 1).len(), 1);
        assert_eq!(rig.next().kinds(), []);
    }
}

#[test]
fn r13_a_login_that_any_wish_names_is_never_taken_away() {
    let mut rig = leaving(&["web"]);
    let renamed = Wanted {
        login: login("web"),
        ..wanted("shop")
    };
    rig.wish.wanted.push(renamed);
    rig.confirm_wish();
    rig.says(
        "shop",
        marked(Difference::Password, MarkSeen::OursFor(name("web")), false),
    );
    let steps = removals(&mut rig, 26 * 60);
    assert_eq!(steps, [], "handing over is a person's word");
}

#[test]
fn r13_a_login_that_lost_our_mark_is_left_alone() {
    for mark in [
        MarkSeen::None,
        MarkSeen::Foreign,
        MarkSeen::Damaged,
        MarkSeen::OursFor(name("other")),
    ] {
        let mut rig = leaving(&["web"]);
        rig.lists(&[("web", mark)]);
        rig.store();
        assert_eq!(rig.next().dirty, ["web"], "that is news");
        assert_eq!(removals(&mut rig, 9), []);
        assert_eq!(
            rig.next().dirty,
            Vec::<String>::new(),
            "and once more is none"
        );
        assert_eq!(removals(&mut rig, 40), []);
        let did = rig.next();
        assert_eq!(
            did.kinds(),
            [ConditionType::RemovalStuck],
            "and not counted as held"
        );
        rig.lists_ours(&FEW);
        let steps = removals(&mut rig, 40);
        assert_eq!(steps.len(), 1, "the mark is back");
        assert!(steps[0].0 >= 11, "and was seen twice");
    }
}

#[test]
fn r13_a_login_that_existed_before_us_waits_for_a_word() {
    let mut rig = leaving(&[]);
    rig.restart();
    let mut records: Vec<(ConsumerName, Record)> = Vec::new();
    for slot in rig.core.slots() {
        let mut record = slot.record.clone();
        record.adopted = slot.consumer == name("web");
        records.push((slot.consumer.clone(), record));
    }
    let stored = Stored {
        server: rig.core.server().clone(),
        records,
    };
    rig.core = Core::new(Settings::default(), rig.caps, stored, rig.now);
    without(&mut rig, &["web"]);
    assert_eq!(removals(&mut rig, 60), []);
    let did = rig.next();
    let fact = did.fact(ConditionType::RemovalHeld);
    assert!(
        fact.message.contains("existed before us"),
        "{}",
        fact.message
    );
    let approval = rig.core.leaving();
    rig.core.approve_removals(approval);
    assert_eq!(removals(&mut rig, 2).len(), 1);
}

#[test]
fn r13_a_paused_provider_removes_nothing() {
    let mut rig = leaving(&["web"]);
    rig.core.set_pauses(Some(rig.now + HOUR), &HashMap::new());
    assert_eq!(removals(&mut rig, 59), []);
    assert_eq!(removals(&mut rig, 5).len(), 1);
}

#[test]
fn r12_a_removal_that_fails_is_counted() {
    let mut rig = leaving(&["web"]);
    rig.removes = failing(Class::Denied);
    removals(&mut rig, 10);
    rig.wait(minutes(1));
    rig.confirm_wish();
    let did = rig.pass();
    assert_eq!((did.steps.len(), did.summary.failed), (1, 1));
    assert!(
        did.happenings
            .iter()
            .any(|(_, h)| matches!(h, Happening::Failed(_)))
    );
}
