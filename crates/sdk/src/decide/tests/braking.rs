//! H-11, H-12, H-15: who is lost again and again is looked at more and more rarely.
use super::*;

/// A consumer whose `create` succeeds and never helps.
fn stubborn() -> Rig {
    let mut rig = Rig::held(&["web", "db"]);
    rig.says("web", lost(Difference::Password));
    rig.after_create("web", lost(Difference::Password));
    rig
}

#[test]
fn h11_lost_again_after_a_good_reapply_doubles_the_interval_up_to_an_hour() {
    let mut rig = stubborn();
    let applied = rig.minutes(300);
    assert_eq!(applied, [1, 2, 4, 8, 16, 32, 64, 124, 184, 244]);
    let did = rig.next();
    let fact = did.fact(ConditionType::Braked);
    assert_eq!(fact.subject, "web");
    assert!(
        fact.message.contains("checked every 60 min"),
        "{}",
        fact.message
    );
    assert_eq!(rig.state("web"), State::Braked);
    assert_eq!(rig.state("db"), State::Held, "nobody else is slowed down");
}

#[test]
fn h11_a_new_consumer_that_is_never_held_is_braked_too() {
    let mut rig = Rig::new(&["web"]);
    rig.after_create("web", lost(Difference::Password));
    rig.pass();
    assert_eq!(rig.minutes(70), [1, 3, 7, 15, 31, 63]);
    assert_eq!(rig.state("web"), State::Braked);
}

#[test]
fn h11_the_first_reapply_is_no_strike_and_the_look_again_never_counts() {
    let mut rig = stubborn();
    let did = rig.next();
    assert_eq!(did.creates(), ["web"]);
    assert_eq!(rig.record("web").strikes, 0);
    assert_eq!(rig.state("web"), State::Lost);
    let did = rig.next();
    assert!(did.happened(&Happening::Braked(1)));
    assert_eq!(rig.record("web").strikes, 1);
}

#[test]
fn h11_a_held_answer_resets_the_brake() {
    let mut rig = stubborn();
    rig.minutes(20);
    assert!(rig.record("web").strikes >= 4);
    rig.says("web", held());
    rig.minutes(32);
    assert_eq!(rig.record("web").strikes, 0);
    assert_eq!(rig.record("web").not_before, None);
    rig.again_changes_nothing();
}

#[test]
fn h11_a_held_look_right_after_the_effect_does_not_reset_the_brake() {
    let mut rig = stubborn();
    rig.after_create("web", held());
    for _ in 0..30 {
        // Somebody changes it each time before the next check.
        rig.says("web", lost(Difference::Password));
        rig.next();
    }
    assert!(rig.record("web").strikes >= 4, "{:?}", rig.record("web"));
}

#[test]
fn h11_a_changed_wish_or_a_word_ends_the_brake_and_a_hint_does_not() {
    let mut rig = stubborn();
    rig.minutes(20);
    rig.core.hint();
    assert_eq!(rig.pass().creates(), Vec::<&str>::new());
    rig.core.release(None, rig.now);
    assert_eq!(rig.pass().creates(), ["web"]);
    assert_eq!(rig.record("web").strikes, 0);
    rig.minutes(20);
    rig.change("web", |w| w.digest = digest(2));
    assert_eq!(rig.pass().creates(), ["web"]);
    assert_eq!(rig.record("web").strikes, 0);
}

#[test]
fn h11_a_word_for_one_is_a_word_for_one() {
    let mut rig = stubborn();
    rig.minutes(20);
    let strikes = rig.record("web").strikes;
    rig.core.release(Some(&name("db")), rig.now);
    assert_eq!(rig.record("web").strikes, strikes);
    let did = rig.pass();
    assert_eq!(did.asked, ["db"]);
    assert_eq!(did.dirty, Vec::<String>::new(), "there was nothing to end");
}

#[test]
fn h11_a_loss_that_a_restart_explains_does_not_count() {
    let mut rig = Rig::held(&["web"]);
    for run in 0..20 {
        rig.restarts(&format!("next{run}"));
        rig.says("web", lost(Difference::Absent));
        assert_eq!(rig.next().creates(), ["web"], "healed at once, each time");
    }
    assert_eq!(rig.record("web").strikes, 0);
    assert_eq!(rig.record("web").tug, 0);
    rig.says("web", lost(Difference::Absent));
    rig.next();
    assert_eq!(rig.record("web").strikes, 1, "this one nothing explains");
}

