//! One total table from what can go wrong with a Mosquitto broker to a [`Class`].

pub(super) use crate::failure::{broken, garbled, late};

use mesh_sdk::{Class, Error};

/// What the dynamic security plugin's `error` means, by its text, as read from Mosquitto 2.0.11.
pub(super) fn class_of(text: &str) -> Class {
    const TEXTS: [(&str, Class); 12] = [
        ("client not found", Class::Gone),
        ("role not found", Class::Gone),
        ("client already exists", Class::Exists),
        ("role already exists", Class::Exists),
        ("username not valid", Class::RefusedValue),
        ("role name not valid", Class::RefusedValue),
        ("invalid/missing", Class::RefusedValue),
        ("empty username", Class::RefusedValue),
        ("invalid acl", Class::RefusedValue),
        ("unknown command", Class::Cannot),
        // What it says when memory is short, and also of a role that is given twice.
        ("internal error", Class::Busy),
        ("'roles' not an array", Class::Bug),
    ];
    let lower = text.to_ascii_lowercase();
    let found = TEXTS.iter().find(|(start, _)| lower.starts_with(start));
    found.map_or(Class::Bug, |(_, class)| *class)
}

/// What an MQTT 5 reason code from 0x80 on means.
pub(super) fn class_of_code(code: u8) -> Class {
    match code {
        0x86 | 0x87 | 0x8a | 0x8c => Class::Denied,
        0x88 | 0x8b | 0x8d | 0x8e | 0x98 => Class::Unreachable,
        0x89 | 0x93 | 0x96 | 0x97 | 0x9f => Class::Busy,
        0x84 | 0x85 | 0x8f | 0x90 | 0x95 | 0x99..=0x9b | 0x9e | 0xa1 | 0xa2 => Class::RefusedValue,
        _ => Class::Bug,
    }
}

/// An error for a reason code.
pub(super) fn refused(what: &str, code: u8) -> Error {
    let class = class_of_code(code);
    Error::new(
        class,
        format!("{what}: refused with the reason {code:#04x}"),
    )
}

/// An error for what the plugin answered.
pub(super) fn answered(what: &str, text: &str) -> Error {
    let told: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
    Error::new(class_of(text), format!("{what}: {told}"))
}

#[cfg(test)]
mod tests {
    //! The table, with texts and codes as the real broker sends them.
    use std::io;

    use super::*;

    #[test]
    fn a3_server_errors_have_one_class_each() {
        for (text, class) in [
            ("Client not found", Class::Gone),
            ("Role not found", Class::Gone),
            ("Client already exists", Class::Exists),
            ("Role already exists", Class::Exists),
            ("Username not valid UTF-8", Class::RefusedValue),
            ("Invalid/missing username", Class::RefusedValue),
            ("Unknown command", Class::Cannot),
            ("Internal error", Class::Busy),
            ("something new", Class::Bug),
        ] {
            assert_eq!(class_of(text), class, "{text}");
        }
        for (code, class) in [
            (0x87, Class::Denied),
            (0x86, Class::Denied),
            (0x97, Class::Busy),
            (0x8b, Class::Unreachable),
            (0x95, Class::RefusedValue),
            (0x80, Class::Bug),
        ] {
            assert_eq!(class_of_code(code), class, "{code:#x}");
        }
    }

    #[test]
    fn a3_connections_that_break_are_unreachable_and_waits_that_end_are_timed_out() {
        use io::ErrorKind;
        for (kind, class) in [
            (ErrorKind::ConnectionRefused, Class::Unreachable),
            (ErrorKind::UnexpectedEof, Class::Unreachable),
            (ErrorKind::TimedOut, Class::TimedOut),
        ] {
            assert_eq!(broken("ask", &io::Error::from(kind)).class(), class);
        }
        assert_eq!(late("ask").class(), Class::TimedOut);
        assert_eq!(garbled("ask").class(), Class::Bug);
    }
}
