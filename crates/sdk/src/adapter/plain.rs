//! What may go over a connection that is not encrypted: the rules that every adapter keeps.

use super::{ProviderSettings, Refusal};
use crate::error::{Class, Error};

impl ProviderSettings {
    fn allows(&self, encrypted: bool) -> bool {
        encrypted || self.is_loopback() || self.tls.dangerously_plain
    }
    /// Refuses, offline, a plain connection to another machine that was not allowed in so many words (S-5);
    /// `secure` is the scheme to name instead.
    pub fn check_plain(&self, encrypted: bool, secure: &str) -> Result<(), Refusal> {
        if self.allows(encrypted) {
            return Ok(());
        }
        let rule = format!(
            "`{}://` to another machine is not encrypted: say `{secure}://`, or \
             `dangerously_plain = true`",
            self.scheme
        );
        Err(Refusal::new("url", rule))
    }
    /// The same before a connection is made, whatever was checked before.
    pub fn may_connect(&self, encrypted: bool) -> Result<(), Error> {
        if self.allows(encrypted) {
            return Ok(());
        }
        let message = "a plain connection to another machine was not allowed";
        Err(Error::new(Class::RefusedValue, message))
    }
    /// Whether a consumer's own password may be tried over a connection: it leaves this machine by no wire,
    /// or goes to a server whose certificate was verified (H-17). No word of a manifest allows more.
    pub fn may_carry_passwords(&self, encrypted: bool) -> bool {
        self.is_loopback() || (encrypted && !self.tls.dangerously_unverified)
    }
}

#[cfg(test)]
mod tests {
    //! Plain is for this machine, or for who says so; a consumer's password goes no further either way.
    use super::*;
    use crate::name::ProviderName;

    fn settings(host: &str) -> ProviderSettings {
        let name = ProviderName::new("p").expect("a name");
        ProviderSettings::new(name, "db", host, 1)
    }

    #[test]
    fn s5_plain_to_another_machine_is_refused_unless_allowed() {
        let (near, mut far) = (settings("127.0.0.1"), settings("db.example"));
        assert!(near.check_plain(false, "dbs").is_ok() && near.may_connect(false).is_ok());
        assert!(far.check_plain(true, "dbs").is_ok() && far.may_connect(true).is_ok());
        let told = far
            .check_plain(false, "dbs")
            .expect_err("plain")
            .to_string();
        assert!(
            told.contains("dbs://") && told.contains("dangerously_plain"),
            "{told}"
        );
        let class = far.may_connect(false).expect_err("plain").class();
        assert_eq!(class, Class::RefusedValue);
        far.tls.dangerously_plain = true;
        assert!(far.check_plain(false, "dbs").is_ok() && far.may_connect(false).is_ok());
    }

    #[test]
    fn h17_a_consumers_password_goes_over_this_machine_or_verified_tls_only() {
        let (near, mut far) = (settings("::1"), settings("db.example"));
        assert!(near.may_carry_passwords(false) && far.may_carry_passwords(true));
        far.tls.dangerously_plain = true;
        assert!(!far.may_carry_passwords(false), "whatever else was allowed");
        far.tls.dangerously_unverified = true;
        assert!(!far.may_carry_passwords(true));
    }
}
