//! Users and groups of this host, by name or number.

use nix::unistd::{Group, User};

/// A user or group as the manifest names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// By number.
    Number(u32),
    /// By name, as this host knows it.
    Name(String),
}

/// Why there is no number for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OwnerFault {
    /// Nobody is called so.
    #[error("no {what} `{name}` is on this host")]
    Nobody {
        /// `user` or `group`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The list of them cannot be read.
    #[error("the {what} `{name}` cannot be looked up: {why}")]
    Unknown {
        /// `user` or `group`.
        what: &'static str,
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
}

impl Owner {
    /// Reads one: digits are a number.
    pub fn of(text: &str) -> Self {
        match text.parse() {
            Ok(number) => Owner::Number(number),
            Err(_) => Owner::Name(text.to_owned()),
        }
    }
    /// The user's number.
    pub fn user(&self) -> Result<u32, OwnerFault> {
        self.number("user", |name| {
            Ok(User::from_name(name)?.map(|user| user.uid.as_raw()))
        })
    }
    /// The group's number.
    pub fn group(&self) -> Result<u32, OwnerFault> {
        self.number("group", |name| {
            Ok(Group::from_name(name)?.map(|group| group.gid.as_raw()))
        })
    }
    fn number(
        &self,
        what: &'static str,
        look: impl FnOnce(&str) -> nix::Result<Option<u32>>,
    ) -> Result<u32, OwnerFault> {
        let name = match self {
            Owner::Number(number) => return Ok(*number),
            Owner::Name(name) => name.clone(),
        };
        match look(&name) {
            Ok(Some(number)) => Ok(number),
            Ok(None) => Err(OwnerFault::Nobody { what, name }),
            Err(error) => Err(OwnerFault::Unknown {
                what,
                name,
                why: error.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Names are looked up on this host.
    use super::*;

    #[test]
    fn names_and_numbers_are_told_apart() {
        assert_eq!(Owner::of("root").user(), Ok(0));
        assert_eq!(Owner::of("root").group(), Ok(0));
        assert_eq!(Owner::of("1234").user(), Ok(1234));
        let nobody = Owner::of("no-such-user-here").user();
        assert!(matches!(
            nobody,
            Err(OwnerFault::Nobody { what: "user", .. })
        ));
    }
}
