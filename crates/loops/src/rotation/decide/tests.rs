//! The rules of one rotation, on histories of looks.
use mesh_sdk::vault::SecretId;
use mesh_sdk::{ConsumerName, ProviderName};

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn at(seconds: u32) -> Time {
    Time::from_millis(1_800_000_000_000) + Duration::from_secs(1) * seconds
}
fn asks(way: Way) -> Asks {
    Asks {
        way,
        enabled: true,
        every: None,
        grace: None,
        given: false,
        cannot: None,
    }
}
fn well() -> Seen {
    Seen {
        backend: Backend::AsAsked,
        given: false,
        lost: false,
        outstanding: Vec::new(),
        delivered: true,
        paused: None,
    }
}
fn not_yet() -> Seen {
    Seen {
        backend: Backend::NotYet("it is not applied yet".to_owned()),
        ..well()
    }
}
fn owes(who: &str) -> Seen {
    Seen {
        outstanding: vec![(who.to_owned(), String::new())],
        ..well()
    }
}
fn fresh(way: Way) -> Journal {
    let names = (ProviderName::new("cache"), ConsumerName::new("web"));
    let (provider, consumer) = (names.0.expect("name"), names.1.expect("name"));
    Journal::new(provider, consumer, way, at(0))
}
fn held(id: &str, seat: Seat) -> Held {
    Held {
        seat,
        place: ConsumerName::new("web").expect("name"),
        id: SecretId(id.to_owned()),
        copy: None,
    }
}
fn please(second: u32) -> Said {
    Said {
        begin: Some(Begin {
            at: at(second),
            due: at(second),
            reason: "a leak".to_owned(),
        }),
        about: None,
    }
}
fn about(journal: &Journal, what: What) -> Said {
    Said {
        begin: None,
        about: Some(About {
            number: journal.number,
            turn: journal.turn,
            what,
            reason: "seen by hand".to_owned(),
        }),
    }
}
fn none() -> Said {
    Said::default()
}

/// One look, with the sealing that it asks for.
fn go(journal: &mut Journal, asks: &Asks, seen: &Seen, said: &Said, now: Time) -> bool {
    let next = next(journal, asks, seen, said, now);
    let mut after = next.journal;
    if let Some((_, cause)) = next.make {
        let current = after.current.clone().or(Some(held("0", Seat::First)));
        let current = current.filter(|_| !seen.lost);
        let seat = seat_of_candidate(&after, current.is_none());
        let made = held(&format!("{}", after.number + 1), seat);
        begin(&mut after, current, made, cause, now);
    }
    let moved = after.step != journal.step || after.turn != journal.turn;
    *journal = after;
    moved
}

/// A rotation that waits for its consumer.
fn promoted(way: Way) -> Journal {
    let mut journal = fresh(way);
    assert!(go(&mut journal, &asks(way), &well(), &please(1), at(1)));
    assert_eq!(journal.step, Step::Proving);
    assert!(go(&mut journal, &asks(way), &well(), &none(), at(2)));
    assert_eq!(journal.step, Step::Waiting);
    journal
}
fn id(held: &Option<Held>) -> &str {
    held.as_ref().map_or("", |held| held.id.0.as_str())
}

#[test]
fn r3_the_steps_are_prove_promote_wait_retire_and_again_changes_nothing() {
    for way in [Way::TwoPasswords, Way::Turns] {
        let mut journal = fresh(way);
        assert!(go(&mut journal, &asks(way), &well(), &please(1), at(1)));
        assert_eq!(
            (journal.step, id(&journal.current), id(&journal.other)),
            (Step::Proving, "0", "1")
        );
        assert!(journal.beside().is_some());
        for second in 2..10 {
            assert!(!go(
                &mut journal,
                &asks(way),
                &not_yet(),
                &please(1),
                at(second)
            ));
        }
        assert_eq!(journal.waits_on.len(), 1);
        assert!(go(&mut journal, &asks(way), &well(), &please(1), at(10)));
        assert_eq!(
            (journal.step, id(&journal.current), id(&journal.other)),
            (Step::Waiting, "1", "0")
        );
        assert_eq!((journal.turn, journal.beside().is_some()), (1, true));
        assert!(go(&mut journal, &asks(way), &well(), &please(1), at(11)));
        assert_eq!(
            (journal.step, journal.beside().is_some()),
            (Step::Retiring, false)
        );
        assert!(!go(
            &mut journal,
            &asks(way),
            &not_yet(),
            &please(1),
            at(12)
        ));
        assert!(go(&mut journal, &asks(way), &well(), &please(1), at(13)));
        assert_eq!(journal.step, Step::Resting);
        let before = journal.clone();
        for second in 14..100 {
            assert!(!go(
                &mut journal,
                &asks(way),
                &well(),
                &please(1),
                at(second)
            ));
        }
        assert_eq!(journal, before);
    }
}

