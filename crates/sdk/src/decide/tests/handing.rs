//! a renamed consumer is handed the login that it had, and nothing of it leaves.
use super::removing::{FEW, removals};
use super::*;

/// `web` is called `site` now, and asks for the login that it had; the server's mark is `web`'s.
fn renamed() -> Rig {
    let mut rig = Rig::guarded(&FEW);
    rig.lists_ours(&FEW);
    rig.next();
    let mut all = rig.wish.wanted.clone();
    let one = all.iter_mut().find(|w| w.consumer == name("web"));
    let one = one.expect("web");
    one.consumer = name("site");
    one.secret = SecretState::New;
    rig.says(
        "site",
        marked(
            Difference::MarkMissing,
            MarkSeen::OursFor(name("web")),
            false,
        ),
    );
    rig.wish_for(all);
    rig
}
/// A person hands it over: its password is known now, and fits.
fn adopted(rig: &mut Rig) -> Did {
    rig.change("site", |w| {
        w.secret = SecretState::Ready;
        w.adopt = true;
    });
    rig.says(
        "site",
        marked(
            Difference::MarkMissing,
            MarkSeen::OursFor(name("web")),
            true,
        ),
    );
    let did = rig.next();
    let entries: Vec<(&str, MarkSeen)> = FEW
        .iter()
        .map(|n| {
            (
                *n,
                MarkSeen::OursFor(name(if *n == "web" { "site" } else { n })),
            )
        })
        .collect();
    rig.lists(&entries);
    did
}

#[test]
fn r13_a_login_of_ours_that_another_asks_for_is_told_with_its_cure() {
    let mut rig = renamed();
    let did = rig.next();
    let told = did.fact(ConditionType::LoginTaken);
    assert!(
        told.message.contains("`web`'s, of this mesh"),
        "{}",
        told.message
    );
    let action = told.action.as_deref().unwrap_or_default();
    assert!(action.contains("mesh adopt site"), "{action}");
    assert_eq!(rig.record("site").taken_from, Some(name("web")));
    assert_eq!(
        removals(&mut rig, 3 * 24 * 60),
        [],
        "nothing is taken away meanwhile"
    );
    assert_eq!(rig.mints, 0);
}

#[test]
fn r13_a_handed_over_login_is_ours_as_before_and_its_old_departure_ends() {
    let mut rig = renamed();
    rig.next();
    assert!(rig.record("web").departure.is_some());
    let did = adopted(&mut rig);
    assert_eq!(did.creates(), ["site"]);
    assert_eq!(rig.state("site"), State::Held);
    assert!(!rig.record("site").adopted, "we made it");
    assert_eq!(removals(&mut rig, 3 * 24 * 60), []);
    assert!(!rig.record("web").leaves());
    assert_eq!(rig.record("site").taken_from, None);
    rig.next();
    rig.again_changes_nothing();
}

#[test]
fn r13_one_that_existed_before_us_stays_so_when_it_is_handed_over() {
    let mut rig = renamed();
    rig.next();
    let i = rig.core.slot_of(&name("web")).expect("web");
    rig.core.slots[i].record.adopted = true;
    adopted(&mut rig);
    assert!(rig.record("site").adopted);
}

#[test]
fn r13_a_login_with_anothers_mark_that_no_wish_names_is_left_alone() {
    let mut rig = Rig::guarded(&FEW);
    rig.lists_ours(&FEW);
    rig.next();
    let rest: Vec<Wanted> = rig.wish.wanted.clone();
    rig.wish_for(
        rest.into_iter()
            .filter(|w| w.consumer != name("web"))
            .collect(),
    );
    let entries: Vec<(&str, MarkSeen)> = FEW
        .iter()
        .map(|n| {
            (
                *n,
                MarkSeen::OursFor(name(if *n == "web" { "ghost" } else { n })),
            )
        })
        .collect();
    rig.lists(&entries);
    let did = rig.next();
    assert!(!did.happened(&Happening::HandedOver(login("web"))));
    assert!(rig.record("web").leaves());
}
