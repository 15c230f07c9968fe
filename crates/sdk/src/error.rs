//! One error type for adapters: what kind of failure, in words that a person can act on.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a server's refusal or a connection's failure means for us. Each adapter maps every server
/// error to one of these in one table; whether to try again follows from it.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The thing is not there.
    Gone,
    /// Something of that name is there already and is not ours.
    Exists,
    /// The admin login may not do this, or is refused.
    Denied,
    /// The server (or the adapter before it) does not take this value.
    RefusedValue,
    /// The server is there and asks to come back later.
    Busy,
    /// The server takes no writes now: a replica, a standby, `read_only`.
    ReadOnly,
    /// The server keeps the fence of a later holder of the lease: nothing was written (B-4).
    Fenced,
    /// No connection, or it broke.
    Unreachable,
    /// No answer within the deadline. Only this class ends a pass's asking (H-9).
    TimedOut,
    /// The adapter does not have that ability, and declared so.
    Cannot,
    /// An answer that makes no sense: a fault in the adapter or in the server.
    Bug,
}

impl Class {
    /// Whether trying the very same thing later can help without a person or a changed wish.
    pub const fn is_transient(self) -> bool {
        match self {
            Class::Busy | Class::ReadOnly | Class::Unreachable | Class::TimedOut => true,
            Class::Gone
            | Class::Exists
            | Class::Denied
            | Class::RefusedValue
            | Class::Fenced
            | Class::Cannot
            | Class::Bug => false,
        }
    }
    /// The class in one plain word or two, for people and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Class::Gone => "gone",
            Class::Exists => "exists",
            Class::Denied => "denied",
            Class::RefusedValue => "refused value",
            Class::Busy => "busy",
            Class::ReadOnly => "read-only",
            Class::Fenced => "fenced",
            Class::Unreachable => "unreachable",
            Class::TimedOut => "timed out",
            Class::Cannot => "cannot",
            Class::Bug => "bug",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a call on a backend failed.
///
/// `Display` is one line without the source's text; `message` holds names and codes, never a secret,
/// never a whole statement. The harness scrubs it all the same (S-2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    class: Class,
    message: String,
}

impl Error {
    /// An error of a class, with one line for people that says what was tried and what to do.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
        }
    }
    /// What a default method answers: the adapter does not have this ability.
    pub fn cannot(what: &str) -> Self {
        Self::new(Class::Cannot, format!("this adapter cannot {what}"))
    }
    /// Its class.
    pub fn class(&self) -> Class {
        self.class
    }
    /// Its line for people, without the class.
    pub fn message(&self) -> &str {
        &self.message
    }
    /// The same error with its message rewritten, as scrubbing does.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Self {
        Self {
            class: self.class,
            message: message.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.message)
    }
}
impl std::error::Error for Error {}
