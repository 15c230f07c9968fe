//! H-1, H-2, H-3, H-10, H-22, H-23: when something is applied, and in which order.
use super::*;
use crate::decide::{Last, Why};

fn unasked() -> Capabilities {
    Capabilities {
        holds: false,
        list: false,
        ..asked_singly()
    }
}

#[test]
fn h1_what_is_new_or_changed_is_applied_and_nothing_else() {
    let mut rig = Rig::new(&["web"]);
    let did = rig.pass();
    assert_eq!(did.steps, [("web".into(), Step::Create(Why::New))]);
    assert!(did.happened(&Happening::Applied));
    assert_eq!(rig.record("web").applied, Some(digest(1)));
    assert_eq!(rig.record("web").applied_at, Some(rig.now));
    rig.next();
    rig.again_changes_nothing();

    rig.change("web", |w| w.digest = digest(2));
    rig.says("web", lost(Difference::Password));
    let did = rig.next();
    assert_eq!(did.steps, [("web".into(), Step::Create(Why::Changed))]);
    assert!(did.happened(&Happening::Applied));
    rig.next();
    rig.again_changes_nothing();
}

#[test]
fn h1_a_wish_that_changes_during_a_pass_makes_that_pass_void_for_it() {
    let mut rig = Rig::new(&["web"]);
    let plan = rig.core.begin(rig.now);
    rig.core.answer(plan.ask[0], rig.now, Ok(Answer::absent()));
    let steps = rig.core.steps(rig.now);
    assert_eq!(steps.len(), 1);
    rig.change("web", |w| w.digest = digest(2));
    rig.core.effect(0, rig.now, Ok(()));
    rig.core.looked_again(0, rig.now, held());
    rig.core.answer(0, rig.now, held());
    assert_eq!(
        rig.record("web").applied,
        None,
        "the old wish was applied, not this one"
    );
    assert_eq!(rig.core.unanswered(), 0);
    let end = rig.core.end(rig.now);
    assert_eq!(end.next_at, rig.now, "it is asked at once");
    let did = rig.pass();
    assert_eq!(did.steps, [("web".into(), Step::Create(Why::Changed))]);
}

#[test]
fn h1_a_consumer_named_twice_is_one_and_the_later_entry_counts() {
    let mut rig = Rig::new(&[]);
    let later = Wanted {
        digest: digest(2),
        ..wanted("web")
    };
    rig.wish_for(vec![wanted("web"), later]);
    assert_eq!(rig.core.slots().len(), 1);
    rig.pass();
    assert_eq!(rig.record("web").applied, Some(digest(2)));
}

#[test]
fn h2_without_a_record_what_is_held_is_adopted_and_the_rest_created() {
    let mut rig = Rig::new(&["there", "gone"]);
    rig.says("there", held());
    let did = rig.pass();
    assert_eq!(did.creates(), ["gone"]);
    assert!(did.happened(&Happening::Adopted));
    assert_eq!(rig.record("there").applied, Some(digest(1)));
    assert!(!rig.record("there").adopted, "it was ours all along");
    rig.next();
    rig.again_changes_nothing();
}

#[test]
fn h2_a_changed_wish_that_is_already_held_needs_no_write() {
    let mut rig = Rig::held(&["web"]);
    rig.change("web", |w| w.digest = digest(2));
    let did = rig.next();
    assert_eq!(did.steps, []);
    assert_eq!(rig.record("web").applied, Some(digest(2)));
    rig.again_changes_nothing();
}

#[test]
fn h3_a_failed_new_create_waits_growing_and_nobody_waits_with_it() {
    let mut rig = Rig::new(&["bad", "good"]);
    rig.create_says("bad", failing(Class::Busy));
    let did = rig.pass();
    assert_eq!(did.creates(), ["bad", "good"]);
    assert_eq!(rig.state("good"), State::Held);
    let mut waits = Vec::new();
    let mut next_at = did.next_at;
    for _ in 0..8 {
        waits.push(next_at.since(rig.now));
        rig.now = next_at;
        let did = rig.pass();
        assert!(did.creates().is_empty() || did.creates() == ["bad"]);
        next_at = rig.record("bad").not_before.expect("it waits");
    }
    assert!(waits[0] <= secs(2) && waits[7] >= secs(30), "{waits:?}");
    assert!(waits.iter().all(|w| *w <= minutes(1)), "{waits:?}");
    assert_eq!(rig.record("bad").strikes, 0, "failures are no strikes");
}

