//! What is stored reads well, and one consumer costs little memory.
use super::*;
use crate::decide::{Last, state_of};

#[test]
fn a_slot_is_small() {
    assert!(size_of::<Slot>() <= 512, "{} bytes", size_of::<Slot>());
}

#[test]
fn a_healthy_record_is_short_and_readable() {
    let rig = Rig::held(&["web"]);
    let json = serde_json::to_value(rig.record("web")).expect("json");
    let keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["applied", "applied_at", "last", "login", "run"]);
}

#[test]
fn a_record_of_an_earlier_shape_reads() {
    let record: Record = serde_json::from_str(r#"{"login":"web"}"#).expect("reads");
    assert_eq!(record, Record::new(login("web")));
    let text = r#"{"login":"web","departure":{"since":1,"wish_last":2}}"#;
    let record: Record = serde_json::from_str(text).expect("reads");
    assert!(record.departure.is_some());
    let server: crate::decide::ServerRecord = serde_json::from_str("{}").expect("reads");
    assert_eq!(server, crate::decide::ServerRecord::default());
}

#[test]
fn every_state_has_its_word() {
    for state in [
        State::Held,
        State::Disabled,
        State::Pending,
        State::Lost,
        State::Unknown,
        State::Braked,
        State::Refused,
    ] {
        let json = serde_json::to_string(&state).expect("json");
        assert_eq!(json, format!("\"{}\"", state.as_str()));
        let fine = matches!(state, State::Held | State::Disabled);
        assert_eq!(state.is_fine(), fine);
    }
}

#[test]
fn consumers_that_come_and_go_before_they_are_made_do_not_fill_the_memory() {
    let mut rig = Rig::held(&["a"]);
    for i in 0..1000 {
        let passing = format!("p{i}");
        rig.wish_for(vec![wanted("a"), wanted(&passing)]);
        assert!(rig.core.slot_of(&name(&passing)).is_some());
        rig.wish_for(vec![wanted("a")]);
    }
    assert!(rig.core.slots().len() <= 3, "{}", rig.core.slots().len());
    assert_eq!(rig.core.slot_of(&name("p7")), None);
    rig.again_changes_nothing();
}

#[test]
fn a_record_that_was_stored_is_never_another_consumers() {
    let mut rig = Rig::new(&["a", "b"]);
    rig.says("b", failing(Class::Busy));
    rig.pass();
    let b = rig.core.slot_of(&name("b"));
    rig.wish_for(vec![wanted("a")]);
    rig.pass();
    rig.wish_for(vec![wanted("a"), wanted("c")]);
    assert_eq!(rig.core.slot_of(&name("b")), b);
    assert_ne!(rig.core.slot_of(&name("c")), b);
}

#[test]
fn everything_can_be_stored_again() {
    let mut rig = Rig::held(&["a", "b"]);
    rig.core.all_dirty();
    assert_eq!(rig.store(), [0, 1]);
    assert_eq!(rig.store(), Vec::<usize>::new());
}

#[test]
fn the_generation_of_the_wish_is_the_last_ones() {
    let rig = Rig::held(&["a"]);
    assert_eq!(rig.core.generation(), rig.wish.generation);
    let mut rig = rig;
    rig.wish_for(vec![]);
    rig.wish_for(vec![]);
    assert_eq!(rig.core.generation(), 3);
    let seen = rig.core.server_facts().and_then(|s| s.run.clone());
    assert_eq!(seen.as_deref(), Some("run1"));
    rig.core.set_settings(Settings {
        seed: 7,
        ..Settings::default()
    });
    assert_eq!(rig.core.settings().seed, 7);
}

#[test]
fn a_state_follows_from_wish_and_record() {
    let at = Time::from_millis(1);
    let web = wanted("web");
    let off = Wanted {
        enabled: false,
        ..wanted("web")
    };
    let held = Last::Held {
        proof: Proof::Verifier,
        since: at,
        warning: None,
    };
    let lost = Last::Lost {
        differences: Difference::Absent.into(),
        detail: "".into(),
        at,
    };
    let record = |last: &Last, applied: bool, strikes: u32, awaiting_check: bool| Record {
        last: last.clone(),
        applied: applied.then_some(digest(1)),
        strikes,
        awaiting_check,
        ..Record::new(login("web"))
    };
    let never = &Last::Never;
    for (wanted, last, applied, strikes, awaiting_check, state) in [
        (&web, &held, true, 0, false, State::Held),
        (&off, &held, true, 0, false, State::Disabled),
        (&web, &held, false, 0, false, State::Pending),
        (&off, &held, false, 0, false, State::Pending),
        (&web, &held, true, 1, true, State::Braked),
        (&web, &held, true, 0, true, State::Held),
        (&web, &held, true, 1, false, State::Held),
        (&web, &lost, true, 0, false, State::Lost),
        (&web, &lost, false, 0, false, State::Pending),
        (&web, &lost, true, 1, false, State::Braked),
        (&web, never, false, 0, false, State::Pending),
        (&web, never, true, 0, false, State::Pending),
        (&web, never, true, 1, false, State::Braked),
    ] {
        let record = record(last, applied, strikes, awaiting_check);
        assert_eq!(state_of(wanted, &record), state, "{record:?}");
    }
}
