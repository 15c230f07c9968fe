//! The inventory: every class of loop that this program has, each by its own declaration. Whoever adds a class
//! adds it here; a loop of a class that is not here fails the tests.

use mesh_loops::delivery::Delivery;
use mesh_loops::host::Host;
use mesh_loops::rotation::keeper::Rotation;
use mesh_sdk::harness::Provisioner;
use mesh_sdk::harness::declared::Declared;

use super::{member, owner, watchdog};

/// Every class.
pub fn classes() -> Vec<Declared> {
    vec![
        Provisioner::declared(),
        Delivery::declared(),
        Host::declared(),
        Rotation::declared(),
        owner::declared(),
        member::declared(),
        watchdog::declared(),
        watchdog::local::declared(),
    ]
}

#[cfg(test)]
mod tests {
    //! What the inventory tells is whole.
    use std::collections::BTreeSet;

    use mesh_sdk::condition::ConditionType;

    use super::*;

    #[test]
    fn every_condition_is_raised_by_a_class_and_every_class_tells_all_of_itself() {
        let classes = classes();
        let raised: BTreeSet<&str> = classes.iter().flat_map(|c| c.raises.clone()).collect();
        for kind in ConditionType::ALL {
            assert!(raised.contains(kind.as_str()), "nobody raises {kind}");
        }
        let names: BTreeSet<&str> = classes.iter().map(|c| c.class).collect();
        assert_eq!(names.len(), classes.len(), "one declaration each");
        for one in &classes {
            let all = [
                one.compares_against,
                one.repairs,
                one.may_take_away,
                one.blind_spots,
                one.period,
            ];
            assert!(all.iter().all(|text| !text.is_empty()), "{}", one.class);
        }
    }
}
