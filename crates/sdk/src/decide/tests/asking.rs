//! H-4 … H-9, H-13, H-14, H-16, H-17, H-21, H-24: whom a pass asks, and what no answer means.
use super::*;
use crate::decide::Last;

fn in_bulk() -> Capabilities {
    Capabilities {
        holds_all: true,
        ..asked_singly()
    }
}

#[test]
fn h4_every_applied_consumer_is_asked_once_a_period() {
    let mut rig = Rig::held(&["a", "b", "c"]);
    let period = rig.core.settings().verify_every;
    for _ in 0..50 {
        let before = rig.now;
        rig.look();
        let next = rig.core.end(rig.now).next_at;
        let gap = next.since(before);
        assert!(gap <= period && gap >= period.mul_f64(0.9), "{gap:?}");
        rig.now = next;
        let did = rig.pass();
        assert_eq!(did.asked.len(), 3);
        rig.now = did.next_at;
    }
}

#[test]
fn h4_passes_of_many_providers_do_not_beat_in_step() {
    let mut gaps = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let mut rig = Rig::new(&["a"]);
        let settings = Settings {
            seed,
            ..Settings::default()
        };
        rig.core.set_settings(settings);
        gaps.insert(rig.pass().next_at);
    }
    assert!(gaps.len() > 15);
}

#[test]
fn h4_a_pass_between_asks_only_whom_it_is_for_and_moves_nobody_elses_time() {
    let mut rig = Rig::held(&["a", "b"]);
    let regular = rig.next().next_at;
    rig.wait(secs(20));
    rig.core.release(Some(&name("b")), rig.now);
    let did = rig.pass();
    assert_eq!(did.asked, ["b"]);
    assert_eq!(did.next_at, regular);
    rig.now = regular;
    assert_eq!(rig.pass().asked, ["a", "b"]);
}

#[test]
fn h4_a_shorter_period_counts_at_once() {
    let mut rig = Rig::held(&["a"]);
    rig.core.set_settings(Settings {
        verify_every: secs(10),
        ..Settings::default()
    });
    let did = rig.pass();
    assert_eq!(did.asked, ["a"]);
    assert!(did.next_at <= rig.now + secs(10));
    rig.core.set_settings(rig.core.settings().clone());
    assert_eq!(rig.pass().asked, Vec::<String>::new(), "the same again");
    rig.core.set_settings(Settings::default());
    assert_eq!(rig.pass().asked, Vec::<String>::new(), "a longer one");
}

#[test]
fn h5_an_answer_nobody_asked_for_is_no_answer() {
    let mut rig = Rig::held(&["a"]);
    rig.core.begin(rig.now);
    rig.core.answer(0, rig.now, lost(Difference::Absent));
    rig.core.answer(7, rig.now, lost(Difference::Absent));
    assert_eq!(rig.core.steps(rig.now), []);
    let plan = rig.core.begin(rig.now + minutes(1));
    rig.core.answer(plan.ask[0], rig.now, held());
    rig.core
        .answer(plan.ask[0], rig.now, lost(Difference::Absent));
    assert_eq!(rig.core.steps(rig.now), [], "the first answer counts");
}

#[test]
fn h6_lost_is_applied_again_on_the_same_pass_and_says_what_differed() {
    let mut rig = Rig::held(&["web", "db"]);
    rig.says(
        "web",
        Ok(Answer::Lost(Box::new(Lost {
            differences: Difference::GrantsMissing.into(),
            detail: "missing ~web:*".into(),
            mark: MarkSeen::Ours,
            password_fits: true,
        }))),
    );
    let did = rig.next();
    let differences = Difference::GrantsMissing.into();
    let detail: Box<str> = "missing ~web:*".into();
    let why = crate::decide::Why::Lost(differences);
    assert_eq!(did.steps, [("web".into(), Step::Create(why))]);
    assert!(did.happened(&Happening::Healed(differences, detail)));
    assert_eq!((did.summary.lost, did.summary.applied), (1, 1));
    assert_eq!(rig.state("web"), State::Held);
    rig.next();
    rig.again_changes_nothing();
}

