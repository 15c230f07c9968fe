//! The names of things: mesh, provider, consumer, login.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why a text cannot be a name. The message says which rule it breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{given}` is not allowed: {rule}")]
pub struct NameError {
    what: &'static str,
    given: String,
    rule: &'static str,
}

const NAME_RULE: &str =
    "1 to 63 characters of a-z, 0-9, `-` and `_`, and the first a letter or a digit";

/// What the name of a second seat ends in ([`ConsumerName::second`], [`Login::second`]).
const SECOND: &str = "__b";

fn plain(what: &'static str, text: &str) -> Result<(), NameError> {
    // The seat's ending counts beside what a person may write, whose length is the manifest's to refuse.
    let written = text.strip_suffix(SECOND).unwrap_or(text);
    let head = text
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let tail = text
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
    if head && tail && written.len() <= 63 {
        return Ok(());
    }
    let given = text.chars().take(80).collect();
    Err(NameError {
        what,
        given,
        rule: NAME_RULE,
    })
}

macro_rules! plain_name {
    ($name:ident, $what:literal, $doc:literal) => {
        #[doc = $doc]
        ///
        /// Lower-case letters, digits, `-` and `_`, at most 63: it becomes part of keys, subjects,
        /// file names and metric labels, where nothing else is safe everywhere.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes a name. Errors: [`NameError`], naming the rule.
            pub fn new(text: &str) -> Result<Self, NameError> {
                plain($what, text)?;
                Ok(Self(text.into()))
            }
            /// The name as it was written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(&text)
            }
        }
        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }
    };
}

plain_name!(
    MeshId,
    "mesh id",
    "One installation's name, from `[mesh] id`."
);
plain_name!(
    ProviderName,
    "provider name",
    "One backend server's name in the manifest."
);
plain_name!(
    ConsumerName,
    "consumer name",
    "Who needs something from a provider."
);

impl ConsumerName {
    /// The name of Meshkeeper's own login on each provider; no manifest may use it.
    pub const CANARY: &'static str = "mesh-canary";

    /// The canary's.
    pub fn canary() -> Self {
        Self(Self::CANARY.into())
    }
    /// Whether it is the canary's.
    pub fn is_canary(&self) -> bool {
        self.as_str() == Self::CANARY
    }

    /// The name under which a consumer's second login is asked for while its logins take turns: `NAME__b`.
    /// No manifest may use one; a mark never names it, since both logins are the consumer's.
    #[must_use]
    pub fn second(&self) -> Self {
        if self.is_second() {
            return self.clone();
        }
        Self(format!("{self}{SECOND}").into())
    }
    /// Whether it is a second seat's.
    pub fn is_second(&self) -> bool {
        self.as_str().ends_with(SECOND)
    }
    /// The consumer itself, of either seat.
    #[must_use]
    pub fn first(&self) -> Self {
        if self.is_second() {
            return Self(self.bare().into());
        }
        self.clone()
    }
    /// Whether both are seats of one consumer.
    pub fn is_seat_of(&self, other: &Self) -> bool {
        self.bare() == other.bare()
    }
    fn bare(&self) -> &str {
        self.0.strip_suffix(SECOND).unwrap_or(&self.0)
    }
}

impl std::borrow::Borrow<str> for ConsumerName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// A login name on a backend: data, never parsed, never put together with other text unescaped.
///
/// Any text without NUL; what a backend cannot take is refused by its adapter's `check`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Login(Arc<str>);

impl Login {
    /// Takes a login. Errors: empty, or with a NUL in it.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let rule = match text {
            "" => "it must not be empty",
            t if t.contains('\0') => "it must not hold a NUL",
            _ => return Ok(Self(text.into())),
        };
        let given = text
            .chars()
            .take(80)
            .map(|c| if c == '\0' { '\u{2400}' } else { c })
            .collect();
        Err(NameError {
            what: "login",
            given,
            rule,
        })
    }
    /// The login as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// The other login of a consumer whose logins take turns: `LOGIN__b`. Both are the consumer's, and no
    /// other consumer of that provider may ask for either.
    #[must_use]
    pub fn second(&self) -> Self {
        Self(format!("{self}{SECOND}").into())
    }
    /// The login whose second this would be, if it is one by its name.
    pub fn first(&self) -> Option<Self> {
        let first = self
            .0
            .strip_suffix(SECOND)
            .filter(|name| !name.is_empty())?;
        Some(Self(first.into()))
    }
}
impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl TryFrom<String> for Login {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        Self::new(&text)
    }
}
impl From<Login> for String {
    fn from(login: Login) -> String {
        login.0.as_ref().to_owned()
    }
}
impl From<&ConsumerName> for Login {
    /// The default login of a consumer is its name.
    fn from(name: &ConsumerName) -> Login {
        Login(Arc::clone(&name.0))
    }
}

#[cfg(test)]
mod tests {
    //! Names are checked once, at the door.
    use super::*;

    #[test]
    fn names_are_plain_and_short() {
        for good in ["web", "web-1", "0", "a_b", &"x".repeat(63)] {
            assert_eq!(
                ConsumerName::new(good).map(|n| n.to_string()),
                Ok(good.to_owned())
            );
        }
        for bad in [
            "",
            "-rf",
            "_a",
            "Web",
            "a b",
            "a.b",
            "ü",
            "a/b",
            &"x".repeat(64),
        ] {
            let error = ConsumerName::new(bad).expect_err(bad).to_string();
            assert!(error.contains("1 to 63"), "{error}");
        }
    }

    #[test]
    fn r3_a_consumer_has_two_seats_and_one_name() {
        let name = |text: &str| ConsumerName::new(text).expect(text);
        let (web, long) = (name("web"), name(&"x".repeat(63)));
        assert_eq!(web.second().as_str(), "web__b");
        for first in [&web, &long] {
            let second = first.second();
            assert!(second.is_second() && !first.is_second());
            assert_eq!((&second.first(), &first.first()), (first, first));
            assert_eq!(second.second(), second);
            assert!(first.is_seat_of(&second) && second.is_seat_of(first));
            assert!(first.is_seat_of(first) && second.is_seat_of(&second));
            assert_eq!(
                ConsumerName::new(second.as_str()),
                Ok(second),
                "as it is stored"
            );
        }
        assert!(!web.is_seat_of(&name("web2")) && !web.second().is_seat_of(&name("we")));
        assert!(!name("webb").is_seat_of(&name("we")) && ConsumerName::new("__b").is_err());
        let login = Login::new("ü b").expect("login");
        assert_eq!(login.second().as_str(), "ü b__b");
        assert_eq!((login.second().first(), login.first()), (Some(login), None));
        assert_eq!(Login::new("__b").expect("login").first(), None);
    }

    #[test]
    fn a_login_is_data() {
        for good in ["-rf", "--help", "a b", "ü'\"\\%", &"x".repeat(1000)] {
            assert_eq!(Login::new(good).map(|n| n.to_string()), Ok(good.to_owned()));
        }
        assert!(Login::new("").is_err());
        assert!(
            Login::new("ap\0p")
                .expect_err("NUL")
                .to_string()
                .contains("NUL")
        );
    }
}
