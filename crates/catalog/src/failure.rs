//! What every protocol's failures have in common, so that each kind's table holds only what is its own.

use std::io;

use mesh_sdk::{Class, Error};

/// An error for a connection that failed or broke.
pub(crate) fn broken(what: &str, error: &io::Error) -> Error {
    let class = match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Class::TimedOut,
        // All else says only that there is no connection, or no longer.
        _ => Class::Unreachable,
    };
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let told = match inner {
        Some(tls) => format!("TLS: {tls}"),
        None => error.to_string(),
    };
    Error::new(class, format!("{what}: {told}"))
}

/// An error for no answer within our own deadline.
pub(crate) fn late(what: &str) -> Error {
    Error::new(Class::TimedOut, format!("{what}: no answer in time"))
}

/// An error for bytes that are not the protocol, or an answer of another form than asked for.
pub(crate) fn garbled(what: &str) -> Error {
    Error::new(Class::Bug, format!("{what}: the answer makes no sense"))
}
