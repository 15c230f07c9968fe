//! One total table from what can go wrong on a MariaDB connection to a [`Class`].

use mesh_sdk::{Class, Error};

pub(super) use crate::failure::{broken, garbled, late};
use mysql_async::{DriverError, Error as Client, IoError};

/// What a server's error means, by its code and, where one code means several things, its text.
///
/// The codes and texts were read from MariaDB 10.11.19.
pub(super) fn class_of(code: u16, text: &str) -> Class {
    match code {
        // Creating says "exists" with the code that altering and dropping say "not there" with.
        1396 if text.contains("CREATE") => Class::Exists,
        1396 => Class::Gone,
        1290 if text.contains("--read-only") || text.contains("--read_only") => Class::ReadOnly,
        1290 => Class::Denied,
        1044 | 1045 | 1095 | 1129 | 1130 | 1142 | 1143 | 1227 | 1251 | 1370 | 1410 | 1698
        | 1820 | 1862 | 3159 | 4150 | 4151 => Class::Denied,
        1792 | 1836 => Class::ReadOnly,
        1021 | 1037 | 1038 | 1040 | 1041 | 1047 | 1114 | 1135 | 1203 | 1205 | 1206 | 1213
        | 1226 | 1969 => Class::Busy,
        1053 | 1077 | 1079 | 1152 | 1184 | 1317 | 1927 => Class::Unreachable,
        1008 | 1049 | 1094 | 1133 | 1141 | 1147 | 1269 | 1403 => Class::Gone,
        1007 => Class::Exists,
        1059 | 1102 | 1103 | 1144 | 1221 | 1300 | 1372 | 1470 | 1524 | 1819 | 1827 | 4052 => {
            Class::RefusedValue
        }
        1146 | 1193 => Class::Cannot,
        _ => Class::Bug,
    }
}

/// An error for whatever the client library tells, with nothing in it that we sent as a secret.
pub(super) fn failed(what: &str, error: &Client) -> Error {
    match error {
        Client::Server(server) => refused(what, server.code, &server.message),
        Client::Io(IoError::Io(error)) => broken(what, error),
        Client::Io(IoError::Tls(error)) => {
            Error::new(Class::Unreachable, format!("{what}: TLS: {error}"))
        }
        Client::Driver(error) => driver(what, error),
        Client::Other(_) | Client::Url(_) => garbled(what),
    }
}

/// A server's refusal. A syntax error repeats the statement, and with it a verifier: it is not told.
fn refused(what: &str, code: u16, text: &str) -> Error {
    let told = match code {
        1064 => "a syntax error",
        _ => text,
    };
    let told: String = told.chars().filter(|c| !c.is_control()).take(200).collect();
    Error::new(class_of(code, text), format!("{what}: {told} ({code})"))
}

fn driver(what: &str, error: &DriverError) -> Error {
    let (class, told) = match error {
        DriverError::ConnectionClosed | DriverError::PoolDisconnected => {
            (Class::Unreachable, "the connection is closed".to_owned())
        }
        DriverError::NoClientSslFlagFromServer => {
            (Class::Unreachable, "TLS: the server offers none".to_owned())
        }
        DriverError::UnknownAuthPlugin { .. }
        | DriverError::MysqlOldPasswordDisabled
        | DriverError::CleartextPluginDisabled => (
            Class::Denied,
            "the admin's way of logging in is not known here, or would tell its password"
                .to_owned(),
        ),
        DriverError::PacketTooLarge => (Class::Bug, "a packet is too large".to_owned()),
        _ => (Class::Bug, "the answer makes no sense".to_owned()),
    };
    Error::new(class, format!("{what}: {told}"))
}

#[cfg(test)]
mod tests {
    //! The table, with codes and texts as the real server sends them.
    use std::io;

    use super::*;

