//! The rules of one container or unit, on histories of looks.

use super::*;
use mesh_sdk::ConsumerName;

const PERIOD: Duration = Duration::from_secs(60);

fn terms() -> Terms {
    Terms {
        window: Duration::from_secs(10),
        period: PERIOD,
    }
}
fn at(seconds: u32) -> Time {
    Time::from_millis(0) + Duration::from_secs(1) * seconds
}
fn fresh() -> Record {
    let web = ConsumerName::new("web").expect("name");
    Record::new(web, "here".to_owned(), "container web".to_owned())
}
fn database(sign: &str) -> BTreeMap<ProviderName, Version> {
    let name = ProviderName::new("database").expect("name");
    BTreeMap::from([(name, Version(sign.to_owned()))])
}
fn asked(digest: &str, image: &str, version: &str) -> Asked {
    Asked {
        digest: Some(digest.to_owned()),
        image: Image::Here {
            name: "localhost/web:1".to_owned(),
            id: image.to_owned(),
        },
        credentials: Credentials::There {
            version: Version(version.to_owned()),
            of: database(version),
            places: "env_file web.env".to_owned(),
            settling: false,
        },
    }
}
/// One that runs as this asks.
fn made_as(asked: &Asked, id: &str) -> Seen {
    let Credentials::There { version, .. } = &asked.credentials else {
        panic!("credentials");
    };
    let Image::Here { id: image, .. } = &asked.image else {
        panic!("image");
    };
    Seen {
        id: id.to_owned(),
        asked: asked.digest.clone(),
        image: Some(image.clone()),
        credentials: Some(version.clone()),
        by_hand: Vec::new(),
        stands: Stands::Running,
    }
}
fn stopped(seen: &Seen) -> Found {
    Found::There(Seen {
        stands: Stands::Stopped("exited, exit code 1".to_owned()),
        ..seen.clone()
    })
}
fn reasons(todo: Option<Todo>) -> Vec<String> {
    todo.expect("a step").reasons
}

/// Made at 0 and seen well.
fn settled() -> (Record, Asked, Seen) {
    let (mut record, asked) = (fresh(), asked("d", "i", "v"));
    let todo = step(&asked, &Found::Absent, terms(), &mut record, at(0)).expect("a step");
    assert_eq!(
        (todo.step, &todo.reasons[..]),
        (Step::Make, &["new".to_owned()][..])
    );
    record.begun = todo.reasons;
    let seen = made_as(&asked, "1");
    done(&asked, &seen, terms(), &mut record, at(0));
    let found = Found::There(seen.clone());
    assert_eq!(step(&asked, &found, terms(), &mut record, at(5)), None);
    (record, asked, seen)
}

#[test]
fn h13_what_is_in_order_is_left_alone_and_its_record_stays() {
    let (mut record, asked, seen) = settled();
    let before = record.clone();
    for minute in 1..100 {
        let found = Found::There(seen.clone());
        let todo = step(&asked, &found, terms(), &mut record, at(60 * minute));
        assert_eq!(todo, None);
    }
    assert_eq!(record, before);
}

#[test]
fn b6_without_a_record_what_runs_as_asked_is_left_alone() {
    let asked = asked("d", "i", "v");
    let mut record = fresh();
    let found = Found::There(made_as(&asked, "1"));
    assert_eq!(step(&asked, &found, terms(), &mut record, at(0)), None);
    assert_eq!(record.state, State::Running);
}

#[test]
fn h6_what_vanished_stopped_or_was_changed_is_mended_at_once_and_told_so() {
    let (record, asked, seen) = settled();
    let changed = Seen {
        by_hand: vec!["command", "mounts"],
        ..seen.clone()
    };
    for (found, does, why) in [
        (Found::Absent, Step::Make, "vanished"),
        (stopped(&seen), Step::Start, "stopped: exited, exit code 1"),
        (
            Found::There(changed),
            Step::Make,
            "changed by hand: command, mounts",
        ),
    ] {
        let todo = step(&asked, &found, terms(), &mut record.clone(), at(60)).expect("a step");
        assert_eq!((todo.step, todo.reasons), (does, vec![why.to_owned()]));
    }
}

#[test]
fn h14_one_restart_for_several_reasons_in_a_window() {
    let (mut record, _, seen) = settled();
    let found = Found::There(seen);
    let wish = |digest, image, version| asked(digest, image, version);
    assert_eq!(
        step(&wish("d", "i", "v2"), &found, terms(), &mut record, at(60)),
        None
    );
    assert!(matches!(record.why, Some(Why::Soon(_))));
    assert_eq!(
        step(&wish("d", "i2", "v2"), &found, terms(), &mut record, at(65)),
        None
    );
    let all = wish("d2", "i2", "v2");
    let todo = step(&all, &found, terms(), &mut record, at(70));
    assert_eq!(
        reasons(todo),
        [
            "the manifest asks for something else",
            "image changed: localhost/web:1 is i2, and it ran i",
            "credentials of database, version v2 ← delivery to env_file web.env",
        ]
    );
}