#[test]
fn h7_unknown_reapplies_nothing_and_is_a_condition_only_after_a_while() {
    let mut rig = Rig::held(&["web", "db"]);
    let last_answer = rig.slot("web").checked_at();
    rig.says("web", failing(Class::Busy));
    let did = rig.next();
    let since = rig.now;
    assert!(did.happened(&Happening::BecameUnknown("as told".into())));
    assert_eq!(did.dirty, ["web"]);
    assert_eq!(rig.state("web"), State::Unknown);
    for minute in 1..12 {
        let did = rig.next();
        assert_eq!(did.steps, []);
        assert_eq!(
            did.dirty,
            Vec::<String>::new(),
            "the same trouble again is no news"
        );
        let kinds = did.kinds();
        let told = kinds == [ConditionType::LookUnknown];
        assert_eq!(told, minute >= 5, "{minute}: {kinds:?}");
    }
    assert_eq!(
        rig.slot("web").checked_at(),
        last_answer,
        "the age of the last answer"
    );
    assert_eq!(
        rig.record("web").unknown.as_ref().map(|u| u.since),
        Some(since)
    );
    rig.says("web", held());
    let did = rig.next();
    assert!(did.happened(&Happening::AnsweredAgain));
    rig.again_changes_nothing();
}

#[test]
fn h7_another_kind_of_trouble_is_news_and_keeps_its_age() {
    let mut rig = Rig::held(&["web"]);
    rig.says("web", failing(Class::Busy));
    rig.next();
    let since = rig.record("web").unknown.clone().expect("unknown").since;
    rig.says("web", failing(Class::Denied));
    assert_eq!(rig.next().dirty, ["web"]);
    let unknown = rig.record("web").unknown.clone().expect("unknown");
    assert_eq!((unknown.since, unknown.class), (since, Class::Denied));
}

#[test]
fn h7_a_server_that_is_down_is_told_once_and_stored_once() {
    let mut rig = Rig::held(&["a", "b", "c"]);
    let there = rig.server.clone();
    rig.server = failing(Class::Unreachable);
    let did = rig.next();
    assert!(did.server_dirty);
    assert_eq!((did.asked.len(), did.summary.unknown), (0, 3));
    assert_eq!((did.dirty.len(), did.happenings.len()), (0, 0));
    assert_eq!(rig.state("b"), State::Unknown);
    for minute in 1..8 {
        let did = rig.next();
        let expected: &[ConditionType] = if minute >= 5 {
            &[ConditionType::BackendUnreachable]
        } else {
            &[]
        };
        assert_eq!(did.kinds(), expected, "minute {minute}");
        assert!(!did.server_dirty);
    }
    rig.server = there;
    let did = rig.next();
    assert_eq!((did.dirty.len(), did.happenings.len()), (0, 0));
    assert_eq!((rig.state("b"), did.kinds().len()), (State::Held, 0));
    rig.again_changes_nothing();
}

#[test]
fn h7_trouble_of_its_own_after_the_server_was_down_is_told() {
    let mut rig = Rig::held(&["a", "b"]);
    let there = rig.server.clone();
    rig.server = failing(Class::Unreachable);
    rig.next();
    let since = rig.now;
    rig.server = there;
    rig.says("a", failing(Class::Denied));
    let did = rig.next();
    assert_eq!(did.dirty, ["a"]);
    assert!(did.happened(&Happening::BecameUnknown("as told".into())));
    let unknown = rig.record("a").unknown.clone().expect("unknown");
    assert_eq!((unknown.since, unknown.class), (since, Class::Denied));
}

#[test]
fn h7_nobody_answering_is_one_condition_of_the_backend() {
    let caps = Capabilities {
        server: false,
        ..asked_singly()
    };
    let mut rig = Rig::of(caps, &["a", "b", "c"]);
    rig.pass();
    for n in ["a", "b", "c"] {
        rig.says(n, failing(Class::Unreachable));
    }
    for _ in 0..6 {
        rig.next();
    }
    let did = rig.next();
    assert_eq!(did.kinds(), [ConditionType::BackendUnreachable]);
    assert_eq!(did.facts[0].subject, "");
    rig.says("c", held());
    let did = rig.next();
    assert_eq!(
        did.kinds(),
        [ConditionType::LookUnknown; 2],
        "now they differ"
    );
}

