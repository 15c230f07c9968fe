//! NATS: the users of one account, in a file that the server's configuration includes.
//!
//! The server has no call that makes or lists users. Its configuration has them, so this adapter looks
//! after a file of its own on the server's machine and has the server load it:
//!
//! ```text
//! system_account: SYS
//! accounts {
//!   SYS { users: [ {user: mesh, password: "$2a$…", permissions: {…}} ] }
//!   APP { include "users.conf" }          # one file, one account; `users: []` to begin with
//! }
//! ```
//!
//! - **Where**: `options = { users_file = "/etc/nats/users.conf" }`. Meshkeeper runs on the server's machine,
//!   with the right to write that file and its folder. A server of a cluster has a file of its own: name
//!   each as a provider.
//! - **What is**: the file says who is there, with which rights, and proves the password; the server says
//!   when it loaded it. A file that changed since is no longer *held*: the repair loads it. A few
//!   consumers a pass, and whoever is asked for singly, are logged in as, which also shows a file that the
//!   configuration does not include.
//! - **Proof**: the password against the bcrypt hash in the file (`verifier`), or by logging in on a
//!   connection of its own (`login`), on this machine or over verified TLS only. A password that the file
//!   already shows to be wrong is never sent.
//! - **Hashes**: cost 4 for passwords that Meshkeeper made, `options.bcrypt_cost` (11) for those that people
//!   chose. The server spends that on each login, and at a reload on each open connection.
//! - **Restart**: forgets nothing; the file is read again.
//! - **Identity**: none that lasts. The server's id changes with each start.
//! - **Mark**: a comment behind the user, on the same line. Whoever rewrites the line without it takes the
//!   mark away, which is seen and healed.
//! - **Switched off** means that the line is a comment. Strangers' users, comments and whatever else is in the
//!   file stay byte for byte. A file that cannot be read for certain is never written.
//! - **Sessions**: removing, switching off and another password end them at once; new rights do not, they
//!   count from then on.
//! - **Removing** takes the line away. Streams, buckets and messages stay, and are nobody's in particular: a
//!   login's values name subjects, no streams, so there is nothing that `mesh purge` could delete.
//! - **Who is in use** is told by the server: open connections, the last 10,000 that are over, and logins that
//!   it refused, until it restarts. It needs one more right of the admin; without it nobody knows.
//! - **What can be imported** is every user with a password whose rights can be read. Fields of a user that the
//!   values have no word for are told with it.
//! - **A configuration that the server does not take** is put back as it was, so that the server can also
//!   start again; the error is told with the server's reason.

mod adapter;
mod apply;
mod check;
mod classify;
mod compare;
mod disk;
mod file;
mod find;
mod hash;
mod look;
mod rights;
mod server;
mod stamp;
mod syntax;
mod values;
mod wire;

use mesh_sdk::adapter::{Descriptor, ProviderSettings, Refusal, Scheme};
use mesh_sdk::{Error, Kind, Provision};

pub use adapter::Nats;
pub use values::{ConnectionType, NatsOptions, NatsValues};

/// The kind `nats`.
#[derive(Debug, Clone, Copy, Default)]
pub struct NatsKind;

const SCHEMES: [Scheme; 2] = [Scheme::plain("nats", 4222), Scheme::tls("tls", 4222)];

impl Kind for NatsKind {
    type Adapter = Nats;

    fn descriptor(&self) -> Descriptor {
        let mut page = Descriptor::new("nats", "NATS 2.15");
        page.schemes = &SCHEMES;
        page.capabilities = adapter::CAPABILITIES;
        page.proof = "verifier: the bcrypt hash in the users file; login for a few consumers a pass, and \
                      for whoever is asked for singly";
        page.restart = "nothing: users are in a file";
        page.identity = "none: the server's id changes with each start";
        page.admin_rights = &server::RIGHTS;
        page.reserved = &["the admin login"];
        page.limits = "login: 2048 bytes as JSON; password: 1 to 72 bytes of UTF-8 without NUL";
        page.keeps = "streams, buckets and messages";
        page.mark = "a comment behind the user, on the same line of the file";
        page
    }

    fn check(
        &self,
        provider: &ProviderSettings,
        wish: &Provision<'_, NatsValues>,
    ) -> Result<(), Refusal> {
        check::wish(provider, wish)
    }

    fn options_schema(&self) -> Option<serde_json::Value> {
        Some(schemars::schema_for!(NatsOptions).to_value())
    }

    /// Nothing is named, so nothing is granted.
    fn canary(&self, _provider: &ProviderSettings) -> Option<NatsValues> {
        Some(NatsValues::default())
    }

    fn check_provider(&self, provider: &ProviderSettings) -> Result<(), Refusal> {
        check::provider(provider)
    }

    fn open(&self, provider: ProviderSettings) -> Result<Nats, Error> {
        Ok(Nats::new(provider))
    }
}
