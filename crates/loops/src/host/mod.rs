//! Host: keeps a consumer's containers and systemd units as declared, and knows which it restarted, when and why.
//!
//! [`order`] is what the manifest asks; [`decide`] is the pure core; [`record`] is what is remembered; [`engine`]
//! speaks with Docker, Podman and systemd.

pub mod decide;
pub mod engine;
mod facts;
mod keeper;
pub mod order;
pub mod record;

pub use keeper::{Host, Is, Looked, Parts, Told, read_all};
