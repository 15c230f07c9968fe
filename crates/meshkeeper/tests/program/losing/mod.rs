//! What is lost when parts of an installation on several hosts are lost: servers of the bus, hosts, the way
//! between them, what lies on the bus, the right to write there, the room for it (B-4, B-6, B-9).
//!
//! Each test has three hosts with `mesh up`, a Redis, a PostgreSQL and twenty consumers. What counts is seen
//! on the backends: who may log in with which password, and whether anybody wrote.

#![allow(
    clippy::print_stdout,
    reason = "how long each took is worth reading when all went well"
)]

mod backends;
mod hosts;
mod logins;
mod mesh;
mod refusing;
mod servers;
mod split;
mod wiped;

/// The stream of the buckets.
const STATE: &str = "KV_mesh_home";
/// The stream of the history.
const LOG: &str = "MESH_LOG_home";