#[test]
fn r3_logins_take_turns_and_two_passwords_stay_on_one() {
    let mut journal = promoted(Way::Turns);
    assert_eq!(journal.in_use(), Seat::Second);
    for second in 20..30 {
        go(
            &mut journal,
            &asks(Way::Turns),
            &well(),
            &please(20),
            at(second),
        );
    }
    assert_eq!(
        (journal.step, journal.number, journal.in_use()),
        (Step::Resting, 2, Seat::First)
    );
    assert_eq!(promoted(Way::TwoPasswords).in_use(), Seat::First);
}

#[test]
fn r3_nothing_is_retired_while_one_is_outstanding_and_the_journal_says_who_and_since_when() {
    let mut journal = promoted(Way::Turns);
    for second in 3..100_000 {
        if second % 997 != 0 {
            continue;
        }
        assert!(!go(
            &mut journal,
            &asks(Way::Turns),
            &owes("env_file /slow.env"),
            &none(),
            at(second)
        ));
    }
    let waits = &journal.waits_on[0];
    assert_eq!(
        (waits.on.as_str(), waits.since),
        ("env_file /slow.env", at(2))
    );
    // Another one that comes later is waited for since then.
    let both = Seen {
        outstanding: vec![
            ("env_file /slow.env".to_owned(), String::new()),
            ("json_file /b".to_owned(), String::new()),
        ],
        ..well()
    };
    go(&mut journal, &asks(Way::Turns), &both, &none(), at(100_000));
    let since: Vec<Time> = journal.waits_on.iter().map(|one| one.since).collect();
    assert_eq!(since, [at(2), at(100_000)]);
    assert!(go(
        &mut journal,
        &asks(Way::Turns),
        &well(),
        &none(),
        at(100_001)
    ));
    assert_eq!(journal.step, Step::Retiring);
}

#[test]
fn r3_the_old_stays_while_the_new_one_is_not_proven_just_now() {
    let mut journal = promoted(Way::TwoPasswords);
    assert!(!go(
        &mut journal,
        &asks(Way::TwoPasswords),
        &not_yet(),
        &none(),
        at(5)
    ));
    let force = about(&journal, What::Force);
    assert!(!go(
        &mut journal,
        &asks(Way::TwoPasswords),
        &not_yet(),
        &force,
        at(6)
    ));
    assert_eq!(journal.step, Step::Waiting);
}

#[test]
fn a_persons_force_is_of_one_rotation_and_keeps_its_reason() {
    let mut journal = promoted(Way::Turns);
    let mut old = about(&journal, What::Force);
    old.about.as_mut().expect("word").number = 0;
    assert!(!go(
        &mut journal,
        &asks(Way::Turns),
        &owes("x"),
        &old,
        at(5)
    ));
    let force = about(&journal, What::Force);
    assert!(go(
        &mut journal,
        &asks(Way::Turns),
        &owes("x"),
        &force,
        at(6)
    ));
    assert_eq!(
        (journal.step, journal.forced.as_deref()),
        (Step::Retiring, Some("seen by hand"))
    );
    // The word that still stands says nothing of the next one.
    for second in 7..20 {
        let said = Said {
            about: force.about.clone(),
            ..please(7)
        };
        go(
            &mut journal,
            &asks(Way::Turns),
            &owes("x"),
            &said,
            at(second),
        );
    }
    assert_eq!((journal.number, journal.step), (2, Step::Waiting));
}