#[test]
fn h3_what_cannot_pass_by_itself_waits_a_whole_period() {
    let mut rig = Rig::new(&["bad"]);
    rig.create_says("bad", failing(Class::RefusedValue));
    let did = rig.pass();
    assert_eq!(
        rig.record("bad").not_before,
        Some(rig.now + rig.core.settings().verify_every)
    );
    assert!(did.next_at <= rig.now + minutes(1));
    assert_eq!(did.kinds(), [ConditionType::Refused]);
    assert_eq!(rig.state("bad"), State::Refused);
}

#[test]
fn h3_a_changed_wish_and_a_persons_word_end_the_delay() {
    for word in [true, false] {
        let mut rig = Rig::new(&["web"]);
        rig.create_says("web", failing(Class::Denied));
        let did = rig.pass();
        assert_eq!(did.fact(ConditionType::ApplyFailed).subject, "web");
        rig.wait(secs(1));
        assert_eq!(rig.pass().creates(), Vec::<&str>::new());
        rig.create_says("web", Ok(()));
        if word {
            rig.core.release(Some(&name("web")), rig.now);
        } else {
            rig.change("web", |w| w.digest = digest(2));
        }
        let did = rig.pass();
        assert_eq!(did.creates(), ["web"]);
        assert_eq!(did.kinds(), []);
    }
}

#[test]
fn h3_a_failed_reapply_of_a_lost_one_has_no_delay() {
    let mut rig = Rig::held(&["web"]);
    rig.says("web", lost(Difference::Password));
    rig.create_says("web", failing(Class::Busy));
    assert_eq!(rig.minutes(5), [1, 2, 3, 4, 5]);
    assert_eq!(rig.record("web").failures, 5);
    assert_eq!(rig.record("web").not_before, None);
    let did = rig.next();
    assert_eq!(did.kinds(), [ConditionType::HealFailed]);
}

#[test]
fn h10_without_holds_create_runs_once_at_start() {
    let mut rig = Rig::of(unasked(), &["web"]);
    let did = rig.pass();
    assert_eq!(did.steps, [("web".into(), Step::Create(Why::New))]);
    assert_eq!(did.asked, Vec::<String>::new());
    assert_eq!(rig.state("web"), State::Held);
    assert!(matches!(
        rig.record("web").last,
        Last::Held {
            proof: Proof::Record,
            ..
        }
    ));
    rig.again_changes_nothing();
    rig.restart_and_wish();
    let did = rig.next();
    assert_eq!(did.steps, [("web".into(), Step::Create(Why::Started))]);
    rig.again_changes_nothing();
}

#[test]
fn h10_without_holds_create_runs_once_after_a_restart_and_on_a_word() {
    let mut rig = Rig::of(unasked(), &["web", "db"]);
    rig.pass();
    rig.restarts("run2");
    let did = rig.next();
    let why = Step::Create(Why::ServerRestarted);
    assert_eq!(did.steps, [("web".into(), why), ("db".into(), why)]);
    rig.again_changes_nothing();
    rig.core.release(Some(&name("db")), rig.now);
    let did = rig.pass();
    assert_eq!(did.steps, [("db".into(), Step::Create(Why::Word))]);
    rig.again_changes_nothing();
    rig.change("db", |w| w.digest = digest(2));
    let did = rig.pass();
    assert_eq!(did.steps, [("db".into(), Step::Create(Why::Changed))]);
    rig.again_changes_nothing();
}

#[test]
fn h10_without_holds_a_failed_start_is_tried_until_it_is_done() {
    let mut rig = Rig::of(unasked(), &["web"]);
    rig.pass();
    rig.create_says("web", failing(Class::Unreachable));
    rig.restart_and_wish();
    assert_eq!(rig.next().creates(), ["web"]);
    assert_eq!(rig.next().creates(), ["web"]);
    rig.create_says("web", Ok(()));
    assert_eq!(rig.next().creates(), ["web"]);
    rig.again_changes_nothing();
}

