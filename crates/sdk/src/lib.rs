//! Everything that an author of an adapter, a loop or a bus needs: the words, the contract, the pure core.
//!
//! Read the modules in this order: [`name`], [`secret`], [`mark`], [`provision`] and [`answer`] are the
//! words; [`adapter`] is the contract for authors and [`bus`] and [`vault`] are the contracts for stores;
//! [`decide`] is the pure core, where every numbered rule lives; `harness` carries its steps out.

pub mod adapter;
pub mod answer;
pub mod book;
pub mod bus;
pub mod clock;
pub mod condition;
pub mod decide;
pub mod error;
pub mod event;
pub mod handle;
pub mod harness;
pub mod mark;
pub mod name;
pub mod provision;
pub mod scrub;
pub mod secret;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
pub mod vault;

pub use adapter::{Adapter, Capabilities, Cx, Kind};
pub use answer::{Answer, Difference, Differences, Held, Lost, MarkSeen, Proof};
pub use error::{Class, Error};
pub use mark::{Mark, Marker};
pub use name::{ConsumerName, Login, MeshId, ProviderName};
pub use provision::{Provision, Wish};
pub use secret::Secret;
pub use time::Time;
