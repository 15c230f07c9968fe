//! One total table from what can go wrong on a Redis connection to a [`Class`].

pub(super) use crate::failure::{broken, garbled, late};

use mesh_sdk::{Class, Error};

/// What a server's error reply means, by its code and, under the catch-all code `ERR`, its text.
///
/// The texts were read from Redis 6.2.5, Redis 7.0.15 and Valkey 9.1.2.
pub(super) fn class_of(reply: &str) -> Class {
    let (code, text) = reply.split_once(' ').unwrap_or((reply, ""));
    match code {
        "NOAUTH" | "WRONGPASS" | "NOPERM" | "DENIED" => Class::Denied,
        "READONLY" => Class::ReadOnly,
        "LOADING" | "BUSY" | "UNKILLABLE" | "MASTERDOWN" | "TRYAGAIN" | "CLUSTERDOWN"
        | "NOREPLICAS" | "OOM" | "MISCONF" => Class::Busy,
        "NOUSER" => Class::Gone,
        "ERR" => class_of_plain(text),
        _ => Class::Bug,
    }
}

/// What `ERR` means, by its text.
fn class_of_plain(text: &str) -> Class {
    const TEXTS: [(&str, Class); 10] = [
        ("Error in ACL SETUSER", Class::RefusedValue),
        ("Usernames can't contain", Class::RefusedValue),
        ("The 'default' user", Class::RefusedValue),
        ("max number of clients", Class::Busy),
        ("There was an error trying to save the ACLs", Class::Busy),
        (
            "This Redis instance is not configured to use an ACL file",
            Class::Gone,
        ),
        (
            "This instance is not configured to use an ACL file",
            Class::Gone,
        ),
        ("User '", Class::Gone),
        ("unknown command", Class::Cannot),
        ("unknown subcommand", Class::Cannot),
    ];
    let lower = text.to_ascii_lowercase();
    if lower.contains("configured to use an acl file") {
        return Class::Gone;
    }
    TEXTS
        .iter()
        .find(|(start, _)| lower.starts_with(&start.to_ascii_lowercase()))
        .map_or(Class::Bug, |(_, class)| *class)
}

/// An error for a server's refusal, with nothing in it that we sent as a secret.
///
/// Redis repeats arguments in its errors: the rule that it did not take, and the first arguments of a
/// command that it does not know. Both are cut out here, since a rule may be a password's hash and an
/// argument of `AUTH` is a password.
pub(super) fn refused(what: &str, reply: &str) -> Error {
    let told = reply.split(", with args beginning").next().unwrap_or("");
    let told = match told.split_once("modifier '") {
        Some((_, rule)) if rule.starts_with(['#', '>', '<', '!']) => "a password rule was refused",
        _ => told,
    };
    let told: String = told.chars().filter(|c| !c.is_control()).take(200).collect();
    Error::new(class_of(reply), format!("{what}: {told}"))
}

#[cfg(test)]
mod tests {
    //! The table, with replies as the real servers send them.
    use std::io;

    use super::*;

    #[test]
    fn a3_server_errors_have_one_class_each() {
        let table = [
            ("NOAUTH Authentication required.", Class::Denied),
            (
                "WRONGPASS invalid username-password pair or user is disabled.",
                Class::Denied,
            ),
            (
                "NOPERM this user has no permissions to run the 'acl|list' command",
                Class::Denied,
            ),
            (
                "NOPERM User app has no permissions to run the 'acl|list' command",
                Class::Denied,
            ),
            (
                "DENIED Redis is running in protected mode because protected mode is enabled",
                Class::Denied,
            ),
            (
                "READONLY You can't write against a read only replica.",
                Class::ReadOnly,
            ),
            (
                "LOADING Redis is loading the dataset in memory",
                Class::Busy,
            ),
            (
                "LOADING Valkey is loading the dataset in memory",
                Class::Busy,
            ),
            (
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
                Class::Busy,
            ),
            (
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
                Class::Busy,
            ),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                Class::Busy,
            ),
            (
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
                Class::Busy,
            ),
            ("ERR max number of clients reached", Class::Busy),
            (
                "ERR Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL",
                Class::RefusedValue,
            ),
            (
                "ERR Usernames can't contain spaces or null characters",
                Class::RefusedValue,
            ),
            (
                "ERR The 'default' user cannot be removed",
                Class::RefusedValue,
            ),
            (
                "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE",
                Class::Gone,
            ),
            (
                "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
                Class::Busy,
            ),
            (
                "ERR unknown command 'ACL', with args beginning with: 'LIST' ",
                Class::Cannot,
            ),
            (
                "ERR unknown subcommand 'dryrun'. Try ACL HELP.",
                Class::Cannot,
            ),
            (
                "ERR wrong number of arguments for 'acl|getuser' command",
                Class::Bug,
            ),
            ("ERR syntax error", Class::Bug),
            ("ERR Protocol error: invalid bulk length", Class::Bug),
            ("SOMETHING new", Class::Bug),
            ("", Class::Bug),
        ];
        for (reply, class) in table {
            assert_eq!(class_of(reply), class, "{reply}");
        }
    }

    #[test]
    fn a3_connection_errors_have_one_class_each() {
        let table = [
            (io::ErrorKind::ConnectionRefused, Class::Unreachable),
            (io::ErrorKind::ConnectionReset, Class::Unreachable),
            (io::ErrorKind::UnexpectedEof, Class::Unreachable),
            (io::ErrorKind::HostUnreachable, Class::Unreachable),
            (io::ErrorKind::PermissionDenied, Class::Unreachable),
            (io::ErrorKind::TimedOut, Class::TimedOut),
            (io::ErrorKind::WouldBlock, Class::TimedOut),
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
    fn s2_what_the_server_repeats_of_our_secrets_is_cut_out() {
        let hash = "#planted-0123";
        let replies = [
            format!(
                "ERR Error in ACL SETUSER modifier '{hash}': The provided password hash must be exactly 64 characters"
            ),
            format!("ERR unknown command 'AUTH', with args beginning with: 'web' '{hash}' "),
        ];
        for reply in replies {
            let error = refused("create", &reply);
            assert!(!format!("{error}{error:?}").contains("planted"), "{error}");
        }
        let kept = refused(
            "create",
            "ERR Error in ACL SETUSER modifier '+nosuch': Unknown command",
        );
        assert!(kept.message().contains("+nosuch"), "{kept}");
    }
}
