//! Redis and Valkey.
//!
//! - **Proof**: the password's SHA-256, which the server shows (`verifier`). Where reading every user would
//!   block the server for too long, by logging in on a connection of its own (`login`), on this machine or
//!   over verified TLS only, while rights are read for a slice that moves on with each look.
//! - **Restart**: without an `aclfile` a restart forgets every login but `default`. With one, logins are
//!   saved after each change, where that is within the budget. `FLUSHALL` and a restored dump leave logins
//!   as they are.
//! - **Identity**: none that lasts. The run id changes with each start.
//! - **Mark**: from Redis 7.0 on and on Valkey a selector with a key pattern and no commands; on Redis 6.2
//!   one more key pattern. A person's `ACL SETUSER … reset` or `clearselectors` takes it away, which is
//!   seen and healed.
//! - **Sessions**: a new password and `off` leave open connections alone, so switching a login off also
//!   ends its sessions; dropping a login ends them by itself.
//! - **Rotation**: a user may have two passwords, so both are in force while one takes over from the other; taking
//!   one off ends no session.
//! - **Removing** drops the login. Keys stay.
//! - **In use**: open connections (`CLIENT LIST`), and what the server refused a login (`ACL LOG`: a wrong
//!   password, a login that is off, a command), which it keeps for the last 128 cases and forgets at a restart.
//! - **Finding** logins leaves out those that any password opens and those with several passwords: neither can
//!   be held as it stands. Databases that a login is limited to (Valkey 9.1) are told in words.
//! - **Purging** deletes the keys that match one of the patterns in `keys`, in every database, slice by slice.
//!   A key does not say whose it is, so a pattern is refused while any login that is no admin has one that
//!   could mean the same keys: two patterns are told apart by what they begin with, up to their first wildcard,
//!   and one that begins with a wildcard is refused. An admin is `default` and whoever may make logins.
//! - **Nodes** of a replicated set do not share logins: each is asked, and written, for itself. A
//!   replica takes changes of logins like any other node.
//!
//! What blocks the server, and for how long, is in `docs/decisions/0010-redis-bulk.md`.

mod acl;
mod adapter;
mod apply;
mod bulk;
mod check;
mod classify;
mod commands;
mod compare;
mod connect;
mod cost;
mod find;
mod look;
mod purge;
mod rules;
mod server;
mod state;
mod uses;
mod values;
mod wire;

use mesh_sdk::adapter::{Descriptor, ProviderSettings, Refusal, Scheme};
use mesh_sdk::{Error, Kind, Provision};

pub use adapter::Redis;
pub use values::{RedisValues, Selector};

/// The kind `redis`.
#[derive(Debug, Clone, Copy, Default)]
pub struct RedisKind;

const SCHEMES: [Scheme; 4] = [
    Scheme::plain("redis", 6379),
    Scheme::tls("rediss", 6379),
    Scheme::plain("valkey", 6379),
    Scheme::tls("valkeys", 6379),
];

impl Kind for RedisKind {
    type Adapter = Redis;

    fn descriptor(&self) -> Descriptor {
        let mut page = Descriptor::new("redis", "Redis 6.2, 7.0 and Valkey 9.1");
        page.schemes = &SCHEMES;
        page.capabilities = adapter::CAPABILITIES;
        page.proof =
            "verifier: the SHA-256 that the server shows; login where reading all would block it";
        page.restart = "every login, unless the server has an `aclfile`";
        page.identity = "none: the run id changes with each start";
        page.admin_rights = &server::RIGHTS;
        page.reserved = &["default", "the admin login"];
        page.limits =
            "login: no space, line break or NUL; password: 1 to 16384 bytes of UTF-8 without NUL";
        page.keeps = "keys and their values. Purging deletes those that match a pattern of `keys` that no login \
                      but admins may use";
        page.rotation = "two passwords of one login at once: both hashes stand in its ACL, and a third is taken off";
        page.mark =
            "a selector with a key pattern and no commands; on Redis 6.2 one more key pattern";
        page
    }

    fn check(
        &self,
        provider: &ProviderSettings,
        wish: &Provision<'_, RedisValues>,
    ) -> Result<(), Refusal> {
        check::wish(provider, wish)
    }

    fn canary(&self, _provider: &ProviderSettings) -> Option<RedisValues> {
        // No keys, no channels, no commands: beside its mark nothing is in its rules.
        Some(RedisValues::default())
    }

    /// Keys, by the patterns that it may read and write.
    fn data_of(&self, values: &RedisValues) -> Vec<String> {
        values.keys.clone()
    }

    fn check_provider(&self, provider: &ProviderSettings) -> Result<(), Refusal> {
        check::provider(provider)
    }

    fn open(&self, provider: ProviderSettings) -> Result<Redis, Error> {
        Ok(Redis::new(provider))
    }
}