#[test]
fn a10_who_turns_out_not_to_be_askable_is_created_once_and_asked_again_when_it_can_be() {
    let mut rig = Rig::held(&["web"]);
    let askable = rig.core.caps;
    rig.core.set_capabilities(unasked());
    let did = rig.next();
    assert_eq!(did.steps, [("web".into(), Step::Create(Why::Started))]);
    assert_eq!(did.asked, Vec::<String>::new());
    rig.again_changes_nothing();
    rig.core.set_capabilities(askable);
    let did = rig.next();
    assert_eq!(
        (did.asked.as_slice(), did.steps.len()),
        (&["web".to_owned()][..], 0)
    );
}

#[test]
fn h10_without_holds_nobody_is_tried_while_the_server_is_down() {
    let mut rig = Rig::of(unasked(), &["web"]);
    rig.pass();
    let there = rig.server.clone();
    rig.server = failing(Class::Unreachable);
    let did = rig.next();
    assert_eq!((did.steps.len(), did.dirty.len()), (0, 0));
    assert_eq!(rig.state("web"), State::Unknown);
    rig.server = there.clone();
    let did = rig.next();
    assert_eq!((did.steps.len(), did.dirty.len()), (0, 0));
    assert_eq!(rig.state("web"), State::Held);

    rig.server = failing(Class::Unreachable);
    rig.next();
    rig.core.all_dirty();
    rig.store();
    rig.server = there;
    assert_eq!(
        rig.next().dirty,
        ["web"],
        "what is stored as unknown is stored as known"
    );
}

#[test]
fn h22_a_new_consumer_gets_one_password_and_is_created_on_the_same_pass() {
    let mut rig = Rig::new(&[]);
    let new = Wanted {
        secret: SecretState::New,
        ..wanted("web")
    };
    rig.wish_for(vec![new]);
    let did = rig.pass();
    assert!(did.plan.list, "no login may carry its mark");
    let steps: Vec<Step> = did.steps.iter().map(|(_, step)| *step).collect();
    assert_eq!(steps, [Step::Mint, Step::Create(Why::New)]);
    assert_eq!(rig.record("web").applied, Some(digest(100)));
    rig.change("web", |w| {
        w.secret = SecretState::Ready;
        w.digest = digest(100);
    });
    rig.next();
    rig.again_changes_nothing();
    assert_eq!(rig.mints, 1);
}

/// Whatever says that the consumer is not new makes a missing secret `SecretLost`.
#[test]
fn h22_a_consumer_that_anything_knows_is_not_new() {
    let new = || Wanted {
        secret: SecretState::New,
        digest: digest(7),
        ..wanted("web")
    };
    let refused = |rig: &mut Rig, what: &str| {
        for _ in 0..3 {
            let did = rig.next();
            assert_eq!(did.steps, [], "{what}");
            assert_eq!(did.kinds(), [ConditionType::SecretLost], "{what}");
        }
        assert_eq!(rig.state("web"), State::Refused, "{what}");
        assert_eq!(rig.mints, 0, "{what}");
    };
    let mut rig = Rig::new(&[]);
    rig.wish_for(vec![new()]);
    rig.says("web", lost(Difference::Password));
    refused(&mut rig, "a login with its mark");

    let mut rig = Rig::new(&[]);
    rig.wish_for(vec![new()]);
    rig.says("web", held());
    refused(&mut rig, "a login that is held");
    assert_eq!(rig.record("web").applied, None, "nothing was proven");

    let mut rig = Rig::new(&[]);
    rig.wish_for(vec![new()]);
    rig.lists(&[("older-name", MarkSeen::OursFor(name("web")))]);
    refused(&mut rig, "a login of another name with its mark");

    let mut rig = Rig::held(&["web"]);
    rig.restart();
    rig.wish_for(vec![new()]);
    rig.says("web", Ok(Answer::absent()));
    refused(&mut rig, "a record that it was applied");

    let mut rig = Rig::held(&["web"]);
    rig.wish_for(vec![Wanted {
        login: login("renamed"),
        ..new()
    }]);
    rig.says("web", Ok(Answer::absent()));
    refused(&mut rig, "a login that it had before");
}

