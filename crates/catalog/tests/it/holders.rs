//! Holders of a provider's lease, one after the other, on one server (B-4).

use mesh_sdk::adapter::Fence;
use mesh_sdk::handle::AnyKind;
use mesh_sdk::{Class, ConsumerName, Error, Login, Wish};
use serde_json::Value;

use crate::ours::Ours;
use crate::wishes::{going, wish_of};

/// Our own login, where the fence stands.
pub(crate) const CANARY: &str = "mesh-canary-0123456789";

fn login() -> Login {
    Login::new(CANARY).expect("a login")
}

/// What the harness asks for it.
pub(crate) fn canary(kind: &dyn AnyKind, values: Value) -> Wish {
    wish_of(kind, "canary", values, |parts| {
        parts.consumer = ConsumerName::canary();
        parts.login = login();
        parts.enabled = false;
    })
}

/// Demands that this holder refused it.
#[track_caller]
pub(crate) fn refused(outcome: Result<(), Error>, by: &str) {
    let error = outcome.expect_err("refused");
    assert_eq!(error.class(), Class::Fenced, "{error}");
    assert!(error.message().contains(by), "{error}");
}

impl<K: AnyKind + Default> Ours<K> {
    /// The same as a holder of the lease.
    pub(crate) fn holding(mut self, number: u64, name: &str) -> Self {
        let fence = Fence::new(1, number, name);
        self.cx = self.cx.clone().under(Some(fence), Some(login()));
        self
    }
    /// Demands that nothing it writes is done, since another one wrote: neither for these, who are not there, nor
    /// on one who is.
    pub(crate) async fn writes_nothing(&self, new: &[Wish; 2], there: &Wish, by: &str) {
        refused(self.create(&new[0]).await, by);
        for outcome in self.create_all(new).await {
            refused(outcome, by);
        }
        let (adapter, cx, marker) = (&self.adapter, &self.cx, &self.marker);
        refused(adapter.disable(cx, marker, &going(there)).await, by);
        refused(adapter.remove(cx, marker, &going(there)).await, by);
    }
}
