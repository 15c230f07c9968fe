//! Password files as Apache and nginx read them (`AuthUserFile`, `auth_basic_user_file`), and whatever else
//! takes bcrypt in them.
//!
//! - **Proof**: `verifier`. A hash is worked out once for each password and remembered while the program runs;
//!   as long as the same hash stands in the file, nothing is worked out again. The first look at many is
//!   dear, by design of bcrypt: 26 ms each at cost 5, 107 ms at cost 10, on all processors; it rests after
//!   some two seconds, so that nobody's repair waits for it. Only bcrypt is proven: an entry with another
//!   kind of hash counts as another password.
//! - **Hashes** are `$2y$`, which Apache and nginx take. The reader works one out for each request, so a
//!   password that Meshkeeper made, which nobody can guess, has cost 5; one that a person chose has 10.
//! - **Mark**: a comment right above the entry, `# mk1.… LOGIN`. `htpasswd` and both readers leave comments
//!   alone. It counts only there and with that name: what `htpasswd -D` leaves behind is nobody's mark, and a
//!   login that is made anew at the end of the file has none.
//! - **Switched off**: a `!` before the hash, which no password fits. The hash stays, so the same password is
//!   valid again later.
//! - **Writing**: the file is replaced whole by one step, with its owner and mode, links followed; nobody ever
//!   reads half of it. Other lines stay byte for byte. Writers of ours wait for each other by a lock on the
//!   folder. What somebody else put into the file meanwhile is seen when the two change places, put back,
//!   and built upon. `htpasswd` itself writes into the file that it opened: what it writes in the instant
//!   in which that file is replaced is lost, as it would be with two `htpasswd` at once.
//!   Access lists and other attributes of a file system are not kept. A file that is mounted by itself into
//!   a container cannot be replaced: mount its folder.
//! - **Sessions**: there are none. Each request brings the password again, and is refused from then on.
//! - **Restart, restore**: the file is all there is. **Identity**: none. A file that is missing in a folder
//!   that is there is an empty one; a folder that is missing is *unknown*.
//! - **Rights**: none. Who is in the file is let in. The canary is in it, switched off. Values speak of no data,
//!   so there is nothing that `mesh purge` could delete.
//! - **Who is in use** is not told: what the readers write into their own logs is not asked for.
//! - **What can be imported** is every entry whose hash is bcrypt, of which alone a password can be proven; `mesh
//!   doctor` counts the others.

mod adapter;
mod check;
mod lines;
mod values;

use mesh_sdk::adapter::{Descriptor, ProviderSettings, Refusal, Scheme};
use mesh_sdk::{Error, Kind, Provision};

use crate::password_file::{Keeper, descriptor, refused};

pub use adapter::Htpasswd;
pub use values::{HtpasswdOptions, HtpasswdValues};

/// The kind `htpasswd`.
#[derive(Debug, Clone, Copy, Default)]
pub struct HtpasswdKind;

const SCHEMES: [Scheme; 1] = [Scheme::file("htpasswd")];

impl Kind for HtpasswdKind {
    type Adapter = Keeper<Htpasswd>;

    fn descriptor(&self) -> Descriptor {
        let mut page = descriptor(
            "htpasswd",
            "Password files of Apache 2.4 and nginx 1.22",
            &SCHEMES,
        );
        page.limits = "login: 255 bytes, no `:`, no control character, no `#` or space in front; \
                       password: 1 to 72 bytes of UTF-8 without control characters";
        page.keeps = "every other line";
        page.mark = "a comment right above the entry";
        page
    }

    fn check(
        &self,
        _provider: &ProviderSettings,
        wish: &Provision<'_, HtpasswdValues>,
    ) -> Result<(), Refusal> {
        check::wish(wish)
    }

    fn options_schema(&self) -> Option<serde_json::Value> {
        Some(schemars::schema_for!(HtpasswdOptions).to_value())
    }

    /// A file has no rights to give: what keeps the canary out is that it is switched off.
    fn canary(&self, _provider: &ProviderSettings) -> Option<HtpasswdValues> {
        Some(HtpasswdValues::default())
    }

    fn check_provider(&self, provider: &ProviderSettings) -> Result<(), Refusal> {
        check::provider(provider)
    }

    fn open(&self, provider: ProviderSettings) -> Result<Self::Adapter, Error> {
        let HtpasswdOptions { mode } = provider.typed_options().map_err(refused)?;
        Keeper::open(&provider, Htpasswd, mode.as_deref())
    }
}
