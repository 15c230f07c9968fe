//! One total table from what can go wrong with a NATS server to a [`Class`].

pub(super) use crate::failure::{broken, garbled, late};

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

#[cfg(test)]
mod tests {
    //! The table, with texts as the real server sends them.
    use std::io;

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
