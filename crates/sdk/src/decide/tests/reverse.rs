//! what the backend holds that nobody asks for.
use super::guarding::approve_all;
use super::removing::{FEW, removals, without};
use super::*;
use crate::decide::{Phase, Strangers};

/// Eight consumers at rest; the server also holds these, with our mark for these consumers.
fn with_others(others: &[(&str, &str)]) -> Rig {
    let mut rig = Rig::guarded(&FEW);
    lists_too(&mut rig, others);
    rig
}
fn lists_too(rig: &mut Rig, others: &[(&str, &str)]) {
    let mut entries: Vec<(&str, MarkSeen)> = FEW
        .iter()
        .map(|n| (*n, MarkSeen::OursFor(name(n))))
        .collect();
    let marked = |(login, owner): &(&'static str, &str)| (*login, MarkSeen::OursFor(name(owner)));
    let others: Vec<(&'static str, &str)> = others
        .iter()
        .map(|(l, o)| (&*String::from(*l).leak(), *o))
        .collect();
    entries.extend(others.iter().map(marked));
    rig.lists(&entries);
}
fn without_canary(rig: &mut Rig) {
    if let Ok(list) = &mut rig.list {
        list.retain(|one| one.login != canary().login);
    }
}
fn leavers(rig: &Rig) -> Vec<(String, String)> {
    let all = rig.core.leavers();
    all.map(|one| (one.consumer.to_string(), one.login.to_string()))
        .collect()
}
/// The store is wiped, and another process begins with the same wish.
fn wiped(rig: &mut Rig) {
    rig.disk.clear();
    rig.disk_server = ServerRecord::default();
    rig.core = Core::new(
        rig.core.settings().clone(),
        rig.caps,
        Stored::default(),
        rig.now,
    );
    rig.confirm_wish();
}

#[test]
fn r1_the_list_is_read_at_the_start_and_every_list_every() {
    let mut rig = with_others(&[]);
    rig.restart_and_wish();
    let listed = |rig: &mut Rig| rig.next().plan.list;
    assert!(listed(&mut rig), "at the start");
    for _ in 0..2 {
        let quiet = (0..9).filter(|_| listed(&mut rig)).count();
        assert_eq!(quiet, 0, "not before its time");
        assert!(listed(&mut rig), "ten minutes later");
    }
    rig.again_changes_nothing();
}

#[test]
fn r1_where_nothing_can_be_listed_nothing_is() {
    let mut rig = with_others(&[("ghost", "ghost")]);
    rig.caps.list = false;
    rig.restart_and_wish();
    assert!((0..30).all(|_| !rig.next().plan.list));
    assert_eq!(leavers(&rig), []);
}

#[test]
fn r1_a_list_that_fails_says_nothing_about_anyone() {
    let mut rig = with_others(&[("ghost", "ghost")]);
    rig.list = failing(Class::Busy);
    rig.restart_and_wish();
    assert_eq!(removals(&mut rig, 60), []);
    assert_eq!(leavers(&rig), []);
}

#[test]
fn r2_a_marked_login_of_nobody_goes_by_steps() {
    let mut rig = with_others(&[("ghost", "ghost")]);
    let steps = removals(&mut rig, 60);
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert_eq!((steps[0].1.as_str(), steps[0].2), ("ghost", Step::Disable));
    assert!(steps[0].0 >= 11, "shown as leaving before: {steps:?}");
    let steps = removals(&mut rig, 24 * 60);
    let all: Vec<Step> = steps.into_iter().map(|(_, _, step)| step).collect();
    assert_eq!(all, [Step::Remove]);
    assert_eq!(leavers(&rig), []);
    rig.again_changes_nothing();
}

#[test]
fn r2_it_comes_back_with_the_login_that_it_had() {
    let mut rig = with_others(&[("ghost", "ghost")]);
    removals(&mut rig, 30);
    assert_eq!(rig.departure("ghost").phase(), Phase::Off);
    let mut all: Vec<Wanted> = FEW.iter().map(|n| wanted(n)).collect();
    all.push(wanted("ghost"));
    rig.says("ghost", lost(Difference::Disabled));
    rig.wish_for(all);
    let did = rig.next();
    assert!(did.happened(&Happening::CameBack));
    assert_eq!(did.creates(), ["ghost"]);
    rig.next();
    rig.again_changes_nothing();
}

#[test]
fn r2_each_login_of_a_consumer_is_a_departure_of_its_own() {
    let mut rig = with_others(&[("ghost", "ghost"), ("ghost2", "ghost")]);
    let steps = removals(&mut rig, 30);
    let off: Vec<&str> = steps.iter().map(|(_, c, _)| c.as_str()).collect();
    assert_eq!(off, ["ghost", "ghost"], "both, one on each pass");
    assert!(steps.iter().all(|s| s.2 == Step::Disable));
    rig.restart_and_wish();
    lists_too(&mut rig, &[("ghost2", "ghost")]);
    let steps = removals(&mut rig, 60);
    assert_eq!(steps.len(), 1, "one is on again: {steps:?}");
    assert_eq!(
        leavers(&rig),
        [("ghost".to_owned(), "ghost2".to_owned())],
        "and the other was gone without us"
    );
}

#[test]
fn r3_a_list_that_shows_another_login_of_a_consumer_supersedes_it() {
    let mut rig = with_others(&[("web-old", "web")]);
    rig.restart_and_wish();
    assert!(
        rig.next()
            .happened(&Happening::Superseded(login("web-old")))
    );
    assert_eq!(rig.record("web").superseded, [login("web-old")]);
    assert_eq!(removals(&mut rig, 26 * 60), []);
    rig.again_changes_nothing();
    rig.change("web", |w| w.login = login("web-old"));
    assert_eq!(rig.record("web").superseded, [login("web")]);
}

#[test]
fn r3_what_was_superseded_is_an_orphan_once_its_consumer_is_gone() {
    let mut rig = with_others(&[("web-old", "web")]);
    rig.restart_and_wish();
    rig.next();
    without(&mut rig, &["web"]);
    removals(&mut rig, 30);
    let off = [("web", "web"), ("web", "web-old")];
    assert_eq!(leavers(&rig).len(), 2);
    let both = rig.core.leavers();
    assert!(
        both.into_iter()
            .all(|one| one.departure.phase() == Phase::Off)
    );
    assert_eq!(rig.record("web").superseded, []);
    rig.wish_for(FEW.iter().map(|n| wanted(n)).collect());
    assert_eq!(leavers(&rig), [], "{off:?}");
    assert_eq!(
        rig.record("web").superseded,
        [login("web-old")],
        "asked for under one of them, it keeps the other"
    );
}

#[test]
fn r4_strangers_are_counted_and_never_touched() {
    let mut rig = with_others(&[]);
    rig.lists(&[
        ("default", MarkSeen::None),
        ("theirs", MarkSeen::Foreign),
        ("forged", MarkSeen::Damaged),
        ("web", MarkSeen::None),
    ]);
    rig.restart_and_wish();
    rig.next();
    let strangers = rig.core.server().strangers;
    let (count, damaged) = (3, 1);
    assert_eq!(strangers, Strangers { count, damaged });
    assert_eq!(removals(&mut rig, 26 * 60), []);
    assert_eq!(leavers(&rig), []);
    rig.restart_and_wish();
    assert_eq!(rig.next().kinds(), [ConditionType::MarkDamaged]);
    rig.lists(&[("default", MarkSeen::None)]);
    removals(&mut rig, 11);
    assert_eq!(rig.core.server().strangers.count, 1);
}

#[test]
fn r4_a_mark_that_contradicts_our_record_removes_nobody() {
    let mut rig = with_others(&[]);
    without(&mut rig, &["web"]);
    rig.lists(&[("web", MarkSeen::OursFor(name("gone")))]);
    assert_eq!(removals(&mut rig, 26 * 60), []);
    assert_eq!(leavers(&rig), [("web".to_owned(), "web".to_owned())]);
}

#[test]
fn r7_what_only_the_list_tells_is_braked_too() {
    let others: Vec<String> = (0..4).map(|i| format!("x{i}")).collect();
    let others: Vec<(&str, &str)> = others.iter().map(|x| (x.as_str(), x.as_str())).collect();
    let mut rig = with_others(&others);
    assert_eq!(removals(&mut rig, 60), []);
    assert_eq!(rig.next().kinds(), [ConditionType::RemovalHeld]);
    approve_all(&mut rig);
    assert_eq!(removals(&mut rig, 2).len(), 4);
}

#[test]
fn r8_a_list_that_names_a_login_twice_is_no_list() {
    let mut rig = with_others(&[("ghost", "ghost"), ("ghost", "other")]);
    rig.restart_and_wish();
    assert_eq!(rig.next().kinds(), [ConditionType::ListDoubted]);
    assert_eq!(removals(&mut rig, 60), []);
    assert_eq!(leavers(&rig), []);
}

#[test]
fn r8_while_part_of_the_wish_cannot_be_read_nobody_leaves() {
    let mut rig = with_others(&[("ghost", "ghost")]);
    rig.wish.partial = true;
    without(&mut rig, &["web"]);
    assert_eq!(removals(&mut rig, 60), []);
    assert_eq!(leavers(&rig), []);
    rig.restart_and_wish();
    assert_eq!(removals(&mut rig, 60), []);
    assert_eq!(leavers(&rig), [], "nor after a restart");
    rig.wish.partial = false;
    let steps = removals(&mut rig, 30);
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert!(steps.iter().all(|s| s.0 >= 11));
}

#[test]
fn r8_part_of_the_wish_that_cannot_be_read_stops_who_leaves() {
    let mut rig = with_others(&[]);
    without(&mut rig, &["web"]);
    removals(&mut rig, 9);
    rig.wish.partial = true;
    assert_eq!(removals(&mut rig, 60), []);
    assert_eq!(leavers(&rig).len(), 1, "it does not come back either");
    rig.wish.partial = false;
    assert_eq!(removals(&mut rig, 2).len(), 1);
}

#[test]
fn r8_one_whose_entry_cannot_be_read_is_no_orphan() {
    let mut rig = with_others(&[("ghost", "ghost")]);
    rig.wish.kept = vec![name("ghost")];
    wiped(&mut rig);
    assert_eq!(removals(&mut rig, 60), []);
    assert_eq!(leavers(&rig), []);
}

#[test]
fn r9_with_the_record_gone_the_list_tells() {
    let mut rig = with_others(&[("ghost", "ghost")]);
    FEW.iter().for_each(|n| rig.says(n, held()));
    wiped(&mut rig);
    rig.next();
    assert_eq!(leavers(&rig), [("ghost".to_owned(), "ghost".to_owned())]);
    let steps = removals(&mut rig, 20);
    assert_eq!(steps.len(), 1);
    assert!(steps[0].0 >= 10, "{steps:?}");
}

#[test]
fn r9_before_a_wish_was_read_nobody_is_an_orphan() {
    let mut rig = with_others(&[("ghost", "ghost")]);
    rig.restart();
    for _ in 0..30 {
        assert_eq!(rig.next().steps, []);
    }
    assert_eq!(leavers(&rig), []);
}

#[test]
fn r13_a_login_that_another_provider_of_this_server_asks_for_stays() {
    let mut rig = with_others(&[("shared", "ghost")]);
    rig.wish.elsewhere = vec![login("shared"), login("web")];
    without(&mut rig, &["web"]);
    assert_eq!(removals(&mut rig, 26 * 60), []);
    rig.wish.elsewhere.clear();
    let steps = removals(&mut rig, 30);
    assert_eq!(steps.len(), 2, "{steps:?}");
}

#[test]
fn r14_a_list_without_the_canary_removes_nothing() {
    let mut rig = with_others(&[("ghost", "ghost")]);
    without(&mut rig, &["web"]);
    without_canary(&mut rig);
    rig.restart_and_wish();
    assert_eq!(removals(&mut rig, 26 * 60), []);
    let did = rig.next();
    assert_eq!(did.kinds(), [ConditionType::ListDoubted]);
    let message = &did.fact(ConditionType::ListDoubted).message;
    assert!(message.contains("mesh-canary-x"), "{message}");
    assert!(!did.fact(ConditionType::ListDoubted).final_at_once);
    assert_eq!(leavers(&rig).len(), 1, "no orphan begins by it");
    lists_too(&mut rig, &[("ghost", "ghost")]);
    let steps = removals(&mut rig, 40);
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert!(steps.iter().all(|s| s.0 >= 11), "read twice: {steps:?}");
}

#[test]
fn r14_the_canary_must_be_in_the_list_of_the_very_pass() {
    let mut rig = with_others(&[]);
    without(&mut rig, &["web"]);
    removals(&mut rig, 10);
    without_canary(&mut rig);
    assert_eq!(removals(&mut rig, 60), []);
    lists_too(&mut rig, &[]);
    assert_eq!(removals(&mut rig, 1).len(), 1);
}

#[test]
fn r14_a_canary_with_another_mark_proves_nothing() {
    for mark in [
        MarkSeen::None,
        MarkSeen::Damaged,
        MarkSeen::Foreign,
        MarkSeen::OursFor(name("web")),
    ] {
        let mut rig = with_others(&[("ghost", "ghost")]);
        if let Ok(list) = &mut rig.list {
            let own = list.iter_mut().find(|one| one.login == canary().login);
            own.expect("it is there").mark = mark;
        }
        rig.restart_and_wish();
        assert_eq!(removals(&mut rig, 60), []);
        assert_eq!(leavers(&rig), []);
    }
}

#[test]
fn r14_an_empty_list_retires_no_record() {
    let mut rig = with_others(&[]);
    without(&mut rig, &["web"]);
    rig.guarded = false;
    rig.lists(&[]);
    removals(&mut rig, 60);
    assert_eq!(rig.departure("web").missing, None);
}

#[test]
fn r14_a_server_that_just_forgot_everything_is_no_alarm() {
    let mut rig = with_others(&[]);
    let whole = rig.list.clone();
    rig.list = Ok(Vec::new());
    rig.restart_and_wish();
    assert!(rig.next().kinds().contains(&ConditionType::ListDoubted));
    rig.list = whole;
    let did = rig.next();
    assert!(did.plan.list, "it is read again at once");
    assert_eq!(did.kinds(), []);
    assert!(rig.next().plan.list, "twice");
    assert!(!rig.next().plan.list);
}

#[test]
fn r14_the_first_pass_of_all_makes_the_canary_and_alarms_nobody() {
    let mut rig = Rig::with(
        asked_singly(),
        Stored::default(),
        Time::from_millis(1_000_000),
    );
    rig.guarded = true;
    rig.wish_for(vec![wanted("web")]);
    let did = rig.pass();
    assert_eq!(did.kinds(), []);
    assert_eq!(did.creates(), ["web", "mesh-canary"]);
    assert_eq!(did.summary.applied, 1, "the canary counts nowhere");
    assert_eq!(did.summary.asked, 1);
}

#[test]
fn r14_without_a_canary_only_a_person_lets_go() {
    let mut rig = with_others(&[("ghost", "ghost")]);
    rig.guarded = false;
    lists_too(&mut rig, &[("ghost", "ghost")]);
    rig.wish.wanted.retain(|w| !w.consumer.is_canary());
    without(&mut rig, &["web"]);
    assert_eq!(removals(&mut rig, 60), []);
    let did = rig.next();
    let fact = did.fact(ConditionType::RemovalHeld);
    assert_eq!(fact.reason, crate::condition::Reason::NoCanary);
    assert!(fact.message.starts_with("2 logins"), "{}", fact.message);
    let mut approval = rig.core.leaving();
    approval.removals.retain(|(c, _)| *c == name("web"));
    assert_eq!(approval.removals.len(), 1);
    rig.core.approve_removals(approval);
    let steps = removals(&mut rig, 26 * 60);
    let steps: Vec<(String, Step)> = steps.into_iter().map(|(_, c, s)| (c, s)).collect();
    assert_eq!(
        steps,
        [("web".into(), Step::Disable), ("web".into(), Step::Remove)]
    );
    assert_eq!(leavers(&rig), [("ghost".to_owned(), "ghost".to_owned())]);
}

#[test]
fn r14_a_canary_that_is_asked_for_no_more_stays_and_is_shown() {
    let mut rig = with_others(&[]);
    rig.guarded = false;
    rig.wish_for(FEW.iter().map(|n| wanted(n)).collect());
    assert_eq!(removals(&mut rig, 26 * 60), []);
    let own = rig.record("mesh-canary");
    assert_eq!(own.superseded, [canary().login]);
    assert_eq!(rig.next().kinds(), []);
    rig.again_changes_nothing();
    rig.guarded = true;
    rig.wish_for(FEW.iter().map(|n| wanted(n)).collect());
    rig.next();
    let own = rig.record("mesh-canary");
    assert_eq!(own.superseded, []);
    assert_eq!(own.login, canary().login);
    rig.next();
    rig.again_changes_nothing();
}

#[test]
fn r14_the_canary_is_no_consumer_in_any_number() {
    let mut rig = Rig::guarded(&["a", "b"]);
    rig.lists_ours(&["a", "b"]);
    without(&mut rig, &["a", "b"]);
    assert_eq!(removals(&mut rig, 30), []);
    let did = rig.next();
    let fact = did.fact(ConditionType::RemovalHeld);
    assert_eq!(fact.reason, crate::condition::Reason::EmptyWish);
}

#[test]
fn r14_lists_that_nothing_proved_count_for_nothing_once_there_is_a_canary() {
    let mut rig = with_others(&[]);
    rig.guarded = false;
    lists_too(&mut rig, &[]);
    rig.wish.wanted.retain(|w| !w.consumer.is_canary());
    without(&mut rig, &["web"]);
    assert_eq!(removals(&mut rig, 60), []);
    rig.guarded = true;
    lists_too(&mut rig, &[]);
    let rest: Vec<Wanted> = rig.wish.wanted.clone();
    rig.wish_for(rest);
    rig.restart_and_wish();
    let steps = removals(&mut rig, 30);
    assert_eq!(steps.len(), 1);
    assert!(steps[0].0 >= 11, "read twice anew: {steps:?}");
}

#[test]
fn r9_b6_a_store_that_was_put_back_lets_everybody_leave_anew() {
    let mut rig = with_others(&[("ghost", "ghost")]);
    without(&mut rig, &["web"]);
    removals(&mut rig, 9);
    approve_all(&mut rig);
    rig.restart();
    rig.core.store_replaced(rig.now);
    rig.confirm_wish();
    assert_eq!(rig.departure("web").since, rig.now);
    assert!(!rig.departure("web").is_approved());
    let steps = removals(&mut rig, 60);
    assert_eq!(steps.len(), 2);
    assert!(steps.iter().all(|s| s.0 >= 10), "{steps:?}");
    rig.restart();
    rig.core.store_replaced(rig.now);
    rig.confirm_wish();
    assert_eq!(
        rig.departure("web").off_at,
        Some(rig.now),
        "the whole grace again"
    );
}

#[test]
fn r14_on_a_server_that_takes_no_writes_the_canary_waits_quietly() {
    let mut rig = Rig::held(&["web"]);
    rig.guarded = true;
    rig.server = Ok(Server {
        read_only: Some("a standby".into()),
        ..rig.server.clone().expect("up")
    });
    rig.wish_for(vec![wanted("web")]);
    rig.lists_ours(&["web"]);
    without_canary(&mut rig);
    for _ in 0..20 {
        let did = rig.next();
        assert_eq!((did.steps.len(), did.kinds()), (0, vec![]));
    }
}
