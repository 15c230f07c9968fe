//! H-18, H-20, H-25: whose a login and a server are, and what a person says.
use super::*;

fn taken() -> Result<Answer, Error> {
    marked(Difference::Password, MarkSeen::None, false)
}

#[test]
fn h18_a_login_that_nothing_says_is_ours_is_left_alone() {
    // O-12: somebody made it by hand, with another password.
    let mut rig = Rig::new(&["web", "db"]);
    rig.says("web", taken());
    let did = rig.pass();
    assert_eq!(did.creates(), ["db"]);
    assert!(did.happened(&Happening::Taken));
    assert_eq!(did.fact(ConditionType::LoginTaken).subject, "web");
    assert_eq!(rig.state("web"), State::Refused);
    let mut asked = 0;
    for _ in 0..180 {
        let did = rig.next();
        assert_eq!(did.steps, []);
        assert_eq!(did.kinds(), [ConditionType::LoginTaken]);
        assert!(did.happenings.is_empty());
        asked += did.asked.iter().filter(|a| *a == "web").count();
    }
    assert_eq!(asked, 3, "looked at once an hour, and never written");
}

#[test]
fn h18_taken_ends_when_the_login_goes_or_is_ours_or_the_wish_changes() {
    let mut rig = Rig::new(&["web"]);
    rig.says("web", taken());
    rig.pass();
    rig.says("web", Ok(Answer::absent()));
    assert_eq!(rig.minutes(70), [60]);
    rig.again_changes_nothing();

    let mut rig = Rig::new(&["web"]);
    rig.says("web", taken());
    rig.pass();
    rig.change("web", |w| w.digest = digest(2));
    let did = rig.pass();
    assert_eq!(did.asked, ["web"], "looked at for the new password version");
    assert_eq!(did.steps, []);
    rig.says("web", marked(Difference::MarkMissing, MarkSeen::None, true));
    rig.change("web", |w| w.adopt = true);
    assert_eq!(rig.pass().creates(), ["web"], "adopt = true is a change");
    assert!(rig.record("web").adopted);

    let mut rig = Rig::new(&["web"]);
    rig.says("web", taken());
    rig.pass();
    rig.says("web", held());
    rig.core.release(Some(&name("web")), rig.now);
    assert_eq!(rig.pass().kinds(), []);
    rig.again_changes_nothing();
}

#[test]
fn h18_h24_the_next_process_knows_which_wish_met_a_taken_login() {
    let mut rig = Rig::new(&["web"]);
    rig.says("web", taken());
    rig.pass();
    rig.restart_and_wish();
    assert_eq!(
        rig.pass().asked,
        Vec::<String>::new(),
        "the same wish waits"
    );
    rig.restart();
    rig.change("web", |w| w.digest = digest(2));
    assert_eq!(rig.pass().asked, ["web"], "another one does not");
}

#[test]
fn h18_our_mark_our_record_or_our_password_makes_it_ours() {
    let whose = |record: bool, adopt: bool, mark: MarkSeen, fits: bool| {
        let mut rig = if record {
            Rig::held(&["web"])
        } else {
            Rig::new(&["web"])
        };
        rig.change("web", |w| w.adopt = adopt);
        rig.says("web", marked(Difference::GrantsMissing, mark, fits));
        let ours = rig.next().creates() == ["web"];
        (ours, rig.record("web").adopted)
    };
    let (ours, adopted, not) = ((true, false), (true, true), (false, false));
    assert_eq!(whose(false, false, MarkSeen::Ours, false), ours);
    assert_eq!(whose(false, false, MarkSeen::None, true), adopted);
    assert_eq!(whose(false, false, MarkSeen::None, false), not);
    assert_eq!(whose(true, false, MarkSeen::None, false), ours);
    assert_eq!(whose(true, false, MarkSeen::Damaged, false), ours);
    assert_eq!(whose(false, false, MarkSeen::Damaged, false), not);
    let other = || MarkSeen::OursFor(name("other"));
    assert_eq!(whose(false, false, other(), false), not);
    assert_eq!(
        whose(false, true, MarkSeen::None, false),
        not,
        "proved first"
    );
    // Another mesh's mark is a stranger's, whatever else fits; only a person takes it over.
    assert_eq!(whose(false, false, MarkSeen::Foreign, true), not);
    assert_eq!(whose(true, false, MarkSeen::Foreign, true), not);
    assert_eq!(whose(true, true, MarkSeen::Foreign, false), not);
    assert_eq!(whose(false, true, MarkSeen::Foreign, true), adopted);
}