#[test]
fn h8_a_check_that_fails_stops_nobody_behind_it() {
    let mut rig = Rig::held(&["a", "b", "c"]);
    rig.says("a", failing(Class::Bug));
    rig.says("b", failing(Class::Unreachable));
    rig.says("c", lost(Difference::Absent));
    let did = rig.next();
    assert_eq!(did.asked, ["a", "b", "c"]);
    assert_eq!(did.creates(), ["c"]);
    assert_eq!((did.summary.asked, did.summary.unknown), (3, 2));
}

#[test]
fn h9_a_timeout_ends_the_asking_and_losses_before_it_are_healed() {
    let mut rig = Rig::held(&["a", "b", "c"]);
    rig.says("a", lost(Difference::Absent));
    rig.says("b", failing(Class::TimedOut));
    rig.says("c", lost(Difference::Absent));
    let did = rig.next();
    assert_eq!(did.asked, ["a", "b"]);
    assert_eq!(did.creates(), ["a"]);
    assert_eq!((did.summary.not_asked, did.summary.unknown), (1, 1));
    assert_eq!(rig.state("b"), State::Unknown);
    assert_eq!(
        rig.state("c"),
        State::Held,
        "not asked is not unknown, for a while"
    );
    let did = rig.next();
    assert_eq!(
        did.asked,
        ["c", "a", "b"],
        "those who were not asked go first"
    );
    assert_eq!(did.creates(), ["c"]);
}

#[test]
fn h9_what_was_in_flight_when_the_asking_ended_counts() {
    let mut rig = Rig::held(&["a", "b"]);
    rig.wait(minutes(1));
    rig.core.server_seen(rig.now, rig.server.clone());
    let plan = rig.core.begin(rig.now);
    rig.core
        .answer(plan.ask[0], rig.now, failing(Class::TimedOut));
    assert!(rig.core.asking_ended());
    rig.core
        .answer(plan.ask[1], rig.now, lost(Difference::Absent));
    assert_eq!(rig.core.steps(rig.now).len(), 1);
}

#[test]
fn h16_where_the_adapter_rests_losses_are_healed_first_and_the_others_asked_at_once() {
    let mut rig = Rig::held(&["a", "b", "c"]);
    rig.says("a", lost(Difference::Absent));
    rig.wait(minutes(1));
    rig.core.server_seen(rig.now, rig.server.clone());
    let plan = rig.core.begin(rig.now);
    let answer = rig.answer_for("a");
    rig.core.answer(plan.ask[0], rig.now, answer);
    rig.core.rest();
    assert_eq!(rig.core.steps(rig.now).len(), 1, "a is healed now");
    rig.core.effect(plan.ask[0], rig.now, Ok(()));
    let end = rig.core.end(rig.now);
    assert!(end.rests && end.next_at == rig.now);
    assert_eq!((end.summary.asked, end.summary.not_asked), (1, 2));
    assert_eq!(rig.state("b"), State::Held, "not asked is not unknown");
    assert_eq!(
        rig.pass().asked,
        ["b", "c"],
        "and not a, whose turn it is not"
    );
    let did = rig.next();
    assert_eq!(did.asked.len(), 3);
}

#[test]
fn h7_h16_who_is_never_reached_by_an_adapter_that_rests_is_unknown_in_time() {
    let mut rig = Rig::held(&["a", "b"]);
    for _ in 0..8 {
        rig.wait(minutes(1));
        rig.core.server_seen(rig.now, rig.server.clone());
        let plan = rig.core.begin(rig.now);
        let a = plan
            .ask
            .iter()
            .copied()
            .find(|i| rig.core.slots()[*i].consumer.as_str() == "a");
        if let Some(a) = a {
            rig.core.answer(a, rig.now, held());
        }
        rig.core.rest();
        assert_eq!(rig.core.steps(rig.now), []);
        rig.core.end(rig.now);
    }
    assert_eq!(rig.state("b"), State::Unknown);
}

