//! What to do about one place: pure, from what is asked, what lies there, what is remembered, and the time.
//!
//! The four laws hold here, too. What lies there is compared with what should, and not with what was
//! written (law 1); the repair is the same write as the first one (law 2); nothing is taken away, also not
//! when the manifest asks for it no more (law 3); what cannot be mended is a condition (law 4).

use std::time::Duration;

use mesh_sdk::Time;

use super::record::{Record, Since, Version, Why, version};
use crate::brake::Brake;

/// What is asked for one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// This version should lie there.
    Ready(Version),
    /// Not everything is there yet: what lies there stays as it is.
    Waits(String),
    /// A login of it is switched off on purpose (H-25): nothing is to be done, and nothing is missing.
    Nothing,
    /// It can never be written so.
    Refused(String),
}

/// What lies at the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// What is asked.
    Same,
    /// Nothing.
    Absent,
    /// The right values with another mode or owner.
    Loose,
    /// Something else.
    Other,
    /// It could not be looked at.
    Unknown(String),
    /// It cannot be looked at: what was handed over counts (a program's standard input).
    Blind,
}

/// How a consumer shows that it has taken a version up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// Nobody waits for it: that it lies there is all that is asked.
    Nothing,
    /// The reload hook ended well.
    Hook,
    /// It says so itself: in a file, or a person for it.
    Itself,
}

/// What is settled about a place beside its values.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Whether a hook is to be run after a change.
    pub hook: bool,
    /// How it is acknowledged.
    pub shows: Shows,
    /// How often places are looked at.
    pub period: Duration,
}

/// The next thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Write the values, with mode and owner.
    Write,
    /// Run the reload hook.
    Tell,
}

/// What is to be done after a regular look. Notes in the record what the look found.
pub fn step(
    asked: &Asked,
    found: &Found,
    terms: Terms,
    record: &mut Record,
    now: Time,
) -> Option<Step> {
    record.retired = false;
    let waits = std::mem::take(&mut record.waits);
    let wanted = match asked {
        Asked::Ready(version) => version,
        Asked::Waits(why) => {
            record.waits = waits.or(Some(now));
            record.why = Some(Why::Waits(why.clone()));
            return None;
        }
        Asked::Nothing => {
            record.why = None;
            return None;
        }
        Asked::Refused(why) => {
            record.why = Some(Why::Refused(why.clone()));
            return None;
        }
    };
    want(wanted, record, now);
    let there = version(&record.written) == Some(wanted);
    match found {
        Found::Unknown(why) => {
            record.why = Some(Why::Unwritten(why.clone()));
            None
        }
        Found::Blind if there => tell(wanted, terms, record, now),
        Found::Same => {
            in_order(wanted, record, now);
            tell(wanted, terms, record, now)
        }
        Found::Absent | Found::Loose | Found::Other | Found::Blind => {
            if !record.brake.is_open(now) {
                return None;
            }
            if there {
                changed(found, record, now);
            }
            Some(Step::Write)
        }
    }
}

/// Whether the hook is to be run, of a place that is in order.
pub fn tell(wanted: &Version, terms: Terms, record: &mut Record, now: Time) -> Option<Step> {
    if terms.shows == Shows::Nothing && version(&record.acknowledged) != Some(wanted) {
        record.acknowledged = Some(since(wanted, now));
    }
    if terms.hook && version(&record.told) != Some(wanted) {
        return record.brake.is_open(now).then_some(Step::Tell);
    }
    if record.brake.strikes == 0 {
        record.why = None;
    }
    None
}

/// A version that is asked for anew begins anew: no brake, no delay.
fn want(wanted: &Version, record: &mut Record, now: Time) {
    if version(&record.wanted) == Some(wanted) {
        return;
    }
    record.wanted = Some(since(wanted, now));
    record.brake = Brake::default();
    record.why = None;
}

/// What was found is what is asked, whoever wrote it.
fn in_order(wanted: &Version, record: &mut Record, now: Time) {
    if version(&record.written) != Some(wanted) {
        record.written = Some(since(wanted, now));
    }
    record.brake.found_in_order(now);
}

/// A place that was in order was changed by somebody else.
fn changed(found: &Found, record: &mut Record, now: Time) {
    if *found == Found::Other {
        // Whoever read it meanwhile read something else.
        record.told = None;
        record.acknowledged = None;
    }
    record.brake.found_changed(now);
}

/// A write ended well, and the look after it found what was written. Such a look does not count for the brake.
pub fn written(wanted: &Version, terms: Terms, record: &mut Record, now: Time) {
    record.brake.repaired = version(&record.written) == Some(wanted);
    if !record.brake.repaired {
        record.written = Some(since(wanted, now));
    }
    let often = record.brake.repair_ended(terms.period, now);
    record.why = often.map(|times| {
        Why::Contested(format!(
            "something else keeps changing it: {times} times within the hour; it is repaired less and less often"
        ))
    });
}

