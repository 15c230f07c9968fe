//! One total table from what can go wrong with a NATS server to a [`Class`].

use std::io;

use mesh_sdk::{Class, Error};

/// What a server's `-ERR` means, by its text, as read from NATS 2.15.1.
pub(super) fn class_of(text: &str) -> Class {
    const TEXTS: [(&str, Class); 13] = [
        ("authorization violation", Class::Denied),
        ("permissions violation", Class::Denied),
        ("user authentication", Class::Denied),
        ("account authentication", Class::Denied),
        ("authentication timeout", Class::TimedOut),
        ("authorization timeout", Class::TimedOut),
        ("maximum ", Class::Busy),
        ("slow consumer", Class::Busy),
        ("server shutdown", Class::Unreachable),
        ("stale connection", Class::Unreachable),
        ("secure connection", Class::RefusedValue),
        ("no responders", Class::Denied),
        ("attempted to connect to", Class::RefusedValue),
    ];
    let lower = text.to_ascii_lowercase();
    let found = TEXTS.iter().find(|(start, _)| lower.starts_with(start));
    found.map_or(Class::Bug, |(_, class)| *class)
}

/// An error for what the server refused.
pub(super) fn refused(what: &str, text: &str) -> Error {
    Error::new(class_of(text), format!("{what}: {}", plain(text)))
}

/// An error for a configuration that the server did not take.
pub(super) fn not_loaded(text: &str) -> Error {
    // It may show a piece of the file, and a hash is nobody's business.
    let told = match text.contains("$2") {
        true => "it names a password".to_owned(),
        false => plain(text),
    };
    // The login stands somewhere else in the server's configuration.
    let class = match text.contains("Duplicate user") {
        true => Class::Exists,
        false => Class::RefusedValue,
    };
    Error::new(
        class,
        format!("the server did not take its configuration: {told}"),
    )
}

fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// An error for a connection that failed or broke.
pub(super) fn broken(what: &str, error: &io::Error) -> Error {
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
pub(super) fn late(what: &str) -> Error {
    Error::new(Class::TimedOut, format!("{what}: no answer in time"))
}

/// An error for bytes that are not the protocol, or an answer of another form than asked for.
pub(super) fn garbled(what: &str) -> Error {
    Error::new(Class::Bug, format!("{what}: the answer makes no sense"))
}

#[cfg(test)]
mod tests {
    //! The table, with texts as the real server sends them.
    use super::*;

    #[test]
    fn a3_server_errors_have_one_class_each() {
        for (text, class) in [
            ("Authorization Violation", Class::Denied),
            (
                "Permissions Violation for Publish to \"$SYS.REQ.SERVER.N.CONNZ\"",
                Class::Denied,
            ),
            ("User Authentication Expired", Class::Denied),
            ("Authentication Timeout", Class::TimedOut),
            ("maximum connections exceeded", Class::Busy),
            ("maximum account active connections exceeded", Class::Busy),
            ("Server Shutdown", Class::Unreachable),
            ("Stale Connection", Class::Unreachable),
            ("Secure Connection - TLS Required", Class::RefusedValue),
            ("Unknown Protocol Operation", Class::Bug),
            ("Parser Error", Class::Bug),
            ("", Class::Bug),
        ] {
            assert_eq!(class_of(text), class, "{text}");
        }
    }

    #[test]
    fn a3_connections_that_break_are_unreachable_and_waits_that_end_are_timed_out() {
        use io::ErrorKind;
        for (kind, class) in [
            (ErrorKind::ConnectionRefused, Class::Unreachable),
            (ErrorKind::UnexpectedEof, Class::Unreachable),
            (ErrorKind::InvalidData, Class::Unreachable),
            (ErrorKind::TimedOut, Class::TimedOut),
        ] {
            assert_eq!(broken("ask", &io::Error::from(kind)).class(), class);
        }
        assert_eq!(late("ask").class(), Class::TimedOut);
        assert_eq!(garbled("ask").class(), Class::Bug);
    }

    #[test]
    fn s2_an_error_shows_no_hash() {
        let text = "users.conf:3: expected a map value, got '$2a$04$abc'";
        assert!(!not_loaded(text).to_string().contains("abc"));
        assert!(
            not_loaded("Duplicate user \"a\" detected\n")
                .to_string()
                .contains("Duplicate")
        );
    }
}
