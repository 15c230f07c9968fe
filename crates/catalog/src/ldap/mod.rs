//! LDAP directories, tried on OpenLDAP.
//!
//! - **Entries** are `uid=LOGIN` right below the base that the URL names (`ldaps://host/ou=apps,dc=example`):
//!   `account` with `simpleSecurityObject`. Rights are memberships in groups right below another entry, which
//!   the option `groups` names.
//! - **Proof**: the stored `{SSHA}` or `{SSHA512}` recomputed (`verifier`), where the admin may read
//!   `userPassword`. Where it may not, or the hash is of another scheme, by a bind as the consumer (`login`) on
//!   a connection of its own, on this machine or over verified TLS only, once a look, and not again by the
//!   repair that follows. A bulk look proves 256 that way, others the next time; till then they are there
//!   (`presence`).
//! - **The password** never crosses the admin's connection: a salted hash does. `{SSHA}` is known to every
//!   server; the option `hash = "ssha512"` needs the module `pw-sha2`, and is proven by one bind before it is
//!   relied on.
//! - **Restart**: nothing is forgotten.
//! - **Identity**: the `entryUUID` of the base. Replicas share it, and so does a restored copy.
//! - **Mark**: one value of `description`, beside any of a person's. Who edits it away is seen and healed.
//! - **Switched off** is a `userPassword` of a known scheme with a value that nothing fits, which holds the hash
//!   to go back to. A lock-out by a password policy is seen as switched off and healed.
//! - **Rotation**: two values of `userPassword` are valid together. The overlay `ppolicy` allows one and refuses
//!   the second: with the option `one_password` two logins take turns, each an entry of its own with the same
//!   groups. Where the admin may not read `userPassword`, a bind proves each of the two, and a third is not seen.
//! - **Sessions**: a directory cannot end an open connection of one login. It lives on after a new password, after
//!   switching off, even after its entry is gone, with what its rules give to that name; a restart or an idle
//!   time-out of the server ends it.
//! - **Names** are compared by the server without case and with spaces folded. What it would fold is refused.
//! - **Removing** takes the memberships and the entry. What other entries say stays. Values speak of no data, so
//!   there is nothing that `mesh purge` could delete.
//! - **Who is in use** is not told: only overlays (`ppolicy`, `lastbind`) keep times of logins, a directory does not
//!   tell its own time to compare them with, and a proof by a bind would count as a use.
//! - **What can be imported** is every entry right below the base that is named by its `uid` alone, in a name that
//!   the server cannot fold, with its groups. Names with capital letters are left out for that.

mod adapter;
mod apply;
mod check;
mod classify;
mod compare;
mod connect;
mod dn;
mod entry;
mod find;
mod hash;
mod look;
mod server;
mod values;

use mesh_sdk::adapter::{Descriptor, ProviderSettings, Refusal, Scheme};
use mesh_sdk::{Capabilities, Error, Kind, Provision};

pub use adapter::Ldap;
pub use values::{Hash, LdapOptions, LdapValues};

/// The kind `ldap`.
#[derive(Debug, Clone, Copy, Default)]
pub struct LdapKind;

const SCHEMES: [Scheme; 2] = [Scheme::plain("ldap", 389), Scheme::tls("ldaps", 636)];

impl Kind for LdapKind {
    type Adapter = Ldap;

    fn descriptor(&self) -> Descriptor {
        let mut page = Descriptor::new("ldap", "LDAP: OpenLDAP 2.5");
        page.schemes = &SCHEMES;
        page.capabilities = adapter::CAPABILITIES;
        page.proof = "verifier: the stored salted hash; login where the admin may not read it";
        page.restart = "nothing";
        page.identity = "the entryUUID of the base";
        page.admin_rights = &server::RIGHTS;
        page.reserved = &["the admin login, if it lies below the base"];
        page.limits = "login: 1 to 200 of the printable ASCII characters but A-Z, no space at either end or \
                       beside another; password: 1 to 65536 bytes of UTF-8 without NUL";
        page.keeps = "all other entries; open connections, which a directory cannot end";
        page.rotation = "two values of `userPassword` at once; with `one_password = true`, for directories whose overlay `ppolicy` \
                         allows one, two logins in turn";
        page.mark = "one value of `description`";
        page
    }

    fn capabilities(&self, provider: &ProviderSettings) -> Capabilities {
        let mut all = adapter::CAPABILITIES;
        // Options that cannot be read are refused before anybody asks for this.
        let options: Option<LdapOptions> = provider.typed_options().ok();
        all.two_passwords = !options.is_some_and(|options| options.one_password);
        all
    }

    fn check(
        &self,
        provider: &ProviderSettings,
        wish: &Provision<'_, LdapValues>,
    ) -> Result<(), Refusal> {
        check::wish(provider, wish)
    }

    fn options_schema(&self) -> Option<serde_json::Value> {
        Some(schemars::schema_for!(LdapOptions).to_value())
    }

    /// In no group.
    fn canary(&self, _provider: &ProviderSettings) -> Option<LdapValues> {
        Some(LdapValues::default())
    }

    fn check_provider(&self, provider: &ProviderSettings) -> Result<(), Refusal> {
        check::provider(provider)
    }

    fn open(&self, provider: ProviderSettings) -> Result<Ldap, Error> {
        Ldap::new(provider)
    }
}
