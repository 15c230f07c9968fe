//! What the loop tells: facts for conditions, and what a look says about those it has no fact for.
use super::*;
use crate::decide::conditions::Seen;

#[test]
fn c3_a_subject_that_is_asked_for_no_more_is_retired() {
    let mut rig = Rig::held(&["web", "db"]);
    let web = name("web");
    assert_eq!(rig.core.saw(ConditionType::Braked, Some(&web)), Seen::Good);
    let nobody = name("nobody");
    assert_eq!(
        rig.core.saw(ConditionType::Braked, Some(&nobody)),
        Seen::Retired
    );
    rig.lists_ours(&["web", "db"]);
    rig.wish_for(vec![wanted("db")]);
    rig.next();
    assert_eq!(
        rig.core.saw(ConditionType::Braked, Some(&web)),
        Seen::Retired
    );
    assert_eq!(
        rig.core.saw(ConditionType::RemovalStuck, Some(&web)),
        Seen::Good
    );
    assert_eq!(rig.core.saw(ConditionType::Paused, Some(&web)), Seen::Good);
    rig.wish.kept = vec![web.clone()];
    rig.restart_and_wish();
    assert_eq!(
        rig.core.saw(ConditionType::Braked, Some(&web)),
        Seen::Nothing
    );
}

#[test]
fn c4_only_a_look_is_a_good_look() {
    let mut rig = Rig::held(&["web", "db"]);
    let (web, db) = (name("web"), name("db"));
    rig.core.release(Some(&db), rig.now);
    rig.wait(secs(5));
    rig.pass();
    assert_eq!(rig.core.saw(ConditionType::Braked, Some(&db)), Seen::Good);
    assert_eq!(
        rig.core.saw(ConditionType::Braked, Some(&web)),
        Seen::NotLooked
    );
    rig.says("web", failing(Class::Busy));
    rig.next();
    assert_eq!(
        rig.core.saw(ConditionType::Braked, Some(&web)),
        Seen::Nothing
    );
    assert_eq!(rig.core.saw(ConditionType::Paused, Some(&web)), Seen::Good);
    rig.change("db", |w| w.secret = SecretState::Lost("gone".into()));
    rig.next();
    assert_eq!(
        rig.core.saw(ConditionType::ApplyFailed, Some(&db)),
        Seen::NotLooked
    );
}

#[test]
fn c4_what_the_server_says_nothing_about_is_unknown() {
    use ConditionType as T;
    let mut rig = Rig::new(&["a", "b"]);
    let saw = |rig: &Rig, kind| rig.core.saw(kind, None);
    assert_eq!(saw(&rig, T::NotDurable), Seen::Nothing, "never seen");
    rig.pass();
    for kind in [
        T::NotDurable,
        T::ServerChanged,
        T::BackendUnreachable,
        T::MassLoss,
    ] {
        assert_eq!(saw(&rig, kind), Seen::Good);
    }
    rig.wait(secs(5));
    rig.pass();
    assert_eq!(saw(&rig, T::MassLoss), Seen::NotLooked, "nobody was asked");
    assert_eq!(
        saw(&rig, T::BackendUnreachable),
        Seen::Good,
        "the server was"
    );
    for n in ["a", "b"] {
        rig.says(n, failing(Class::Busy));
    }
    rig.next();
    assert_eq!(saw(&rig, T::BackendUnreachable), Seen::Nothing);
    rig.says("a", held());
    rig.next();
    assert_eq!(saw(&rig, T::BackendUnreachable), Seen::Good);
    rig.server = failing(Class::Unreachable);
    rig.next();
    assert_eq!(saw(&rig, T::NotDurable), Seen::Nothing);
    assert_eq!(saw(&rig, T::Paused), Seen::Good);
    assert_eq!(saw(&rig, T::RemovalHeld), Seen::Good);
}