#[test]
fn h11_a_restart_explains_one_loss_and_not_the_next() {
    let mut rig = Rig::held(&["web"]);
    rig.after_create("web", lost(Difference::Absent));
    rig.restarts("run2");
    rig.says("web", lost(Difference::Absent));
    assert_eq!(rig.minutes(20), [1, 2, 4, 8, 16]);
}

#[test]
fn h11_a_restart_makes_the_braked_be_looked_at_and_keeps_their_strikes() {
    let mut rig = stubborn();
    rig.minutes(20);
    let strikes = rig.record("web").strikes;
    rig.restarts("run2");
    let did = rig.next();
    assert_eq!(did.creates(), ["web"]);
    assert_eq!(rig.record("web").strikes, strikes);
    assert!(rig.record("web").not_before > Some(rig.now + minutes(10)));
}

#[test]
fn h12_a_failed_reapply_is_tried_at_the_next_check_and_counts_nothing() {
    let mut rig = Rig::held(&["web"]);
    rig.says("web", lost(Difference::Password));
    rig.create_says("web", failing(Class::Denied));
    assert_eq!(rig.minutes(10).len(), 10);
    assert_eq!(rig.record("web").strikes, 0);
    assert_eq!(rig.state("web"), State::Lost);
}

#[test]
fn h12_a_failure_under_the_brake_waits_for_the_brakes_next_check() {
    let mut rig = stubborn();
    rig.minutes(10);
    assert_eq!(rig.record("web").strikes, 3);
    rig.create_says("web", failing(Class::Busy));
    assert_eq!(rig.minutes(60), [6, 22, 38, 54], "every 16 minutes");
    assert_eq!(
        rig.record("web").strikes,
        4,
        "the last good one counts, no failed one does"
    );
}

/// A second writer that changes the login some time after each repair.
fn fought_over(rig: &mut Rig, every: u64, count: u64) -> Vec<u64> {
    let mut applied = Vec::new();
    for minute in 1..=count {
        if minute % every == 0 {
            rig.says("web", lost(Difference::Password));
        }
        if !rig.next().creates().is_empty() {
            applied.push(minute);
        }
    }
    applied
}

#[test]
fn h15_four_changes_within_an_hour_after_being_held_are_a_tug_of_war() {
    let mut rig = Rig::held(&["web", "db"]);
    let applied = fought_over(&mut rig, 10, 39);
    assert_eq!(applied, [10, 20, 30]);
    assert_eq!(rig.record("web").tug, 0);
    fought_over(&mut rig, 1, 1);
    assert_eq!(rig.record("web").tug, 1);
    let did = rig.next();
    let fact = did.fact(ConditionType::TugOfWar);
    let at: Vec<String> = rig
        .record("web")
        .changes
        .iter()
        .map(|t| t.clock())
        .collect();
    let at = format!("after being held, at {} UTC: ", at.join(", "));
    assert!(fact.message.contains(&at), "{}", fact.message);
    assert!(
        fact.message.contains("checked every 2 min"),
        "{}",
        fact.message
    );
    assert_eq!(rig.state("db"), State::Held);
}

#[test]
fn h15_o31_a_tug_of_war_names_what_changes_also_while_it_is_held() {
    let mut rig = Rig::held(&["web"]);
    fought_over(&mut rig, 10, 40);
    let did = rig.next();
    let message = &did.fact(ConditionType::TugOfWar).message;
    assert!(
        message.contains("UTC: other password; checked"),
        "{message}"
    );
    rig.minutes(125);
    assert_eq!(rig.record("web").changed, None);
    rig.again_changes_nothing();
}

#[test]
fn h11_intervals_below_a_minute_are_told_in_seconds() {
    let mut rig = Rig::held(&["web"]);
    rig.core.set_settings(Settings {
        verify_every: secs(5),
        ..rig.core.settings().clone()
    });
    rig.says("web", lost(Difference::Password));
    rig.after_create("web", lost(Difference::Password));
    rig.next();
    let did = rig.next();
    let message = &did.fact(ConditionType::Braked).message;
    assert!(message.ends_with("checked every 10 s"), "{message}");
}

