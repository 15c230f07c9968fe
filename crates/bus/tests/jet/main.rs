//! The bus on real NATS servers, one and three: the bus suite, faults, and who may do what.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod agents;
mod cases;
mod crash;
mod gate;
mod ground;
mod moving;
mod replaced;
mod rights;
mod suite;