#[test]
fn h9_several_that_hang_starve_nobody_even_over_restarts() {
    let all = ["a", "b", "c", "d", "e", "f"];
    for restarts in [false, true] {
        let mut rig = Rig::held(&all);
        for hanging in ["a", "c", "d"] {
            rig.says(hanging, failing(Class::TimedOut));
        }
        let mut last = HashMap::new();
        for pass in 0..40 {
            if restarts {
                rig.restart_and_wish();
            }
            for asked in rig.next().asked {
                last.insert(asked, pass);
            }
            if pass >= 6 {
                for consumer in all {
                    let waited = last.get(consumer).map_or(99, |at| pass - at);
                    assert!(
                        waited <= 6,
                        "{consumer} waited {waited} at {pass}, {restarts}"
                    );
                }
            }
        }
    }
}

#[test]
fn b8_who_had_no_turn_on_three_passes_is_counted_until_it_has_one() {
    let all = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let hanging = ["b", "d", "f", "h", "j"];
    let mut rig = Rig::held(&all);
    for consumer in hanging {
        rig.says(consumer, failing(Class::TimedOut));
    }
    assert_eq!(rig.next().summary.starved, 0);
    assert_eq!(rig.next().summary.starved, 0);
    assert_eq!(rig.next().summary.starved, 4, "g, h, i and j");
    assert_eq!(rig.next().asked, ["g", "h"]);
    for consumer in hanging {
        rig.says(consumer, held());
    }
    assert_eq!(rig.next().summary.starved, 0);
    // Where nobody is answered, it is the server that is told of.
    for consumer in all {
        rig.says(consumer, failing(Class::TimedOut));
    }
    for _ in 0..6 {
        assert_eq!(rig.next().summary.starved, 0);
    }
}

#[test]
fn h9_where_the_next_process_begins_is_stored_and_cleared() {
    let mut rig = Rig::held(&["a", "b", "c"]);
    rig.says("a", failing(Class::TimedOut));
    assert!(rig.next().server_dirty);
    assert_eq!(rig.core.server().ask_from, Some(name("b")));
    rig.restart_and_wish();
    assert_eq!(rig.next().asked, ["b", "c", "a"]);
    assert_eq!(rig.core.server().ask_from, None);
    rig.says("a", held());
    rig.next();
    rig.again_changes_nothing();
}

#[test]
fn h9_whoever_waits_in_vain_for_too_long_is_unknown() {
    let mut rig = Rig::held(&["a", "b", "c"]);
    // `c` and `a` are asked, and `a` ends the asking before `b` each time.
    let mut told = None;
    for minute in 1..10 {
        rig.wait(minutes(1));
        rig.core.server_seen(rig.now, rig.server.clone());
        rig.core.begin(rig.now);
        rig.core.answer(2, rig.now, held());
        rig.core.answer(0, rig.now, failing(Class::TimedOut));
        let end = rig.core.end(rig.now);
        assert_eq!(rig.state("c"), State::Held);
        if told.is_none() && rig.state("b") == State::Unknown {
            told = Some((minute, end.summary));
        }
    }
    let (minute, summary) = told.expect("it is unknown in the end");
    assert_eq!(minute, 6);
    assert_eq!(summary.not_asked, 1);
    rig.says("b", held());
    rig.core.hint();
    rig.pass();
    assert_eq!(rig.state("b"), State::Held);
}

#[test]
fn h9_in_bulk_two_hangs_in_a_row_make_the_next_pass_ask_singly() {
    let mut rig = Rig::of(in_bulk(), &["a", "b"]);
    rig.pass();
    let hang = |rig: &mut Rig, on: bool| {
        rig.says("a", if on { failing(Class::TimedOut) } else { held() });
    };
    let mut modes = Vec::new();
    hang(&mut rig, true);
    for _ in 0..6 {
        modes.push(rig.next().plan.mode);
    }
    let (b, s) = (Mode::Bulk, Mode::Single);
    assert_eq!(modes, [b, b, s, b, b, s]);
    hang(&mut rig, true);
    assert!(rig.next().server_dirty, "it is stored");
    rig.wait(secs(1));
    assert_eq!(rig.pass().asked, Vec::<String>::new());
    assert_eq!(
        rig.core.server().bulk_timeouts,
        1,
        "a pass that asks nobody tells nothing"
    );
    hang(&mut rig, false);
    rig.next();
    hang(&mut rig, true);
    assert_eq!(rig.next().plan.mode, b);
    assert_eq!(
        rig.next().plan.mode,
        b,
        "a good one in between starts the count anew"
    );
    rig.restart_and_wish();
    assert_eq!(
        rig.next().plan.mode,
        s,
        "and it is one count over restarts (H-24)"
    );
}

