//! Mosquitto, by its dynamic security plugin.
//!
//! - **Where**: the plugin's control topic, over MQTT 5. The admin is a client of the plugin with the rights
//!   listed here; `mosquitto_ctrl dynsec init` makes one that may do more.
//! - **Proof**: the plugin never tells a verifier, so logging in is the check (`login`): on a connection of
//!   its own with a session name of its own, on this machine or over verified TLS only. A bulk look logs in
//!   as up to 1,000 consumers and the next look as the next ones; for the others, and where logging in
//!   proves nothing (switched off, bound to one session name), it is `presence`. The broker writes each
//!   connection into its log: see `connection_messages` in mosquitto.conf.
//! - **Passwords on the admin's connection**: the plugin takes no hash, so the plain password goes over it when
//!   it is set, and only then. The broker writes it down nowhere.
//! - **Rights** are those of one role a login, `meshkeeper/LOGIN`: changing them ends no session. Roles that
//!   `values` name are given beside it. Groups are none of our business.
//! - **Restart**: forgets nothing, if the broker could write its file. It says yes before it has, and says
//!   nothing where it cannot; what is lost then is made again (O-19).
//! - **Identity**: none. The broker tells no run id either; a connection that drops is the hint.
//! - **Mark**: the text name of the login's own role.
//! - **Sessions**: switching off, removing, another password, and giving or taking roles end them.
//! - **Removing** deletes client and role. Retained messages and queues of durable sessions stay: the broker does
//!   not tell whose they are, so there is nothing that `mesh purge` could delete.
//! - **Who is in use**: the broker counts connections and names none, so a login that leaves is never seen in
//!   use.
//! - **What can be imported** is every client, with its roles and, where its role is Meshkeeper's own, its
//!   topics. Groups, single rights and a session name that it is bound to are told with it, and left as they are.
//! - **Many**: the broker writes its whole file for each command and serves nobody meanwhile: a few ms
//!   with 1,000 logins and 300 with 10,000, on the machine of the tests. Messages hold as many commands as fit into
//!   the budget. Reading all goes by pages of 1,000, about 20 ms of the broker's time each.

mod adapter;
mod apply;
mod check;
mod classify;
mod compare;
mod control;
mod look;
mod packet;
mod server;
mod values;
mod wire;

use mesh_sdk::adapter::{Descriptor, ProviderSettings, Refusal, Scheme};
use mesh_sdk::{Error, Kind, Provision};

pub use adapter::Mosquitto;
pub use values::MosquittoValues;

/// The kind `mosquitto`.
#[derive(Debug, Clone, Copy, Default)]
pub struct MosquittoKind;

const SCHEMES: [Scheme; 2] = [Scheme::plain("mqtt", 1883), Scheme::tls("mqtts", 8883)];

impl Kind for MosquittoKind {
    type Adapter = Mosquitto;

    fn descriptor(&self) -> Descriptor {
        let mut page = Descriptor::new("mosquitto", "Mosquitto 2.0 with dynamic security");
        page.schemes = &SCHEMES;
        page.capabilities = adapter::CAPABILITIES;
        page.proof = "login, for up to 1,000 consumers a look in turn; presence for the others";
        page.restart = "nothing, if the broker could write its file";
        page.identity = "none, and no run id";
        page.admin_rights = &server::RIGHTS;
        page.reserved = &["the admin login"];
        page.limits = "login: 32,000 bytes without control characters; password: 1 to 65,535 bytes of \
                       UTF-8 without NUL";
        page.keeps = "retained messages and queues of durable sessions";
        page.mark = "the text name of the login's own role, `meshkeeper/LOGIN`";
        page
    }

    fn check(
        &self,
        provider: &ProviderSettings,
        wish: &Provision<'_, MosquittoValues>,
    ) -> Result<(), Refusal> {
        check::wish(provider, wish)
    }

    /// Nothing is named, so nothing is granted.
    fn canary(&self, _provider: &ProviderSettings) -> Option<MosquittoValues> {
        Some(MosquittoValues::default())
    }

    fn check_provider(&self, provider: &ProviderSettings) -> Result<(), Refusal> {
        check::provider(provider)
    }

    fn open(&self, provider: ProviderSettings) -> Result<Mosquitto, Error> {
        Ok(Mosquitto::new(provider))
    }
}
