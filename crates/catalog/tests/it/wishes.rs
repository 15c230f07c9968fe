//! What the tests of a kind ask for.

use mesh_sdk::handle::{AnyKind, Asked};
use mesh_sdk::provision::{Departing, WishParts};
use mesh_sdk::{ConsumerName, Login, Secret, Wish};
use serde_json::Value;

/// A wish for a consumer of this name: login the same, a password of its own, chosen by a person; changed as
/// told.
pub(crate) fn wish_of(
    kind: &dyn AnyKind,
    name: &str,
    values: Value,
    change: impl FnOnce(&mut WishParts),
) -> Wish {
    let consumer = ConsumerName::new(name).expect("a name");
    let parsed = kind.parse_values(values).expect("values");
    let mut parts = WishParts {
        login: Login::from(&consumer),
        password: Some(Secret::from(format!("password-of-{name}"))),
        consumer,
        values: parsed.values,
        canonical_values: parsed.canonical,
        enabled: true,
        adopt: false,
        exact: false,
        second: None,
        base: None,
        generated: false,
    };
    change(&mut parts);
    Wish::new(parts, &Secret::from("key"))
}

/// Asked for a login that we made.
pub(crate) fn asked(wish: &Wish) -> Asked<'_> {
    Asked {
        wish,
        adopted: false,
    }
}

/// A wish's login, as one that leaves.
pub(crate) fn going(wish: &Wish) -> Departing {
    Departing::new(wish.consumer().clone(), wish.login().clone())
}