#[test]
fn h13_a_healthy_pass_writes_nothing_and_says_nothing() {
    let mut rig = Rig::held(&["a", "b", "c"]);
    for _ in 0..20 {
        rig.again_changes_nothing();
    }
    let did = rig.next();
    assert_eq!(did.facts, []);
    assert_eq!(did.summary.held, 3);
}

#[test]
fn h14_a_hint_makes_everyone_due_who_is_not_delayed() {
    let mut rig = Rig::held(&["a", "b", "bad"]);
    rig.says("bad", lost(Difference::Password));
    rig.after_create("bad", lost(Difference::Password));
    for _ in 0..4 {
        rig.next();
    }
    assert!(rig.record("bad").strikes > 1);
    rig.wait(secs(1));
    assert_eq!(rig.pass().asked, Vec::<String>::new(), "nobody is due");
    rig.core.hint();
    assert_eq!(
        rig.pass().asked,
        ["a", "b"],
        "a hint does not end the brake"
    );
    assert_eq!(rig.pass().asked, Vec::<String>::new(), "a hint counts once");
}

#[test]
fn h14_a_restart_of_the_server_makes_everyone_due() {
    let mut rig = Rig::held(&["a", "b"]);
    rig.wait(secs(10));
    assert_eq!(rig.pass().asked.len(), 0);
    rig.restarts("run2");
    assert_eq!(rig.pass().asked.len(), 2);
}

#[test]
fn h16_bulk_is_first_where_there_is_bulk() {
    let mut rig = Rig::of(in_bulk(), &["a", "b"]);
    assert_eq!(rig.pass().plan.mode, Mode::Bulk);
    let mut rig = Rig::new(&["a", "b"]);
    assert_eq!(rig.pass().plan.mode, Mode::Single);
}

#[test]
fn h17_how_it_was_proven_is_kept_and_since_when() {
    let mut rig = Rig::held(&["a"]);
    let since = rig.now;
    rig.says("a", Ok(Answer::held(Proof::Login)));
    let did = rig.next();
    assert_eq!(did.dirty, ["a"]);
    let Last::Held {
        proof, since: then, ..
    } = rig.record("a").last.clone()
    else {
        panic!("held");
    };
    assert_eq!(proof, Proof::Login);
    assert!(then < since, "another proof is not another time");
    rig.again_changes_nothing();
    let held = Held {
        proof: Proof::Login,
        warning: Some("may write more than asked".into()),
    };
    rig.says("a", Ok(Answer::Held(held)));
    let did = rig.next();
    assert_eq!(did.dirty, ["a"]);
    let fact = did.fact(ConditionType::GrantsSurplus);
    assert_eq!(fact.message, "may write more than asked");
    rig.again_changes_nothing();
}

#[test]
fn h21_a_read_only_server_is_asked_and_only_a_write_waits() {
    let mut rig = Rig::held(&["ok", "gone"]);
    let writable = rig.server.clone();
    rig.server = Ok(Server {
        read_only: Some("a standby".into()),
        ..writable.clone().expect("up")
    });
    rig.says("gone", lost(Difference::Absent));
    let did = rig.next();
    assert_eq!(
        did.asked,
        ["gone", "ok"]
            .map(String::from)
            .into_iter()
            .rev()
            .collect::<Vec<_>>()
    );
    assert_eq!(did.steps, []);
    assert_eq!(
        (rig.state("ok"), rig.state("gone")),
        (State::Held, State::Unknown)
    );
    for _ in 0..8 {
        let did = rig.next();
        assert_eq!(did.steps, []);
        assert_eq!(did.kinds(), [ConditionType::WaitsForWritable]);
        assert_eq!((did.dirty.len(), did.happenings.len()), (0, 0), "no news");
    }
    rig.server = writable;
    let did = rig.next();
    assert_eq!(
        did.creates(),
        ["gone"],
        "one pass heals after the promotion"
    );
    assert!(did.happened(&Happening::AnsweredAgain));
    assert_eq!(did.kinds(), []);
    rig.next();
    rig.again_changes_nothing();
}

