//! The pure core: desired + record + answers + time → steps and conditions.
//!
//! Nothing here reads a clock, draws a random number, waits or talks: whoever calls says what time it
//! is, and a seed stands for chance. So every rule can be tried in millions of histories, and the same
//! history always gives the same steps.
//!
//! [`Core`] is one provisioner's decisions. A pass goes through it in this order:
//! [`Core::server_seen`] → [`Core::begin`] → [`Core::listed`] if the plan says so →
//! [`Core::answer`] for each that was asked → [`Core::used`] for each of [`Core::uses_to_ask`] → [`Core::steps`] → (mint → [`Core::secret_ready`] → [`Core::steps`] again) → intents are stored → effects →
//! [`Core::effect`] → look again → [`Core::looked_again`] → [`Core::end`].

mod act;
pub mod alive;
mod brake;
pub mod conditions;
mod core;
mod depart;
mod departure;
mod facts;
mod guards;
pub mod hints;
mod judge;
mod listed;
mod outstanding;
mod pass;
mod record;
mod seats;
mod server;
mod settings;
mod slot;
pub mod tasks;
#[cfg(test)]
mod tests;
mod uses;
mod views;
mod wish;

pub use self::brake::backoff;
pub use self::core::{Core, Mode, PassEnd, PassPlan, ServerRecord, Stored, Summary};
pub use self::depart::{Leaver, Retired};
pub use self::departure::{Departure, Phase, Used};
pub use self::guards::Approval;
pub use self::listed::Strangers;
pub use self::record::{Last, Record, Unknown};
pub use self::settings::Settings;
pub use self::slot::{Happening, SecretState, Slot, State, Step, Wanted, WholeWish, Why};
pub use self::views::state_of;
