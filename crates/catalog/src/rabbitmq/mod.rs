//! RabbitMQ, through its management interface.
//!
//! - **The URL** is the management interface: `https://mq.example:15671`, or `http://127.0.0.1:15672`; a path
//!   is the server's own prefix. Apps are given the broker's: `amqp(s)://host:5672/vhost`, which the
//!   provider's `options` (`amqp_scheme`, `amqp_host`, `amqp_port`) may change.
//! - **Proof**: the stored salted hash, recomputed from the password (`verifier`). Only the internal database
//!   is looked at: where the server asks other backends too (LDAP, HTTP, OAuth), those may let in whom
//!   this one does not. A login is never tried; `GET /api/whoami` would refuse a right password to a
//!   user without a management tag.
//! - **What is sent**: salted SHA-256 hashes; the plain password never.
//! - **Restart**: forgets nothing. **Restoring** definitions brings back old passwords and permissions, which
//!   is seen and healed.
//! - **Identity**: the cluster's own id (`internal_cluster_id`). A node that is reset and starts alone gets
//!   another one; importing definitions of another cluster brings that one's.
//! - **Mark**: one of the user's tags. A person's own tags beside it stay. `rabbitmqctl set_user_tags` takes it
//!   away, which is seen and healed. A tag is an atom of the Erlang machine, of which it has five
//!   million, and is not given back before a restart.
//! - **Switching off** keeps hash, tags and permissions: the user is told to have another hashing algorithm than
//!   its hash was made with, so that no password matches, whatever the protocol. It does not stop a
//!   client that logs in by certificate. A user limited to 0 connections is switched off, too, and
//!   switching on lifts that limit; a user without a hash is switched off and its password lost.
//! - **Sessions** outlive a new password; switching off ends them, removing too.
//! - **Removing** drops the user with its permissions. Virtual hosts, queues and messages stay.
//! - **Virtual hosts** that are missing are told, and waited for; `create_vhost = true` makes them.
//! - **Permissions** in virtual hosts that the wish does not name are in surplus on a login of ours.
//! - **In use**: open connections, which the broker tells at once for each user (`/connections/username/…`;
//!   the list of all connections lags). Refused logins are counted for a node as a whole, and so are not told.
//! - **Finding** logins tells all permissions and tags; limits of connections and channels are told in words.
//! - **Purging** deletes a virtual host that Meshkeeper made (`create_vhost`), which its description says,
//!   and no other, with its queues and messages. It is refused while any user that is no administrator has
//!   a permission in it, whatever the patterns, or a connection to it.
//! - **Many** new logins, or many that lack something, are made by imports of definitions, which name them and
//!   nothing else; what an import refuses is made login by login, so that one stops no other. The server's
//!   log has a line for each import, and one for each login and right, as it has for single writes. After a
//!   refusal or a broken connection the server may go on with an import for a moment.
//! - **Blocking**: lists are made by a process of their own; nothing here blocks the broker.
//!
//! What many logins cost is in `docs/decisions/0061-rabbitmq-bulk.md` and `0124-rabbitmq-definitions.md`.

mod adapter;
mod api;
mod apply;
mod check;
mod classify;
mod compare;
mod draft;
mod find;
mod hash;
mod look;
mod many;
mod purge;
mod server;
mod uses;
mod values;

use mesh_sdk::adapter::{Descriptor, ProviderSettings, Refusal, Scheme, Service};
use mesh_sdk::{Error, Kind, Provision};

pub use adapter::Rabbit;
pub use values::{Access, Amqp, RabbitOptions, RabbitValues, Topic};

/// The kind `rabbitmq`.
#[derive(Debug, Clone, Copy, Default)]
pub struct RabbitKind;

const SCHEMES: [Scheme; 2] = [Scheme::plain("http", 15672), Scheme::tls("https", 15671)];

impl Kind for RabbitKind {
    type Adapter = Rabbit;

    fn descriptor(&self) -> Descriptor {
        let mut page = Descriptor::new("rabbitmq", "RabbitMQ 3.10");
        page.schemes = &SCHEMES;
        page.capabilities = adapter::CAPABILITIES;
        page.proof = "verifier: the salted hash that the server shows, recomputed";
        page.restart = "nothing";
        page.identity = "the cluster's id, `internal_cluster_id`";
        page.admin_rights = &server::RIGHTS;
        page.reserved = &["guest", "the admin login"];
        page.limits = "login: 1 to 1024 bytes, not `.` or `..`; password: UTF-8 without NUL, with the login at most 2048 bytes";
        page.keeps = "virtual hosts, exchanges, queues and messages. Purging deletes a virtual host that \
                      Meshkeeper made and that nobody but administrators may use";
        page.mark = "one of the user's tags";
        page
    }

    fn check(
        &self,
        provider: &ProviderSettings,
        wish: &Provision<'_, RabbitValues>,
    ) -> Result<(), Refusal> {
        check::wish(provider, wish)
    }

    /// A user without any permission.
    fn canary(&self, _provider: &ProviderSettings) -> Option<RabbitValues> {
        Some(RabbitValues::default())
    }

    /// Its virtual hosts, but for the one that every server has.
    fn data_of(&self, values: &RabbitValues) -> Vec<String> {
        let also = values.also.iter().map(|access| &access.vhost);
        let all = values.vhost.iter().chain(also);
        all.filter(|vhost| *vhost != purge::DEFAULT)
            .cloned()
            .collect()
    }

    fn options_schema(&self) -> Option<serde_json::Value> {
        Some(schemars::schema_for!(RabbitOptions).to_value())
    }

    fn service(&self, provider: &ProviderSettings, wish: &Provision<'_, RabbitValues>) -> Service {
        // Settings that do not fit were refused by `check_provider`.
        let options: RabbitOptions = provider.typed_options().unwrap_or_default();
        let encrypted = match options.amqp_scheme {
            Some(scheme) => scheme == Amqp::Amqps,
            None => provider.scheme == "https",
        };
        let (scheme, port) = if encrypted {
            ("amqps", 5671)
        } else {
            ("amqp", 5672)
        };
        let host = options.amqp_host.as_ref().unwrap_or(&provider.host);
        let port = options.amqp_port.unwrap_or(port);
        let name = provider.provider.clone();
        Service {
            address: ProviderSettings::new(name, scheme, host, port).address(),
            path: wish.values().vhost.clone().unwrap_or_default(),
        }
    }

    fn check_provider(&self, provider: &ProviderSettings) -> Result<(), Refusal> {
        check::provider(provider)
    }

    fn open(&self, provider: ProviderSettings) -> Result<Rabbit, Error> {
        Ok(Rabbit::new(provider))
    }
}