#[test]
fn other_reasons_wait_for_credentials_that_are_just_brought_but_not_for_ever() {
    let (mut record, _, seen) = settled();
    let found = Found::There(seen);
    let mut all = asked("d", "i2", "v");
    if let Credentials::There { settling, .. } = &mut all.credentials {
        *settling = true;
    }
    for second in [60, 120, 300] {
        assert_eq!(step(&all, &found, terms(), &mut record, at(second)), None);
    }
    assert!(step(&all, &found, terms(), &mut record, at(360)).is_some());
}

#[test]
fn h7_h18_what_cannot_be_looked_at_or_is_not_ours_is_left_alone() {
    for found in [
        Found::Unknown("no socket".to_owned()),
        Found::Stranger("not ours".to_owned()),
    ] {
        let (mut record, _, _) = settled();
        let other = asked("d2", "i2", "v2");
        for minute in 1..50 {
            let todo = step(&other, &found, terms(), &mut record, at(60 * minute));
            assert_eq!(todo, None);
        }
        assert!(matches!(record.why, Some(Why::Failed(_) | Why::Taken(_))));
    }
}

#[test]
fn without_image_or_credentials_nothing_is_made_and_what_runs_goes_on() {
    let (settled, wish, seen) = settled();
    let missing = Asked {
        image: Image::Missing("podman pull".to_owned()),
        ..wish.clone()
    };
    let waits = Asked {
        credentials: Credentials::Waits("env_file web.env".to_owned()),
        ..wish.clone()
    };
    for asked in [missing, waits] {
        let mut record = settled.clone();
        let found = Found::There(seen.clone());
        assert_eq!(step(&asked, &found, terms(), &mut record, at(60)), None);
        assert_eq!(record.why, None, "what runs is in order");
        let todo = step(&asked, &stopped(&seen), terms(), &mut record, at(61));
        assert_eq!(todo.map(|todo| todo.step), Some(Step::Start));
        let mut record = settled.clone();
        assert_eq!(
            step(&asked, &Found::Absent, terms(), &mut record, at(62)),
            None
        );
        assert!(matches!(record.why, Some(Why::NoImage(_) | Why::Waits(_))));
    }
}

#[test]
fn h11_what_a_restart_does_not_help_is_restarted_less_and_less_often() {
    let (mut record, asked, seen) = settled();
    let mut starts = Vec::new();
    for minute in 1..600 {
        let now = at(60 * minute);
        if let Some(todo) = step(&asked, &stopped(&seen), terms(), &mut record, now) {
            starts.push(minute);
            record.begun = todo.reasons;
            let Found::There(after) = stopped(&seen) else {
                panic!("there");
            };
            done(&asked, &after, terms(), &mut record, now);
        }
    }
    assert_eq!(starts[..8], [1, 2, 3, 5, 9, 17, 33, 65]);
    let gaps = starts.windows(2).map(|pair| pair[1] - pair[0]);
    assert_eq!(gaps.max(), Some(60), "in the steady state one an hour");
    assert!(matches!(&record.why, Some(Why::Braked(_))));
    // A held answer ends it.
    let found = Found::There(seen.clone());
    let later = at(60 * 700);
    assert_eq!(step(&asked, &found, terms(), &mut record, later), None);
    assert_eq!((record.brake.strikes, &record.why), (0, &None));
}

#[test]
fn h11_something_else_that_is_asked_for_ends_the_brake() {
    let (mut record, wish, seen) = settled();
    for minute in 1..30 {
        let now = at(60 * minute);
        if let Some(todo) = step(&wish, &stopped(&seen), terms(), &mut record, now) {
            record.begun = todo.reasons;
            let Found::There(after) = stopped(&seen) else {
                panic!("there");
            };
            done(&wish, &after, terms(), &mut record, now);
        }
    }
    let now = at(60 * 30);
    assert_eq!(
        step(&wish, &stopped(&seen), terms(), &mut record, now),
        None
    );
    let new = asked("d", "i2", "v");
    let todo = step(&new, &stopped(&seen), terms(), &mut record, now).expect("at once");
    assert_eq!(todo.step, Step::Make);
    assert_eq!(record.brake.strikes, 0);
}