#[test]
fn h15_an_endless_fight_becomes_one_repair_an_hour() {
    // O-31, for ever: something sets another password every minute or every ten.
    for every in [1, 10] {
        let mut rig = Rig::held(&["web"]);
        let applied = fought_over(&mut rig, every, 600);
        let late = applied.iter().filter(|m| **m > 240).count();
        assert!(late <= 7, "{every}: {applied:?}");
        assert!(applied.len() <= 22, "{every}: {applied:?}");
    }
}

#[test]
fn h15_a_tug_of_war_settles_within_about_an_hour_of_its_end() {
    let mut rig = Rig::held(&["web"]);
    fought_over(&mut rig, 10, 200);
    assert!(rig.record("web").tug > 1);
    rig.minutes(125);
    assert_eq!(rig.record("web").tug, 0);
    assert_eq!(rig.record("web").not_before, None);
    let did = rig.next();
    assert_eq!(did.kinds(), []);
    rig.again_changes_nothing();
}

#[test]
fn h15_a_held_answer_does_not_end_a_tug_of_war_at_once() {
    let mut rig = Rig::held(&["web"]);
    fought_over(&mut rig, 10, 41);
    assert_eq!(rig.record("web").tug, 1);
    let mut asked = Vec::new();
    for minute in 1..=10 {
        let did = rig.next();
        if !did.asked.is_empty() {
            asked.push(minute);
        }
        assert_eq!(did.kinds(), [ConditionType::TugOfWar]);
    }
    assert_eq!(asked, [1, 3, 5, 7, 9], "every two minutes");
}

#[test]
fn h15_changes_that_a_restart_explains_are_none() {
    let mut rig = Rig::held(&["web"]);
    for run in 0..8 {
        rig.restarts(&format!("next{run}"));
        rig.says("web", lost(Difference::Absent));
        rig.next();
        rig.next();
    }
    assert_eq!(rig.record("web").changes, []);
}

#[test]
fn h15_a_changed_wish_is_no_change_by_somebody_else() {
    let mut rig = Rig::held(&["web"]);
    for version in 2..10 {
        rig.change("web", |w| w.digest = digest(version));
        rig.says("web", lost(Difference::Password));
        rig.next();
        rig.next();
    }
    assert_eq!((rig.record("web").tug, rig.record("web").strikes), (0, 0));
}

#[test]
fn h11_h24_the_end_of_a_brake_is_stored_at_once() {
    let mut rig = stubborn();
    rig.minutes(20);
    rig.store();
    let web = rig.core.slot_of(&name("web")).expect("a slot");
    rig.core.release(Some(&name("web")), rig.now);
    assert_eq!(rig.store(), [web], "a person's word");
    rig.minutes(20);
    assert!(rig.record("web").is_braked());
    rig.store();
    rig.change("web", |w| w.digest = digest(2));
    assert_eq!(rig.store(), [web], "another wish");
    assert!(!rig.record("web").is_braked());
}

#[test]
fn h11_o28_a_password_that_cannot_be_read_for_a_while_ends_no_brake() {
    let mut rig = stubborn();
    rig.minutes(20);
    let strikes = rig.record("web").strikes;
    rig.change("web", |w| {
        w.secret = SecretState::Lost("the file is gone".into());
        w.digest = digest(9);
    });
    rig.next();
    rig.change("web", |w| {
        w.secret = SecretState::Ready;
        w.digest = digest(1);
    });
    assert_eq!(rig.record("web").strikes, strikes);
    assert!(rig.record("web").not_before.is_some());
}

#[test]
fn c7_somebodys_done_makes_a_braked_one_be_looked_at_and_ends_no_brake() {
    let mut rig = stubborn();
    rig.minutes(20);
    let strikes = rig.record("web").strikes;
    assert!(strikes >= 4);
    let web = ConsumerName::new("web").expect("name");
    rig.core.look_now(Some(&web));
    let did = rig.pass();
    assert!(did.asked.contains(&"web".to_owned()), "{:?}", did.asked);
    assert!(rig.record("web").strikes > strikes, "it is lost still");
    rig.says("web", held());
    rig.core.look_now(Some(&web));
    rig.pass();
    assert_eq!(rig.record("web").strikes, 0, "it was seen held");
    rig.again_changes_nothing();
}
