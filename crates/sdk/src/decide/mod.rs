//! The pure core: desired + record + answers + time → steps and conditions.
//!
//! Nothing here reads a clock, draws a random number, waits or talks: whoever calls says what time it
//! is, and a seed stands for chance. So every rule can be tried in millions of histories, and the same
//! history always gives the same steps.
//!
//! [`Core`] is one provisioner's decisions. A pass goes through it in this order:
//! [`Core::server_seen`] → [`Core::begin`] → [`Core::answer`] for each that was asked →
//! [`Core::steps`] → (mint → [`Core::secret_ready`]) → intents are stored → effects →
//! [`Core::effect`] → look again → [`Core::looked_again`] → [`Core::end`].

mod act;
mod brake;
pub mod conditions;
mod core;
mod depart;
mod facts;
pub mod hints;
mod judge;
mod pass;
mod server;
mod settings;
mod slot;
#[cfg(test)]
mod tests;
mod views;
mod wish;

pub use self::brake::backoff;
pub use self::core::{Core, Mode, PassEnd, PassPlan, ServerRecord, Stored, Summary};
pub use self::depart::{Approval, Departure, Phase};
pub use self::settings::Settings;
pub use self::slot::{
    Happening, Last, Record, SecretState, Slot, State, Step, Unknown, Wanted, WholeWish, Why,
};
pub use self::views::state_of;