/// The hook ended well.
pub fn told(wanted: &Version, terms: Terms, record: &mut Record, now: Time) {
    record.told = Some(since(wanted, now));
    if terms.shows == Shows::Hook {
        record.acknowledged = Some(since(wanted, now));
    }
    record.brake.failures = 0;
    if record.brake.strikes == 0 {
        record.brake.not_before = None;
        record.why = None;
    }
}

/// A consumer, or a person for it, says that it has this version. Another one than is wanted changes nothing.
pub fn acknowledged(says: &Version, record: &mut Record, now: Time) {
    let there = version(&record.written) == Some(says) && version(&record.wanted) == Some(says);
    if there && version(&record.acknowledged) != Some(says) {
        record.acknowledged = Some(since(says, now));
    }
}

/// A write or a hook failed: it is tried again later and later, at most as seldom as places are looked at.
pub fn failed(why: Why, terms: Terms, record: &mut Record, now: Time) {
    record.brake.failed(terms.period, now);
    record.why = Some(why);
}

fn since(version: &Version, at: Time) -> Since {
    Since {
        version: version.clone(),
        at,
    }
}

#[cfg(test)]
mod tests {
    //! The rules of one place, on histories of looks.
    use super::*;
    use mesh_sdk::ConsumerName;

    const PERIOD: Duration = Duration::from_secs(60);

    fn terms(hook: bool, shows: Shows) -> Terms {
        Terms {
            hook,
            shows,
            period: PERIOD,
        }
    }
    fn fresh() -> Record {
        Record::new(
            ConsumerName::new("web").expect("name"),
            "here".to_owned(),
            "env_file web.env".to_owned(),
        )
    }
    fn at(seconds: u32) -> Time {
        Time::from_millis(0) + Duration::from_secs(1) * seconds
    }
    fn v(name: &str) -> Version {
        Version(name.to_owned())
    }
    fn ready(name: &str) -> Asked {
        Asked::Ready(v(name))
    }

    /// A place that was written and acknowledged at 0.
    fn settled() -> Record {
        let mut record = fresh();
        let terms = terms(false, Shows::Nothing);
        assert_eq!(
            step(&ready("a"), &Found::Absent, terms, &mut record, at(0)),
            Some(Step::Write)
        );
        assert!(!record.is_settled());
        written(&v("a"), terms, &mut record, at(0));
        assert_eq!(tell(&v("a"), terms, &mut record, at(0)), None);
        assert!(record.is_settled());
        record
    }

    #[test]
    fn h13_a_place_in_order_is_left_alone_and_its_record_stays() {
        let mut record = settled();
        let before = record.clone();
        for minute in 1..100 {
            let step = step(
                &ready("a"),
                &Found::Same,
                terms(false, Shows::Nothing),
                &mut record,
                at(60 * minute),
            );
            assert_eq!(step, None);
        }
        assert_eq!(record, before);
    }

    #[test]
    fn h2_what_lies_there_already_is_taken_without_a_write() {
        let mut record = fresh();
        let step = step(
            &ready("a"),
            &Found::Same,
            terms(false, Shows::Nothing),
            &mut record,
            at(5),
        );
        assert_eq!((step, record.is_settled()), (None, true));
    }

    #[test]
    fn h6_what_was_changed_or_lost_is_written_again_at_once() {
        for found in [Found::Absent, Found::Loose, Found::Other] {
            let mut record = settled();
            let step = step(
                &ready("a"),
                &found,
                terms(false, Shows::Nothing),
                &mut record,
                at(60),
            );
            assert_eq!(step, Some(Step::Write), "{found:?}");
            assert_eq!(record.is_settled(), found != Found::Other, "{found:?}");
        }
    }

    #[test]
    fn h7_what_cannot_be_looked_at_is_not_written() {
        let mut record = settled();
        let found = Found::Unknown("permission denied".to_owned());
        let step = step(
            &ready("a"),
            &found,
            terms(false, Shows::Nothing),
            &mut record,
            at(60),
        );
        assert_eq!(step, None);
        assert!(matches!(record.why, Some(Why::Unwritten(_))));
    }

    #[test]
    fn what_waits_or_is_refused_leaves_what_lies_there() {
        for asked in [
            Asked::Waits("cache".to_owned()),
            Asked::Refused("docker".to_owned()),
        ] {
            let mut record = settled();
            let step = step(
                &asked,
                &Found::Other,
                terms(true, Shows::Hook),
                &mut record,
                at(60),
            );
            assert_eq!(step, None);
            assert!(record.why.is_some());
        }
    }

    #[test]
    fn h25_who_waits_is_outstanding_since_it_began_to_and_who_is_switched_off_is_not() {
        let terms = terms(false, Shows::Nothing);
        let waits = Asked::Waits("cache".to_owned());
        for mut record in [fresh(), settled()] {
            for second in [60, 120] {
                step(&waits, &Found::Same, terms, &mut record, at(second));
                assert_eq!(record.outstanding_since(), Some(at(60)));
            }
            step(&Asked::Nothing, &Found::Same, terms, &mut record, at(180));
            assert_eq!(
                (record.outstanding_since(), record.why.clone()),
                (None, None)
            );
            step(&waits, &Found::Same, terms, &mut record, at(240));
            assert_eq!(record.outstanding_since(), Some(at(240)));
            step(&ready("a"), &Found::Same, terms, &mut record, at(300));
            assert_eq!(record.outstanding_since(), None);
        }
    }