    #[test]
    fn a3_server_errors_have_one_class_each() {
        let table = [
            (
                1396,
                "Operation CREATE USER failed for 'a'@'%'",
                Class::Exists,
            ),
            (1396, "Operation ALTER USER failed for 'a'@'%'", Class::Gone),
            (1396, "Operation DROP USER failed for 'a'@'%'", Class::Gone),
            (
                1290,
                "The MariaDB server is running with the --read-only option so it cannot execute this statement",
                Class::ReadOnly,
            ),
            (
                1290,
                "The MariaDB server is running with the --skip-grant-tables option so it cannot execute this statement",
                Class::Denied,
            ),
            (
                1044,
                "Access denied for user 'mesh'@'%' to database 'other'",
                Class::Denied,
            ),
            (1045, "Access denied for user 'mesh'@'%'", Class::Denied),
            (1142, "SELECT command denied to user", Class::Denied),
            (
                1227,
                "Access denied; you need (at least one of) the CREATE USER privilege(s)",
                Class::Denied,
            ),
            (
                4150,
                "User is blocked because of too many credential errors",
                Class::Denied,
            ),
            (4151, "Access denied, this account is locked", Class::Denied),
            (1040, "Too many connections", Class::Busy),
            (1205, "Lock wait timeout exceeded", Class::Busy),
            (1053, "Server shutdown in progress", Class::Unreachable),
            (1927, "Connection was killed", Class::Unreachable),
            (
                1133,
                "Can't find any matching row in the user table",
                Class::Gone,
            ),
            (1141, "There is no such grant defined", Class::Gone),
            (1147, "There is no such grant defined", Class::Gone),
            (1094, "Unknown thread id: 9", Class::Gone),
            (
                1007,
                "Can't create database 'x'; database exists",
                Class::Exists,
            ),
            (1102, "Incorrect database name 'x '", Class::RefusedValue),
            (
                1221,
                "Incorrect usage of DB GRANT and GLOBAL PRIVILEGES",
                Class::RefusedValue,
            ),
            (
                1372,
                "Password hash should be a 41-digit hexadecimal number",
                Class::RefusedValue,
            ),
            (
                1470,
                "String 'x' is too long for user name",
                Class::RefusedValue,
            ),
            (1524, "Plugin 'ed25519' is not loaded", Class::RefusedValue),
            (
                1146,
                "Table 'mysql.global_priv' doesn't exist",
                Class::Cannot,
            ),
            (1064, "You have an error in your SQL syntax", Class::Bug),
            (9999, "", Class::Bug),
        ];
        for (code, text, class) in table {
            assert_eq!(class_of(code, text), class, "{code} {text}");
        }
    }

    #[test]
    fn a3_connection_errors_have_one_class_each() {
        for kind in [
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::UnexpectedEof,
            io::ErrorKind::Other,
        ] {
            let error = Client::Io(IoError::Io(io::Error::from(kind)));
            assert_eq!(failed("x", &error).class(), Class::Unreachable, "{kind}");
        }
        let late = Client::Io(IoError::Io(io::Error::from(io::ErrorKind::TimedOut)));
        assert_eq!(failed("x", &late).class(), Class::TimedOut);
        let closed = Client::Driver(DriverError::ConnectionClosed);
        assert_eq!(failed("x", &closed).class(), Class::Unreachable);
        let plain = Client::Driver(DriverError::NoClientSslFlagFromServer);
        assert!(failed("x", &plain).message().contains("TLS"));
        let odd = Client::Driver(DriverError::PacketOutOfOrder);
        assert_eq!(failed("x", &odd).class(), Class::Bug);
        let old = Client::Driver(DriverError::CleartextPluginDisabled);
        assert_eq!(failed("x", &old).class(), Class::Denied);
    }

    #[test]
    fn o33_a_syntax_error_tells_nothing_of_the_statement() {
        let text = "You have an error in your SQL syntax; check … near ''*planted' x' at line 1";
        let error = refused("create", 1064, text);
        assert!(!format!("{error}{error:?}").contains("planted"), "{error}");
    }
}
