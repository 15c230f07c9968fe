//! The program `mesh`, as a library so that its tests can run whole commands.
//!
//! Read the modules in this order: [`cli`] is what a person types, [`settings`] is what that means,
//! [`manifest`] is what the mesh asks for, [`commands`] has a file per word, [`printer`] writes all output,
//! [`program`] puts them together.

pub mod api;
pub mod cli;
pub mod commands;
pub mod desk;
pub mod errors;
pub mod logs;
pub mod manifest;
pub mod notify;
pub mod printer;
pub mod program;
pub mod settings;
pub mod status;
pub mod watch;
pub mod web;
pub mod wiring;
