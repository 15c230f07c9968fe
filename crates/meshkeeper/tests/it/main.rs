//! What users see: the manifest's messages, whole commands with their exit codes, the watch.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod commands;
mod conformance;
mod demo;
mod importing;
mod kind;
mod manifest;
mod pages;
mod program;
mod robust;
mod schema;
mod watch;
