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
    };
    assert_eq!(did.summary, expected);
}
