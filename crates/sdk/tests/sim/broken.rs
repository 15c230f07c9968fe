//! The judge on trial: a driver that leaves out one thing that it owes the core is found out.

use crate::check::Broken;
use crate::fate::run;
use crate::world::Sloppy;

/// Runs seeds with this driver until the judge says what it must; never more than this many.
fn found_out(sloppy: Sloppy, expected: Broken) {
    for seed in 0..1000 {
        let outcome = run(seed, Some(sloppy), false);
        if outcome.broken.iter().any(|(what, _)| *what == expected) {
            return;
        }
    }
    panic!("{sloppy:?} was never found to break {expected:?}");
}

#[test]
fn a_driver_that_ends_the_brake_is_found_out() {
    found_out(Sloppy::EndsTheBrake, Broken::NotBraked);
}
#[test]
fn a_driver_that_asks_on_after_a_timeout_is_found_out() {
    found_out(Sloppy::AsksOn, Broken::AskedAfterTimeout);
}
#[test]
fn a_driver_that_takes_unknown_for_lost_is_found_out() {
    found_out(Sloppy::UnknownIsLost, Broken::WroteAfterUnknown);
}
#[test]
fn a_driver_that_claims_every_login_is_found_out() {
    found_out(Sloppy::EveryPasswordFits, Broken::TookOver);
}
#[test]
fn a_driver_that_forgets_its_secrets_is_found_out() {
    found_out(Sloppy::ForgetsSecrets, Broken::MintedTwice);
}
#[test]
fn a_driver_that_lets_everybody_go_is_found_out() {
    found_out(Sloppy::ApprovesRemovals, Broken::RemovedTooMany);
}
#[test]
fn a_driver_that_trusts_every_server_is_found_out() {
    found_out(Sloppy::ApprovesServers, Broken::WroteOnChangedServer);
}
#[test]
fn a_driver_that_is_deaf_to_pauses_is_found_out() {
    found_out(Sloppy::IgnoresPauses, Broken::WroteWhilePaused);
}
#[test]
fn a_driver_that_drops_refused_entries_is_found_out() {
    found_out(Sloppy::DropsKeptEntries, Broken::RemovedWanted);
}
#[test]
fn a_driver_that_asks_in_its_own_order_is_found_out() {
    found_out(Sloppy::IgnoresTheOrder, Broken::Starved);
}
#[test]
fn a_driver_that_applies_twice_is_found_out() {
    found_out(Sloppy::AppliesTwice, Broken::AppliedWithoutLoss);
    found_out(Sloppy::AppliesTwice, Broken::NotBraked);
}
#[test]
fn a_driver_that_tells_nothing_is_found_out() {
    found_out(Sloppy::TellsNothing, Broken::SilentTrouble);
}
#[test]
fn a_driver_that_sees_only_good_is_found_out() {
    found_out(Sloppy::SeesOnlyGood, Broken::ClearedUnseen);
}
#[test]
fn r14_a_driver_that_forges_the_canary_is_found_out() {
    found_out(Sloppy::ForgesTheCanary, Broken::RemovedUnlisted);
}
#[test]
fn r8_a_driver_that_tells_an_old_list_again_is_found_out() {
    found_out(Sloppy::RepeatsTheList, Broken::RemovedUnlisted);
}
#[test]
fn r8_a_driver_that_hides_a_broken_wish_is_found_out() {
    found_out(Sloppy::HidesTheBrokenWish, Broken::RemovedOnBrokenWish);
}
#[test]
fn r13_a_driver_that_forgets_what_others_ask_for_is_found_out() {
    found_out(Sloppy::ForgetsTheOthers, Broken::RemovedWanted);
}
#[test]
fn r3_a_driver_that_retires_at_will_is_found_out() {
    found_out(Sloppy::RetiresAtWill, Broken::RemovedWanted);
}
#[test]
fn r14_a_driver_that_lets_go_what_nothing_proves_is_found_out() {
    found_out(Sloppy::ApprovesUnproven, Broken::RemovedUnproven);
}
#[test]
fn r6_a_driver_that_hears_of_no_use_is_found_out() {
    found_out(Sloppy::HearsNoUse, Broken::DroppedInUse);
}
