//! etcd, through the JSON gateway that each member has (`--enable-grpc-gateway`, on by default).
//!
//! - **Proof**: etcd shows no verifier, so a login is the proof (`login`), on this machine or over verified TLS
//!   only, and of no more than 32 consumers in one look. It is not made again while the cluster's
//!   count of changes (from 3.5 on) or a token that is still taken says that nothing changed
//!   (`verifier`). Those whose turn has not come yet are held by `presence`.
//! - **What is sent**: from 3.5 on a bcrypt hash; a new user is made with a password that nobody knows, since 3.5
//!   hashes what it is given there. **etcd 3.4 takes plain passwords only**, so the admin's connection carries
//!   them; never over a network in plain.
//! - **Authentication that is not enabled** makes everybody an administrator. Then nothing is asked and nothing
//!   written; all is unknown, and says why.
//! - **Restart**: forgets nothing but tokens. A **restored** snapshot brings back old users, which is seen and
//!   healed.
//! - **Identity**: the cluster's id. It follows from the members' addresses and the cluster's token, so a
//!   snapshot that is restored under the same ones is the same cluster.
//! - **Mark**: a role without permissions whose name is the mark, granted to the user. What is asked for is in a
//!   second role, `mesh.` and the mark. Both go with the login.
//! - **Switching off**: etcd has no such thing. `enabled = false` is refused; a login whose consumer left is
//!   removed when its grace is over, and not before.
//! - **Rotation**: two logins in turn have the same two roles, which go with the last of them.
//! - **Sessions**: tokens end with a new password and with the user. A client that logs in by certificate has
//!   none.
//! - **Removing** drops the user. Keys stay, until a person purges them by `prefix:/web/` or `key:/lock`: what a
//!   login might write, and never every key. While any role has a permission on some of them, they are kept, but
//!   for roles that only admins have.
//! - **Who is in use** is not told: etcd keeps no list of tokens or logins.
//! - **What can be imported** is every user, with what a role of ours grants it. Roles that a person made are told
//!   with it, and left as they are.
//! - **Other roles** that a person gives a login of ours are in surplus, and taken back.
//! - **Blocking**: a login costs the server a bcrypt of some 100 ms on one core, beside its other work.
//!
//! `docs/decisions/0063-etcd-proof.md` and `0064-etcd-choices.md` say why.

mod adapter;
mod api;
mod apply;
mod check;
mod classify;
mod compare;
mod data;
mod find;
mod grants;
mod hash;
mod look;
mod proof;
mod server;
mod values;

use mesh_sdk::adapter::{Descriptor, ProviderSettings, Refusal, Scheme};
use mesh_sdk::{Error, Kind, Provision};

pub use adapter::Etcd;
pub use values::{EtcdOptions, EtcdValues};

/// The kind `etcd`.
#[derive(Debug, Clone, Copy, Default)]
pub struct EtcdKind;

const SCHEMES: [Scheme; 2] = [Scheme::plain("http", 2379), Scheme::tls("https", 2379)];

impl Kind for EtcdKind {
    type Adapter = Etcd;

    fn descriptor(&self) -> Descriptor {
        let mut page = Descriptor::new("etcd", "etcd 3.4 and 3.5");
        page.schemes = &SCHEMES;
        page.capabilities = adapter::CAPABILITIES;
        page.proof = "login; verifier where the cluster says that nothing changed since";
        page.restart = "nothing";
        page.identity = "the cluster's id, which follows from its members and its token";
        page.admin_rights = &server::RIGHTS;
        page.reserved = &["root", "the admin login"];
        page.limits =
            "login: 1 to 1024 bytes without NUL; password: 1 to 72 bytes of UTF-8 without NUL";
        page.keeps = "keys and their values; `mesh purge` knows what a login might write as `prefix:/web/` \
                      or `key:/lock`";
        page.rotation = "two logins in turn, `LOGIN` and `LOGIN__b`, which share their roles; nothing can be switched off, so the \
                         one whose turn is over is removed";
        page.mark = "a role without permissions, granted to the user";
        page
    }

    fn check(
        &self,
        provider: &ProviderSettings,
        wish: &Provision<'_, EtcdValues>,
    ) -> Result<(), Refusal> {
        check::wish(provider, wish)
    }

    fn options_schema(&self) -> Option<serde_json::Value> {
        Some(schemars::schema_for!(EtcdOptions).to_value())
    }

    /// Nothing is named, so nothing is granted. It cannot be switched off; its password follows from the
    /// installation's key.
    fn canary(&self, _provider: &ProviderSettings) -> Option<EtcdValues> {
        Some(EtcdValues::default())
    }

    fn data_of(&self, values: &EtcdValues) -> Vec<String> {
        data::names(values)
    }

    fn check_provider(&self, provider: &ProviderSettings) -> Result<(), Refusal> {
        check::provider(provider)
    }

    fn open(&self, provider: ProviderSettings) -> Result<Etcd, Error> {
        Etcd::new(provider)
    }
}