#[test]
fn a_person_goes_back_to_the_old_one_while_it_is_valid() {
    let mut journal = promoted(Way::Turns);
    let back = about(&journal, What::Back);
    assert!(go(
        &mut journal,
        &asks(Way::Turns),
        &owes("x"),
        &back,
        at(5)
    ));
    assert_eq!(
        (
            journal.step,
            journal.turn,
            id(&journal.current),
            journal.in_use()
        ),
        (Step::Waiting, 2, "0", Seat::First)
    );
    // It waits for who has the new one already, and the word is not followed twice.
    assert!(!go(
        &mut journal,
        &asks(Way::Turns),
        &owes("x"),
        &back,
        at(6)
    ));
    assert!(go(&mut journal, &asks(Way::Turns), &well(), &back, at(7)));
    assert!(go(&mut journal, &asks(Way::Turns), &well(), &back, at(8)));
    assert_eq!((journal.step, id(&journal.current)), (Step::Resting, "0"));
    // Before the promotion it is given up.
    let mut journal = fresh(Way::TwoPasswords);
    go(
        &mut journal,
        &asks(Way::TwoPasswords),
        &well(),
        &please(1),
        at(1),
    );
    let back = about(&journal, What::Back);
    assert!(go(
        &mut journal,
        &asks(Way::TwoPasswords),
        &not_yet(),
        &back,
        at(2)
    ));
    assert!(go(
        &mut journal,
        &asks(Way::TwoPasswords),
        &well(),
        &back,
        at(3)
    ));
    assert_eq!(
        (journal.step, journal.turn, id(&journal.current)),
        (Step::Resting, 0, "0")
    );
}

#[test]
fn who_gets_nothing_delivered_is_waited_for_until_a_person_or_a_grace_says_so() {
    let silent = Seen {
        delivered: false,
        ..well()
    };
    let mut journal = promoted(Way::Turns);
    assert!(!go(
        &mut journal,
        &asks(Way::Turns),
        &silent,
        &none(),
        at(80_000)
    ));
    let taken = about(&journal, What::Taken);
    assert!(go(
        &mut journal,
        &asks(Way::Turns),
        &silent,
        &taken,
        at(80_001)
    ));
    let mut journal = promoted(Way::Turns);
    let graceful = Asks {
        grace: Some(DAY),
        ..asks(Way::Turns)
    };
    assert!(!go(&mut journal, &graceful, &silent, &none(), at(86_401)));
    assert!(go(&mut journal, &graceful, &silent, &none(), at(86_402)));
    // Neither counts while a delivery is outstanding.
    let mut journal = promoted(Way::Turns);
    let taken = about(&journal, What::Taken);
    assert!(!go(
        &mut journal,
        &graceful,
        &owes("x"),
        &taken,
        at(999_999)
    ));
}

#[test]
fn the_clock_counts_from_the_last_promotion_and_missed_times_do_not_pile_up() {
    let clock = Asks {
        every: Some(DAY),
        ..asks(Way::TwoPasswords)
    };
    let mut journal = fresh(Way::TwoPasswords);
    let mut begun = 0;
    let mut look = |journal: &mut Journal, second: u32| {
        let before = journal.number;
        go(journal, &clock, &well(), &none(), at(second));
        begun += u32::from(journal.number > before);
        begun
    };
    // The first look, a restart and an import begin nothing.
    assert_eq!(look(&mut journal, 1000), 0);
    assert_eq!(journal.counts_from, Some(at(1000)));
    let due = journal.due(DAY).expect("due");
    assert!(due >= at(1000) + DAY && due <= at(1000) + DAY + DAY / 10);
    assert_eq!(look(&mut journal, 87_000), 0);
    // Five days late: once, after it was seen twice.
    assert_eq!(look(&mut journal, 500_000), 0);
    assert_eq!(look(&mut journal, 500_300), 0);
    assert_eq!(look(&mut journal, 500_601), 1);
    for second in 500_602..500_700 {
        assert_eq!(look(&mut journal, second), 1);
    }
    assert_eq!(
        (journal.step, journal.counts_from),
        (Step::Resting, Some(at(500_602)))
    );
}

#[test]
fn a_clock_that_was_wrong_for_a_moment_begins_nothing() {
    let clock = Asks {
        every: Some(DAY),
        ..asks(Way::TwoPasswords)
    };
    let mut journal = fresh(Way::TwoPasswords);
    go(&mut journal, &clock, &well(), &none(), at(0));
    go(&mut journal, &clock, &well(), &none(), at(50_000_000));
    assert!(journal.due_seen.is_some());
    for second in 60..80_000 {
        if second % 60 == 0 {
            go(&mut journal, &clock, &well(), &none(), at(second));
        }
    }
    assert_eq!((journal.number, journal.due_seen), (0, None));
}

