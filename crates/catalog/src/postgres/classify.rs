//! One total table from what can go wrong with PostgreSQL to a [`Class`].

use std::error::Error as _;
use std::io;

use mesh_sdk::{Class, Error};

pub(super) use crate::failure::{broken, garbled, late};
use tokio_postgres::error::DbError;

/// What a server's error means, by its five-letter SQLSTATE. The texts are translated on some servers, and
/// are not looked at; `routine` is the place in the server's source, which is not.
pub(super) fn class_of(code: &str, routine: Option<&str>) -> Class {
    match code {
        // Two at once changed one row of a catalogue (O-30).
        "XX000" if is_concurrent(code, routine) => Class::Busy,
        "25006" => Class::ReadOnly,
        "42501" | "2BP01" | "0P000" | "0LP01" => Class::Denied,
        "57P01" | "57P02" => Class::Unreachable,
        "57P03" | "57014" | "57P05" | "55P03" | "55006" | "40001" | "40P01" => Class::Busy,
        "57P04" | "3D000" | "3F000" | "42704" | "42P01" | "42883" => Class::Gone,
        "42710" | "42P04" | "42P06" | "42P07" | "42723" | "23505" => Class::Exists,
        "42602" | "42622" | "42939" | "42P17" | "0A000" | "58P01" | "55000" => Class::RefusedValue,
        _ => match code.get(..2) {
            Some("08") => Class::Unreachable,
            Some("28") => Class::Denied,
            Some("22" | "54") => Class::RefusedValue,
            Some("53" | "58") => Class::Busy,
            _ => Class::Bug,
        },
    }
}

/// Whether somebody else changed the same row of a catalogue at the same time, so that the very same
/// statement works a moment later.
pub(super) fn is_concurrent(code: &str, routine: Option<&str>) -> bool {
    const ROUTINES: [&str; 4] = [
        "simple_heap_update",
        "simple_heap_delete",
        "heap_update",
        "heap_delete",
    ];
    match code {
        "XX000" => routine.is_some_and(|routine| ROUTINES.contains(&routine)),
        "40001" | "40P01" => true,
        _ => false,
    }
}

/// The server's own words on a statement, if it spoke.
pub(super) fn said(error: &tokio_postgres::Error) -> Option<&DbError> {
    error.as_db_error()
}

/// An error for whatever the client library met.
pub(super) fn failed(what: &str, error: &tokio_postgres::Error) -> Error {
    if let Some(db) = error.as_db_error() {
        return refused(what, db.code().code(), db.routine(), db.message());
    }
    if error.is_closed() {
        return Error::new(
            Class::Unreachable,
            format!("{what}: the connection was closed"),
        );
    }
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return broken(what, io);
        }
        source = inner.source();
    }
    // The library's own words hold no statement and no password: "password missing", "unexpected message".
    let told = match error.source() {
        Some(inner) => format!("{what}: {inner}"),
        None => format!("{what}: {error}"),
    };
    // It tells its kinds apart by their words only.
    let kind = error.to_string();
    let class = if kind.starts_with("error performing TLS") {
        Class::Unreachable
    } else if kind.starts_with("authentication") || kind.starts_with("invalid configuration") {
        Class::Denied
    } else {
        Class::Bug
    };
    Error::new(class, plain(&told))
}

/// An error for a server's refusal. Only its message is told: its details may repeat values.
pub(super) fn refused(what: &str, code: &str, routine: Option<&str>, message: &str) -> Error {
    let class = class_of(code, routine);
    let hint = match code {
        "54000" => {
            "; the rights on one table, of all logins, must fit on one page: some 2,000 logins"
        }
        _ => "",
    };
    Error::new(class, format!("{what}: {} ({code}){hint}", plain(message)))
}

/// One line of a sane length, with no verifier in it.
fn plain(message: &str) -> String {
    let told: String = message.chars().filter(|c| !c.is_control()).collect();
    let end = told.find("SCRAM-SHA-256$").unwrap_or(told.len());
    told[..end].chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    //! The table, with codes as the real servers send them.
    use super::*;

    #[test]
    fn a3_server_errors_have_one_class_each() {
        let table = [
            ("42501", Class::Denied),
            ("2BP01", Class::Denied),
            ("28P01", Class::Denied),
            ("28000", Class::Denied),
            ("25006", Class::ReadOnly),
            ("57P01", Class::Unreachable),
            ("57P02", Class::Unreachable),
            ("08006", Class::Unreachable),
            ("08P01", Class::Unreachable),
            ("57P03", Class::Busy),
            ("57014", Class::Busy),
            ("55P03", Class::Busy),
            ("55006", Class::Busy),
            ("40001", Class::Busy),
            ("40P01", Class::Busy),
            ("53300", Class::Busy),
            ("53100", Class::Busy),
            ("58030", Class::Busy),
            ("3D000", Class::Gone),
            ("3F000", Class::Gone),
            ("42704", Class::Gone),
            ("42P01", Class::Gone),
            ("42710", Class::Exists),
            ("42P04", Class::Exists),
            ("42P06", Class::Exists),
            ("23505", Class::Exists),
            ("42939", Class::RefusedValue),
            ("42622", Class::RefusedValue),
            ("22023", Class::RefusedValue),
            ("22P05", Class::RefusedValue),
            ("0A000", Class::RefusedValue),
            ("58P01", Class::RefusedValue),
            ("54000", Class::RefusedValue),
            ("42601", Class::Bug),
            ("42703", Class::Bug),
            ("XX000", Class::Bug),
            ("", Class::Bug),
            ("é", Class::Bug),
        ];
        for (code, class) in table {
            assert_eq!(class_of(code, Some("aclcheck_error")), class, "{code}");
        }
        assert_eq!(class_of("XX000", Some("simple_heap_update")), Class::Busy);
    }

    #[test]
    fn a3_connection_errors_have_one_class_each() {
        let table = [
            (io::ErrorKind::ConnectionRefused, Class::Unreachable),
            (io::ErrorKind::ConnectionReset, Class::Unreachable),
            (io::ErrorKind::UnexpectedEof, Class::Unreachable),
            (io::ErrorKind::TimedOut, Class::TimedOut),
        ];
        for (kind, class) in table {
            assert_eq!(
                broken("connect", &io::Error::from(kind)).class(),
                class,
                "{kind}"
            );
        }
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        let tls = broken("connect", &io::Error::new(io::ErrorKind::InvalidData, tls));
        assert_eq!(tls.class(), Class::Unreachable);
        assert!(tls.message().contains("xpired"), "{tls}");
    }

    #[test]
    fn s2_no_verifier_comes_back_in_an_error() {
        let message = "syntax error at or near \"SCRAM-SHA-256$4096:c2FsdA==$abc:def\"\n";
        let error = refused("create", "42601", None, message);
        assert!(!error.message().contains("c2FsdA"), "{error}");
        assert!(error.message().contains("syntax error"), "{error}");
    }
}