#[test]
fn h15_an_app_that_is_well_at_each_look_and_dies_in_between_is_braked() {
    let (mut record, asked, seen) = settled();
    let mut starts = 0;
    for minute in 1..120 {
        let now = at(60 * minute);
        let found = stopped(&seen);
        if let Some(todo) = step(&asked, &found, terms(), &mut record, now) {
            starts += 1;
            record.begun = todo.reasons;
            done(&asked, &seen, terms(), &mut record, now);
            let found = Found::There(seen.clone());
            let soon = at(60 * minute + 5);
            assert_eq!(step(&asked, &found, terms(), &mut record, soon), None);
        }
    }
    assert!(starts < 20, "{starts}");
    assert!(matches!(&record.why, Some(Why::Braked(_))));
}

#[test]
fn h12_a_restart_that_fails_is_tried_again_later_and_later_with_its_own_reasons() {
    let (mut record, _, seen) = settled();
    let new = asked("d", "i2", "v");
    let mut tries = Vec::new();
    for second in 60..400 {
        // The old one is gone: the new one was made and did not start.
        let found = match tries.len() {
            0 => Found::There(seen.clone()),
            _ => Found::Absent,
        };
        if let Some(todo) = step(&new, &found, terms(), &mut record, at(second)) {
            tries.push(second);
            assert_eq!(
                todo.reasons,
                ["image changed: localhost/web:1 is i2, and it ran i"]
            );
            record.begun = todo.reasons;
            failed("port in use".to_owned(), terms(), &mut record, at(second));
        }
    }
    assert_eq!(tries[..5], [70, 75, 85, 105, 145]);
    assert_eq!(record.brake.strikes, 0);
    let todo = step(&new, &Found::Absent, terms(), &mut record, at(460)).expect("a step");
    record.begun = todo.reasons;
    done(&new, &made_as(&new, "2"), terms(), &mut record, at(460));
    assert_eq!(record.reasons.len(), 1, "{:?}", record.reasons);
}

#[test]
fn b6_a_restart_that_was_cut_off_is_ended_and_not_made_twice() {
    let (settled, _, seen) = settled();
    let new = asked("d", "i2", "v");
    let mut record = settled;
    step(
        &new,
        &Found::There(seen.clone()),
        terms(),
        &mut record,
        at(60),
    );
    let todo = step(
        &new,
        &Found::There(seen.clone()),
        terms(),
        &mut record,
        at(70),
    );
    record.begun = reasons(todo);
    let why = record.begun.clone();
    // Before anything was done: for the same reasons, and at once.
    let todo = step(
        &new,
        &Found::There(seen),
        terms(),
        &mut record.clone(),
        at(71),
    );
    assert_eq!(reasons(todo), why);
    // Between the old one's end and the new one's name.
    let todo = step(&new, &Found::Absent, terms(), &mut record.clone(), at(71));
    assert_eq!(reasons(todo), why);
    // Named, and not started.
    let made = made_as(&new, "2");
    let todo = step(&new, &stopped(&made), terms(), &mut record.clone(), at(71));
    assert_eq!(reasons(todo), why);
    // Started, and not written down.
    let found = Found::There(made);
    assert_eq!(step(&new, &found, terms(), &mut record, at(71)), None);
    assert_eq!((record.reasons, record.begun), (why, Vec::new()));
}

#[test]
fn the_provider_whose_credentials_changed_is_named() {
    let (mut record, _, seen) = settled();
    let mut new = asked("d", "i", "v2");
    if let Credentials::There { of, .. } = &mut new.credentials {
        *of = database("v");
        let cache = ProviderName::new("cache").expect("name");
        of.insert(cache, Version("other".to_owned()));
    }
    let found = Found::There(seen);
    step(&new, &found, terms(), &mut record, at(60));
    let todo = step(&new, &found, terms(), &mut record, at(70));
    assert_eq!(
        reasons(todo),
        ["credentials of cache, version v2 ← delivery to env_file web.env"]
    );
}

#[test]
fn a_health_check_that_fails_is_told_and_no_reason_to_restart() {
    let (mut record, asked, seen) = settled();
    let sick = Found::There(Seen {
        stands: Stands::Unhealthy,
        ..seen.clone()
    });
    for minute in 1..50 {
        let todo = step(&asked, &sick, terms(), &mut record, at(60 * minute));
        assert_eq!(todo, None);
        assert!(matches!(record.why, Some(Why::Unhealthy(_))));
    }
    let well = Found::There(seen);
    assert_eq!(step(&asked, &well, terms(), &mut record, at(6000)), None);
    assert_eq!(record.why, None);
}