#[test]
fn h25_nothing_moves_while_writes_are_paused_or_the_login_is_off() {
    let mut journal = promoted(Way::Turns);
    let paused = Seen {
        paused: Some(at(100)),
        ..well()
    };
    assert!(!go(
        &mut journal,
        &asks(Way::Turns),
        &paused,
        &none(),
        at(99)
    ));
    assert!(journal.waits_on[0].on.contains("paused"));
    let off = Asks {
        enabled: false,
        ..asks(Way::Turns)
    };
    assert!(!go(&mut journal, &off, &well(), &none(), at(101)));
    assert!(go(
        &mut journal,
        &asks(Way::Turns),
        &paused,
        &none(),
        at(101)
    ));
    let mut rests = fresh(Way::Turns);
    assert!(!go(&mut rests, &off, &well(), &please(1), at(2)));
    assert_eq!(rests.number, 0);
    assert!(
        go(&mut rests, &asks(Way::Turns), &well(), &please(1), at(3)),
        "the word waited"
    );
}

#[test]
fn h22_a_lost_password_is_replaced_by_a_persons_word_and_never_by_the_clock() {
    let lost = Seen {
        lost: true,
        ..not_yet()
    };
    let clock = Asks {
        every: Some(DAY),
        ..asks(Way::Turns)
    };
    let mut journal = fresh(Way::Turns);
    for second in 0..300_000 {
        if second % 1000 == 0 {
            assert!(!go(&mut journal, &clock, &lost, &none(), at(second)));
        }
    }
    assert!(go(
        &mut journal,
        &clock,
        &lost,
        &please(300_001),
        at(300_001)
    ));
    assert_eq!(
        (journal.step, id(&journal.current), journal.in_use()),
        (Step::Waiting, "1", Seat::First)
    );
    assert_eq!((journal.other.is_none(), journal.turn), (true, 1));
}

#[test]
fn a_given_password_that_a_person_changes_is_a_rotation_and_one_more_change_starts_over() {
    let given = Asks {
        given: true,
        every: Some(DAY),
        ..asks(Way::TwoPasswords)
    };
    let other = Seen {
        given: true,
        ..well()
    };
    let mut journal = fresh(Way::TwoPasswords);
    assert!(
        !go(&mut journal, &given, &well(), &please(1), at(1)),
        "nobody makes one for it"
    );
    assert!(!go(&mut journal, &given, &well(), &none(), at(1_000_000)));
    assert!(go(&mut journal, &given, &other, &none(), at(1_000_001)));
    assert_eq!(
        (journal.step, journal.cause.clone()),
        (Step::Proving, Some(Cause::Given))
    );
    // Typed wrong, and put right.
    assert!(go(&mut journal, &given, &other, &none(), at(1_000_002)));
    assert_eq!((journal.step, id(&journal.current)), (Step::Retiring, "0"));
    assert!(go(&mut journal, &given, &other, &none(), at(1_000_003)));
    assert!(go(&mut journal, &given, &other, &none(), at(1_000_004)));
    assert_eq!((journal.number, journal.step), (2, Step::Proving));
}

#[test]
fn h24_whoever_comes_after_a_crash_makes_the_same_step() {
    for way in [Way::TwoPasswords, Way::Turns] {
        let mut journal = fresh(way);
        for second in 1..20 {
            let one = next(&journal, &asks(way), &well(), &please(1), at(second));
            let two = next(&journal, &asks(way), &well(), &please(1), at(second));
            assert_eq!(
                (one.journal, one.make.is_some()),
                (two.journal, two.make.is_some())
            );
            let text = serde_json::to_string(&journal).expect("json");
            assert_eq!(
                serde_json::from_str::<Journal>(&text).expect("json"),
                journal
            );
            go(&mut journal, &asks(way), &well(), &please(1), at(second));
        }
        assert_eq!((journal.number, journal.step), (1, Step::Resting));
    }
}

#[test]
fn consumers_are_spread_evenly() {
    let cache = ProviderName::new("cache").expect("name");
    let mut quarters = [0; 4];
    for n in 0..1000 {
        let consumer = ConsumerName::new(&format!("app-{n}")).expect("name");
        quarters[usize::from(crate::rotation::journal::share(&cache, &consumer) / 64)] += 1;
    }
    assert!(
        quarters.iter().all(|n| (200..300).contains(n)),
        "{quarters:?}"
    );
}
