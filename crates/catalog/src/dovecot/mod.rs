//! Logins in a passwd-file of Dovecot: of the apps that fetch mail from it, or send it through a Postfix that
//! asks it (SASL). The file is one for passwords alone (`passdb`), or for passwords and users.
//!
//! - **Proof**: `verifier`. As for the kind `htpasswd`: a hash is worked out once for each password and
//!   remembered while the program runs. Only bcrypt is proven: `{BLF-CRYPT}`, `{CRYPT}$2y$…` or the bare hash; an
//!   entry with another scheme counts as another password.
//! - **Hashes** are `{BLF-CRYPT}$2y$…`, with cost 5 for a password that Meshkeeper made and 10 for one that a
//!   person chose. Dovecot takes the mechanisms `PLAIN` and `LOGIN` with them.
//! - **Mark**: a word in the fifth field (`gecos`), which Dovecot does not use, behind what stands there. It is on
//!   the entry's own line: it moves with it, and goes with it.
//! - **Switched off**: `{CRYPT}!` before the hash, which no password fits, whoever asks; `nologin` would only keep
//!   Dovecot's own protocols out. The hash stays. An entry with `nologin` counts as switched off, and loses that
//!   word when it is to be on; one with `nopassword` lets anybody in, and loses it.
//! - **Values** are what the fields say: networks, `uid`, `gid`, `home`. Further extra fields (`userdb_quota_rule`,
//!   …) stay as they are.
//! - **Names**: what Dovecot takes by itself, or, with the option `any_login`, whatever one of its lines can hold.
//! - **Writing** is that of the kind `htpasswd`: whole, in one step, with owner and mode. Other lines, and
//!   their order, stay byte for byte. The folder must be one that Meshkeeper may write in.
//! - **When it takes effect**: at the next login, within a second, and without a word to Dovecot: it looks at the
//!   file once a second and reads it if the second of its last change or its size is another. A file that is
//!   changed twice within a second with the same size it would never read again, so each change of ours gets
//!   a second of its own, if need be one of the near future. Its `auth_cache_size` holds nothing of such a
//!   file (tried on 2.3.19).
//! - **Sessions**: open ones stay. A file cannot end them: `doveadm kick LOGIN` can.
//! - **The canary** is a line like others, switched off, with all other fields empty. Whoever reads the file as one
//!   of users reads it too (`doveadm user '*'`).
//! - **Who is in use** is not told: `doveadm who` would, on the machine of the mail server.
//! - **Data**: none that `mesh purge` could delete. Mail stays where it is: a folder that a value names need not be
//!   of that login alone, nor on this machine.
//! - **What can be imported** is every entry whose hash is bcrypt, of which alone a password can be proven, if its
//!   name and at least one of its networks can be asked for. Names in place of `uid` and `gid`, a home with `%`,
//!   other networks and further extra fields are told beside it, the last without what they are set to.
//! - **Restart, restore**: the file is all there is. **Identity**: none. Dovecot must be able to read it: make it
//!   first, with its owner (`install -o root -g dovecot -m 0640 /dev/null FILE`); it keeps both.

mod adapter;
mod check;
mod line;
#[cfg(test)]
mod tests;
mod values;

use mesh_sdk::adapter::{Descriptor, ProviderSettings, Refusal, Scheme};
use mesh_sdk::{Error, Kind, Provision};

use crate::password_file::{Keeper, descriptor, is_file, mode_of, refused};

pub use adapter::Dovecot;
pub use values::{DovecotOptions, DovecotValues};

/// The kind `dovecot`.
#[derive(Debug, Clone, Copy, Default)]
pub struct DovecotKind;

const SCHEMES: [Scheme; 1] = [Scheme::file("dovecot")];

impl Kind for DovecotKind {
    type Adapter = Keeper<Dovecot>;

    fn descriptor(&self) -> Descriptor {
        let mut page = descriptor("dovecot", "Passwd-files of Dovecot 2.3", &SCHEMES);
        page.limits = "login: 255 bytes of a-z, 0-9, `.`, `-`, `_` and `@`; with `any_login` whatever but `:`, `/`, \
                       quotes, backslashes, control characters, and `#` in front; password: 1 to 72 bytes of \
                       UTF-8 without control characters";
        page.keeps = "mail, home, every other line; open sessions go on until `doveadm kick LOGIN`";
        page.mark = "a word in the entry's fifth field (gecos)";
        page
    }

    fn check(
        &self,
        provider: &ProviderSettings,
        wish: &Provision<'_, DovecotValues>,
    ) -> Result<(), Refusal> {
        check::wish(wish, provider.typed_options::<DovecotOptions>()?.any_login)
    }
    fn options_schema(&self) -> Option<serde_json::Value> {
        Some(schemars::schema_for!(DovecotOptions).to_value())
    }
    /// Empty fields give nothing of anybody's, and what keeps the canary out is that it is switched off.
    fn canary(&self, _provider: &ProviderSettings) -> Option<DovecotValues> {
        Some(DovecotValues::default())
    }
    fn check_provider(&self, provider: &ProviderSettings) -> Result<(), Refusal> {
        is_file(provider, "dovecot")?;
        mode_of(provider.typed_options::<DovecotOptions>()?.mode.as_deref()).map(|_| ())
    }
    fn open(&self, provider: ProviderSettings) -> Result<Self::Adapter, Error> {
        let DovecotOptions { any_login, mode } = provider.typed_options().map_err(refused)?;
        Keeper::open(&provider, Dovecot { any_login }, mode.as_deref())
    }
}
