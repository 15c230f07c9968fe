//! What a server holds that a person may want to know of: logins to import, uses of a login that leaves.

use std::time::Duration;

use crate::name::Login;

/// A login as it stands on the server, for `mesh import`. Never a password, a hash or a verifier.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found<V> {
    /// The login.
    pub login: Login,
    /// The values with which a wish for it would be held as it stands.
    pub values: V,
    /// Whether it can be used.
    pub enabled: bool,
    /// What it has that values cannot say, one line each; adopting leaves it as it is.
    pub beyond: Vec<String>,
}

impl<V> Found<V> {
    /// A usable one, all of which the values say.
    pub fn new(login: Login, values: V) -> Self {
        Self {
            login,
            values,
            enabled: true,
            beyond: Vec::new(),
        }
    }
    /// The same with other values, or in another form.
    pub fn map<W, E>(self, values: impl FnOnce(V) -> Result<W, E>) -> Result<Found<W>, E> {
        Ok(Found {
            login: self.login,
            values: values(self.values)?,
            enabled: self.enabled,
            beyond: self.beyond,
        })
    }
}

/// That a login was used, or that somebody tried to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// How long ago, by the server's own clock; nothing for a session that is open now.
    pub ago: Duration,
    /// How it was seen, for people: `2 open sessions`, `a login was refused`.
    pub how: String,
}

impl Use {
    /// One.
    pub fn new(ago: Duration, how: impl Into<String>) -> Self {
        Self {
            ago,
            how: how.into(),
        }
    }
}