#[test]
fn h22_no_list_no_mint() {
    let mut rig = Rig::new(&[]);
    rig.wish_for(vec![Wanted {
        secret: SecretState::New,
        ..wanted("web")
    }]);
    rig.list = failing(Class::Busy);
    for _ in 0..5 {
        let did = rig.next();
        assert_eq!((did.steps.len(), did.kinds().len()), (0, 0));
    }
    assert_eq!(
        rig.next().kinds(),
        [ConditionType::LookUnknown],
        "and it says why"
    );
    rig.lists(&[]);
    assert_eq!(rig.next().steps.len(), 2);
    assert_eq!(rig.mints, 1);
}

#[test]
fn h22_without_holds_a_consumer_with_a_record_is_not_new() {
    let new = |n: &str| Wanted {
        secret: SecretState::New,
        digest: digest(7),
        ..wanted(n)
    };
    let mut rig = Rig::of(unasked(), &["old"]);
    rig.pass();
    rig.wish_for(vec![new("old"), new("new")]);
    let did = rig.next();
    let minted = did.steps.iter().filter(|(_, step)| *step == Step::Mint);
    assert_eq!(minted.map(|(n, _)| n.as_str()).collect::<Vec<_>>(), ["new"]);
    assert_eq!(did.fact(ConditionType::SecretLost).subject, "old");
}

#[test]
fn h22_a_mint_that_fails_writes_nothing() {
    let mut rig = Rig::new(&[]);
    rig.wish_for(vec![Wanted {
        secret: SecretState::New,
        ..wanted("web")
    }]);
    rig.look();
    assert_eq!(rig.core.steps(rig.now), [(0, Step::Mint)]);
    rig.core.secret_lost(0, "the store says no".into());
    assert_eq!(rig.core.steps(rig.now), []);
    let facts = rig.core.end(rig.now).facts;
    assert_eq!(facts[0].kind, ConditionType::SecretLost);
    assert_eq!(facts[0].message, "the store says no");
    rig.confirm_wish();
    assert_eq!(
        rig.next().steps,
        [],
        "a wish that calls it new does not undo that"
    );
    assert_eq!(rig.mints, 0);
}

#[test]
fn h22_a_secret_that_cannot_be_read_stops_writes_and_changes_nothing_else() {
    let mut rig = Rig::held(&["web"]);
    rig.change("web", |w| {
        w.secret = SecretState::Lost("the key is gone".into());
        w.digest = digest(9);
    });
    let did = rig.next();
    assert_eq!((did.steps.len(), did.dirty.len()), (0, 0));
    assert_eq!(
        did.fact(ConditionType::SecretLost).message,
        "the key is gone"
    );
    assert_eq!(rig.record("web").applied, Some(digest(1)));
    rig.says("web", lost(Difference::Absent));
    assert_eq!(rig.next().steps, []);
    rig.change("web", |w| {
        w.secret = SecretState::Ready;
        w.digest = digest(1);
    });
    assert_eq!(rig.next().creates(), ["web"]);
    rig.next();
    rig.again_changes_nothing();
}

#[test]
fn h23_the_intent_is_in_the_record_before_the_effect_and_applied_after_the_look() {
    let mut rig = Rig::new(&["web"]);
    rig.look();
    rig.store();
    let steps = rig.core.steps(rig.now);
    assert_eq!(steps.len(), 1);
    assert_eq!(rig.record("web").intent, Some(digest(1)));
    assert_eq!(rig.store(), [0], "the intent is to be stored");
    rig.core.effect(0, rig.now, Ok(()));
    assert_eq!(rig.record("web").applied, None, "nothing is guessed");
    rig.core.looked_again(0, rig.now, held());
    assert_eq!(rig.record("web").applied, Some(digest(1)));
    assert_eq!(rig.record("web").intent, None);
}

