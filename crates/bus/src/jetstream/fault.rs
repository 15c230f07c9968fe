//! Why the bus could not be opened, and what a server's refusals mean.

use mesh_sdk::bus::Fault;
use serde::Deserialize;

/// Why a bus on NATS servers cannot be used. Each says what a person can do.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenFault {
    /// The list is empty.
    #[error("no NATS server is named for the bus")]
    NoServer,
    /// A plain connection beyond this machine.
    #[error(
        "the bus on {host} would be spoken to without TLS: write tls://{host}, or allow it with `dangerously_plain = true`"
    )]
    Plain {
        /// The host.
        host: String,
    },
    /// An address that is none.
    #[error("the address of a NATS server cannot be used: {0}")]
    Address(String),
    /// TLS.
    #[error("TLS for the bus: {0}")]
    Tls(String),
    /// The credentials cannot be used.
    #[error("the credentials for the bus cannot be used: {0}")]
    Credentials(String),
    /// No server answers.
    #[error("no NATS server answers at {servers}: {why}")]
    Unreachable {
        /// The servers.
        servers: String,
        /// Why.
        why: String,
    },
    /// The login was refused.
    #[error(
        "the NATS servers at {servers} refuse the login: check user, password, NKey or credentials file of the bus"
    )]
    Login {
        /// The servers.
        servers: String,
    },
    /// JetStream is off, or this account may not use it.
    #[error(
        "the NATS server at {servers} does not answer for JetStream: {why}; switch it on (`jetstream {{ store_dir … }}`), and let this user ask `$JS.API.INFO`"
    )]
    NoJetStream {
        /// The servers.
        servers: String,
        /// Why.
        why: String,
    },
    /// The server cannot do what the bus needs.
    #[error(
        "the NATS server {version} has JetStream level {level}, and the bus needs level {needed} (NATS 2.12): use a newer server"
    )]
    TooOld {
        /// What it says its version is.
        version: String,
        /// What it can do.
        level: u64,
        /// What it must be able to do.
        needed: u64,
    },
    /// Its assets are not there.
    #[error(
        "the bus has no stream {stream} on these NATS servers: `mesh bus bootstrap` makes it. If it was there before, somebody deleted it"
    )]
    NotBootstrapped {
        /// The stream.
        stream: String,
    },
    /// A stream is not as `bootstrap` makes it.
    #[error(
        "the stream {stream} is not safe to use: {what}. It was changed, or was not made by `mesh bus bootstrap`"
    )]
    NotLocked {
        /// The stream.
        stream: String,
        /// What differs.
        what: String,
    },
    /// The assets are another installation's.
    #[error(
        "the bus belongs to installation {found}, not to {ours}: give this mesh another id, or another account on the servers"
    )]
    Taken {
        /// Whose it is.
        found: String,
        /// Ours.
        ours: String,
    },
    /// Anything else that the bus says.
    #[error(transparent)]
    Bus(#[from] Fault),
}

/// A server's refusal.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Refused {
    #[serde(default)]
    pub(super) code: u64,
    #[serde(default)]
    pub(super) err_code: u64,
    #[serde(default)]
    pub(super) description: String,
}

/// What a refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Another value is there.
    Conflict,
    /// The stream is not there, or has no leader now.
    NoStream,
    /// Nothing is stored there.
    NoMessage,
    /// It takes no more.
    Full,
    /// The message is too large.
    TooLarge,
    /// It cannot serve now.
    Away,
    /// Anything else.
    Other,
}

impl Refused {
    /// By the server's own number; its text only where one number means several things.
    pub(super) fn meaning(&self) -> Meaning {
        match self.err_code {
            10071 | 10164 => Meaning::Conflict,
            10059 => Meaning::NoStream,
            10037 => Meaning::NoMessage,
            10054 => Meaning::TooLarge,
            10023 | 10028 | 10047 | 10122 => Meaning::Full,
            10077 => Meaning::Full,
            10002 | 10005 | 10008 | 10009 | 10039 | 10076 | 10118 => Meaning::Away,
            _ if self.code == 503 => Meaning::Away,
            _ => Meaning::Other,
        }
    }
    /// As a fault of the bus; a conflict and a missing message are none and must be asked for before.
    pub(super) fn fault(&self) -> Fault {
        let text = format!("{} ({})", self.description, self.err_code);
        match self.meaning() {
            Meaning::Full | Meaning::TooLarge => Fault::Full(text),
            Meaning::NoStream => Fault::Unreachable(format!(
                "{text}: the stream has no leader now, or it was deleted"
            )),
            _ => Fault::Unreachable(text),
        }
    }
}

#[cfg(test)]
mod tests {
    //! A-3 in small: each number has one meaning.
    use super::*;

    #[test]
    fn b5_both_numbers_of_a_lost_race_are_a_conflict() {
        let of = |code, err_code| {
            Refused {
                code,
                err_code,
                description: String::new(),
            }
            .meaning()
        };
        assert_eq!(of(400, 10071), Meaning::Conflict);
        assert_eq!(of(400, 10164), Meaning::Conflict);
        assert_eq!(of(404, 10059), Meaning::NoStream);
        assert_eq!(of(503, 10077), Meaning::Full);
        assert_eq!(of(503, 1), Meaning::Away);
        assert_eq!(of(400, 10131), Meaning::Other);
    }
}