#[test]
fn c4_an_adapter_that_tells_no_server_says_nothing_between_looks() {
    let caps = Capabilities {
        server: false,
        ..asked_singly()
    };
    let mut rig = Rig::of(caps, &["a"]);
    rig.pass();
    let saw = |rig: &Rig| rig.core.saw(ConditionType::BackendUnreachable, None);
    assert_eq!(saw(&rig), Seen::Good);
    rig.wait(secs(5));
    rig.pass();
    assert_eq!(saw(&rig), Seen::NotLooked);
    rig.wish_for(vec![]);
    rig.next();
    assert_eq!(saw(&rig), Seen::Retired, "nobody is left to be asked for");
}

#[test]
fn c4_a_list_that_fails_is_no_good_look() {
    let mut rig = Rig::held(&["a", "b", "c"]);
    rig.wish_for(vec![wanted("a"), wanted("b")]);
    rig.list = failing(Class::Denied);
    rig.next();
    let saw = |rig: &Rig| rig.core.saw(ConditionType::LookUnknown, None);
    assert_eq!(saw(&rig), Seen::Nothing);
    rig.lists_ours(&["a", "b", "c"]);
    rig.next();
    assert_eq!(saw(&rig), Seen::Good);
}

#[test]
fn c4_what_may_pass_by_itself_is_not_final_at_once() {
    for (class, final_at_once) in [(Class::Busy, false), (Class::Denied, true)] {
        let mut rig = Rig::new(&["web"]);
        rig.create_says("web", failing(class));
        let did = rig.pass();
        let fact = did.fact(ConditionType::ApplyFailed);
        assert_eq!(fact.final_at_once, final_at_once);
        assert_eq!(fact.message, format!("{class}: as told (tried 1 times)"));
    }
}

#[test]
fn c5_a_fact_tells_what_differs_in_words() {
    let mut rig = Rig::held(&["web"]);
    let detail = Lost {
        differences: [Difference::Password, Difference::GrantsMissing]
            .into_iter()
            .collect(),
        detail: "missing ~web:*".into(),
        mark: MarkSeen::Ours,
        password_fits: false,
    };
    let answer = Ok(Answer::Lost(Box::new(detail)));
    rig.says("web", answer.clone());
    rig.after_create("web", answer);
    rig.next();
    let did = rig.next();
    assert_eq!(
        did.fact(ConditionType::Braked).message,
        "lost again after 1 successful repairs: other password, grants missing (missing ~web:*); \
         checked every 2 min"
    );
}

#[test]
fn every_reason_follows_from_its_class() {
    use crate::condition::Reason;
    for (class, reason) in [
        (Class::TimedOut, Reason::TimedOut),
        (Class::RefusedValue, Reason::RefusedValue),
        (Class::Denied, Reason::Denied),
        (Class::Busy, Reason::CallFailed),
        (Class::Bug, Reason::CallFailed),
    ] {
        let mut rig = Rig::new(&["web"]);
        rig.create_says("web", failing(class));
        assert_eq!(rig.pass().facts[0].reason, reason);
    }
    let mut rig = Rig::new(&["web"]);
    rig.create_says("web", failing(Class::Exists));
    assert_eq!(rig.pass().facts[0].reason, Reason::Exists);
}

#[test]
fn a_server_that_forgets_and_a_password_that_nobody_needs_are_told() {
    let mut rig = Rig::held(&["web"]);
    rig.server = Ok(Server {
        forgets: Some("no aclfile".into()),
        ..rig.server.clone().expect("up")
    });
    rig.says("web", lost(Difference::PasswordNotEnforced));
    rig.after_create("web", lost(Difference::PasswordNotEnforced));
    let did = rig.next();
    assert_eq!(
        did.kinds(),
        [
            ConditionType::NotDurable,
            ConditionType::PasswordNotEnforced
        ]
    );
    assert_eq!(did.fact(ConditionType::NotDurable).message, "no aclfile");
}

#[test]
fn taken_with_adopt_says_what_is_missing() {
    let mut rig = Rig::new(&["web"]);
    rig.change("web", |w| w.adopt = true);
    rig.says("web", marked(Difference::Password, MarkSeen::None, false));
    let did = rig.pass();
    let message = &did.fact(ConditionType::LoginTaken).message;
    assert!(
        message.contains("needs the password that it has"),
        "{message}"
    );
}