#[test]
fn h21_a_write_that_finds_the_server_read_only_waits_as_well() {
    let mut rig = Rig::held(&["gone"]);
    rig.says("gone", lost(Difference::Absent));
    rig.create_says("gone", failing(Class::ReadOnly));
    rig.next();
    for _ in 0..3 {
        let did = rig.next();
        assert_eq!(did.creates(), ["gone"]);
        assert_eq!(did.kinds(), [ConditionType::WaitsForWritable]);
        assert_eq!((did.dirty.len(), did.happenings.len()), (0, 0), "no news");
    }
    assert_eq!(rig.record("gone").failures, 0);
    rig.says("gone", held());
    assert_eq!(rig.next().kinds(), []);
    rig.again_changes_nothing();
}

#[test]
fn h21_a_write_that_is_needed_no_more_waits_for_nothing() {
    let mut rig = Rig::held(&["gone"]);
    rig.says("gone", lost(Difference::Absent));
    rig.create_says("gone", failing(Class::ReadOnly));
    rig.next();
    rig.says(
        "gone",
        marked(Difference::Password, MarkSeen::Foreign, false),
    );
    assert_eq!(rig.next().kinds(), [ConditionType::LoginTaken]);
}

#[test]
fn h24_looks_counts_and_ages_go_on_over_restarts() {
    let mut rig = Rig::held(&["web", "bad"]);
    rig.says("bad", lost(Difference::Password));
    rig.after_create("bad", lost(Difference::Password));
    rig.says("web", failing(Class::Busy));
    let mut applied = 0;
    let mut told = None;
    for minute in 1..=60 {
        rig.restart_and_wish();
        let did = rig.next();
        applied += did.creates().len();
        if told.is_none() && did.kinds().contains(&ConditionType::LookUnknown) {
            told = Some(minute);
        }
    }
    assert_eq!(told, Some(6), "unknown_after is counted over processes");
    assert!((5..=8).contains(&applied), "the brake is one: {applied}");
}

#[test]
fn h24_a_changed_wish_that_never_holds_is_braked_over_restarts() {
    let mut rig = Rig::held(&["web"]);
    rig.change("web", |w| w.digest = digest(2));
    rig.says("web", lost(Difference::Password));
    rig.after_create("web", lost(Difference::Password));
    let mut applied = 0;
    for _ in 0..60 {
        rig.restart_and_wish();
        applied += rig.next().creates().len();
    }
    assert!((5..=7).contains(&applied), "{applied} in an hour");
}

#[test]
fn h24_a_server_that_is_down_is_down_over_restarts() {
    let mut rig = Rig::held(&["web"]);
    rig.server = failing(Class::Unreachable);
    let mut told = None;
    for minute in 1..=10 {
        rig.restart_and_wish();
        assert!(!rig.core.is_down(), "it was not asked yet");
        let did = rig.next();
        assert!(rig.core.is_down());
        if told.is_none() && did.kinds() == [ConditionType::BackendUnreachable] {
            told = Some(minute);
        }
    }
    assert_eq!(told, Some(6));
}

#[test]
fn h24_the_age_of_the_last_answer_survives() {
    let mut rig = Rig::held(&["web", "bad", "busy"]);
    rig.says("bad", lost(Difference::Password));
    rig.after_create("bad", lost(Difference::Password));
    rig.says("busy", failing(Class::Busy));
    rig.next();
    let busy = rig.now;
    for _ in 0..5 {
        rig.next();
    }
    let (web, bad) = (rig.slot("web").checked_at(), rig.slot("bad").checked_at());
    assert!(bad < web, "the braked one was asked less often");
    rig.restart();
    assert_eq!(rig.slot("web").checked_at(), web);
    assert_eq!(rig.slot("bad").checked_at(), bad);
    assert_eq!(rig.slot("busy").checked_at(), Some(busy));
    assert_eq!(rig.core.server().last_pass, web);
}

#[test]
fn h24_a_short_delay_is_no_age() {
    let mut rig = Rig::held(&["a"]);
    rig.wish_for(vec![wanted("a"), wanted("b")]);
    rig.create_says("b", failing(Class::Busy));
    rig.next();
    let at = rig.now;
    rig.wait(secs(1));
    rig.restart();
    assert_eq!(rig.slot("b").checked_at(), Some(at));
    assert_eq!(rig.slot("a").checked_at(), Some(at));
}