#[test]
fn h23_an_unknown_look_again_leaves_the_intent_and_the_next_look_decides() {
    let mut rig = Rig::new(&["web"]);
    rig.after_create("web", failing(Class::Busy));
    rig.pass();
    assert_eq!(rig.record("web").intent, Some(digest(1)));
    assert_eq!(rig.record("web").applied, None);
    rig.restart_and_wish();
    rig.says("web", held());
    let did = rig.next();
    assert_eq!(did.steps, [], "a crash in between means: look first");
    assert!(did.happened(&Happening::Applied));
    rig.again_changes_nothing();
}

#[test]
fn h23_a_half_done_create_is_found_and_brought_to_the_wish() {
    // O-42: the server made the login, and the answer never came.
    let mut rig = Rig::new(&["web"]);
    rig.create_says("web", failing(Class::Unreachable));
    rig.pass();
    rig.says(
        "web",
        marked(Difference::GrantsMissing, MarkSeen::None, false),
    );
    rig.create_says("web", Ok(()));
    rig.wait(secs(2));
    let did = rig.pass();
    assert_eq!(did.creates(), ["web"], "our intent says whose it is");
    rig.next();
    rig.again_changes_nothing();
}

#[test]
fn h3_a_restart_of_the_server_ends_no_delay() {
    let mut rig = Rig::new(&["bad", "good"]);
    rig.create_says("bad", failing(Class::Denied));
    rig.pass();
    rig.wait(secs(5));
    rig.restarts("run2");
    assert_eq!(rig.pass().asked, ["good"]);
}

#[test]
fn h10_the_first_run_that_is_seen_is_no_restart() {
    let mut rig = Rig::of(unasked(), &["web"]);
    rig.pass();
    let records = vec![(name("web"), rig.record("web").clone())];
    let stored = Stored {
        records: records.clone(),
        ..Stored::default()
    };
    rig.core = Core::new(Settings::default(), rig.caps, stored, rig.now);
    rig.confirm_wish();
    let did = rig.next();
    assert_eq!(did.steps, [("web".into(), Step::Create(Why::Started))]);
}

#[test]
fn h22_a_store_that_was_closed_for_a_while_leaves_a_new_consumer_new() {
    let mut rig = Rig::new(&[]);
    let with = |secret: SecretState| Wanted {
        secret,
        ..wanted("web")
    };
    rig.wish_for(vec![with(SecretState::Lost("the store is closed".into()))]);
    assert_eq!(rig.pass().steps, []);
    rig.wish_for(vec![with(SecretState::New)]);
    assert_eq!(rig.pass().steps.len(), 2);
    assert_eq!(rig.mints, 1);
}

#[test]
fn h22_once_lost_a_secret_is_lost_until_it_is_handed_back() {
    let mut rig = Rig::new(&[]);
    let with = |secret: SecretState| Wanted {
        secret,
        ..wanted("web")
    };
    rig.wish_for(vec![with(SecretState::New)]);
    rig.says("web", lost(Difference::Password));
    rig.pass();
    // The login goes, the store is closed and opened: nothing of that makes the consumer new.
    rig.says("web", Ok(Answer::absent()));
    rig.wish_for(vec![with(SecretState::Lost("the store is closed".into()))]);
    rig.next();
    rig.wish_for(vec![with(SecretState::New)]);
    assert_eq!(rig.next().kinds(), [ConditionType::SecretLost]);
    rig.wish_for(vec![]);
    rig.wish_for(vec![with(SecretState::New)]);
    assert_eq!(rig.state("web"), State::Refused, "at once, unasked");
    let did = rig.next();
    let fact = did.fact(ConditionType::SecretLost);
    assert!(
        fact.message.contains("no secret is stored"),
        "{}",
        fact.message
    );
    rig.wish_for(vec![with(SecretState::Ready)]);
    assert_eq!(rig.next().creates(), ["web"]);
}

#[test]
fn h1_a_question_about_another_wish_is_taken_back() {
    let mut rig = Rig::held(&["a", "web"]);
    rig.wait(minutes(1));
    rig.core.server_seen(rig.now, rig.server.clone());
    rig.core.begin(rig.now);
    assert_eq!(rig.core.unanswered(), 2);
    rig.change("web", |w| w.digest = digest(2));
    assert_eq!(rig.core.unanswered(), 1);
    rig.wish_for(vec![wanted("web")]);
    assert_eq!(rig.core.unanswered(), 0);
}