#[test]
fn h18_a_create_that_meets_a_strangers_login_claims_nothing() {
    // Between the look and the effect somebody else made the login.
    let mut rig = Rig::new(&["web"]);
    rig.create_says("web", failing(Class::Exists));
    let did = rig.pass();
    assert_eq!(did.kinds(), [ConditionType::LoginTaken]);
    assert_eq!(rig.record("web").intent, None);
    assert!(!rig.record("web").claims(&login("web")));
    rig.says("web", taken());
    rig.create_says("web", Ok(()));
    assert_eq!(
        rig.minutes(70),
        Vec::<u64>::new(),
        "the intent made nothing ours"
    );
    rig.wish_for(vec![]);
    assert!(rig.slot("web").is_retired(), "and nothing of it leaves");
}

#[test]
fn h18_an_intent_that_was_not_sent_claims_nothing() {
    // The store took no intent, so nothing was sent; then a stranger makes that login.
    let mut rig = Rig::new(&["web"]);
    rig.core.server_seen(rig.now, rig.server.clone());
    for i in rig.core.begin(rig.now).ask {
        rig.core.answer(i, rig.now, Ok(Answer::absent()));
    }
    rig.core.listed(rig.now, Ok(&[]));
    let steps = rig.core.steps(rig.now);
    assert_eq!(steps.len(), 1);
    rig.core.not_sent(steps[0].0);
    rig.core.end(rig.now);
    assert!(!rig.record("web").claims(&login("web")));
    rig.says("web", taken());
    let did = rig.next();
    assert_eq!(did.steps, []);
    assert_eq!(did.kinds(), [ConditionType::LoginTaken]);
}