#[test]
fn summaries_add_up() {
    let mut rig = Rig::held(&["a", "b", "c", "d"]);
    rig.says("a", lost(Difference::Absent));
    rig.says("b", failing(Class::Busy));
    rig.says("c", lost(Difference::Absent));
    rig.create_says("c", failing(Class::Busy));
    let did = rig.next();
    let expected = Summary {
        asked: 4,
        held: 1,
        lost: 2,
        unknown: 1,
        not_asked: 0,
        applied: 1,
        failed: 1,
        starved: 0,
    };
    assert_eq!(did.summary, expected);
}

#[test]
fn c6_one_consumer_alone_is_not_the_backend() {
    let caps = Capabilities {
        server: false,
        ..asked_singly()
    };
    let mut rig = Rig::of(caps, &["web"]);
    rig.pass();
    rig.says("web", failing(Class::Busy));
    for _ in 0..8 {
        rig.next();
    }
    assert_eq!(rig.next().kinds(), [ConditionType::LookUnknown]);
}

#[test]
fn c6_the_backend_is_silent_since_the_last_one_fell_silent() {
    let caps = Capabilities {
        server: false,
        ..asked_singly()
    };
    for order in [["a", "b"], ["b", "a"]] {
        let mut rig = Rig::of(caps, &["a", "b"]);
        rig.pass();
        rig.says(order[0], failing(Class::Busy));
        rig.next();
        rig.next();
        rig.says(order[1], failing(Class::Busy));
        for _ in 0..5 {
            assert!(
                !rig.next()
                    .kinds()
                    .contains(&ConditionType::BackendUnreachable)
            );
        }
        let did = rig.next();
        let fact = did.fact(ConditionType::BackendUnreachable);
        assert_eq!(fact.message, "no answer for 300 s: as told");
    }
}

#[test]
fn c6_a_backend_that_takes_no_writes_is_not_silent() {
    let mut rig = Rig::held(&["a", "b"]);
    rig.server = Ok(Server {
        read_only: Some("a standby".into()),
        ..rig.server.clone().expect("up")
    });
    for n in ["a", "b"] {
        rig.says(n, lost(Difference::Absent));
    }
    for _ in 0..8 {
        rig.next();
    }
    let did = rig.next();
    assert_eq!(did.kinds(), [ConditionType::WaitsForWritable]);
    assert_eq!(
        did.facts[0].message,
        "2 writes wait for a server that takes them"
    );
}