    #[test]
    fn h11_who_changes_it_after_each_repair_is_met_less_and_less_often_and_named() {
        let terms = terms(false, Shows::Nothing);
        let mut record = settled();
        let mut writes = Vec::new();
        for minute in 1..600 {
            let now = at(60 * minute);
            if step(&ready("a"), &Found::Other, terms, &mut record, now) == Some(Step::Write) {
                writes.push(minute);
                written(&v("a"), terms, &mut record, now);
            }
        }
        assert_eq!(writes[..8], [1, 2, 3, 5, 9, 17, 33, 65]);
        let gaps: Vec<u32> = writes.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps.iter().max(), Some(&60));
        assert!(matches!(record.why, Some(Why::Contested(_))));
        // It stops: one look that finds it in order ends the brake.
        let end = at(60 * 600 + 3600);
        assert_eq!(
            step(&ready("a"), &Found::Same, terms, &mut record, end),
            None
        );
        assert_eq!((record.brake.strikes, record.why.clone()), (0, None));
        assert_eq!(
            step(
                &ready("a"),
                &Found::Absent,
                terms,
                &mut record,
                end + PERIOD
            ),
            Some(Step::Write)
        );
    }

    #[test]
    fn h15_four_changes_in_an_hour_with_good_looks_between_are_a_second_writer() {
        let terms = terms(false, Shows::Nothing);
        let mut record = settled();
        let mut writes = 0;
        for minute in 1..60 {
            let found = if minute % 10 == 0 {
                Found::Other
            } else {
                Found::Same
            };
            if step(&ready("a"), &found, terms, &mut record, at(60 * minute)) == Some(Step::Write) {
                writes += 1;
                written(&v("a"), terms, &mut record, at(60 * minute));
            }
        }
        assert_eq!(writes, 5);
        assert!(matches!(record.why, Some(Why::Contested(_))));
    }

    #[test]
    fn a_new_version_ends_the_brake_and_begins_anew() {
        let terms = terms(true, Shows::Hook);
        let mut record = settled();
        record.brake.strikes = 5;
        record.brake.not_before = Some(at(10_000));
        assert_eq!(
            step(&ready("b"), &Found::Other, terms, &mut record, at(60)),
            Some(Step::Write)
        );
        written(&v("b"), terms, &mut record, at(61));
        assert_eq!(tell(&v("b"), terms, &mut record, at(61)), Some(Step::Tell));
        assert_eq!(record.outstanding_since(), Some(at(60)));
        told(&v("b"), terms, &mut record, at(62));
        assert!(record.is_settled());
        assert_eq!(
            step(&ready("b"), &Found::Same, terms, &mut record, at(120)),
            None
        );
    }

    #[test]
    fn h3_a_hook_that_fails_is_tried_again_later_and_later() {
        let terms = terms(true, Shows::Hook);
        let mut record = settled();
        let mut tries = Vec::new();
        for second in 1..200 {
            let now = at(second);
            if step(&ready("a"), &Found::Same, terms, &mut record, now) == Some(Step::Tell) {
                tries.push(second);
                failed(
                    Why::Untold("ended with 1".to_owned()),
                    terms,
                    &mut record,
                    now,
                );
            }
        }
        assert_eq!(tries, [1, 6, 16, 36, 76, 136, 196]);
    }

    #[test]
    fn c7_only_the_version_that_lies_there_can_be_acknowledged() {
        let terms = terms(false, Shows::Itself);
        let mut record = fresh();
        acknowledged(&v("a"), &mut record, at(0));
        assert_eq!(
            step(&ready("a"), &Found::Absent, terms, &mut record, at(1)),
            Some(Step::Write)
        );
        acknowledged(&v("a"), &mut record, at(1));
        assert!(record.acknowledged.is_none(), "it was not written yet");
        written(&v("a"), terms, &mut record, at(2));
        acknowledged(&v("old"), &mut record, at(3));
        assert!(!record.is_settled());
        acknowledged(&v("a"), &mut record, at(3));
        assert!(record.is_settled());
    }

    #[test]
    fn a_program_is_handed_each_version_once() {
        let terms = terms(false, Shows::Nothing);
        let mut record = fresh();
        assert_eq!(
            step(&ready("a"), &Found::Blind, terms, &mut record, at(0)),
            Some(Step::Write)
        );
        written(&v("a"), terms, &mut record, at(0));
        for minute in 1..10 {
            assert_eq!(
                step(
                    &ready("a"),
                    &Found::Blind,
                    terms,
                    &mut record,
                    at(60 * minute)
                ),
                None
            );
        }
        assert_eq!(
            step(&ready("b"), &Found::Blind, terms, &mut record, at(900)),
            Some(Step::Write)
        );
    }
}