#[test]
fn h20_new_consumers_are_no_mass_loss() {
    let names: Vec<String> = (0..40).map(|i| format!("c{i:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rig = Rig::new(&names);
    let did = rig.pass();
    assert_eq!(did.creates().len(), 40);
    assert_eq!(did.kinds(), []);
}

#[test]
fn h18_without_holds_a_taken_login_is_tried_once_per_version() {
    let caps = Capabilities {
        holds: false,
        list: false,
        ..asked_singly()
    };
    let mut rig = Rig::of(caps, &["web"]);
    rig.create_says("web", failing(Class::Exists));
    assert_eq!(rig.pass().creates(), ["web"]);
    assert_eq!(rig.minutes(130), Vec::<u64>::new());
    rig.change("web", |w| w.digest = digest(2));
    assert_eq!(rig.pass().creates(), ["web"]);
    rig.core.release(None, rig.now);
    assert_eq!(rig.pass().creates(), ["web"]);
}

#[test]
fn h18_what_is_adopted_is_so_only_once_it_is_written() {
    let mut rig = Rig::new(&["web"]);
    rig.core.set_pauses(Some(rig.now + HOUR), &HashMap::new());
    rig.says("web", marked(Difference::MarkMissing, MarkSeen::None, true));
    assert_eq!(rig.pass().steps, []);
    assert!(!rig.record("web").adopted);
    rig.core.set_pauses(None, &HashMap::new());
    assert_eq!(rig.next().creates(), ["web"]);
    assert!(rig.record("web").adopted);
}

fn server_with(identity: &str, run: &str) -> Result<Server, Error> {
    Ok(Server {
        identity: Some(identity.into()),
        run: Some(run.into()),
        ..Server::default()
    })
}

/// Two consumers on a server with a lasting identity.
fn known() -> Rig {
    let mut rig = Rig::new(&["web", "db"]);
    rig.server = server_with("one", "r1");
    rig.pass();
    rig.next();
    rig
}

#[test]
fn h20_first_contact_trusts_what_it_sees() {
    let rig = known();
    assert_eq!(rig.core.server().identity.as_deref(), Some("one"));
    assert_eq!(rig.state("web"), State::Held);
}

#[test]
fn h20_another_server_is_only_read_until_a_person_says_so() {
    let mut rig = known();
    rig.server = server_with("two", "r2");
    rig.says("web", Ok(Answer::absent()));
    rig.says("db", taken());
    for _ in 0..70 {
        let did = rig.next();
        assert_eq!(did.steps, []);
        assert_eq!(did.kinds(), [ConditionType::ServerChanged]);
    }
    let did = rig.next();
    assert!(did.facts[0].message.contains("one") && did.facts[0].message.contains("two"));
    assert_eq!(rig.state("web"), State::Lost);

    rig.core.approve_server();
    let did = rig.pass();
    assert_eq!(
        did.creates(),
        ["web"],
        "healed at once by the ordinary path"
    );
    assert_eq!(
        did.kinds(),
        [ConditionType::LoginTaken],
        "and owned by what is there (H-18)"
    );
    assert_eq!(rig.core.server().identity.as_deref(), Some("two"));
}

#[test]
fn h20_when_the_known_server_is_back_all_is_as_before() {
    let mut rig = known();
    let before = rig.record("db").applied;
    rig.server = server_with("two", "r2");
    rig.says("db", taken());
    rig.next();
    rig.server = server_with("one", "r1");
    rig.says("db", held());
    let did = rig.next();
    assert_eq!((did.steps.len(), did.kinds().len()), (0, 0));
    assert_eq!(rig.record("db").applied, before);
    rig.again_changes_nothing();
    rig.core.approve_server();
    rig.again_changes_nothing();
}

#[test]
fn h20_a_mass_loss_is_healed_at_once_and_told_once() {
    let names: Vec<String> = (0..40).map(|i| format!("c{i:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for restart in [true, false] {
        let mut rig = Rig::held(&names);
        if restart {
            rig.restarts("run2");
        }
        for n in &names[..30] {
            rig.says(n, Ok(Answer::absent()));
        }
        let did = rig.next();
        assert_eq!(did.creates().len(), 30);
        let fact = did.fact(ConditionType::MassLoss);
        assert!(fact.message.contains("30 of 40"));
        let explained = fact.reason == crate::condition::Reason::ServerRestarted;
        assert_eq!(explained, restart);
        assert_eq!(rig.next().kinds(), []);
        rig.again_changes_nothing();
    }
    let mut rig = Rig::held(&names);
    for n in &names[..20] {
        rig.says(n, Ok(Answer::absent()));
    }
    assert_eq!(rig.next().kinds(), [], "half is no mass");
}

#[test]
fn h20_the_approved_server_is_looked_at_and_adopted_logins_stay_adopted() {
    let mut rig = known();
    rig.says("web", marked(Difference::MarkMissing, MarkSeen::None, true));
    rig.change("web", |w| w.digest = digest(3));
    rig.core.release(None, rig.now);
    // As if it had come to be adopted earlier.
    rig.restart();
    rig.confirm_wish();
    rig.server = server_with("two", "r2");
    rig.next();
    rig.core.approve_server();
    let did = rig.pass();
    assert_eq!(did.asked.len(), 2);
    assert!(rig.record("web").adopted);
    rig.server = server_with("three", "r3");
    rig.next();
    rig.core.approve_server();
    assert!(rig.record("web").adopted, "whose it was is not forgotten");
    assert!(rig.core.take_server_dirty());
}

#[test]
fn h25_a_pause_stops_writes_and_not_looks_and_has_an_end() {
    for provider in [true, false] {
        let mut rig = Rig::held(&["web", "db"]);
        let until = rig.now + minutes(30);
        let web = HashMap::from([(name("web"), until)]);
        if provider {
            rig.core.set_pauses(Some(until), &HashMap::new());
        } else {
            rig.core.set_pauses(None, &web);
        }
        rig.says("web", lost(Difference::Disabled));
        rig.says("db", lost(Difference::Disabled));
        let did = rig.next();
        assert_eq!(did.asked.len(), 2);
        assert_eq!(did.creates().len(), usize::from(!provider));
        assert_eq!(rig.state("web"), State::Lost);
        let fact = did.fact(ConditionType::Paused);
        assert_eq!(fact.subject, if provider { "" } else { "web" });
        assert_eq!(fact.message, "writes are paused for 29 min more");
        rig.now = until - secs(1);
        assert!(!rig.pass().creates().contains(&"web"));
        rig.now = until;
        let did = rig.pass();
        assert!(did.creates().is_empty(), "nobody is due between two passes");
        assert_eq!(did.kinds(), [], "it is over");
        rig.core.hint();
        let did = rig.pass();
        assert!(did.creates().contains(&"web"));
        rig.next();
        rig.again_changes_nothing();
    }
}

#[test]
fn h25_a_pause_for_one_who_comes_later_counts() {
    let mut rig = Rig::held(&["db"]);
    let until = rig.now + HOUR;
    rig.core
        .set_pauses(None, &HashMap::from([(name("web"), until)]));
    rig.wish_for(vec![wanted("db"), wanted("web")]);
    assert_eq!(rig.slot("web").paused_until(), Some(until));
    assert_eq!(rig.pass().steps, []);
}

#[test]
fn h25_a_login_that_is_switched_on_again_is_told_with_how_to_keep_it_off() {
    let mut rig = Rig::held(&["web"]);
    rig.says("web", lost(Difference::Disabled));
    let did = rig.next();
    assert!(did.happened(&Happening::SwitchedOn));
    let fact = did.fact(ConditionType::SwitchedOnAgain);
    assert_eq!(fact.subject, "web");
    assert!(fact.kind.cure().contains("enabled = false"));
    assert_eq!(rig.next().kinds(), []);
    rig.again_changes_nothing();
}

#[test]
fn h25_what_is_kept_off_on_purpose_is_fine_and_says_so() {
    let mut rig = Rig::held(&["web"]);
    rig.change("web", |w| {
        w.enabled = false;
        w.digest = digest(2);
    });
    rig.says("web", lost(Difference::Enabled));
    let did = rig.next();
    assert_eq!(did.creates(), ["web"]);
    assert_eq!(rig.state("web"), State::Disabled);
    assert!(rig.state("web").is_fine());
    rig.next();
    let did = rig.next();
    assert_eq!(did.kinds(), [ConditionType::DisabledOnPurpose]);
    assert_eq!(did.dirty, Vec::<String>::new());
    rig.says("web", lost(Difference::Enabled));
    let did = rig.next();
    assert_eq!(
        did.creates(),
        ["web"],
        "somebody switched it on, and it goes off again"
    );
    assert!(!did.happened(&Happening::SwitchedOn));
}

#[test]
fn h18_a_restart_does_not_make_a_taken_login_be_asked_for() {
    let mut rig = Rig::held(&["db"]);
    rig.wish_for(vec![wanted("db"), wanted("web")]);
    rig.says("web", taken());
    rig.pass();
    rig.restarts("run2");
    assert_eq!(rig.next().asked, ["db"]);
}

#[test]
fn h18_a_login_that_it_never_had_is_not_ours_because_it_had_others() {
    let mut rig = Rig::held(&["web"]);
    rig.change("web", |w| w.login = login("web2"));
    rig.says("web", taken());
    let did = rig.pass();
    assert_eq!(
        (did.steps.len(), did.kinds()),
        (0, vec![ConditionType::LoginTaken])
    );
}