#[test]
fn c6_ten_are_a_mass_and_nine_are_not() {
    for (count, told) in [(9, false), (10, true)] {
        let names: Vec<String> = (0..count).map(|i| format!("c{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut rig = Rig::held(&names);
        names.iter().for_each(|n| rig.says(n, Ok(Answer::absent())));
        assert_eq!(!rig.next().kinds().is_empty(), told);
    }
}

#[test]
fn c6_a_mass_loss_is_explained_when_most_of_it_is() {
    let names: Vec<String> = (0..30).map(|i| format!("c{i:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (stale, explained) in [(15, false), (16, true)] {
        let mut rig = Rig::held(&names);
        rig.restarts("run2");
        for n in &names[..stale] {
            rig.says(n, failing(Class::Busy));
        }
        rig.next();
        names.iter().for_each(|n| rig.says(n, Ok(Answer::absent())));
        let did = rig.next();
        let reason = did.fact(ConditionType::MassLoss).reason;
        let restarted = reason == crate::condition::Reason::ServerRestarted;
        assert_eq!(restarted, explained, "{stale} of 30");
    }
}

#[test]
fn c3_whoever_is_nobody_any_more_is_retired_in_every_respect() {
    let mut rig = Rig::held(&["web"]);
    rig.wish_for(vec![wanted("web"), wanted("b")]);
    rig.wish_for(vec![wanted("web")]);
    let b = name("b");
    for kind in [
        ConditionType::Paused,
        ConditionType::RemovalStuck,
        ConditionType::Braked,
    ] {
        assert_eq!(rig.core.saw(kind, Some(&b)), Seen::Retired);
    }
    rig.wish.wanted.clear();
    rig.wish.kept = vec![name("web")];
    rig.confirm_wish();
    rig.next();
    assert_eq!(
        rig.core.saw(ConditionType::Braked, Some(&name("web"))),
        Seen::Good
    );
    rig.says("web", failing(Class::Busy));
    rig.next();
    let stuck = rig
        .core
        .saw(ConditionType::RemovalStuck, Some(&name("web")));
    assert_eq!(stuck, Seen::Good, "it stays, whatever else");
}

#[test]
fn c4_where_nobody_can_be_asked_a_pass_is_a_look() {
    let caps = Capabilities {
        holds: false,
        list: false,
        ..asked_singly()
    };
    let mut rig = Rig::of(caps, &["web"]);
    rig.pass();
    rig.next();
    let web = name("web");
    assert_eq!(
        rig.core.saw(ConditionType::ApplyFailed, Some(&web)),
        Seen::Good
    );
    for (class, kind) in [
        (Class::Denied, ConditionType::HealFailed),
        (Class::Exists, ConditionType::LoginTaken),
    ] {
        rig.create_says("web", failing(class));
        rig.restart_and_wish();
        assert_eq!(
            rig.next().kinds(),
            [kind],
            "trusted from the record, and in trouble"
        );
    }
}

#[test]
fn c5_what_has_no_detail_has_no_brackets() {
    let mut rig = Rig::held(&["web"]);
    rig.says("web", lost(Difference::Password));
    rig.after_create("web", lost(Difference::Password));
    rig.next();
    let did = rig.next();
    let message = &did.fact(ConditionType::Braked).message;
    assert!(
        message.contains("repairs: other password; checked"),
        "{message}"
    );
}

#[test]
fn r7_those_who_wait_for_a_word_are_counted_together() {
    let names: Vec<String> = (0..20).map(|i| format!("c{i:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rig = Rig::new(&names);
    rig.says("c00", marked(Difference::MarkMissing, MarkSeen::None, true));
    rig.pass();
    assert!(rig.record("c00").adopted);
    rig.lists_ours(&names);
    let rest = names[5..].iter().map(|n| wanted(n));
    rig.wish_for(rest.collect());
    let did = rig.next();
    let message = &did.fact(ConditionType::RemovalHeld).message;
    assert!(message.starts_with("5 logins would go"), "{message}");
}

#[test]
fn c5_what_differs_is_what_differed_at_the_last_look() {
    let with = |detail: &str| {
        Ok(Answer::Lost(Box::new(Lost {
            differences: Difference::GrantsMissing.into(),
            detail: detail.into(),
            mark: MarkSeen::Ours,
            password_fits: true,
        })))
    };
    let mut rig = Rig::held(&["web"]);
    rig.says("web", with("missing ~a"));
    rig.after_create("web", with("missing ~a"));
    rig.next();
    rig.next();
    rig.after_create("web", with("missing ~b"));
    rig.says("web", with("missing ~b"));
    rig.next();
    let did = rig.next();
    let message = &did.fact(ConditionType::Braked).message;
    assert!(message.contains("(missing ~b)"), "{message}");
}

#[test]
fn b4_a_write_that_another_holder_outdid_is_unknown_and_counts_against_nobody() {
    let mut rig = Rig::held(&["gone"]);
    rig.says("gone", lost(Difference::Absent));
    rig.create_says("gone", failing(Class::Fenced));
    let did = rig.next();
    assert_eq!((did.creates().len(), did.kinds().len()), (1, 0));
    assert_eq!(rig.record("gone").failures, 0);
    for _ in 0..10 {
        rig.next();
    }
    let did = rig.next();
    assert_eq!(
        did.kinds(),
        [ConditionType::LookUnknown],
        "it is told when it stays so"
    );
    assert_eq!(rig.record("gone").failures, 0);
    rig.says("gone", held());
    assert_eq!(rig.next().kinds(), []);
    rig.again_changes_nothing();
}
