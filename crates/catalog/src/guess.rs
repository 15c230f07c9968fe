//! Wishes that are guessed from what a server shows, to be compared with it like any other (`find`).

use std::sync::Arc;

use mesh_sdk::provision::WishParts;
use mesh_sdk::{ConsumerName, Login, Secret, Wish};

/// A wish for a login as somebody else may have made it, without its password.
pub(crate) fn wish<V: Send + Sync + 'static>(login: Login, values: V) -> Wish {
    let parts = WishParts {
        // No manifest names this consumer, so no mark is taken for its.
        consumer: ConsumerName::canary(),
        login,
        password: None,
        values: Arc::new(values),
        canonical_values: Vec::new(),
        enabled: true,
        adopt: false,
        exact: false,
        second: None,
        base: None,
        generated: false,
    };
    Wish::new(parts, &Secret::from("a guess"))
}