#[test]
fn h24_a_pass_for_a_few_is_not_a_whole_pass() {
    let mut rig = Rig::held(&["a", "b"]);
    let whole = rig.core.server().last_pass;
    assert_eq!(whole, Some(rig.now));
    rig.wait(secs(10));
    rig.core.release(Some(&name("a")), rig.now);
    rig.pass();
    assert_eq!(rig.core.server().last_pass, whole);
    rig.says("b", failing(Class::TimedOut));
    assert_eq!(rig.next().asked, ["b"]);
    assert_eq!(rig.core.server().last_pass, whole, "a was not asked");
    assert_eq!(rig.next().asked, ["a", "b"]);
    assert_eq!(
        rig.core.server().last_pass,
        Some(rig.now),
        "b has a word of its own"
    );
}

#[test]
fn h24_o37_stamps_from_the_future_count_as_now() {
    // O-37: the clock was two hours ahead when all this was stored.
    let mut rig = Rig::held(&["web", "bad", "busy", "tug"]);
    rig.wait(2 * HOUR);
    rig.says("bad", lost(Difference::Password));
    rig.after_create("bad", lost(Difference::Password));
    rig.says("busy", failing(Class::Busy));
    rig.next();
    rig.next();
    rig.now = rig.now - 2 * HOUR;
    rig.restart_and_wish();
    let at = rig.now;
    let bad = rig.record("bad");
    assert!(bad.not_before.expect("braked") <= at + HOUR);
    assert!(bad.changes.iter().all(|c| *c <= at));
    assert_eq!(
        rig.record("busy").unknown.clone().expect("unknown").since,
        at
    );
    assert!(rig.slot("web").checked_at() <= Some(at));
    assert!(rig.core.server().last_pass <= Some(at));
    assert_eq!(rig.pass().asked.len(), 3, "passes keep their time");
}

/// A bulk call that hangs behind `b`: whoever has no answer is told so, as the driver does.
fn bulk_pass_that_hangs(rig: &mut Rig, answered: &[&str]) -> Mode {
    rig.wait(minutes(1));
    rig.core.server_seen(rig.now, rig.server.clone());
    let plan = rig.core.begin(rig.now);
    for i in plan.ask {
        let consumer = rig.core.slots()[i].consumer.to_string();
        let answer = if answered.contains(&consumer.as_str()) {
            held()
        } else {
            failing(Class::TimedOut)
        };
        rig.core.answer(i, rig.now, answer);
    }
    rig.core.bulk_timed_out();
    assert_eq!(rig.core.unanswered(), 0);
    rig.core.end(rig.now);
    plan.mode
}

#[test]
fn h9_whoever_a_hanging_bulk_call_left_out_goes_first() {
    let mut rig = Rig::of(in_bulk(), &["a", "b", "c", "d"]);
    rig.pass();
    for _ in 0..2 {
        assert_eq!(bulk_pass_that_hangs(&mut rig, &["a", "b"]), Mode::Bulk);
        assert_eq!(rig.state("d"), State::Unknown);
        assert_eq!(rig.core.server().ask_from, None, "who hung is not known");
    }
    rig.says("c", failing(Class::TimedOut));
    let did = rig.next();
    assert_eq!(
        (did.plan.mode, did.asked),
        (Mode::Single, vec!["c".to_string()])
    );
    assert_eq!(rig.core.server().ask_from, Some(name("d")));
    bulk_pass_that_hangs(&mut rig, &[]);
    assert_eq!(
        rig.core.server().ask_from,
        Some(name("d")),
        "and not forgotten"
    );
}

#[test]
fn h9_a_pass_between_that_ends_early_is_remembered_too() {
    let mut rig = Rig::held(&["a", "b", "c"]);
    rig.wait(secs(10));
    rig.core.release(None, rig.now);
    rig.says("a", failing(Class::TimedOut));
    let did = rig.pass();
    assert_eq!(did.asked, ["a"]);
    assert_eq!(rig.core.server().ask_from, Some(name("b")));
    rig.wait(secs(1));
    rig.pass();
    assert_eq!(
        rig.core.server().ask_from,
        Some(name("b")),
        "a pass for nobody forgets nothing"
    );
}
