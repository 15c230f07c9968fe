//! The program `mesh`, as a library so that its tests can run whole commands.
//!
//! Read the modules in this order: [`cli`] is what a person types, [`settings`] is what that means,
//! [`manifest`] is what the mesh asks for, [`commands`] has a file per word, [`printer`] writes all output.

pub mod errors;
pub mod manifest;
pub mod status;
pub mod wiring;
